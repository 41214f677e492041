#!/bin/sh
# Runs the studies and leaves measured.json and the pictures. SIZE=small: two small workflows.
set -eu

if [ "${SIZE:-whole}" = small ]; then
  sed -i 's/REPEAT 20/REPEAT 5/' global/study.zen schedules/study.zen
  sed -i 's/REPEAT 3/REPEAT 1/' beyond/study.zen
  zen run local --on simulate -P 'workflow={kwave-tree:simulations={4,8}}' -P 'selection={steady}'
  zen run global --on simulate -P 'workflow={kwave-tree:simulations=8}' -P 'alpha={0.95,0.05}'
  zen run schedules --on simulate -P 'curve={exponent=0.9}'
  zen run recommended --on simulate --limit 0  # known, and empty
  zen run speed --on simulate --limit 0
  zen run beyond --on simulate -P 'workflow={kwave-tree:simulations=8}' -P 'queue={fifo}' \
    -P 'algorithm={moldable-front}'
else
  # Two processes share the database.
  { zen run local --on simulate && zen run schedules --on simulate &&
    zen run recommended --on simulate &&
    zen run beyond --on simulate; } > local.log &
  zen run global --on simulate > global.log
  zen run speed --on simulate > speed.log
  wait $!
  zen run curve > curve.log
fi
zen sql --format jsonl -o measured.json -- "$(cat claims.sql)"
[ "${SIZE:-whole}" = whole ] || exit 0

# Table 1 to 3
zen sql -- "$(cat tables.sql)" > tables.txt

# Figure 3
zen plot --query "SELECT n.value AS nodes, s.value AS seconds
    FROM study_curve, json_each(nodes) n JOIN json_each(seconds) s ON s.key = n.key" \
  --x nodes --y seconds --log x,y --title "A simulation on 1 to 36 nodes" -o curve.svg

# Figures 4 to 7
pareto() { # figure, algorithm, workflow, y, title
  zen plot --kind scatter --x makespan --y "$4" --color weight --title "$5" -o "figure$1.svg" \
    --query "SELECT DISTINCT 'alpha ' || alpha AS weight, makespan / 60 AS makespan,
        round(node_seconds / 3600, 3) AS node_hours, 100 * unused AS unused
      FROM study_global WHERE algorithm = '$2' AND workflow = '$3' ORDER BY alpha DESC"
}
pareto 4 moldable-global kwave-barrier:simulations=15 node_hours \
  "On demand, 32 tasks, barriers: minutes, node hours"
pareto 5 moldable-global kwave-independent:simulations=32 node_hours \
  "On demand, 32 independent: minutes, node hours"
pareto 6 moldable-static kwave-barrier:simulations=15 unused \
  "Static, 32 tasks, barriers: minutes, unused nodes (%)"
pareto 7 moldable-static kwave-independent:simulations=32 unused \
  "Static, 32 independent: minutes, unused nodes (%)"
pareto 7-printed moldable-static:formula=printed kwave-independent:simulations=32 unused \
  "As printed, 32 independent: minutes, unused nodes (%)"

# Figures 8 to 10: of 20 plans the one of the best fitness
drawn() { # figure, algorithm
  for tasks in 15 16; do
    workflow=kwave-tree:simulations=8
    [ $tasks = 15 ] || workflow=kwave-barrier:simulations=7
    seed=$(zen sql --format csv "SELECT seed FROM study_schedules WHERE algorithm = '$2'
      AND tasks = $tasks AND curve = 'exponent=0.9' ORDER BY fitness, seed LIMIT 1" | tail -n 1)
    zen schedule $workflow,seed=2022 --on identical:64 --algorithm "$2" --seed "$seed" \
      --gantt "figure$1-$tasks.svg" > "figure$1-$tasks.txt"
  done
}
drawn 8 moldable-local
drawn 9 moldable-global:seeded=false,polish=0
drawn 10 moldable-static:seeded=false,polish=0

# Beyond: one search for the front, and 100 of the paper's
zen plot --kind scatter --x makespan --y node_hours --color found -o front.svg \
  --title "64 tasks, barriers: a front in one run (minutes, node hours)" \
  --query "SELECT 'a run with alpha ' || alpha AS found, makespan / 60 AS makespan,
      node_seconds / 3600 AS node_hours FROM study_global
    WHERE algorithm = 'moldable-global' AND workflow = 'kwave-barrier:simulations=31'
    UNION SELECT 'moldable-front, one run', l.value / 60, c.value / 3600
    FROM study_beyond, json_each(lengths) l JOIN json_each(costs) c ON c.key = l.key
    WHERE workflow = 'kwave-barrier:simulations=31' AND queue = 'fifo' AND seed = 1"
zen plot --kind bar --x plan --y percent --color queue --facet tasks -o beyond.svg \
  --title "Makespan (% of that of cpa in a queue without backfilling)" \
  --query "SELECT replace(replace(replace(algorithm, 'moldable-', ''), ',seeded=false,polish=0',
        ' as published'), ':until=balance,polish=0', ' as published') AS plan, queue,
      substr(workflow, 7, instr(workflow, ':') - 7) AS tasks, 100 * makespan
        / avg(makespan) FILTER (WHERE algorithm = 'cpa' AND queue = 'fifo')
          OVER (PARTITION BY workflow) AS percent
    FROM study_beyond WHERE algorithm LIKE 'cpa%' OR algorithm LIKE '%alpha=1%'"
