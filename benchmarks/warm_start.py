"""What a search gains by known points, and what it loses to a misleading source.

    python benchmarks/warm_start.py [--seeds N] [--trials N] [--json]

Known points: 500 random ones of the same table, without the best tenth of them. A misleading
source: the same points with their order turned round, as advice (`learn_from=`). An agreeing
source: all of 500 points of the same kernel on another machine; where there is none, of the table.
Printed are medians of the loss above the optimum in percent after so many trials of `auto`, in how
many seeds it was better or worse than without, in how many better than the best known, and in how
many it reached the optimum.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping

from contest.problems import PROBLEMS, Problem, lowest
from engines import TrueCosts, space_of

import zenturio as zen

KNOWN, LEFT_OUT = 500, 10
TABLES = ("convolution-MI250X", "dedispersion-A6000", "gemm-RTX_2080_Ti", "tiles-large")
OTHER = {
    "convolution-MI250X": "convolution-A4000",
    "dedispersion-A6000": "dedispersion-A100",
    "tiles-large": "tiles-small",
}
"""The same kernel on another machine."""
Times = dict[zen.Point, float]


def sampled(problem: Problem, space: zen.Space, seed: int) -> Times:
    """Return points of *space* that run, and their times in *problem*, the fastest first."""
    cost = TrueCosts(problem, seed)
    points = space.sample(min(KNOWN, space.size), 1000 + seed)
    times = {point: time for point in points if (time := cost(point)) is not None}
    return dict(sorted(times.items(), key=lambda pair: pair[1]))


def best_trial(
    problem: Problem, space: zen.Space, seed: int, trials: int, **more: Mapping[zen.Point, float]
) -> float:
    """Return the time of the best trial of a search."""
    cost = TrueCosts(problem, seed)
    result = zen.search(space, cost, engine="auto", budget=trials, seed=seed, **more)
    return min(t.scores[0] for t in result.trials if t.scores and t.scores[0] is not None)


def measured(name: str, seeds: int, trials: int) -> dict[str, dict[str, float]]:
    """Return what each kind of start came to on table *name*."""
    table, other = PROBLEMS[name](), PROBLEMS[OTHER.get(name, name)]()
    space, optimum = space_of(table), lowest(table)

    def loss(seed: int, **more: Mapping[zen.Point, float]) -> float:
        """How far the best trial is above the optimum, in percent."""
        return 100 * (best_trial(table, space, seed, trials, **more) / optimum - 1)

    losses: dict[str, list[float]] = {"cold": [], "known": [], "misleading": [], "agreeing": []}
    best_known = []
    for seed in range(seeds):
        times = sampled(table, space, seed)
        known = dict(list(times.items())[len(times) // LEFT_OUT :])
        best_known.append(100 * (min(known.values()) / optimum - 1))
        turned = {point: -time for point, time in times.items()}
        agreeing = sampled(other, space, seed)
        losses["cold"].append(loss(seed))
        losses["known"].append(loss(seed, known=known))
        losses["misleading"].append(loss(seed, learn_from=turned))
        losses["agreeing"].append(loss(seed, learn_from=agreeing))
    facts = {}
    for start, each in losses.items():
        pairs = list(zip(each, losses["cold"], strict=True))
        facts[start] = {
            "median": statistics.median(each),
            "better than cold": sum(a < b for a, b in pairs),
            "worse than cold": sum(a > b for a, b in pairs),
            "better than the best known": sum(a < b for a, b in zip(each, best_known, strict=True)),
            "at the optimum": sum(a < 1e-9 for a in each),
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
        names = "better than cold | worse | better than best known | at the optimum"
        print(f"| table | start | loss, % | {names} |\n|---|---|---:|---:|---:|---:|---:|")
    for name in filter(PROBLEMS.__contains__, TABLES):
        facts[name] = measured(name, options.seeds, options.trials)
        for start, said in facts[name].items() if not options.json else ():
            median, *counts = said.values()
            cells = " | ".join(f"{count} of {options.seeds}" for count in counts)
            print(f"| {name} | {start} | {median:.2f} | {cells} |", flush=True)
    if options.json:
        print(json.dumps(facts))


if __name__ == "__main__":
    main()
