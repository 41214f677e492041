#!/bin/sh
# A WIEN2k workflow of real processes on five machines; in the middle, one is slow for a while.
set -eu

flow="wien2k:kpoints=10,atoms=64,size=1400"
python3 machines.py &
machines=$!
trap 'kill $machines; wait $machines || true' EXIT
until [ -e hosts.toml ]; do sleep 0.1; done

gives() {  # so many seconds at speed 1 in a second
  echo "$1" > speed.draft
  mv speed.draft machines/pegasus/speed
}

slow() {  # 5 s after the first task began at pegasus, for 50 s, others leave it a twentieth
  until [ -n "$(ls machines/pegasus/work/jobs/*/*/folder/task.py 2> /dev/null)" ]; do sleep 0.05; done
  sleep 5
  gives 0.04
  sleep 50
  gives 0.8
}

play() {  # NAME GRID ALGORITHM
  gives 0.8
  disturber=""
  if [ "$2" = slowed ]; then slow & disturber=$!; fi
  zen workflow run "$flow" --on hosts.toml --algorithm "$3" --command 'python3 task.py {task} {work}' \
    --file task.py --hand-on '*.dat' --gantt "real-$1.svg" --json > "$1.json"
  [ -z "$disturber" ] || kill $disturber 2> /dev/null || true
  zen simulate "$flow" --on "$2.toml" --algorithm "$3" --json > "simulated-$1.json"
}

play undisturbed idle heft
play followed slowed heft
play staying slowed hybrid:contract=1e9
play migrating slowed hybrid:adopt=always
play better slowed hybrid
python3 table.py > table.md
