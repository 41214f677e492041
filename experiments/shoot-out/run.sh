#!/bin/sh
# Runs the studies and leaves measured.json, table.txt and the pictures. SIZE=small: seven graphs.
# DATA is a folder with wfinstances/*.json, stg/50, stg/100 and stg/optima.csv.
set -eu

if [ "${SIZE:-whole}" = small ]; then
  ln -sfn small data
  zen run stg --on simulate -P 'graph={50/rand{0000,0001,0002,0005}}' -P 'processors={2,4}'
  zen run traces --on simulate -P 'machines={identical:4,traces/grid.toml}' \
    -P 'algorithm={heft,cpop,peft,min-min,max-min,sufferage,lazy,random,ga-2005,
      anneal:evaluations=5000,ga:evaluations=5000}'
else
  ln -sfn "${DATA:?say where the graphs are}" data
  zen run stg --on simulate > stg.log &
  zen run traces --on simulate > traces.log
  wait $!
fi

# The known optima stand beside the studies.
optima="--table optima=data/stg/optima.csv"
zen sql $optima -o measured.json -- "$(cat views.sql claims.sql)"
[ "${SIZE:-whole}" = whole ] || exit 0

zen sql $optima -- "$(cat views.sql table.sql)" > table.txt

views=$(cat views.sql)
shown="algorithm IN ('ga', 'anneal', 'heft', 'peft', 'dcp', 'min-min', 'sufferage', 'lazy', 'ga-2005',
  'shuffle')"
zen plot --x "longer by at most (%)" --y "instances (%)" --color algorithm --facet data --log x -o profile.svg \
  --title "Who comes how near to the best plan" $optima \
  --query "$views, steps (within) AS (VALUES (0.01), (0.1), (0.3), (1), (2), (3), (5), (10), (20),
      (30), (50), (100), (200))
    SELECT within AS \"longer by at most (%)\", algorithm,
      100.0 * avg(gap <= within) AS \"instances (%)\",
      CASE least_is WHEN 'optimum' THEN 'STG: of the optimum' ELSE 'traces: of a lower bound' END
        AS data
    FROM runs, steps WHERE $shown GROUP BY data, algorithm, within
    ORDER BY data, avg(gap), within"
zen plot --kind heatmap --x instances --y algorithm --z "gap (%)" -o table.svg $optima \
  --title "Mean gap to the optimum or a bound (30% at most)" \
  --query "$views SELECT kind AS instances, algorithm, min(30, avg(gap)) AS \"gap (%)\" FROM runs
    GROUP BY kind, algorithm
    ORDER BY avg(avg(gap)) OVER (PARTITION BY algorithm) DESC, algorithm, place"
