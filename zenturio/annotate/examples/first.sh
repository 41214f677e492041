#!/bin/sh
# How long does it take to sort so many lines, and how many of them are different?
lines=1000
#ZEN$ ASSIGN lines = { 1000:100000:*10 }
#ZEN$ ENV LC_ALL = { C, C.UTF-8 } AS locale
#ZEN$ RUN "sh first.sh" TIMEOUT 60s
#ZEN$ METRIC different FROM stdout REGEX "different: (\d+)"
#ZEN$ VERIFY different == min(lines, 5003)
#ZEN$ OBJECTIVE MINIMIZE wtime

different=$(awk -v n="$lines" 'BEGIN { for (i = 0; i < n; i++) print (i * 7919) % 5003 }' | sort -u | wc -l)
echo "different: $different"
