"""How fast plans are evaluated: against CPython, NumPy over a population, and C.

    python benchmarks/schedule.py [--json] [--rounds N] [--tasks N ...]

A random workflow of 100 tasks and 250 edges, with data on them, is placed on 300 machines at four
sites: who runs what and in which order is given, when each task starts and ends is wanted, and so
the makespan. Ours is the kernel that algorithms call for a whole population, beside it the public
function with its checks. C is the same loop, compiled by cc -O3 -march=native in the same run;
NumPy goes through the tasks once and computes all plans of the population abreast. The answers of
all must agree. Then larger workflows: the time for each task must not grow.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from zenturio.schedule.model.evaluation import makespans, problem_arrays
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

MACHINES, SITES = 300, 4
PROGRAM = r"""
#include <stdint.h>
#include <stdlib.h>

void evaluate(long plans, long tasks, long machines, long sites, const double *work,
              const uint32_t *row, const double *pace, const uint64_t *start,
              const uint32_t *parent, const double *data, const uint32_t *node,
              const uint32_t *site, const double *latency, const double *slowness,
              const uint32_t *processors, const uint32_t *orders, double *makespans) {
  double *free_at = malloc(machines * sizeof(double)), *end = malloc(tasks * sizeof(double));
  for (long i = 0; i < plans; i++) {
    const uint32_t *processor = processors + i * tasks, *order = orders + i * tasks;
    double makespan = 0;
    for (long m = 0; m < machines; m++) free_at[m] = 0;
    for (long k = 0; k < tasks; k++) {
      uint32_t task = order[k], place = processor[task];
      double begin = free_at[place];
      for (uint64_t edge = start[task]; edge < start[task + 1]; edge++) {
        uint32_t origin = processor[parent[edge]];
        double ready = end[parent[edge]];
        if (node[origin] != node[place]) {
          size_t pair = (size_t)site[origin] * sites + site[place];
          ready += latency[pair] + data[edge] * slowness[pair];
        }
        if (ready > begin) begin = ready;
      }
      double stop = begin + work[task] * pace[(size_t)row[task] * machines + place];
      end[task] = free_at[place] = stop;
      if (stop > makespan) makespan = stop;
    }
    makespans[i] = makespan;
  }
  free(free_at);
  free(end);
}
"""
Evaluate = Callable[[], Any]


def problem(tasks: int) -> Problem:
    """The same one every time, with five edges for two tasks."""
    chance = np.random.default_rng(2005)
    pairs: dict[tuple[int, int], float] = {}
    while len(pairs) < tasks * 5 // 2:
        a, b = sorted(chance.integers(tasks, size=2).tolist())
        if a != b:
            pairs[a, b] = float(chance.uniform(0, 5))
    flow = Workflow.of(
        f"random-{tasks}",
        [WorkflowTask(f"t{i}", float(chance.uniform(1, 9))) for i in range(tasks)],
        [(f"t{a}", f"t{b}", size) for (a, b), size in pairs.items()],
    )
    sites = chance.integers(SITES, size=MACHINES).tolist()
    speeds = chance.uniform(0.5, 3, size=MACHINES).tolist()
    machines = [
        PlatformMachine(f"m{i}", v, site=f"s{s}")
        for i, (v, s) in enumerate(zip(speeds, sites, strict=True))
    ]
    return Problem.of(
        flow, Platform("grid", tuple(machines), default=NetworkLink("", "", 2.0, 0.25))
    )


def in_c(given: Any, processors: Any, orders: Any, folder: Path) -> Evaluate:
    """The loop in C, on the same arrays."""
    (folder / "evaluate.c").write_text(PROGRAM)
    library = folder / "evaluate.so"
    flags = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", library, folder / "evaluate.c"], check=True)
    function = ctypes.CDLL(str(library)).evaluate
    found = np.empty(len(processors))
    sizes = [len(processors), len(given.work), len(given.node), len(given.latency)]
    arrays = [*given[:10], processors, orders, found]
    arguments = [
        *map(ctypes.c_long, sizes),
        *(ctypes.c_void_p(each.ctypes.data) for each in arrays),
    ]

    def run() -> Any:
        function(*arguments)
        return found

    return run


def in_kernel(given: Any, processors: Any, orders: Any) -> Evaluate:
    from zenturio.schedule.kernels.plan_times import all_makespans

    found = np.empty(len(processors))

    def run() -> Any:
        all_makespans(given, processors, orders, found)
        return found

    return run


def in_numpy(given: Any, processors: Any, orders: Any) -> Evaluate:
    """Task by task in one order for all, each for the whole population at once."""
    (order,) = np.unique(orders, axis=0)
    site = given.site[processors]
    rows = np.arange(len(processors))

    def run() -> Any:
        free = np.zeros((len(processors), len(given.node)))
        end = np.empty(processors.shape)
        for task in order.tolist():
            place = processors[:, task]
            begin = free[rows, place]
            for edge in range(int(given.start[task]), int(given.start[task + 1])):
                parent = given.parent[edge]
                here, there = site[:, parent], site[:, task]
                moved = given.latency[here, there] + given.data[edge] * given.slowness[here, there]
                moved[processors[:, parent] == place] = 0.0
                begin = np.maximum(begin, end[:, parent] + moved)
            end[:, task] = begin + given.work[task] * given.pace[given.row[task], place]
            free[rows, place] = end[:, task]
        return end.max(axis=1)

    return run


def in_python(given: Any, processors: Any, orders: Any) -> Evaluate:
    """The loop as one writes it in Python, on lists: what is looked up often has a short name."""
    work, row, pace = given.work.tolist(), given.row.tolist(), given.pace.tolist()
    start, parents, data = given.start.tolist(), given.parent.tolist(), given.data.tolist()
    site, latency, slowness = given.site.tolist(), given.latency.tolist(), given.slowness.tolist()
    before = [
        list(zip(parents[start[t] : start[t + 1]], data[start[t] : start[t + 1]], strict=True))
        for t in range(len(work))
    ]
    plans, sequences = processors.tolist(), orders.tolist()

    def one(processor: list[int], order: list[int]) -> float:
        free = [0.0] * len(site)
        end = [0.0] * len(work)
        for task in order:
            place = processor[task]
            begin = free[place]
            for parent, size in before[task]:
                origin = processor[parent]
                ready = end[parent]
                if origin != place:
                    here, there = site[origin], site[place]
                    ready += latency[here][there] + size * slowness[here][there]
                if ready > begin:  # noqa: PLR1730 - max takes twice as long
                    begin = ready
            end[task] = free[place] = begin + work[task] * pace[row[task]][place]
        return max(end)

    return lambda: np.array([one(*each) for each in zip(plans, sequences, strict=True)])


def timed(ways: dict[str, tuple[Evaluate, int]], rounds: int) -> dict[str, float]:
    """Seconds of CPU for a plan: the median of rounds in which all ways take turns."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (run, plans) in ways.items():
            begun = time.process_time()
            run()
            found[name].append((time.process_time() - begun) / plans)
    return {name: statistics.median(each) for name, each in found.items()}


def compare(tasks: int, rounds: int, *, all_ways: bool) -> dict[str, float]:
    """Seconds for one evaluation in each way, which must all find the same."""
    given = problem_arrays(problem(tasks))
    chance = np.random.default_rng(1)
    plans = max(400_000 // tasks, 16)
    processors = chance.integers(MACHINES, size=(plans, tasks)).astype(np.uint32)
    orders = np.tile(np.arange(tasks, dtype=np.uint32), (plans, 1))
    few = max(plans // 20, 1)
    with tempfile.TemporaryDirectory(prefix="zen-schedule-") as folder:
        ways = {
            "C -O3": (in_c(given, processors, orders, Path(folder)), plans),
            "kernel": (in_kernel(given, processors, orders), plans),
            "makespans()": (lambda: makespans(given, processors, orders), plans),
        }
        if all_ways:
            ways["NumPy"] = (in_numpy(given, processors, orders), plans)
            ways["CPython"] = (in_python(given, processors[:few], orders[:few]), few)
        wanted = ways["C -O3"][0]()
        for name, (run, count) in ways.items():
            if not np.allclose(run(), wanted[:count], rtol=1e-12):
                raise SystemExit(f"{name} does not find what C finds")
        return timed(ways, rounds)


def evaluation(sizes: list[int], rounds: int) -> dict[str, dict[str, float]]:
    return {str(n): compare(n, rounds, all_ways=n == sizes[0]) for n in sizes}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tasks", type=int, nargs="+", default=[100, 1000, 10_000])
    options = parser.parse_args()
    found = {"evaluation": evaluation(options.tasks, options.rounds)}
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"One evaluation of a plan on {MACHINES} machines\n")
    print(f"{'tasks':>6}  {'way':12} {'us':>10}  {'of C':>7}  {'ns a task':>9}")
    for tasks, ways in found["evaluation"].items():
        for name, seconds in sorted(ways.items(), key=lambda way: way[1]):
            ratio = seconds / ways["C -O3"]
            each = seconds / int(tasks) * 1e9
            print(f"{tasks:>6}  {name:12} {seconds * 1e6:10.3f}  {ratio:7.2f}  {each:9.2f}")


if __name__ == "__main__":
    main()
