"""How lucky the reported best of a noisy search is: the best measured one and the expected one.

    python benchmarks/luck.py [--problems NAME ...] [--seeds N] [--trials N] [--json]

Searches by ``auto`` in tables of kernels (``contest/problems.py``) whose measurements deviate by
10% and 30%, without repeats. Told is, as medians over the seeds, how far the true cost of the best
measured point, and of the expected best, is above that of the best point that was tried; and what
scatter the model estimated. The model was chosen on tiles-small, convolution-A4000 and
dedispersion-A100; claims are for the others.
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


def losses(name: str, noise: float, seed: int, trials: int) -> tuple[float, float, float]:
    """Return how far the two reported points are above the best tried one, and the scatter."""
    problem = replace(PROBLEMS[name](), noise=noise, budget=trials)
    cost = TrueCosts(problem, seed)
    found = zen.search(space_of(problem), cost, engine="auto", budget=trials, seed=seed)
    measured = [(trial.scores[0], trial.point) for trial in found.trials if trial.scores]
    measured = [(score, point) for score, point in measured if score is not None]
    true = [cost.of[point] or 0.0 for _, point in measured]
    luckiest = min(range(len(measured)), key=lambda at: measured[at][0])
    expected = expected_best([dict(point) for _, point in measured], [s for s, _ in measured])
    chosen = luckiest if expected is None else expected.at
    scatter = 0.0 if expected is None else expected.scatter
    return true[luckiest] / min(true) - 1, true[chosen] / min(true) - 1, scatter


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
    print("| table | noise | best measured | expected best | estimated scatter |")
    print("|---|---:|---:|---:|---:|")
    for name, noise, lucky, expected, scatter in rows:
        print(f"| {name} | {noise:.0%} | {lucky:.1%} | {expected:.1%} | {scatter:.0%} |")
    print(f"{time.process_time() - began:.0f} s of processor time")


if __name__ == "__main__":
    run_in_one_thread(main)
