"""How lucky the reported best of a noisy search is: the best measured, expected, confirmed one.

    python benchmarks/luck.py [--problems NAME ...] [--seeds N] [--trials N] [--json]

Searches by ``auto`` in tables of kernels (``contest/problems.py``) whose measurements deviate by
10% and 30%, without repeats. The table has medians over the seeds: how far the true cost of the
best measured point, and of the expected best, is above that of the best point that was tried; the
scatter that the model estimated; and the same of a search that spends a fifth of its budget to
confirm the best point: above the best that it tried, and above the best that the other one tried
with all of the budget; and how far the best point that ``random`` tried with all of the budget is
above the latter. Choices were made on tiles-small, convolution-A4000 and dedispersion-A100;
claims are for the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace

from contest.problems import DEVELOPED, PROBLEMS, REPORTED
from engines import TrueCosts, run_in_one_thread, space_of

import zenturio as zen
from zenturio.search.kriging_search import expected_best

TABLES = [name for name in (*DEVELOPED, *REPORTED) if "-" in name and "~" not in name]
NOISES = (0.1, 0.3)
CONFIRMED = 5
"""One in so many evaluations confirms the best point."""


Losses = tuple[float, float, float, float, float, float]


def losses(name: str, noise: float, seed: int, trials: int) -> Losses:
    """Return how far each reported point is above the best tried one, and the scatter."""
    problem = replace(PROBLEMS[name](), noise=noise, budget=trials)
    space, cost = space_of(problem), TrueCosts(problem, seed)
    found = zen.search(space, cost, engine="auto", budget=trials, seed=seed)
    measured = [(trial.scores[0], trial.point) for trial in found.trials if trial.scores]
    measured = [(score, point) for score, point in measured if score is not None]
    true = [cost.of[point] or 0.0 for _, point in measured]
    luckiest = min(range(len(measured)), key=lambda at: measured[at][0])
    expected = expected_best([dict(point) for _, point in measured], [s for s, _ in measured])
    chosen = luckiest if expected is None else expected.at
    scatter = 0.0 if expected is None else expected.scatter
    again = TrueCosts(problem, seed)
    confirmed = zen.search(
        space, again, engine="auto", budget=trials, seed=seed, confirm=trials // CONFIRMED
    ).best
    assert confirmed, "some point can be run"
    best_true = again.of[confirmed.point] or 0.0
    tried = min(value for value in again.of.values() if value is not None)
    drawn = TrueCosts(problem, seed)
    zen.search(space, drawn, engine="random", budget=trials, seed=seed)
    return (
        true[luckiest] / min(true) - 1,
        true[chosen] / min(true) - 1,
        scatter,
        best_true / tried - 1,
        best_true / min(true) - 1,
        min(value for value in drawn.of.values() if value is not None) / min(true) - 1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    began, rows = time.process_time(), []
    for name in options.problems:
        for noise in NOISES:
            runs = [losses(name, noise, 1000 + s, options.trials) for s in range(options.seeds)]
            rows.append(
                (name, noise, *(statistics.median(column) for column in zip(*runs, strict=True)))
            )
    if options.json:
        print(json.dumps(rows))
        return
    heads = ("best measured", "expected best", "estimated scatter", "confirmed best")
    print(f"| table | noise | {' | '.join(heads)} | above the best of all trials | `random` |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, noise, *numbers in rows:
        cells = " | ".join(f"{number:.1%}" for number in numbers)
        print(f"| {name} | {noise:.0%} | {cells} |")
    print(f"{time.process_time() - began:.0f} s of processor time")


if __name__ == "__main__":
    run_in_one_thread(main)
