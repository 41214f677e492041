"""How fast moldable workflows are planned by a genetic search, and how well: against PyGAD.

    python benchmarks/moldable.py [--json] [--seeds N] [--alpha A] [--cache FOLDER]

A k-Wave workflow with a barrier, 64 tasks on 64 nodes: one gene for each task is its number of
nodes, and a plan is what a queue without backfilling makes of them. As in "Performance-Cost
Optimization of Moldable Scientific Workflows" there are 150 individuals, of which the better half
has children, uniform crossover of 0.7, random mutation of 0.01 and 5% elite; the paper does this
with PyGAD and a simulator in Python, 335 ms a generation on its machine.

PyGAD runs here in an environment of its own, made with pip in the cache folder, with the simulator
below: a heap of what ends next, no classes. Both give the same numbers of nodes the same fitness,
which is checked. Each runs in a process of its own, warm, once for each seed; the table has
medians. What is added to the paper here, heuristics to begin with and annealing at the end, has a
row of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import venv
import warnings
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path

import numpy as np

PEERS = ("pygad==3.4.0",)
SIMULATIONS, NODES = 31, 64
POPULATION, GENERATIONS = 150, 500
Found = tuple[float, list[int]]
"""The best fitness, and the numbers of nodes that have it."""


def case() -> dict:
    """The workflow as plain numbers: seconds by task and number of nodes, who waits for whom."""
    problem = _problem()
    flow = problem.workflow
    return {
        "order": problem.order.tolist(),
        "seconds": [
            [time if time < float("inf") else None for time in problem.seconds[row].tolist()]
            for row in problem.row
        ],
        "after": [flow.after.of(task).tolist() for task in range(problem.tasks)],
        "alone": problem.alone,
    }


def _problem():
    from zenturio.schedule.generators.generator import generate
    from zenturio.schedule.model.problem import MoldableProblem

    made = generate("kwave-barrier", {"simulations": SIMULATIONS, "nodes": NODES}, 2022)
    return MoldableProblem.of(made.workflow, made.platform)


def fitness_of(case: dict, alpha: float) -> Callable[[list[int]], float]:
    """The fitness for on-demand allocation, by a simulator in Python."""
    order, seconds, after, alone = case["order"], case["seconds"], case["after"], case["alone"]
    tasks = len(order)
    rank = {task: place for place, task in enumerate(order)}
    waits = [0] * tasks
    for children in after:
        for child in children:
            waits[child] += 1

    def fitness(counts: list[int]) -> float:
        left, free, now, cost = waits[:], NODES, 0.0, 0.0
        ready = [place for place, task in enumerate(order) if not left[task]]
        running: list[tuple[float, int]] = []
        while ready or running:
            while ready and counts[order[ready[0]]] <= free:
                task = order[heappop(ready)]
                count, lasts = counts[task], seconds[task][counts[task]]
                free -= count
                cost += count * lasts
                heappush(running, (now + lasts, task))
            now = running[0][0]
            while running and running[0][0] == now:
                _, task = heappop(running)
                free += counts[task]
                for child in after[task]:
                    left[child] -= 1
                    if not left[child]:
                        heappush(ready, rank[child])
        return alpha * now / alone + (1 - alpha) * cost / alone

    return fitness


def pygad(case: dict, alpha: float) -> Callable[[int], Found]:
    import pygad

    fitness = fitness_of(case, alpha)
    warnings.simplefilter("ignore")
    sets = [[n for n, time in enumerate(row) if time is not None] for row in case["seconds"]]

    def run(seed: int) -> Found:
        search = pygad.GA(
            num_generations=GENERATIONS,
            num_parents_mating=POPULATION // 2,
            fitness_func=lambda _ga, genes, _at: -fitness(genes.tolist()),
            sol_per_pop=POPULATION,
            num_genes=len(sets),
            gene_type=int,
            gene_space=sets,
            parent_selection_type="sss",
            crossover_type="uniform",
            crossover_probability=0.7,
            mutation_type="random",
            mutation_probability=0.01,
            keep_elitism=round(POPULATION * 0.05),
            random_seed=seed,
            suppress_warnings=True,
        )
        search.run()
        counts = [int(count) for count in search.best_solution()[0]]
        return fitness(counts), counts  # what PyGAD says is at times that of another solution

    return run


def ours(settings: dict) -> Callable[[dict, float], Callable[[int], Found]]:
    def made(_case: dict, alpha: float) -> Callable[[int], Found]:
        from zenturio.schedule.algorithm import make

        problem = _problem()
        given = {"population": POPULATION, "generations": GENERATIONS, "alpha": alpha, **settings}

        def run(seed: int) -> Found:
            plan = make("moldable-global", given, seed).plan(problem)
            return plan.notes["fitness"], plan.counts.tolist()

        return run

    return made


PAPER = "zenturio, as the paper"
LIBRARIES = {
    PAPER: ours({"seeded": False, "polish": 0}),
    "PyGAD, simulator in Python": pygad,
    "zenturio, as it comes": ours({}),
}


def measure(library: str, told: dict, seeds: int) -> None:
    """What a process of its own does: search with each seed, and print what came of it."""
    began = time.perf_counter()
    run = LIBRARIES[library](told["case"], told["alpha"])
    run(0)
    found: dict[str, list] = {"seconds": [], "processor": [], "best": [], "counts": []}
    first = time.perf_counter() - began
    for seed in range(1, seeds + 1):
        start, busy = time.perf_counter(), time.process_time()
        best, counts = run(seed)
        found["seconds"].append(time.perf_counter() - start)
        found["processor"].append(time.process_time() - busy)
        found["best"].append(best)
        found["counts"].append(counts)
    print(json.dumps({"first": first, **found}))


def environment(folder: Path) -> Path:
    """The interpreter of an environment with the peer, made once."""
    home = folder / "moldable-peers"
    python = home / "bin" / "python"
    mark = home / "peers.txt"
    if not mark.exists() or mark.read_text() != "\n".join(PEERS):
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
        mark.write_text("\n".join(PEERS))
    return python


def compared(alpha: float, seeds: int, cache: Path) -> dict[str, dict]:
    """All libraries, one after the other, and that they agree about PyGAD's plans."""
    python, found, told = environment(cache), {}, {"case": case(), "alpha": alpha}
    for name in LIBRARIES:
        interpreter = sys.executable if name.startswith("zenturio") else str(python)
        done = subprocess.run(
            [interpreter, __file__, "--library", name, "--seeds", str(seeds)],
            input=json.dumps(told), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stderr}")
        found[name] = json.loads(done.stdout.splitlines()[-1])
    _agree(alpha, found)
    return found


def _agree(alpha: float, found: dict[str, dict]) -> None:
    """Refuse to compare simulators that disagree."""
    from zenturio.schedule.moldable.allocation_search import on_demand
    from zenturio.schedule.moldable.cluster_queue import ClusterQueue

    problem = _problem()
    peer = found["PyGAD, simulator in Python"]
    here = on_demand(problem, alpha)(ClusterQueue(problem).outcomes(np.array(peer["counts"])))
    if not np.allclose(here, peer["best"], rtol=1e-12):
        raise SystemExit(f"the simulators disagree: {here.tolist()}, {peer['best']}")


def table(found: dict[str, dict]) -> str:
    """What was found, as Markdown."""
    base = statistics.median(found[PAPER]["processor"])
    titles = ("library", "ms a generation", "of processor time", "times ours")
    titles += ("best fitness, median (quartiles)", "first search")
    lines = [f"| {' | '.join(titles)} |", "|---|---:|---:|---:|---|---:|"]
    for name, told in found.items():
        wall, used = statistics.median(told["seconds"]), statistics.median(told["processor"])
        low, middle, high = statistics.quantiles(told["best"], n=4)
        lines.append(
            f"| {name} | {wall / GENERATIONS * 1e3:.2f} | {used / GENERATIONS * 1e3:.2f} "
            f"| {used / base:.1f} | {middle:.5f} ({low:.5f} to {high:.5f}) "
            f"| {told['first']:.1f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--alpha", type=float, default=0.95, help="weight of the makespan")
    parser.add_argument("--library", choices=LIBRARIES, help=argparse.SUPPRESS)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "zenturio-benchmarks"
    parser.add_argument("--cache", type=Path, default=cache)
    options = parser.parse_args()
    if options.library:
        measure(options.library, json.load(sys.stdin), options.seeds)
        return
    found = compared(options.alpha, options.seeds, options.cache)
    print(json.dumps(found) if options.json else table(found))


if __name__ == "__main__":
    main()
