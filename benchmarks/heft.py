"""How fast HEFT plans: against SAGA, and a million tasks.

    python benchmarks/heft.py [--json] [--quick] [--cache FOLDER]

Random layered workflows on machines of different speeds, all joined by links of one bandwidth. SAGA
(PyPI anrg.saga; its licence forbids commercial use, so it is measured and never used) is installed
with pip into an environment of its own in the cache folder, and plans the same workflow in a
process of its own, once: it takes long. Both times are of the processor, without what makes the
graph. SAGA's mean transfer counts that from a machine to itself, so with data the ranks of close
tasks may change places, and so may plans; without data the plans must be equally long, or this
fails. --quick leaves the two large ones to us alone.

Then a million tasks, scaled from a trace of Pegasus, on 300 machines: seconds, and memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

PEER = "anrg.saga==2.0.2"
TRACE = Path(__file__).parents[1] / "tests/schedule/data/pegasus.json"
SMALL = (200, 20, 0.0)
LARGE = ((1000, 300, 1.0), (5000, 50, 1.0))
BANDWIDTH, MACHINES, MILLION, ROUNDS = 2.0, 300, 1_000_000, 5
Case = tuple[int, int, float]
"""How many tasks, how many machines, and how many bytes for each of the edges' units."""


def columns(case: Case) -> dict[str, Any]:
    """The same case every time: layers of tasks, each after up to three of the layer above."""
    tasks, machines, data = case
    chance = np.random.default_rng(tasks + machines)
    layer = np.sort(chance.integers(max(tasks // 40, 2), size=tasks))
    edges = set()
    for task in range(tasks):
        above = np.flatnonzero(layer == layer[task] - 1)
        for other in chance.choice(above, min(len(above), 3), replace=False).tolist():
            edges.add((other, task))
    joined = sorted(edges)
    return {
        "work": chance.lognormal(3, 0.8, tasks).tolist(),
        "speed": chance.uniform(0.5, 3, machines).tolist(),
        "edges": joined,
        "data": (data * chance.uniform(1, 40, len(joined))).tolist(),
    }


def ours(case: Case) -> dict[str, float]:
    """Seconds and makespan of our plan: the fastest of some."""
    from zenturio.schedule.model.plan import check
    from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
    from zenturio.schedule.model.problem import Problem
    from zenturio.schedule.model.workflow import Workflow, WorkflowTask
    from zenturio.schedule.static.list_scheduling import heft

    made = columns(case)
    tasks = [WorkflowTask(f"t{i}", work) for i, work in enumerate(made["work"])]
    edges = [(f"t{a}", f"t{b}", d) for (a, b), d in zip(made["edges"], made["data"], strict=True)]
    machines = tuple(PlatformMachine(f"m{i}", speed) for i, speed in enumerate(made["speed"]))
    platform = Platform("joined", machines, default=NetworkLink("", "", BANDWIDTH))
    problem = Problem.of(Workflow.of("layers", tasks, edges), platform)
    check(heft(problem))
    seconds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        plan = heft(problem)
        seconds.append(time.process_time() - begun)
    return {"seconds": min(seconds), "makespan": plan.makespan}


def theirs(case: Case) -> dict[str, float]:
    """The same of SAGA; runs in its own environment."""
    import logging

    from saga import Network, TaskGraph
    from saga.schedulers.heft import HeftScheduler

    logging.disable(logging.WARNING)
    made = columns(case)
    names = [f"m{i:04}" for i in range(len(made["speed"]))]
    links = [(a, b, BANDWIDTH) for i, a in enumerate(names) for b in names[i + 1 :]]
    network = Network.create(zip(names, made["speed"], strict=True), links)
    edges = zip(made["edges"], made["data"], strict=True)
    graph = TaskGraph.create(
        [(f"t{i}", work) for i, work in enumerate(made["work"])],
        [(f"t{a}", f"t{b}", size) for (a, b), size in edges],
    )
    begun = time.process_time()
    plan = HeftScheduler().schedule(network, graph)
    return {"seconds": time.process_time() - begun, "makespan": plan.makespan}


def environment(folder: Path) -> Path:
    """The interpreter of an environment with the peer, made once."""
    home = folder / "heft-peers"
    python, mark = home / "bin" / "python", home / "peers.txt"
    if not mark.exists() or mark.read_text() != PEER:
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=True)
        mark.write_text(PEER)
    return python


def asked(python: Path, case: Case) -> dict[str, float]:
    """What the peer finds in a process of its own, in which sets have one order."""
    command = [str(python), __file__, "--peer", json.dumps(case)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    if done.returncode:
        raise SystemExit(f"SAGA failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def million() -> dict[str, float]:
    """A trace, scaled: seconds for the plan, and the most memory that the process had."""
    from zenturio.schedule.formats.files import read_workflow
    from zenturio.schedule.generators.generator import scale
    from zenturio.schedule.model.plan import check
    from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
    from zenturio.schedule.model.problem import Problem
    from zenturio.schedule.static.list_scheduling import heft

    speeds = np.random.default_rng(1).uniform(0.5, 3, MACHINES).tolist()
    machines = tuple(PlatformMachine(f"m{i}", v, site=f"s{i % 4}") for i, v in enumerate(speeds))
    platform = Platform("grid", machines, default=NetworkLink("", "", 1e7, 0.01))
    flow = read_workflow(TRACE)
    heft(Problem.of(scale(flow, 1000), platform))  # compiles
    problem = Problem.of(scale(flow, MILLION), platform)
    begun = time.process_time()
    plan = heft(problem)
    seconds = time.process_time() - begun
    check(plan)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "edges": len(problem.workflow.data), "mebibytes": peak}


def compared(python: Path, *, quick: bool) -> Iterator[dict[str, Any]]:
    """A row for each case, as soon as it is known."""
    for case in (SMALL, *LARGE):
        mine = ours(case)
        saga = None if quick and case != SMALL else asked(python, case)
        equal = saga and math.isclose(saga["makespan"], mine["makespan"], rel_tol=1e-9)
        if case == SMALL and not equal:
            raise SystemExit(f"without data the plans differ: {mine} and {saga}")
        yield {"case": case, "ours": mine, "saga": saga}


def told(row: dict[str, Any]) -> str:
    (tasks, machines, _), mine, saga = row["case"], row["ours"], row["saga"]
    words = f"{tasks:>5}  {machines:>8} {mine['seconds'] * 1e3:>10.2f}"
    if saga:
        words += f" {saga['seconds'] * 1e3:>10.0f} {saga['seconds'] / mine['seconds']:>10,.0f}"
        words += f"  {mine['makespan']:.2f} and {saga['makespan']:.2f}"
    return words


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peer", type=json.loads, help=argparse.SUPPRESS)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "zenturio-benchmarks"
    parser.add_argument("--cache", type=Path, default=cache)
    options = parser.parse_args()
    if options.peer:
        print(json.dumps(theirs(tuple(options.peer))))
        return
    rows = compared(environment(options.cache), quick=options.quick)
    many = million()
    if options.json:
        print(json.dumps({"compared": list(rows), "million": many}, indent=2))
        return
    print(f"a million tasks and {many['edges']:,} edges on {MACHINES} machines: ", end="")
    print(f"{many['seconds']:.2f} s, {many['mebibytes']:.0f} MiB with the workflow\n")
    print("tasks  machines   ours, ms   SAGA, ms      ratio  makespans")
    for row in rows:
        print(told(row), flush=True)


if __name__ == "__main__":
    main()
