#!/bin/sh
# Generates the instances in the folder data: graphs as STG, workflows as WfFormat. Each has a seed, so that everybody gets
# the same. SIZE=small: six of them.
set -eu

if [ "${SIZE:-whole}" = small ]; then
  sizes=50 seeds=0 inputs=6 applications="epigenomics montage srasearch"
else
  sizes="50 100" seeds="0 1" inputs="5 20"
  applications="blast cycles epigenomics genomes montage seismology soykb srasearch"
fi

rm -rf data
mkdir -p data/wfinstances
for tasks in $sizes; do
  mkdir -p "data/stg/$tasks"
  for seed in $seeds; do
    for graph in layered fork-join series-parallel; do
      # Transfers take no time and the machines are those of the study: STG has neither.
      zen workflow generate $graph tasks=$tasks whole=true ccr=0 --seed $seed -o "data/stg/$tasks/$graph-$seed.stg" 2>&1
    done
  done
done
for name in $applications; do
  for count in $inputs; do
    zen workflow generate application name=$name inputs=$count --seed "$count" --format wfformat \
      -o "data/wfinstances/$name-$count.json" 2>&1
  done
done
