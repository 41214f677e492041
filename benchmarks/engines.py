"""How good the engines are: against Optuna's TPE and CMA-ES, Nevergrad's NGOpt and PyGAD.

    python benchmarks/engines.py [--json] [--seeds N] [--problems NAME ...] [--picture FILE]
                                 [--cache FOLDER]

Eight problems (``contest/problems.py``): two schedules, two annotated programs, two rugged
functions, a smooth one, a mixed one. All have the same budget of trials, and each seed is a search
of its own. Every library is called as its users would (``contest/peers.py``): sets of numbers are
ranges to it, others kinds, if it knows kinds; ours run with their defaults. What breaks a
constraint, or was proposed before, costs a peer nothing, since nobody would run it; ours propose
neither. Costs are computed, not timed, so that other work on the machine does no harm.

The table has the median of the best costs and the quartiles; * marks those that no other is better
than with an error of less than one in twenty (Mann-Whitney). Peers are installed with pip into an
environment of their own in the cache folder; what they found there is recalled as long as problems
and calls are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

from contest.problems import PROBLEMS, Problem

import zenturio as zen

FOLDER = Path(__file__).resolve().parent / "contest"
ROOT = FOLDER.parents[1]
PACKAGES = ("optuna==5.0.0", "cmaes==0.13.1", "nevergrad==1.0.12", "pygad==3.4.0")
PEERS = ("Optuna TPE", "Optuna CMA-ES", "Nevergrad NGOpt", "PyGAD")
OURS = ("auto", "model", "ga", "hill", "anneal", "portfolio", "random")
SURE = 0.05
"""The chance of error at which one counts as better than another."""

Found = dict[str, dict[str, list[float]]]
"""For each engine and problem, the best cost that each seed came to."""


def space_of(problem: Problem) -> zen.Space:
    """*problem* as its user would write it here."""
    if problem.name == "gemm":
        return zen.scan([ROOT / "annotations" / "gemm"]).space
    when = dict(problem.when)
    return zen.Space(
        **{
            name: zen.parameter(list(values), when=when[name]) if name in when else list(values)
            for name, values in problem.sets.items()
        }
    )


def contest(problem: Problem, engine: str, seed: int) -> float:
    """The best cost that one of our engines finds."""
    ranks = {
        name: {value: at for at, value in enumerate(values)}
        for name, values in problem.sets.items()
    }

    def cost(point: zen.Point) -> float | None:
        """Of what WHEN makes inactive, any value will do."""
        return problem.cost(tuple(ranks[name].get(point[name], 0) for name in ranks))

    found = zen.search(space_of(problem), cost, engine=engine, budget=problem.budget, seed=seed)
    assert found.best, "some point can be run"
    return found.best.scores[0]  # type: ignore[return-value]


def ours(engine: str, problems: list[str], seeds: int) -> dict[str, Any]:
    """What one of our engines finds, and how much processor time it takes."""
    began = time.process_time()
    best = {}
    for name in problems:
        problem = PROBLEMS[name]()
        best[name] = [contest(problem, engine, seed) for seed in range(1, seeds + 1)]
    return {"seconds": time.process_time() - began, "best": best}


def environment(folder: Path) -> Path:
    """The interpreter of an environment with the peers, made once."""
    home = folder / "engine-peers"
    python = home / "bin" / "python"
    mark = home / "peers.txt"
    if not mark.exists() or mark.read_text() != "\n".join(PACKAGES):
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-qqq", *PACKAGES], check=True)
        mark.write_text("\n".join(PACKAGES))
    return python


def theirs(peer: str, problems: list[str], seeds: int, cache: Path) -> dict[str, Any]:
    """What a peer finds; recalled, if it was measured before."""
    parts = [(FOLDER / name).read_bytes() for name in ("problems.py", "peers.py", "sorting.csv")]
    parts += [json.dumps([PACKAGES, peer, problems, seeds]).encode()]
    kept = cache / f"engines-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}.json"
    if not kept.exists():
        command = [environment(cache), FOLDER / "peers.py", peer, str(seeds), *problems]
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, env=alone, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{peer} failed:\n{done.stderr}")
        kept.write_text(done.stdout)
    told: dict[str, Any] = json.loads(kept.read_text())
    told["best"] = {name: [each[-1] for each in runs] for name, runs in told["best"].items()}
    return told


def better(one: list[float], other: list[float]) -> bool:
    """Whether *one* is better than *other*, and that is hardly chance."""
    from scipy.stats import mannwhitneyu

    if sorted(one) == sorted(other):
        return False
    return bool(mannwhitneyu(one, other, alternative="less").pvalue < SURE)


def first(found: Found, problem: str) -> list[str]:
    """The engines that no other is better than."""
    return [
        name
        for name in found
        if not any(better(found[other][problem], found[name][problem]) for other in found)
    ]


def rank(found: Found, problem: str, name: str) -> float:
    """The place of *name* by its median; equal ones share theirs."""
    medians = {each: statistics.median(found[each][problem]) for each in found}
    ahead = sum(medians[each] < medians[name] for each in found)
    return 1 + ahead + (sum(medians[each] == medians[name] for each in found) - 1) / 2


def table(found: Found, seconds: dict[str, float], problems: list[str]) -> str:
    """What was found, as Markdown."""
    firsts = {problem: first(found, problem) for problem in problems}
    lines = [f"| engine | {' | '.join(problems)} | first | mean rank | seconds of processor |"]
    lines.append("|---|" + "---:|" * (len(problems) + 3))
    ranks = {
        name: statistics.mean(rank(found, problem, name) for problem in problems) for name in found
    }
    for name in sorted(found, key=ranks.__getitem__):
        cells = []
        for problem in problems:
            low, middle, high = statistics.quantiles(found[name][problem], n=4)
            star = "*" if name in firsts[problem] else ""
            cells.append(f"{middle:.4g}{star} ({low:.4g} to {high:.4g})")
        count = sum(name in firsts[problem] for problem in problems)
        lines.append(
            f"| {name} | {' | '.join(cells)} | {count} | {ranks[name]:.1f} | {seconds[name]:.0f} |"
        )
    return "\n".join(lines)


def draw(found: Found, problems: list[str], path: Path) -> None:
    """A panel for each problem: the median and the quartiles of each engine."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    rows = (len(problems) + 3) // 4
    figure, axes = plt.subplots(rows, 4, figsize=(11, 2.6 * rows), sharey=True, squeeze=False)
    names = list(found)[::-1]
    for axis in axes.flat[len(problems) :]:
        axis.set_visible(False)
    for axis, problem in zip(axes.flat, problems, strict=False):
        firsts = first(found, problem)
        for at, name in enumerate(names):
            low, middle, high = statistics.quantiles(found[name][problem], n=4)
            colour = "#0072b2" if name in OURS else "#d55e00"
            axis.plot([low, high], [at, at], color=colour, linewidth=2)
            shape = "o" if name in firsts else "|"
            axis.plot(middle, at, shape, color=colour, markersize=6)
        middles = sorted(statistics.median(found[name][problem]) for name in names)
        if middles[0] > 0 and middles[-1] > 20 * middles[0]:
            axis.set_xscale("log")
        axis.set_title(f"{problem}, {PROBLEMS[problem]().budget} trials", fontsize=9)
        axis.tick_params(labelsize=7)
        axis.grid(axis="x", alpha=0.3)
        axis.set_yticks(range(len(names)), names, fontsize=8)
    figure.suptitle(
        "Best cost within the budget: median and quartiles (left is better; a dot: none is better)",
        fontsize=10,
    )
    figure.tight_layout()
    figure.savefig(path, dpi=80, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--picture", type=Path, help="where the picture goes: engines.png")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "zenturio-benchmarks"
    parser.add_argument("--cache", type=Path, default=cache)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    told: dict[str, dict[str, Any]] = {}
    for name in OURS:
        told[name] = ours(name, options.problems, options.seeds)
    for name in PEERS:
        told[name] = theirs(name, options.problems, options.seeds, options.cache)
    found = {name: each["best"] for name, each in told.items()}
    seconds = {name: each["seconds"] for name, each in told.items()}
    if options.picture:
        draw(found, options.problems, options.picture)
    print(json.dumps(told) if options.json else table(found, seconds, options.problems))


if __name__ == "__main__":
    # One thread for each: matrices here are small, and peers get no more.
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()
