"""How good the engines are: against Optuna, SMAC3, Nevergrad, pycma, Kernel Tuner and PyGAD.

    python benchmarks/engines.py [--half reported|developed|both] [--problems NAME ...]
                                 [--engines NAME ...] [--peers NAME ...] [--seeds N] [--trials N]
                                 [--slots N [--ordered]] [--quick] [--here] [--json]
                                 [--with FILE ...] [--picture FILE] [--cache FOLDER]

Some forty problems (``contest/problems.py``): recorded and modelled tables of kernels, schedules,
annotated programs, functions in 2, 5 and 20 dimensions, conditional spaces, noise of 10% and 30%.
Their halves are named there: constants were chosen on the developed one, claims are for the
reported one, which is the default. All have the same budget of trials, and each seed is a search of
its own. Every library is called as its users would (``contest/peers.py``): sets of numbers are
ranges to it, others kinds, if it knows kinds; ours run with their defaults. What breaks a
constraint, or was proposed before, costs a peer nothing, since nobody would run it; ours propose
neither. Costs are computed, not timed, so that other work on the machine does no harm. Of a noisy
problem the true cost of the best measurement counts.

The table has the median of the best costs and the quartiles; * marks those that no other is better
than with an error of less than one in twenty (Mann-Whitney). Below it stands how often ``auto`` is
among these, its mean normalised rank (0 first, 1 last), how often it is at least the median peer,
and the processor time of all. Peers are installed with pip into environments of their own in the
cache folder; with --here those that this interpreter has are taken. What they found is recalled as
long as problems and calls are the same. Kernel Tuner's strategies search tables, pycma real
parameters: of other problems there is "-", and they count for none of them. With --slots N ours and
the peers that can be asked and told evaluate N points at a time, whose durations vary by 0.8 in
the logarithm; how busy the slots were is told beside that of ``random``. PyGAD and Kernel Tuner
call a function, one point at a time, and are left out then. Scores count as they arrive; with
--ordered, ours in the order of proposals.

With --with FILE what --json printed before, with other seeds or engines, stands beside.

--quick is a look of minutes: five of the reported problems, 5 seeds, 50 trials, --here.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from contest.problems import DEVELOPED, PROBLEMS, REAL, REPORTED, Problem

import zenturio as zen
from zenturio.search import Budget, Directions, SearchLoop, SearchProblem, make

FOLDER = Path(__file__).resolve().parent / "contest"
ROOT = FOLDER.parents[1]
ENVIRONMENTS = {
    "engine-peers": (
        "optuna==5.0.0", "cmaes==0.13.1", "nevergrad==1.0.12", "numpy==2.2.6", "cma==4.5.0",
        "pygad==3.4.0",
    ),  # Nevergrad 1.0.12 does not know NumPy 2.4
    "engine-peers-torch": ("optuna==5.0.0", "scipy==1.17.1", "torch==2.13.0"),
    "engine-peers-smac": ("smac==2.4.1",),
    "engine-peers-kernels": ("kernel_tuner==1.5.0",),
}  # fmt: skip
"""Packages that are installed together."""
ASKED = {
    "Optuna TPE": ("engine-peers", "optuna"),
    "Optuna CMA-ES": ("engine-peers", "cmaes"),
    "Optuna GP": ("engine-peers-torch", "torch"),
    "pycma": ("engine-peers", "cma"),
    "Nevergrad NGOpt": ("engine-peers", "nevergrad"),
    "SMAC3": ("engine-peers-smac", "smac"),
}
"""The environment of each peer that is asked and told, and the module that it needs."""
KERNEL_TUNER = ("genetic_algorithm", "diff_evo", "hybrid_vndx", "adaptive_tabu_greywolf")
PEERS = ASKED | {
    "PyGAD": ("engine-peers", "pygad"),
    **{f"Kernel Tuner {name}": ("engine-peers-kernels", "kernel_tuner") for name in KERNEL_TUNER},
}
OURS = ("auto", "model", "ga", "hill", "anneal", "portfolio", "random")
QUICK = ("tiles-large", "gemm-RTX_2080_Ti", "ellipsoid5", "peaks2", "network")
SPREAD = 0.8
"""Standard deviation of the logarithm of simulated durations."""
SURE = 0.05
"""The chance of error at which one counts as better than another."""

Found = dict[str, dict[str, list[float]]]
"""For each engine and problem that it is made for, the best cost that each seed came to."""


def space_of(problem: Problem) -> zen.Space:
    """*problem* as its user would write it here."""
    if problem.name == "gemm":
        return zen.scan([ROOT / "annotations" / "gemm"]).space
    when = dict(problem.when)
    sets: dict[str, Any] = {
        name: zen.uniform(0, 1) if values is REAL else list(values)
        for name, values in problem.sets.items()
    }
    sets |= {name: zen.parameter(sets[name], when=condition) for name, condition in when.items()}
    return zen.Space(constraints=problem.constraints, **sets)


class TrueCosts:
    """Measures points of a problem, and remembers what they truly cost."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self._problem = problem
        self._draw = random.Random(seed)
        self._ranks = {
            name: {value: at for at, value in enumerate(values)}
            for name, values in problem.sets.items()
            if values is not REAL
        }
        self.of: dict[zen.Point, float | None] = {}

    def __call__(self, point: zen.Point) -> float | None:
        # Of what WHEN makes inactive, any value will do.
        choice = tuple(
            self._ranks[name].get(point[name], 0)
            if name in self._ranks
            else round((point[name] or 0.0) * (len(REAL) - 1))
            for name in self._problem.sets
        )
        self.of[point] = self._problem.cost(choice)
        return self._problem.told(self.of[point], self._draw)


def contest(
    problem: Problem, engine: str, seed: int, slots: int, *, ordered: bool = False
) -> tuple[float, float]:
    """The best cost that one of our engines finds, and the share of time that slots are busy."""
    cost, busy = TrueCosts(problem, seed), 1.0
    space = space_of(problem)
    if slots == 1:
        found = zen.search(space, cost, engine=engine, budget=problem.budget, seed=seed)
        best = found.best
    else:
        task = SearchProblem(
            space, Directions(), seed, problem.budget, slots=slots, ordered=ordered
        )
        loop = SearchLoop(make(engine, task), Directions(), Budget(problem.budget), ordered=ordered)
        busy = simulate(loop, cost, slots, seed)
        best = loop.best
    assert best, "some point can be run"
    true = cost.of[best.point]
    assert true is not None, "what cannot run is never the best"
    return true, busy


def simulate(loop: SearchLoop, cost: TrueCosts, slots: int, seed: int) -> float:
    """Evaluate the points of *loop*, *slots* at a time; return the share of time these are busy."""
    running: list[tuple[float, int, zen.Point]] = []
    now = spent = 0.0
    while not loop.is_over:
        for number, point in loop.ask(slots - len(running)):
            # By its number, so that the same trials last as long whatever the order of arrival.
            seconds = random.Random(f"{seed} {number}").lognormvariate(0, SPREAD)
            spent += seconds
            heapq.heappush(running, (now + seconds, number, point))
        if running:
            now, number, point = heapq.heappop(running)
            score = cost(point)
            loop.tell(number, () if score is None else (score,))
    return spent / (slots * now)


def ours(
    engine: str, problems: dict[str, Problem], seeds: int, slots: int, *, ordered: bool
) -> dict[str, Any]:
    """What one of our engines finds, and how much processor time it takes."""
    began = time.process_time()
    best, busy = {}, []
    for name, problem in problems.items():
        runs = [
            contest(problem, engine, seed, slots, ordered=ordered) for seed in range(1, seeds + 1)
        ]
        best[name] = [cost for cost, _ in runs]
        busy += [share for _, share in runs]
    return {
        "seconds": time.process_time() - began,
        "best": best,
        "busy": statistics.fmean(busy),
    }


def environment(name: str, folder: Path) -> Path:
    """The interpreter of an environment with peers, made once."""
    home, packages = folder / name, ENVIRONMENTS[name]
    python = home / "bin" / "python"
    mark = home / "peers.txt"
    if not mark.exists() or mark.read_text() != "\n".join(packages):
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-qqq", *packages], check=True)
        mark.write_text("\n".join(packages))
    return python


def theirs(
    peer: str, problems: list[str], seeds: int, trials: int, slots: int, cache: Path, *, here: bool
) -> dict[str, Any]:
    """What a peer finds; recalled, if it was measured before."""
    parts = [(FOLDER / name).read_bytes() for name in ("problems.py", "peers.py", "sorting.csv")]
    name = PEERS[peer][0]
    called = [ENVIRONMENTS[name], peer, problems, seeds, trials, slots, here]
    parts += [json.dumps(called).encode()]
    kept = cache / f"engines-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}.json"
    if not kept.exists():
        python = sys.executable if here else environment(name, cache)
        numbers = map(str, (seeds, trials, slots))
        command = [python, FOLDER / "peers.py", peer, *numbers, *problems]
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
        alone = os.environ | dict.fromkeys(names, "1")
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


def made_for(found: Found, problem: str) -> list[str]:
    """The engines and peers that were asked to solve *problem*."""
    return [name for name in found if problem in found[name]]


def first(found: Found, problem: str) -> list[str]:
    """The engines that no other is better than."""
    there = made_for(found, problem)
    return [
        name
        for name in there
        if not any(better(found[other][problem], found[name][problem]) for other in there)
    ]


def rank(found: Found, problem: str, name: str) -> float:
    """The place of *name* by its median, 0 first and 1 last; equal ones share theirs."""
    there = made_for(found, problem)
    medians = {each: statistics.median(found[each][problem]) for each in there}
    ahead = sum(medians[each] < medians[name] for each in there)
    equal = sum(medians[each] == medians[name] for each in there) - 1
    return (ahead + equal / 2) / max(len(there) - 1, 1)


def verdict(found: Found, seconds: dict[str, float], problems: list[str]) -> str:
    """How ``auto`` stands beside the peers, and beside the goals that were set for it."""
    peers = [name for name in found if name in PEERS]
    problems = [each for each in problems if any(each in found[peer] for peer in peers)]
    if "auto" not in found or not problems:
        return ""
    firsts = sum("auto" in first(found, problem) for problem in problems)
    ranks = [rank(found, problem, "auto") for problem in problems]
    as_good = sum(
        statistics.median(found["auto"][problem])
        <= statistics.median(
            statistics.median(found[peer][problem]) for peer in peers if problem in found[peer]
        )
        for problem in problems
    )
    peer = "Optuna TPE" if "Optuna TPE" in found else peers[0]
    return (
        f"auto: first or equal to the first in {firsts} of {len(problems)} (goal 80%), mean"
        f" normalised rank {statistics.fmean(ranks):.2f} (goal 0.2), at least the median peer in"
        f" {as_good} of {len(problems)} (goal 95%), {seconds['auto']:.0f} s of processor time"
        f" ({peer}: {seconds[peer]:.0f} s)"
    )


def table(found: Found, seconds: dict[str, float], problems: list[str]) -> str:
    """What was found, as Markdown: a row for each problem, the engines by their mean ranks."""
    firsts = {problem: first(found, problem) for problem in problems}
    ranks = {
        name: statistics.mean(rank(found, each, name) for each in problems if each in found[name])
        for name in found
    }
    names = sorted(found, key=ranks.__getitem__)
    lines = [f"| problem | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for problem in problems:
        cells = []
        for name in names:
            if problem not in found[name]:
                cells.append("-")
                continue
            low, middle, high = statistics.quantiles(found[name][problem], n=4)
            star = "*" if name in firsts[problem] else ""
            cells.append(f"{middle:.4g}{star} ({low:.4g} to {high:.4g})")
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    counts = [str(sum(name in firsts[problem] for problem in problems)) for name in names]
    lines.append(f"| first | {' | '.join(counts)} |")
    lines.append(f"| mean rank | {' | '.join(f'{ranks[name]:.2f}' for name in names)} |")
    lines.append(
        f"| seconds of processor | {' | '.join(f'{seconds[name]:.0f}' for name in names)} |"
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
            if problem not in found[name]:
                continue
            low, middle, high = statistics.quantiles(found[name][problem], n=4)
            colour = "#0072b2" if name in OURS else "#d55e00"
            axis.plot([low, high], [at, at], color=colour, linewidth=2)
            shape = "o" if name in firsts else "|"
            axis.plot(middle, at, shape, color=colour, markersize=6)
        middles = sorted(statistics.median(found[n][problem]) for n in made_for(found, problem))
        if middles[0] > 0 and middles[-1] > 20 * middles[0]:
            axis.set_xscale("log")
        axis.set_title(problem, fontsize=9)
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
    halves = {"reported": REPORTED, "developed": DEVELOPED, "both": PROBLEMS}
    parser.add_argument("--half", choices=halves, default="reported")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS)
    parser.add_argument("--with", nargs="+", type=Path, default=[], dest="earlier", metavar="FILE")
    parser.add_argument("--engines", nargs="*", default=list(OURS))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(ASKED))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--trials", type=int, default=0, help="instead of those of each problem")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--ordered", action="store_true", help="scores in the order of proposals")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--here", action="store_true", help="peers that this interpreter has")
    parser.add_argument("--picture", type=Path, help="where the picture goes: engines.png")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "zenturio-benchmarks"
    parser.add_argument("--cache", type=Path, default=cache)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    names = options.problems or list(halves[options.half])
    if options.quick:
        names = options.problems or [name for name in QUICK if name in PROBLEMS]
        options.trials, options.here = options.trials or 50, True
    seeds = options.seeds or (5 if options.quick else 20)
    made = {name: PROBLEMS[name]() for name in names}
    problems = {n: replace(p, budget=options.trials or p.budget) for n, p in made.items()}
    told: dict[str, dict[str, Any]] = {}
    for file in options.earlier:
        told |= json.loads(file.read_text())
    for name in options.engines:
        told[name] = ours(name, problems, seeds, options.slots, ordered=options.ordered)
    for name in options.peers:
        if options.slots > 1 and name not in ASKED:
            continue
        if not options.here or importlib.util.find_spec(PEERS[name][1]):
            told[name] = theirs(
                name, names, seeds, options.trials, options.slots, options.cache, here=options.here
            )
    found = {name: each["best"] for name, each in told.items()}
    seconds = {name: each["seconds"] for name, each in told.items()}
    if options.picture:
        draw(found, names, options.picture)
    if options.json:
        print(json.dumps(told))
        return
    print(table(found, seconds, names))
    print(verdict(found, seconds, names))
    if options.slots > 1:
        busy = ", ".join(f"{n} {each['busy']:.0%}" for n, each in told.items() if "busy" in each)
        print(f"{options.slots} slots were busy: {busy}")


def run_in_one_thread(main: Callable[[], None]) -> None:
    """Call *main*, in a new process if matrices would use more threads: small ones need one."""
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()


if __name__ == "__main__":
    run_in_one_thread(main)
