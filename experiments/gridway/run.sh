# Both experiments, on real processes and in simulation; shorter with SIZE=small.
set -eu

if [ "${SIZE:-whole}" = small ]; then seconds=0.15 draw=; else seconds=0.3 draw=--draw; fi
GRID="$PWD/grid"
export GRID
mkdir -p "$GRID"
for machine in ursa draco pegasus solea babieca; do
    echo '{"load": 0}' > "$GRID/$machine.json"
done

# 5.3.1: as soon as the job at pegasus has done 16 iterations, somebody else begins to compute there.
python3 overload.py pegasus 16 4 &
overload=$!
trap 'kill $overload' EXIT  # also where something below fails: it would never end by itself
zen run align.py --on degradation.toml --name degradation --param "seconds = { $seconds }"
kill $overload
trap - EXIT
wait $overload || true
zen hosts --events --json > degradation.json
rm .zenturio/places/hosts/events.jsonl
echo '{"load": 0}' > "$GRID/pegasus.json"

# 5.3.2: from iteration 26 on, a job needs more memory than any machine but pegasus has.
zen run align.py --on demands.toml --name demands --param "exact = { 26 }" --param "seconds = { $seconds }"
zen hosts --events --json > demands.json

for experiment in degradation demands; do
    python3 simulate.py $experiment $seconds > simulated-$experiment.json
done
python3 simulate.py degradation $seconds --stay > stayed.json

python3 figures.py $draw
