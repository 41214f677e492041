"""What list algorithms share: means, ranks, and placing tasks in an order."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.evaluation import evaluate, problem_arrays, topological_orders
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Adjacency, Floats, Indices
from zenturio.search.settings import NoSettings

NONE = -1
"""In place of a processor: the one where the task ends first."""


def mean_times(problem: Problem) -> Floats:
    """The mean time of each task over the processors that can run it."""
    fits = np.isfinite(problem.pace)
    total = np.where(fits, problem.pace, 0.0).sum(axis=1)
    found: Floats = problem.work * (total / np.maximum(fits.sum(axis=1), 1))[problem.row]
    return found


def mean_delays(problem: Problem) -> Floats:
    """The mean time that the data of each edge take between two processors of two machines."""
    counts = np.bincount(problem.node)
    sites = np.zeros(len(counts), np.int64)
    sites[problem.node] = problem.site
    processors = np.bincount(problem.site, minlength=len(problem.latency)).astype(np.float64)
    pairs = np.outer(processors, processors)
    pairs -= np.diag(np.bincount(sites, counts.astype(np.float64) ** 2, len(processors)))
    share = pairs / max(pairs.sum(), 1.0)
    slowness = float((share * problem.slowness).sum())
    return float((share * problem.latency).sum()) + problem.workflow.data * slowness


def upward_ranks(problem: Problem, times: Floats, delays: Floats) -> Floats:
    """The longest way from each task to an end: times of tasks and delays of edges."""
    from zenturio.schedule.kernels.list_scheduling import longest_paths  # noqa: PLC0415 - loads Numba

    ranks: Floats = longest_paths(
        problem.order.astype(np.uint32), times, *child_edges(problem, delays)
    )
    return ranks


def downward_ranks(problem: Problem, times: Floats, delays: Floats) -> Floats:
    """The longest way from a beginning to each task, which does not count itself."""
    from zenturio.schedule.kernels.list_scheduling import longest_paths  # noqa: PLC0415 - loads Numba

    order = problem.order[::-1].astype(np.uint32)
    ways: Floats = longest_paths(order, times, *_edge_arrays(problem.before, delays))
    return ways - times


def child_edges(problem: Problem, delays: Floats) -> tuple[Any, Any, Any]:
    """What follows each task, and after which delay, as bare arrays."""
    return _edge_arrays(problem.after, delays)


def _edge_arrays(links: Adjacency, delays: Floats) -> tuple[Any, Any, Any]:
    return links.start.astype(np.uint64), links.task.astype(np.uint32), delays[links.edge]


def list_schedule(
    problem: Problem,
    algorithm: str,
    order: Indices,
    home: Indices | None = None,
    ahead: Floats | None = None,
    notes: dict[str, Any] | None = None,
) -> Plan:
    """The plan in which each task of *order* is put into the first gap that fits.

    On the processor that *home* has for its group, if any; else on the one where its end, and
    what *ahead* has for it there, are least.
    """
    from zenturio.schedule.kernels.list_scheduling import place_in_gaps  # noqa: PLC0415

    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    place = np.zeros(problem.tasks, np.uint32)
    place_in_gaps(
        problem_arrays(problem),
        order.astype(np.uint32),
        problem.group.astype(np.uint32),
        np.full(problem.tasks, NONE, np.int64) if home is None else home.astype(np.int64),
        np.empty((0, 0)) if ahead is None else ahead,
        start,
        end,
        place,
    )
    return Plan(problem, algorithm, place.astype(np.int32), start, check_finite(end), notes or {})


def check_finite(end: Floats) -> Floats:
    """*end*, of which each must be finite: every task runs where it can."""
    if not np.isfinite(end).all():
        raise InputError("an algorithm put a task where it cannot run")
    return end


class Heft:
    """The longest way to an end first, each task where it ends first, in gaps as well (HEFT).

    For nearly every workflow, and the first to try: of the list heuristics it is mostly the best.
    Not where a few tasks decide and machines differ in what they are good at: each task takes
    what is best for itself, which cost 11% on average over the optimum of 24 such instances.
    Cost: tasks x processors; a million tasks on 300 processors take seconds.
    H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling
    for heterogeneous computing. IEEE TPDS 13(3), 2002.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """Ranks by mean times and mean transfers, as in section 4.1; insertion as in 4.2."""
        rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
        return list_schedule(problem, "heft", topological_orders(problem, -rank))


def heft(problem: Problem) -> Plan:
    """The plan of HEFT, for algorithms that begin with it."""
    return Heft().plan(problem)


TIE_TOLERANCE = 1e-9
"""By which part of them the lengths of equal ways may differ, added up in another order."""


class Cpop:
    """The critical path on the processor that is best for it, the others around it (CPOP).

    For workflows with one long path whose data are large: they never leave a processor. Not where
    many paths are about as long, nor where the tasks of the path are best on machines of several
    kinds: then HEFT is better, as it mostly is.
    Cost: that of HEFT.
    H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling
    for heterogeneous computing. IEEE TPDS 13(3), 2002.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """Section 4.3: of the ready tasks, that on the longest way from a beginning to an end."""
        times, delays = mean_times(problem), mean_delays(problem)
        upward = upward_ranks(problem, times, delays)
        through = upward + downward_ranks(problem, times, delays)
        path = critical_path(problem, upward, delays)
        home = np.full(problem.tasks, NONE)
        if path:
            home[problem.group[path]] = _processor_of(problem, path)
            able = np.isfinite(problem.pace[problem.row, home[problem.group]])
            home[problem.group[~able]] = NONE  # what cannot run there goes where it ends first
        names = [problem.workflow.names[task] for task in path]
        notes = {"critical path": names}
        return list_schedule(
            problem, "cpop", topological_orders(problem, -through), home, notes=notes
        )


def critical_path(problem: Problem, upward: Floats, delays: Floats) -> list[int]:
    """The tasks on the longest way; *upward* has the longest from each task to an end."""
    if not problem.tasks:
        return []
    first = np.flatnonzero(np.diff(problem.before.start) == 0)
    found, after = [_highest(first, upward[first])], problem.after
    while True:
        edges = slice(after.start[found[-1]], after.start[found[-1] + 1])
        if edges.start == edges.stop:
            return found
        behind = after.task[edges]
        found.append(_highest(behind, delays[after.edge[edges]] + upward[behind]))


def _highest(tasks: NDArray[Any], lengths: Floats) -> int:
    """Of *tasks*, that with the greatest of *lengths*; the lowest of those that are as good."""
    return int(tasks[lengths >= lengths.max() * (1 - TIE_TOLERANCE)].min())


def _processor_of(problem: Problem, path: list[int]) -> int:
    """The processor that runs most of *path*; of several, in the least time."""
    times = problem.pace[problem.row[path]]
    fits = np.isfinite(times)
    total = (np.where(fits, times, 0.0) * problem.work[path][:, None]).sum(axis=0)
    return int(np.lexsort((total, -fits.sum(axis=0)))[0])


class Peft:
    """Each task where its end and what must follow it there take least (PEFT).

    For machines that differ in what they are good at: it knows what a choice costs the tasks
    behind. Not for a million tasks: the table has a number for each task on each processor. Nor
    for large data and much work for few processors: what it foresees has no queues.
    Cost: edges x processors, in time and memory.
    H. Arabnejad, J. G. Barbosa: List scheduling algorithm for heterogeneous systems by an
    optimistic cost table. IEEE TPDS 25(3), 2014.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """Of the ready tasks, that with the highest mean of its row in the table."""
        table = optimistic_costs(problem)
        order = topological_orders(problem, -table.mean(axis=1))
        return list_schedule(problem, "peft", order, ahead=table)


def optimistic_costs(problem: Problem) -> Floats:
    """For each task on each processor, how long what follows takes at best (equation 5)."""
    from zenturio.schedule.kernels.list_scheduling import optimistic_cost_table  # noqa: PLC0415 - loads Numba

    start, child, delay = child_edges(problem, mean_delays(problem))
    order = problem.order.astype(np.uint32)
    table: Floats = optimistic_cost_table(problem_arrays(problem), order, start, child, delay)
    return table


def plan_as_assigned(problem: Problem) -> Plan:
    """Each task on the processor that its ``machine`` names, the most urgent of each first."""
    number = {name: i for i, name in enumerate(processor_names(problem))}
    where = np.zeros(problem.tasks, np.int32)
    for task in range(problem.tasks):
        name = problem.workflow.task(task).machine
        if name not in number:
            hint = did_you_mean(name, number) if name else "--algorithm NAME or --plan FILE decide"
            raise InputError(
                f"task {problem.workflow.names[task]!r} does not say where it runs: {name!r} is no "
                f"processor of {problem.platform.name}",
                hint=hint,
            )
        where[task] = number[name]
    return evaluate(
        problem, where, topological_orders(problem, -ranks_as_placed(problem, where)), "assigned"
    )


def processor_names(problem: Problem) -> list[str]:
    """The name of each processor: its machine's, and which core it is, if there are several."""
    counts = np.bincount(problem.node, minlength=len(problem.platform)).tolist()
    return [
        f"{machine.name}/{core}" if count > 1 else machine.name
        for machine, count in zip(problem.platform.machines, counts, strict=True)
        for core in range(count)
    ]


def ranks_as_placed(problem: Problem, where: Indices) -> Floats:
    """Seconds from the start of each task to the end of the longest path from it, as placed."""
    flow, times = problem.workflow, problem.work * problem.pace[problem.row, where]
    a, b = where[flow.sources], where[flow.targets]
    here, there = problem.site[a], problem.site[b]
    moved = problem.latency[here, there] + flow.data * problem.slowness[here, there]
    apart = problem.node[a] != problem.node[b]
    return upward_ranks(problem, times, np.where(apart, moved, 0.0))
