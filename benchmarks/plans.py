"""How good plans are, for one goal and for two: the standing benchmark of scheduling.

    python benchmarks/plans.py [--only proved,data,large,stg,traces,cloud] [--long] [--cache FOLDER]

Instances come from our own seeded generators, and from the recorded graphs in $DATA (or
../shared/data) where these are:

    proved   whole times, no transfers, 4 processors: CP-SAT proves the optima in this run
    data     transfers at three ratios to computing, 30 and 60 tasks
    large    100 to 500 tasks with transfers
    stg      recorded Standard Task Graphs on 4 processors, those whose stated optimum HEFT misses
    traces   recorded workflows on 4 machines of different speeds
    cloud    fronts of cost and time on three clouds, and their hypervolumes

Times are seconds of the processor, for all alike: within this program the clock of time limits is
that of the process, so that others on the machine change nothing. Peers: CP-SAT alone (20 s, with
the plan of ga as a hint), SAGA's list algorithms (anrg.saga: measured, never used; its licence
forbids commercial use), and NSGA-II of pymoo on our own evaluator. SAGA and pymoo are installed
into folders of their own; where that fails, their columns are empty.

The small form takes about five minutes. --long: ten seeds instead of two, and plans within 10 s.
The run fails if a plan is worse than that of a list algorithm.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from zenturio.schedule.algorithm import make
from zenturio.schedule.formats.files import read_workflow
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.model.evaluation import topological_orders
from zenturio.schedule.model.metrics import MetricCalculator
from zenturio.schedule.model.plan import Plan, check
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.static import exact, genetic, islands, pareto, portfolio, tabu_search
from zenturio.schedule.static.list_scheduling import heft, mean_delays, mean_times, upward_ranks
from zenturio.schedule.static.metric_search import PlacementGroups

DATA = Path(os.environ.get("DATA", Path(__file__).parents[1].parent / "shared" / "data"))
LISTS = ("heft", "cpop", "peft", "min-min", "max-min", "sufferage", "dcp", "xdcp", "lazy")
SAGA, PYMOO = "anrg.saga==2.0.2", "pymoo==0.6.2"
LIGHT = {SAGA: ("pysmt", "pydantic", "networkx")}
"""What a peer needs beside our own packages; without it, all that it asks for is installed.

SAGA asks for solvers and tools of half a gigabyte that its list algorithms do not use."""
CP_SAT_SECONDS = 20.0
FRONT_SECONDS = 2.0
SAGA_ALGORITHMS = (
    "HeftScheduler",
    "CpopScheduler",
    "MinMinScheduler",
    "MaxMinScheduler",
    "SufferageScheduler",
    "BILScheduler",
    "ETFScheduler",
    "GDLScheduler",
)
Front = list[tuple[float, float]]


@contextmanager
def processor_clock() -> Iterator[None]:
    """Let time limits count seconds of the processor."""
    modules: tuple[Any, ...] = (exact, genetic, tabu_search, islands, pareto, portfolio)
    for module in modules:
        module.monotonic = time.process_time
    try:
        yield
    finally:
        for module in modules:
            module.monotonic = time.monotonic


# Instances


def generated(text: str, platform: Platform | None = None) -> Problem:
    made = instance_of(text)
    machines = platform or made.platform
    assert machines is not None
    return Problem.of(made.workflow, machines)


def proved(seeds: int) -> Iterator[tuple[str, Problem]]:
    for seed in range(seeds):
        text = f"layered:tasks=40,whole=true,ccr=0,layers=8,seed={seed}"
        yield f"layered 40, seed {seed}", generated(text, identical(4))


def data(seeds: int) -> Iterator[tuple[str, Problem]]:
    for ratio in (0.5, 2, 5):
        for tasks, machines in ((30, 4), (60, 6)):
            for seed in range(1, seeds // 2 + 1):
                text = f"layered:tasks={tasks},machines={machines},ccr={ratio},seed={seed}"
                yield f"{tasks} x {machines}, ccr {ratio}, seed {seed}", generated(text)


def large(seeds: int) -> Iterator[tuple[str, Problem]]:
    for tasks, machines in ((100, 8), (200, 16), (500, 32)):
        for seed in range(1, seeds // 2 + 1):
            text = f"layered:tasks={tasks},machines={machines},ccr=2,seed={seed}"
            yield f"{tasks} x {machines}, ccr 2, seed {seed}", generated(text)


def stg(seeds: int) -> Iterator[tuple[str, Problem]]:
    for graph, optimum, problem in islice(stated_optima(), seeds * 2):
        yield f"{graph}, stated {optimum}", problem


def stated_optima() -> Iterator[tuple[str, str, Problem]]:
    """Yield graphs, 4 processors and a stated optimum that HEFT does not find."""
    path = DATA / "stg" / "optima.csv"
    if not path.exists():
        return
    with path.open() as file:
        for graph, processors, optimum, *open_end in csv.reader(file):
            if processors == "4" and not any(open_end):
                problem = Problem.of(read_workflow(DATA / "stg" / graph), identical(4))
                if heft(problem).makespan > float(optimum):
                    yield graph, optimum, problem


def traces(seeds: int) -> Iterator[tuple[str, Problem]]:
    machines = tuple(PlatformMachine(f"m{i}", speed) for i, speed in enumerate((1, 1.5, 2, 3)))
    platform = Platform("four", machines, default=NetworkLink("", "", 1e8))
    for path in sorted((DATA / "wfinstances").glob("*.json"))[: seeds * 2]:
        flow = read_workflow(path)
        if len(flow) <= 500:
            yield path.stem, Problem.of(flow, platform)


INSTANCES: dict[str, Callable[[int], Iterator[tuple[str, Problem]]]] = {
    "proved": proved, "data": data, "large": large, "stg": stg, "traces": traces,
}  # fmt: skip


# Plans


def cp_sat(problem: Problem, seconds: float) -> tuple[float, float]:
    """Return the makespan and the bound of CP-SAT alone, after *seconds* of the processor."""
    first = make("ga:evaluations=5000").plan(problem)
    model = exact.CpModel(problem, first)
    solver = exact.load_cp_model().CpSolver()
    solver.parameters.num_workers = 1
    until, is_done = time.process_time() + seconds, threading.Event()

    def watch() -> None:
        while not is_done.wait(0.1):
            if time.process_time() > until:
                solver.stop_search()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        status = solver.status_name(solver.solve(model.model))
    finally:
        is_done.set()
        watcher.join()
    best = first.makespan
    if status in {"OPTIMAL", "FEASIBLE"}:
        best = min(best, model.read(solver).makespan)
    return best, min(solver.best_objective_bound / model.scale, best)


def planned(problem: Problem, algorithm: str) -> tuple[Plan, float]:
    began = time.process_time()
    plan = check(make(algorithm).plan(problem))
    return plan, time.process_time() - began


def rows(
    kind: str, seeds: int, limits: list[int], solver_seconds: float, saga: Path | None
) -> Iterator[dict[str, Any]]:
    for name, problem in INSTANCES[kind](seeds):
        lists = [planned(problem, algorithm)[0].makespan for algorithm in LISTS]
        row: dict[str, Any] = {"instance": name, "lists": min(lists)}
        for algorithm in ("ga", "tabu"):
            plan, row[f"{algorithm} s"] = planned(problem, algorithm)
            row[algorithm] = plan.makespan
        with processor_clock():
            for limit in limits:
                row[f"ga {limit} s"] = planned(problem, f"ga:seconds={limit}")[0].makespan
                plan, _ = planned(problem, f"portfolio:seconds={limit}")
                row[f"within {limit} s"] = plan.makespan
                if plan.makespan > min(lists) * (1 + 1e-9):
                    raise SystemExit(f"{name}: {plan.makespan} is worse than a list algorithm")
        row["saga"] = peer(saga, "saga", problem) if saga and is_uniform(problem) else None
        row["cp-sat"], row["bound"] = cp_sat(problem, solver_seconds)
        yield row


def summary(kind: str, table: list[dict[str, Any]]) -> dict[str, Any]:
    """Return geometric means: of plans by those of CP-SAT, of the portfolio by those of ga."""
    plans = ("lists", "ga", "tabu", "within", "saga")
    names = [n for n in table[0] if n.startswith(plans) and n not in {"ga s", "tabu s"}]
    ratios = {
        name: geometric_mean([row[name] / row["cp-sat"] for row in table])
        for name in names
        if all(row[name] for row in table)
    }
    for name in [name for name in names if name.startswith("within")]:
        former = name.replace("within", "ga")
        mean = geometric_mean([row[name] / row[former] for row in table])
        ratios[f"{name} by {former}"] = mean
    return {"kind": kind, **ratios}


# Clouds


def clouds() -> Iterator[tuple[str, Problem]]:
    types = {"small": (1.0, 0.05, 10), "medium": (2.0, 0.11, 6), "large": (4.0, 0.25, 4)}
    for name, inputs, billing in (
        ("montage", 20, 60.0),
        ("epigenomics", 8, 3600.0),
        ("genomes", 8, 1.0),
    ):
        machines = tuple(
            PlatformMachine(f"{kind}{i}", speed, price=price * billing / 3600, billing=billing)
            for kind, (speed, price, count) in types.items()
            for i in range(count)
        )
        platform = Platform("cloud", machines, default=NetworkLink("", "", 1e8))
        flow = instance_of(f"application:name={name},inputs={inputs}").workflow
        yield f"{name}, paid by {billing:g} s", Problem.of(flow, platform)


def front_of(plan: Plan) -> Front:
    return [(row["makespan"], row["cost"]) for row in plan.notes["front"]]


def hypervolume(front: Front, corner: tuple[float, float]) -> float:
    """Return the area between *front* and *corner*."""
    area, least = 0.0, corner[1]
    for makespan, cost in sorted(front):
        if makespan < corner[0] and cost < least:
            area += (corner[0] - makespan) * (least - cost)
            least = cost
    return area


def fronts(pymoo: Path | None) -> Iterator[dict[str, Any]]:
    for number, (name, problem) in enumerate(clouds()):
        made: dict[str, Front] = {
            "moheft alone": front_of(planned(problem, "moheft:generations=0")[0])
        }
        with processor_clock():
            made["ours"] = front_of(planned(problem, f"moheft:seconds={FRONT_SECONDS}")[0])
        if pymoo:
            made["pymoo"] = peer(pymoo, "pymoo", number)
        everything = [point for front in made.values() for point in front]
        corner = (max(p[0] for p in everything) * 1.01, max(p[1] for p in everything) * 1.01)
        best = hypervolume(everything, corner)
        yield {"cloud": name, **{n: hypervolume(f, corner) / best for n, f in made.items()}}


def pymoo_front(problem: Problem, seconds: float) -> Front:
    """Return the front of NSGA-II of pymoo, whose population begins with HEFT and the cheapest."""
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.core.mutation import Mutation
    from pymoo.core.problem import Problem as PymooProblem
    from pymoo.operators.crossover.ux import UniformCrossover

    gauge, groups = MetricCalculator(problem), PlacementGroups(problem)
    rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
    order = topological_orders(problem, -rank)
    rng = np.random.default_rng(0)

    class Placements(PymooProblem):  # type: ignore[misc]
        def __init__(self) -> None:
            count = len(groups.first)
            super().__init__(n_var=count, n_obj=2, xl=0, xu=problem.processors - 1, vtype=int)

        def _evaluate(self, x: Any, out: dict[str, Any], *_: Any, **__: Any) -> None:
            values = gauge.all(x.astype(np.int64)[:, groups.of_task], order)
            out["F"] = np.stack([values["makespan"], values["cost"]], axis=1)

    class Reset(Mutation):  # type: ignore[misc]
        def _do(self, _problem: Any, x: Any, **_: Any) -> Any:
            moved = rng.random(x.shape) < 1 / x.shape[1]
            return np.where(moved, groups.random(len(x), rng), x)

    first = groups.random(60, rng)
    first[0], first[1] = heft(problem).processor[groups.first], groups.cheapest()
    search = NSGA2(pop_size=60, sampling=first, crossover=UniformCrossover(), mutation=Reset(),
                   eliminate_duplicates=True)  # fmt: skip
    began = time.process_time()
    search.setup(Placements(), termination=("n_gen", 10**9), seed=1, verbose=False)
    while time.process_time() - began < seconds:
        search.next()
    return [(float(time), float(cost)) for time, cost in search.opt.get("F")]


# Peers


def is_uniform(problem: Problem) -> bool:
    """Return whether SAGA has this model: speeds, and one bandwidth without latency."""
    return (
        len(problem.slowness) == 1
        and not problem.latency.any()
        and not problem.workflow.more
        and bool(problem.slowness[0, 0])
    )


def saga_plan(case: dict[str, Any]) -> float:
    """Return the best makespan of SAGA's list algorithms; runs where SAGA is installed."""
    import importlib
    import logging

    from saga import Network, TaskGraph

    logging.disable(logging.WARNING)
    names = [f"m{i:04}" for i in range(len(case["speed"]))]
    links = [(a, b, case["bandwidth"]) for i, a in enumerate(names) for b in names[i + 1 :]]
    network = Network.create(zip(names, case["speed"], strict=True), links)
    graph = TaskGraph.create(
        [(f"t{i}", work) for i, work in enumerate(case["work"])],
        [(f"t{a}", f"t{b}", size) for a, b, size in case["edges"]],
    )
    best = float("inf")
    for name in SAGA_ALGORITHMS:
        try:
            module = importlib.import_module(f"saga.schedulers.{name[:-9].lower()}")
            best = min(best, getattr(module, name)().schedule(network, graph).makespan)
        except Exception as error:  # noqa: BLE001 - a peer that fails on an instance has no plan
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    return best


def installed(cache: Path, requirement: str) -> Path | None:
    """Return a folder with *requirement*, installed once; None if that fails."""
    home = cache / requirement
    packages = home / "packages"
    if not (home / "done").exists():
        venv.create(home, with_pip=True, clear=True)
        pip: list[str | Path] = [home / "bin" / "python", "-m", "pip", "install", "--quiet"]
        pip += ["--target", packages]
        light = LIGHT.get(requirement, ())
        for step in [[requirement, *["--no-deps"] * bool(light)], *[[name] for name in light]]:
            done = subprocess.run([*pip, *step], capture_output=True, check=False)
            if done.returncode:
                print(f"{step[0]} cannot be installed here", file=sys.stderr)
                return None
        (home / "done").touch()
    return home


def peer(home: Path, name: str, case: Any) -> Any:
    """Return what a peer finds in a process of its own."""
    if name == "pymoo":
        question = json.dumps(case)
    else:
        flow = case.workflow
        question = json.dumps({
            "work": flow.work.tolist(),
            "speed": [machine.speed for machine in case.platform.machines],
            "bandwidth": 1 / float(case.slowness[0, 0]),
            "edges": list(zip(flow.sources.tolist(), flow.targets.tolist(), flow.data.tolist(),
                              strict=True)),
        })  # fmt: skip
    command = [
        sys.executable,
        __file__ if name == "pymoo" else str(home / "saga_peer.py"),
        "--peer",
        name,
    ]
    if name == "saga":
        _write_saga_program(home / "saga_peer.py")
    done = subprocess.run(
        command, input=question, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(home / "packages"), "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    if done.returncode:
        print(f"{name} failed: {done.stderr[-500:]}", file=sys.stderr)
        return None
    answer = json.loads(done.stdout.splitlines()[-1])
    return [tuple(point) for point in answer] if name == "pymoo" else answer


def _write_saga_program(path: Path) -> None:
    """Write the function above as a program that needs nothing of ours."""
    import inspect

    lines = [
        "from __future__ import annotations",
        "import json, sys",
        "from typing import Any",
        f"SAGA_ALGORITHMS = {SAGA_ALGORITHMS!r}",
        inspect.getsource(saga_plan),
        "print(json.dumps(saga_plan(json.load(sys.stdin))))",
    ]
    path.write_text("\n".join(lines))


def show(table: list[dict[str, Any]]) -> None:
    names = list(table[0])
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for row in table:
        cells = [f"{row[n]:.5g}" if isinstance(row[n], float) else str(row[n] or "") for n in names]
        print("| " + " | ".join(cells) + " |", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="proved,data,large,stg,traces,cloud")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--solver-seconds", type=float, default=CP_SAT_SECONDS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "zenturio-peers")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        number = json.load(sys.stdin)
        print(json.dumps(pymoo_front(list(clouds())[number][1], FRONT_SECONDS)))
        return
    seeds, limits = (10, [1, 10]) if options.long else (2, [1])
    seeds = options.seeds or seeds
    kinds = options.only.split(",")
    for algorithm in ("portfolio:seconds=0.2", "tabu:moves=5", "moheft:generations=1"):
        make(algorithm).plan(generated("layered:tasks=8,machines=2"))  # compiled before it counts
    facts: dict[str, Any] = {}
    peers = not options.no_peers
    saga = installed(options.cache, SAGA) if peers and set(kinds) & {"data", "large"} else None
    means = []
    for kind in [kind for kind in kinds if kind in INSTANCES]:
        table = []
        for row in rows(kind, seeds, limits, options.solver_seconds, saga):
            table.append(row)
            print(f"{kind}: {row}", file=sys.stderr, flush=True)
        if not table:
            print(f"{kind}: no recorded files in {DATA}\n")
            continue
        facts[kind] = table
        means.append(summary(kind, table))
        if not options.json:
            print(f"## {kind}\n")
            show(table)
    if means and not options.json:
        print("## Geometric means, by the plan of CP-SAT alone\n")
        for mean in means:
            show([mean])
    if "cloud" in kinds:
        facts["cloud"] = list(fronts(installed(options.cache, PYMOO) if peers else None))
        if not options.json:
            print("## Hypervolume of cost and time, by that of all fronts together\n")
            show(facts["cloud"])
    if options.json:
        print(json.dumps(facts))


if __name__ == "__main__":
    main()
