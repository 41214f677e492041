#!/bin/sh
# Runs the studies and leaves measured.json and the pictures. SIZE=small: two small workflows.
set -eu

if [ "${SIZE:-whole}" = small ]; then
  sed -i 's/REPEAT 10/REPEAT 2/; s/REPEAT 5/REPEAT 1/' runs/study.zen paper/study.zen
  dag='"wien2k:kpoints=16,atoms=64,size=6000"'
  severe='"every=20:1000,lasting=300:1000,share=0.05:0.3"'
  zen run runs --on simulate -P 'dag={DAG2,DG}' -P 'grid={idle,severe}' -P "perturb={\"\",$severe}" \
    -P "workflow={$dag,\"wien2k:kpoints=8,atoms=56,size=5500,loop=true\"}"
  zen run paper --on simulate -P 'dag={DAG1}' -P 'adopt={always}' \
    -P 'workflow={"wien2k:kpoints=6,atoms=64,size=6000"}'
  sed -i 's/REPEAT 30/REPEAT 10/' chance/study.zen
else
  zen run paper --on simulate > paper.log &  # two processes share the database
  zen run runs --on simulate > runs.log
  wait $!
fi
zen run chance --on simulate > chance.log
views=$(cat views.sql)
zen sql "$views $(cat claims.sql)" --format jsonl -o measured.json
[ "${SIZE:-whole}" = whole ] || exit 0

zen sql "$views SELECT dag, way,
    round(max(makespan) FILTER (WHERE grid = 'idle'), 1) AS idle,
    round(max(makespan) FILTER (WHERE grid = 'severe'), 1) AS severe,
    round(max(makespan) FILTER (WHERE grid = 'mild'), 1) AS mild,
    round(max(makespan) FILTER (WHERE grid = 'short'), 1) AS short,
    round(max(wasted) FILTER (WHERE grid = 'severe'), 1) AS wasted
  FROM mean GROUP BY dag, way" > table.txt

# Figure 7: one run of each, as the paper shows one; the whole times are means.
one="grid = 'severe' AND way = 'migrating' AND seed = 1"
zen plot --query "$views SELECT dag, event, remaining FROM event WHERE $one" --x event --y remaining \
  --color dag --title "(a) What is left, by itself, at each scheduling event (s)" -o figure7a.svg
zen plot --query "$views SELECT event.dag AS dag, event, foreseen - begin AS foreseen FROM event
    JOIN iteration USING (dag, grid, way, seed, iteration) WHERE $one" --x event --y foreseen \
  --color dag --title "(b) The whole time foreseen; of the loop, of this iteration (s)" -o figure7b.svg
zen plot --kind bar --x dag --y seconds --color way --errors none -o figure7c.svg \
  --title "(c) Time of a workflow, of the loop for each iteration (s)" \
  --query "$views SELECT dag, CASE way || ' ' || grid WHEN 'migrating idle' THEN '1 static optimum'
      WHEN 'migrating severe' THEN '2 migrating' WHEN 'staying severe' THEN '3 staying'
      WHEN 'followed severe' THEN '4 followed' WHEN 'lazy idle' THEN '5 lazy, idle grid'
      ELSE '6 lazy' END AS way,
    one.makespan / coalesce((SELECT max(i.iteration) FROM iteration i WHERE i.dag = one.dag
      AND i.seed = one.seed AND i.grid = 'idle' AND i.way = 'migrating'), 1) AS seconds
    FROM one WHERE way IN ('migrating', 'staying', 'followed', 'lazy') AND grid IN ('idle', 'severe')
      AND (grid = 'severe' OR way IN ('migrating', 'lazy')) ORDER BY dag, way"
zen plot --kind box --x way --y seconds -o iterations.svg \
  --title "The iterations of the loop on the severe grid (s)" \
  --query "$views SELECT way, seconds FROM iteration WHERE dag = 'DG' AND grid = 'severe'
    ORDER BY way = 'staying', way = 'if better'"

# The same question on real processes, which take some minutes.
if [ -x /usr/sbin/sshd ]; then
  (cd real && sh run.sh)
  cp real/real-*.svg .
else
  echo "there is no /usr/sbin/sshd: nothing is asked on real processes" >&2
fi
