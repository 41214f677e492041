"""What a search gains by known points, and what it loses to a misleading source.

    python benchmarks/warm_start.py [--seeds N] [--trials N] [--json]

Known points: 500 random ones of the same table, without the best tenth of them. A misleading
source: the same points with their order turned round, as advice (`learn_from=`). An agreeing
source: all of 500 points of the same kernel on another machine; where there is none, of the table.
Printed are medians of the loss above the optimum in percent after so many trials of `auto`, in how
many seeds it was better or worse than without, and in how many better than the best known.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping

from contest.kernels import REPORTED, Kernel, kernel, names

import zenturio as zen

KNOWN, LEFT_OUT = 500, 10
OTHER = {
    "convolution-MI250X": "convolution-A4000",
    "dedispersion-A6000": "dedispersion-A100",
    "tiles-large": "tiles-small",
}
"""The same kernel on another machine."""
Times = dict[zen.Point, float]


def sampled(table: Kernel, space: zen.Space, seed: int) -> Times:
    """Return points of *space* that run, and their times in *table*, the fastest first."""
    points = space.sample(min(KNOWN, space.size), 1000 + seed)
    times = {point: time for point in points if (time := table.cost(point)) is not None}
    return dict(sorted(times.items(), key=lambda pair: pair[1]))


def loss(table: Kernel, seed: int, trials: int, **more: Mapping[zen.Point, float]) -> float:
    """Return how far the best trial of a search is above the optimum, in percent."""
    result = zen.search(table.space, table.cost, engine="auto", budget=trials, seed=seed, **more)
    scores = [t.scores[0] for t in result.trials if t.scores and t.scores[0] is not None]
    return 100 * (min(scores) / table.best - 1)


def measured(name: str, seeds: int, trials: int) -> dict[str, dict[str, float]]:
    """Return what each kind of start came to on table *name*."""
    table, other = kernel(name), kernel(OTHER.get(name, name))
    losses: dict[str, list[float]] = {"cold": [], "known": [], "misleading": [], "agreeing": []}
    best_known = []
    for seed in range(seeds):
        times = sampled(table, table.space, seed)
        known = dict(list(times.items())[len(times) // LEFT_OUT :])
        best_known.append(100 * (min(known.values()) / table.best - 1))
        turned = {point: -time for point, time in times.items()}
        agreeing = sampled(other, table.space, seed)
        losses["cold"].append(loss(table, seed, trials))
        losses["known"].append(loss(table, seed, trials, known=known))
        losses["misleading"].append(loss(table, seed, trials, learn_from=turned))
        losses["agreeing"].append(loss(table, seed, trials, learn_from=agreeing))
    facts = {}
    for start, each in losses.items():
        pairs = list(zip(each, losses["cold"], strict=True))
        facts[start] = {
            "median": statistics.median(each),
            "better than cold": sum(a < b for a, b in pairs),
            "worse than cold": sum(a > b for a, b in pairs),
            "better than the best known": sum(a < b for a, b in zip(each, best_known, strict=True)),
        }
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    facts = {}
    if not options.json:
        print("| table | start | loss, % | better than cold | worse | better than best known |")
        print("|---|---|---:|---:|---:|---:|")
    for name in names(REPORTED):
        facts[name] = measured(name, options.seeds, options.trials)
        for start, said in facts[name].items() if not options.json else ():
            median, *counts = said.values()
            cells = " | ".join(f"{count} of {options.seeds}" for count in counts)
            print(f"| {name} | {start} | {median:.2f} | {cells} |", flush=True)
    if options.json:
        print(json.dumps(facts))


if __name__ == "__main__":
    main()
