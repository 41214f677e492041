#!/bin/bash
#SBATCH --job-name=montecarlo
#SBATCH --output=montecarlo.out
#SBATCH --time=00:05:00
#ZEN$ SUBSTITUTE 4 = { 1:8:*2 } AS tasks BEGIN
#ZEN$ SUBSTITUTE 512M = { 512M, 2G } AS memory BEGIN
#SBATCH --ntasks=4
#SBATCH --mem-per-cpu=512M
#
# The volume of the unit ball by throwing darts, one stream of random numbers for each task.
# sbatch job.sh queues it; bash job.sh runs the same here.
tasks=${SLURM_NTASKS:-4}
#ZEN$ END 512M
#ZEN$ END 4
#
#ZEN$ PARAM darts = { 20000:80000:*2 }
#ZEN$ CONSTRAINT VALUE memory == "512M" or darts >= 40000 * tasks
#ZEN$ RUN "bash job.sh {darts}" CPUS tasks TIMEOUT 5min RETRY 1
#ZEN$ RANK host.mhz / (1 + host.load)
#ZEN$ METRIC volume FROM stdout REGEX "volume (\S+)"
#ZEN$ METRIC stream FROM "hits.csv" CSV COLUMN hits TAKE all
#ZEN$ METRIC error := abs(volume - 4.18879020) / 4.18879020
#ZEN$ OBJECTIVE MINIMIZE error
#ZEN$ OUTPUT "hits.csv"
set -euo pipefail

darts=${1:-40000}

throw() {
    awk -v stream="$1" -v n="$2" 'BEGIN {
        srand(20050313 + stream)
        for (i = 0; i < n; i++) {
            x = rand(); y = rand(); z = rand()
            if (x * x + y * y + z * z < 1) hits++
        }
        printf "%d,%d,%d\n", stream, n, hits
    }'
}
export -f throw

{
    echo "stream,darts,hits"
    seq "$tasks" | xargs -P "$tasks" -I{} bash -c "throw {} $((darts / tasks))" | sort -n
} >hits.csv

awk -F, 'NR > 1 { n += $2; hits += $3 } END { printf "volume %.6f\n", 8 * hits / n }' hits.csv
