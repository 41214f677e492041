#!/bin/sh
# Runs the three studies and leaves measured.json and the pictures. SIZE=small: a few graphs.
set -eu

one= ends= four=
if [ "${SIZE:-whole}" = small ]; then
  ends="-P pst={3,5,12} -P rss={1,5,10} -P rrt={1,5,10} -P rsr={1,5,10} -P adps={1.0,2.0,5.5}"
  one="-P graph={1}"
  four="-P algorithm={shuffle,xdcp,m-s,pm-s,heft}"
fi

# Two processes share the database: the factors and the shapes are about as much work.
zen run factors --on simulate $one $ends > factors.log &
zen run topologies --on simulate $one $four > topologies.log
wait $!
zen run example --on simulate > example.log

views=$(cat views.sql)
zen sql "$views $(cat conclusions.sql)" --format jsonl -o measured.json
[ "${SIZE:-whole}" = whole ] || exit 0

three="algorithm IN ('xdcp', 'm-s', 'pm-s')"
with_once="(algorithm = 'xdcp:threshold=1' OR $three)"
six="(algorithm IN ('xdcp', 'm-s', 'pm-s', 'heft') OR algorithm LIKE 'ga:%')"
table_ii="shape NOT LIKE '%size'"
in_order="ORDER BY instr('#PST RSS RRT RSR ADPS', factor)"
as_listed="ORDER BY instr(' PTG OTG(a) ITG(a) OTG(b) ITG(b) DOTG(a) DITG(a) DOTG(b) DITG(b) CTG',
  ' ' || shape)"

zen plot --query "$views SELECT * FROM factors WHERE $with_once $in_order" --x value --y ase --color algorithm \
  --facet factor --title "Average scheduling effectiveness (% of shuffle; less is better)" \
  -o ase.svg
zen plot --query "$views SELECT * FROM beaten WHERE contest = 'rounds' $in_order" --x value \
  --y bdt --color algorithm --facet factor --errors none \
  --title "Average beat-down (% of 30 graphs; more is better)" -o bdt.svg
zen plot --query "$views SELECT * FROM beaten WHERE contest = 'tenth' $in_order,
  algorithm NOT LIKE 'xdcp%', algorithm" --x value --y bdt --color algorithm --facet factor --errors none \
  --title "Average beat-down, of xDCP that goes on while a round gains a tenth" -o bdt-tenth.svg
zen plot --query "$views SELECT * FROM beaten WHERE contest = 'once' $in_order,
  algorithm NOT LIKE 'xdcp%', algorithm" --x value --y bdt --color algorithm --facet factor --errors none \
  --title "Average beat-down, of xDCP as it is listed: one round" -o bdt-once.svg
zen plot --query "$views SELECT * FROM shapes WHERE $three AND $table_ii $as_listed" --kind bar \
  --x shape --y ase --color algorithm --title "ASE of the shapes of Table II (%)" -o ase-shapes.svg
zen plot --query "$views SELECT * FROM shapes_beaten WHERE $table_ii $as_listed" --kind bar --errors none \
  --x shape --y bdt --color algorithm --title "BDT of the shapes of Table II (%)" -o bdt-shapes.svg
zen plot --query "$views SELECT * FROM factors WHERE $six $in_order" --x value --y ase --color algorithm \
  --facet factor --errors none --title "ASE, with HEFT and a genetic algorithm (%)" -o today.svg
zen plot --query "$views SELECT * FROM shapes WHERE $six AND $table_ii $as_listed" --kind bar --x shape \
  --y ase --color algorithm --title "ASE of the shapes, with HEFT and GA (%)" -o today-shapes.svg
zen schedule example/figure5.json --algorithm m-s --gantt m-s.svg > m-s.txt
zen schedule example/figure5.json --algorithm pm-s --gantt pm-s.svg > pm-s.txt
