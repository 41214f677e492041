"""How fast a genetic search is, and how good: against PyGAD, DEAP and pymoo.

    python benchmarks/ga.py [--json] [--seeds N] [--rounds N] [--cache FOLDER]

A workflow of 100 tasks is to be placed on 300 machines of three sites: one gene for each task is
its machine. A plan's time is that of its last task, where tasks begin in the order of their
b-level, as soon as their machine is free and their data has come. This function is compiled with
Numba, and every library calls the same compiled function, as its users would: we take it as it is,
pymoo gets whole populations, PyGAD and DEAP call it for each individual.

All have 150 individuals and 500 generations. The peers are installed with pip into an environment
of their own in the cache folder. Every library runs in a process of its own, warm, once for each
seed; the table has medians. What the first search in a fresh process costs is told as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
import venv
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit

PEERS = ("pygad==3.4.0", "deap==1.4.3", "pymoo==0.6.1.5", "numba")
OURS = "zenturio"
TASKS, MACHINES, SITES = 100, 300, 3
POPULATION, GENERATIONS = 150, 500
Found = tuple[float, int]
"""The best time of a plan, and how many individuals there were."""


@dataclass(frozen=True)
class Workflow:
    """Tasks in the order of their b-level, with what each waits for, and machines."""

    work: np.ndarray
    starts: np.ndarray
    parents: np.ndarray
    data: np.ndarray
    speeds: np.ndarray
    sites: np.ndarray


def workflow() -> Workflow:
    """The same one every time: layers of tasks, few fast machines, sites that are far apart."""
    rng = np.random.default_rng(2005)
    layers = np.sort(rng.integers(12, size=TASKS))
    edges: list[list[tuple[int, float]]] = []
    for layer in layers:
        before = np.flatnonzero((layers < layer) & (layers >= layer - 2))
        chosen = rng.choice(before, min(len(before), int(rng.integers(1, 5))), replace=False)
        edges.append([(int(parent), float(rng.uniform(1, 40))) for parent in chosen])
    work = rng.lognormal(3.0, 0.8, TASKS)
    speeds = rng.choice([3.0, 1.8, 1.0, 0.7], MACHINES, p=[0.06, 0.2, 0.4, 0.34])
    sites = rng.integers(SITES, size=MACHINES)
    order = np.argsort(-b_levels(work, edges), kind="stable")
    rank = np.argsort(order)
    sorted_edges = [[(int(rank[p]), size) for p, size in edges[task]] for task in order]
    counts = [len(each) for each in sorted_edges]
    return Workflow(
        work[order],
        np.concatenate([[0], np.cumsum(counts)]),
        np.array([p for each in sorted_edges for p, _ in each]),
        np.array([size for each in sorted_edges for _, size in each]),
        speeds,
        sites,
    )


def b_levels(work: np.ndarray, edges: list[list[tuple[int, float]]]) -> np.ndarray:
    """The longest way from each task to an end: its work, and all work and data behind it."""
    levels = work.copy()
    for task in reversed(range(len(work))):
        for parent, size in edges[task]:
            levels[parent] = max(levels[parent], work[parent] + size / 10 + levels[task])
    return levels


def plan_time() -> Callable[[np.ndarray], float]:
    """The compiled objective: from the machine of each task to the time of the last.

    Its numbers have no signs, so that no access looks whether it counts from the end.
    """
    case, number = workflow(), np.uint64
    starts, parents, sites = (
        each.astype(number) for each in (case.starts, case.parents, case.sites)
    )
    work, data, slowness = case.work, case.data, 1 / case.speeds
    delays = np.where(np.eye(SITES) == 1, 1 / 20, 1 / 2)

    @njit("float64(int64[::1])")
    def score(genes: np.ndarray) -> float:
        free, ends, last = np.zeros(MACHINES), np.empty(TASKS), 0.0
        for task in range(number(TASKS)):
            machine = number(genes[task])
            site, ready = sites[machine], free[machine]
            for at in range(starts[task], starts[task + number(1)]):
                parent = parents[at]
                other = number(genes[parent])
                delay = 0.0 if other == machine else delays[sites[other], site]
                ready = max(ready, ends[parent] + data[at] * delay)
            ends[task] = free[machine] = ready + work[task] * slowness[machine]
            last = max(last, ends[task])
        return last

    return score


def ours() -> Callable[[int], Found]:
    import zenturio as zen

    score = plan_time()
    space = zen.Space(**{f"task{i}": zen.span(1, MACHINES) for i in range(TASKS)})

    def run(seed: int) -> Found:
        found = zen.search(
            space,
            score,
            engine="ga",
            seed=seed,
            population=POPULATION,
            generations=GENERATIONS,
            steady=100,
        )
        return found.best.scores[0], POPULATION * GENERATIONS

    return run


def pygad() -> Callable[[int], Found]:
    import pygad

    score = plan_time()
    warnings.simplefilter("ignore")

    def run(seed: int) -> Found:
        search = pygad.GA(
            num_generations=GENERATIONS,
            num_parents_mating=POPULATION // 2,
            fitness_func=lambda _ga, genes, _at: -score(np.asarray(genes, dtype=np.int64)),
            sol_per_pop=POPULATION,
            num_genes=TASKS,
            gene_type=int,
            gene_space=range(MACHINES),
            parent_selection_type="sss",
            crossover_type="single_point",
            crossover_probability=0.9,
            mutation_type="random",
            mutation_probability=0.0025,
            keep_elitism=1,
            random_seed=seed % 2**31,
            suppress_warnings=True,
        )
        search.run()
        return -search.best_solution()[1], POPULATION * GENERATIONS

    return run


def deap() -> Callable[[int], Found]:
    from deap import algorithms, base, creator, tools

    score = plan_time()
    creator.create("Fitness", base.Fitness, weights=(-1.0,))
    creator.create("Individual", list, fitness=creator.Fitness)
    box = base.Toolbox()
    box.register("gene", random.randrange, MACHINES)
    box.register("individual", tools.initRepeat, creator.Individual, box.gene, TASKS)
    box.register("population", tools.initRepeat, list, box.individual)
    box.register("evaluate", lambda genes: (score(np.array(genes, dtype=np.int64)),))
    box.register("mate", tools.cxOnePoint)
    box.register("mutate", tools.mutUniformInt, low=0, up=MACHINES - 1, indpb=0.0125)
    box.register("select", tools.selTournament, tournsize=3)

    def run(seed: int) -> Found:
        random.seed(seed)
        best = tools.HallOfFame(1)
        algorithms.eaSimple(
            box.population(POPULATION),
            box,
            cxpb=0.9,
            mutpb=0.2,
            ngen=GENERATIONS - 1,
            halloffame=best,
            verbose=False,
        )
        return best[0].fitness.values[0], POPULATION * GENERATIONS

    return run


def pymoo() -> Callable[[int], Found]:
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.core.problem import Problem
    from pymoo.operators.crossover.sbx import SBX
    from pymoo.operators.mutation.pm import PM
    from pymoo.operators.repair.rounding import RoundingRepair
    from pymoo.operators.sampling.rnd import IntegerRandomSampling
    from pymoo.optimize import minimize

    score = plan_time()

    @njit
    def scores(rows: np.ndarray) -> np.ndarray:
        found = np.empty(len(rows))
        for i in range(len(rows)):
            found[i] = score(rows[i])
        return found

    class Plans(Problem):
        def __init__(self) -> None:
            super().__init__(n_var=TASKS, n_obj=1, xl=0, xu=MACHINES - 1, vtype=int)

        def _evaluate(self, rows: np.ndarray, out: dict, *_: object, **__: object) -> None:
            out["F"] = scores(np.ascontiguousarray(rows, dtype=np.int64))

    def run(seed: int) -> Found:
        search = GA(
            pop_size=POPULATION,
            sampling=IntegerRandomSampling(),
            crossover=SBX(prob=0.9, eta=3.0, vtype=float, repair=RoundingRepair()),
            mutation=PM(eta=3.0, vtype=float, repair=RoundingRepair()),
            eliminate_duplicates=True,
        )
        found = minimize(Plans(), search, ("n_gen", GENERATIONS), seed=seed % 2**31, verbose=False)
        return float(found.F[0]), int(found.algorithm.evaluator.n_eval)

    return run


LIBRARIES = {OURS: ours, "PyGAD": pygad, "DEAP": deap, "pymoo": pymoo}


def measure(library: str, seeds: int, rounds: int) -> None:
    """What a process of its own does: search with each seed, and print what came of it."""
    began = time.perf_counter()
    run = LIBRARIES[library]()
    run(0)
    first = time.perf_counter() - began
    seconds, processor, best = [], [], []
    for seed in range(1, seeds + 1):
        walls, used = [], []
        for _ in range(rounds):
            start, busy = time.perf_counter(), time.process_time()
            found, count = run(seed)
            walls.append(time.perf_counter() - start)
            used.append(time.process_time() - busy)
        seconds.append(min(walls))
        processor.append(min(used))
        best.append(found)
    told = {"first": first, "seconds": seconds, "processor": processor, "best": best}
    print(json.dumps({**told, "count": count}))


def environment(folder: Path) -> Path:
    """The interpreter of an environment with the peers, made once."""
    home = folder / "ga-peers"
    python = home / "bin" / "python"
    mark = home / "peers.txt"
    if not mark.exists() or mark.read_text() != "\n".join(PEERS):
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
        mark.write_text("\n".join(PEERS))
    return python


def table(found: dict[str, dict]) -> str:
    """What was found, as Markdown."""
    base = statistics.median(found[OURS]["seconds"])
    spent = statistics.median(found[OURS]["processor"])
    titles = ("library", "seconds", "times ours", "of processor time", "evaluations/s")
    titles += ("best plan, median (quartiles)", "first search")
    lines = [
        f"| {' | '.join(titles)} |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, told in found.items():
        seconds = statistics.median(told["seconds"])
        low, middle, high = statistics.quantiles(told["best"], n=4)
        ratio = statistics.median(told["processor"]) / spent
        lines.append(
            f"| {name} | {seconds:.4f} | {seconds / base:.1f} | {ratio:.1f} "
            f"| {told['count'] / seconds:,.0f} | {middle:.1f} ({low:.1f} to {high:.1f}) "
            f"| {told['first']:.2f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=1, help="the fastest of so many counts")
    parser.add_argument("--library", choices=LIBRARIES, help=argparse.SUPPRESS)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "zenturio-benchmarks"
    parser.add_argument("--cache", type=Path, default=cache)
    options = parser.parse_args()
    if options.library:
        measure(options.library, options.seeds, options.rounds)
        return
    python, found = environment(options.cache), {}
    for name in LIBRARIES:
        interpreter = sys.executable if name == OURS else str(python)
        command = [interpreter, __file__, "--library", name, "--seeds", str(options.seeds)]
        command += ["--rounds", str(options.rounds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stderr}")
        found[name] = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found) if options.json else table(found))


if __name__ == "__main__":
    main()
