"""How good the reported best of a noisy search is, with equal repeats and with a race.

    python benchmarks/race.py [--tables NAME ...] [--noise SHARE ...] [--seeds N] [--trials N]
                              [--repeats N] [--json]

A search by `auto` of tables of kernels whose measurements deviate by 10% or 30%. Each point has one
repeat, all repeats (``REPEAT n`` without a race), or runs in a race, which leaves out repeats of
points that are behind; beside it as many trials of `random`, with a race. Printed are medians over
seeds: the true loss above the optimum of the best point that was tried, that of the reported one,
the gap between both in points, and how many experiments that took.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

from contest.problems import PROBLEMS, Problem, lowest
from engines import TrueCosts, space_of

from zenturio.annotate.model import Goal, Repeat
from zenturio.experiment import Outcome
from zenturio.expression import parse
from zenturio.search import Budget, Directions, SearchLoop, SearchProblem, make
from zenturio.study.driver import search_source
from zenturio.study.driver.search_source import SearchSource

TABLES = ("dedispersion-A6000", "gemm-RTX_2080_Ti", "tiles-large")
GOAL = Goal("minimize", parse("ms"))


@cache
def lowest_of(name: str) -> float:
    """Return the optimum of a table, which takes a while to find."""
    return lowest(PROBLEMS[name]())


class Generator:
    """Makes experiments that hold nothing but their point and repeat."""

    identity = None

    def experiment(self, point: Any, repeat: int) -> Any:
        return SimpleNamespace(digest=f"{point}/{repeat}", point=point, values={}, repeat=repeat)


def searched(
    engine_name: str,
    problem: Problem,
    noise: float,
    seed: int,
    trials: int,
    repeats: int,
    *,
    has_race: bool,
) -> tuple[float, float, int]:
    """Return the losses of the best tried and the reported point, and the experiments made."""
    space, cost, draw = space_of(problem), TrueCosts(problem, seed), random.Random(seed)
    engine = make(engine_name, SearchProblem(space, Directions(), seed, trials, slots=1))
    loop = SearchLoop(engine, Directions(), Budget(trials))
    count = 0
    with mock.patch.object(search_source, "is_raced", return_value=has_race):
        source = SearchSource(loop, (GOAL,), Generator(), Repeat(repeats), 0)  # type: ignore[arg-type]
        while not source.over:
            for experiment in source:
                assert experiment is not None, "nothing is cached"
                count += 1
                point = experiment.point  # type: ignore[attr-defined] # it is one of ours
                true = cost(point)
                outcome = Outcome(experiment.digest, "failed")
                if true is not None:
                    ms = true * draw.lognormvariate(0, noise)
                    outcome = Outcome(experiment.digest, "ok", metrics={"ms": ms})
                source.complete(experiment, outcome)
    best = min(true for true in cost.of.values() if true is not None)
    assert loop.best, "some point can be run"
    reported = cost.of[loop.best.point]
    assert reported is not None, "what cannot run is never the best"
    optimum = lowest_of(problem.name)
    return 100 * (best / optimum - 1), 100 * (reported / optimum - 1), count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", nargs="+", choices=PROBLEMS, default=TABLES)
    parser.add_argument("--noise", nargs="+", type=float, default=(0.1, 0.3))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    if not options.json:
        print("| table | noise | repeats | best tried, % | reported, % | gap | experiments |")
        print("|---|---:|---|---:|---:|---:|---:|")
    for name in filter(PROBLEMS.__contains__, options.tables):
        for noise in options.noise:
            ways = (
                ("once", "auto", 1, False),
                ("all", "auto", options.repeats, False),
                ("race", "auto", options.repeats, True),
                ("random", "random", options.repeats, True),
            )
            for way, engine_name, repeats, has_race in ways:
                runs = [
                    searched(
                        engine_name,
                        PROBLEMS[name](),
                        noise,
                        seed,
                        options.trials,
                        repeats,
                        has_race=has_race,
                    )
                    for seed in range(options.seeds)
                ]
                tried, reported, count = (
                    statistics.median(column) for column in zip(*runs, strict=True)
                )
                gap = statistics.median(r - t for t, r, _ in runs)
                rows.append((name, noise, way, tried, reported, gap, count))
                if not options.json:
                    print(
                        f"| {name} | {noise:.0%} | {way} | {tried:.1f} | {reported:.1f} | {gap:.1f}"
                        f" | {count:.0f} |",
                        flush=True,
                    )
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
