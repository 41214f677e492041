#!/bin/sh
# The busiest clients of a web server's log: sort and count, or count in a table?
#
# sort compares bytes in the locale C and letters in the others, and it spills to disk when
# its buffer is too small. timings.csv tells how long each stage took.
#
#ZEN$ SUBSTITUTE by_sorting = { by_sorting, by_hashing } AS counting BEGIN
count=by_sorting
#ZEN$ END
lines=20000
buffer=1M
#ZEN$ ASSIGN lines = { 5000:20000:*2 }
#ZEN$ ASSIGN buffer = { 64K, 1M, 16M }
#ZEN$ ENV LC_ALL = { C, C.UTF-8 } AS locale
#ZEN$ CONSTRAINT VALUE counting == "by_sorting" or (buffer == "1M" and locale == "C")
#ZEN$ RUN "sh top.sh" TIMEOUT 20s
#ZEN$ METRIC seconds FROM "timings.csv" CSV COLUMN seconds TAKE sum UNIT "s"
#ZEN$ METRIC stages FROM "timings.csv" CSV COLUMN stage TAKE count
#ZEN$ METRIC requests FROM stdout REGEX "(\d+) 10\." TAKE max
#ZEN$ OBJECTIVE MINIMIZE seconds
#ZEN$ OUTPUT "timings.csv"
set -eu

make_log() {
    awk -v n="$lines" 'BEGIN {
        srand(1999)
        for (i = 0; i < n; i++) {
            client = int(400 * rand() * rand())
            printf "10.0.%d.%d - - \"GET /page%d.html\" 200 %d\n",
                client / 100, client % 100, 50 * rand(), 4000 * rand()
        }
    }'
}

by_sorting() { cut -d' ' -f1 | sort -S "$buffer" | uniq -c; }

by_hashing() { awk '{ seen[$1]++ } END { for (c in seen) printf "%7d %s\n", seen[c], c }'; }

stage() {
    name=$1 from=$2 to=$3
    shift 3
    start=$(date +%s%N)
    "$@" <"$from" >"$to"
    end=$(date +%s%N)
    echo "$name,$(echo "$start $end" | awk '{ printf "%.6f", ($2 - $1) / 1e9 }')" >>timings.csv
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make_log >"$work/access.log"

echo "stage,seconds" >timings.csv
stage count "$work/access.log" "$work/counts" "$count"
stage rank "$work/counts" "$work/ranked" sort -k1,1nr -k2,2
head -n 5 "$work/ranked"
