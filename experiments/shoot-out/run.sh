#!/bin/sh
# Generates the instances, runs the studies and leaves measured.json, table.txt and the charts. SIZE=small: six instances.
# SIZE=recorded reads recorded ones instead: stg/*/*.stg and wfinstances/*.json in the folder DATA.
set -eu

if [ "${SIZE:-whole}" = recorded ]; then
  rm -rf data
  ln -s "${DATA:?set DATA to the folder with the recorded graphs and traces}" data
else
  sh instances.sh > instances.log
fi

if [ "${SIZE:-whole}" = small ]; then
  zen run stg --trust --on simulate -P 'processors={2,4}'
  zen run traces --trust --on simulate -P 'machines={identical:4,traces/grid.toml}' \
    -P 'algorithm={heft,cpop,peft,min-min,max-min,sufferage,lazy,random,ga-2005,
      anneal:evaluations=5000,ga:evaluations=5000}'
else
  zen run stg --trust --on simulate > stg.log &
  zen run traces --trust --on simulate > traces.log
  wait $!
fi

zen sql -o measured.json -- "$(cat views.sql claims.sql)"
[ "${SIZE:-whole}" != small ] || exit 0

zen sql -- "$(cat views.sql table.sql)" > table.txt
views=$(cat views.sql)
shown="algorithm IN ('ga', 'anneal', 'heft', 'peft', 'dcp', 'min-min', 'sufferage', 'lazy', 'ga-2005',
  'shuffle')"
zen plot --x "longer by at most (%)" --y "instances (%)" --color algorithm --facet data --log x -o profile.svg \
  --title "Who comes how near to the best plan" \
  --query "$views, steps (within) AS (VALUES (0.01), (0.1), (0.3), (1), (2), (3), (5), (10), (20),
      (30), (50), (100), (200))
    SELECT within AS \"longer by at most (%)\", algorithm,
      100.0 * avg(gap <= within) AS \"instances (%)\",
      CASE least_is WHEN 'optimum' THEN 'graphs: of the optimum' ELSE 'workflows: of a lower bound' END
        AS data
    FROM runs, steps WHERE $shown GROUP BY data, algorithm, within
    ORDER BY data, avg(gap), within"
zen plot --kind heatmap --x instances --y algorithm --z "gap (%)" -o table.svg \
  --title "Mean gap to the optimum or a bound (30% at most)" \
  --query "$views SELECT kind AS instances, algorithm, min(30, avg(gap)) AS \"gap (%)\" FROM runs
    GROUP BY kind, algorithm
    ORDER BY avg(avg(gap)) OVER (PARTITION BY algorithm) DESC, algorithm, place"
