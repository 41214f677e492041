"""List scheduling: HEFT, CPOP, PEFT, and plans for tasks whose processors are given.

A list algorithm orders the tasks by a rank and places each, in this order, on the processor where
it finishes first, also in idle gaps between tasks that were placed before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.evaluation import evaluate, problem_arrays, topological_orders
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Adjacency, Floats, Indices
from zenturio.settings.schema import NoSettings

NONE = -1
"""In place of a processor: the one where the task finishes first."""


def mean_times(problem: Problem) -> Floats:
    """Return the mean time of each task over the processors that can run it."""
    # An infinite pace means that the processor cannot run the task: it must not enter the mean.
    fits = np.isfinite(problem.pace)
    total = np.where(fits, problem.pace, 0.0).sum(axis=1)
    times: Floats = problem.work * (total / np.maximum(fits.sum(axis=1), 1))[problem.row]
    return times


def mean_delays(problem: Problem) -> Floats:
    """Return the mean transfer time of each edge between processors of different machines."""
    counts = np.bincount(problem.node)
    sites = np.zeros(len(counts), np.int64)
    sites[problem.node] = problem.site
    processors = np.bincount(problem.site, minlength=len(problem.latency)).astype(np.float64)
    pairs = np.outer(processors, processors)
    # Pairs of processors on the same machine need no transfer.
    pairs -= np.diag(np.bincount(sites, counts.astype(np.float64) ** 2, len(processors)))
    share = pairs / max(pairs.sum(), 1.0)
    slowness = float((share * problem.slowness).sum())
    return float((share * problem.latency).sum()) + problem.workflow.data * slowness


def upward_ranks(problem: Problem, times: Floats, delays: Floats) -> Floats:
    """Return the length of the longest path from each task to an exit, the task included."""
    from zenturio.schedule.kernels.list_scheduling import longest_paths  # noqa: PLC0415 - loads Numba

    ranks: Floats = longest_paths(
        problem.order.astype(np.uint32), times, *child_edges(problem, delays)
    )
    return ranks


def downward_ranks(problem: Problem, times: Floats, delays: Floats) -> Floats:
    """Return the length of the longest path from an entry to each task, the task excluded."""
    from zenturio.schedule.kernels.list_scheduling import longest_paths  # noqa: PLC0415 - loads Numba

    # The longest path from an entry is the longest path to an exit of the reversed graph.
    order = problem.order[::-1].astype(np.uint32)
    path_lengths: Floats = longest_paths(order, times, *_edge_arrays(problem.before, delays))
    return path_lengths - times


def child_edges(problem: Problem, delays: Floats) -> tuple[Any, Any, Any]:
    """Return the successors of each task and their delays, as bare arrays."""
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
    """Return the plan in which each task of *order* takes the first gap that fits.

    A task runs on the processor that *home* has for its group, if any; otherwise on the one where
    its finish time plus its entry in *ahead* is least.
    """
    from zenturio.schedule.kernels.list_scheduling import place_in_gaps  # noqa: PLC0415

    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    place = np.zeros(problem.tasks, np.uint32)
    numbers = problem_arrays(problem)
    choices = (
        order.astype(np.uint32),
        problem.group.astype(np.uint32),
        np.full(problem.tasks, NONE, np.int64) if home is None else home.astype(np.int64),
        np.empty((0, 0)) if ahead is None else ahead,
    )
    if problem.resources is None:
        for kept in _fewer_processors(problem, choices[2]) if ahead is None else ():
            pinned = np.searchsorted(kept.processors, choices[2])
            home_among_kept = np.where(choices[2] == NONE, NONE, pinned)
            fewer = numbers._replace(
                node=kept.node, site=numbers.site[kept.processors],
                pace=np.ascontiguousarray(numbers.pace[:, kept.processors]),
            )  # fmt: skip
            place_in_gaps(fewer, *choices[:2], home_among_kept, choices[3], start, end, place)
            if kept.leaves_idle(place):
                place = kept.processors[place].astype(np.uint32)
                break
        else:
            place_in_gaps(numbers, *choices, start, end, place)
    else:
        from zenturio.schedule.kernels import capacities  # noqa: PLC0415 - loads Numba

        arrays = problem.resources.arrays()
        line = capacities.empty_timeline(arrays, problem.tasks)
        capacities.place_by_capacity(numbers, arrays, line, *choices, start, end, place)
    return Plan(problem, algorithm, place.astype(np.int32), start, check_finite(end), notes or {})


FEWEST_MACHINES, MACHINES_FACTOR = 512, 4
"""Machines of each kind that are tried first where there are many more, and how many times more
are tried next."""
MOST_ROWS = 16
"""Rows of times for which kinds of machines are sought; where there are more, few are equal."""


@dataclass(frozen=True)
class _FewerProcessors:
    """The first machines of each kind, and those that tasks are bound to."""

    processors: NDArray[np.intp]
    node: NDArray[np.uint32]
    """The machine of each of these processors, numbered anew."""
    spare: NDArray[np.intp]
    """For each kind with more machines than that, one row: its machines among these."""

    def leaves_idle(self, place: NDArray[np.uint32]) -> bool:
        """Return whether each kind with more machines has one here that no task uses."""
        used = np.zeros(int(self.node[-1]) + 1, np.bool_)
        used[self.node[place]] = True
        return not used[self.spare].all(axis=1).any()


def _fewer_processors(problem: Problem, home: NDArray[np.int64]) -> Iterator[_FewerProcessors]:
    """Yield more and more of the processors of a large platform; none of a small one.

    Of equal machines that nothing runs on, a list heuristic takes the first. So where a plan leaves
    one of each kind idle, it is the plan for any number of them, and costs what so many cost.
    """
    machines = int(problem.node[-1]) + 1
    if machines <= 2 * FEWEST_MACHINES or len(problem.pace) > MOST_ROWS:
        return
    first = np.searchsorted(problem.node, np.arange(machines))
    size = np.diff(np.append(first, len(problem.node)))
    facts = np.vstack([problem.site[first], size, problem.pace[:, first]])
    _, kind = np.unique(facts, axis=1, return_inverse=True)
    by_kind = np.argsort(kind.ravel(), kind="stable")
    count = np.bincount(kind.ravel())
    rank = np.empty(machines, np.int64)
    rank[by_kind] = np.arange(machines) - np.repeat(np.cumsum(count) - count, count)
    bound = np.zeros(machines, np.bool_)
    bound[problem.node[home[home != NONE]]] = True
    most = FEWEST_MACHINES
    while (is_kept := (rank < most) | bound).sum() * 2 <= machines:
        number = np.cumsum(is_kept) - 1
        processors = np.flatnonzero(is_kept[problem.node])
        is_spare = (rank[by_kind] < most) & (count[kind.ravel()[by_kind]] > most)
        yield _FewerProcessors(
            processors,
            number[problem.node[processors]].astype(np.uint32),
            number[by_kind[is_spare]].reshape(-1, most),
        )
        most *= MACHINES_FACTOR


def check_finite(end: Floats) -> Floats:
    """Return *end*; InputError if a task was placed where it cannot run."""
    if not np.isfinite(end).all():
        raise InputError("an algorithm put a task where it cannot run")
    return end


class Heft:
    """Place tasks by upward rank, each where it finishes first, also in idle gaps (HEFT).

    Good for nearly every workflow: try this one first. It is usually the best of the list
    heuristics. Not good if a few tasks dominate and machines are specialised: each task takes the
    processor that is best for itself. On 24 such instances, plans were on average 12% longer than
    the optimum. Cost: tasks x processors; a million tasks on 300 processors take seconds. H.
    Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling for
    heterogeneous computing. IEEE TPDS 13(3), 2002.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """Return the plan: mean ranks as in section 4.1, insertion as in section 4.2."""
        rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
        return list_schedule(problem, "heft", topological_orders(problem, -rank))


def heft(problem: Problem) -> Plan:
    """Return the plan of HEFT, for algorithms that begin with it."""
    return Heft().plan(problem)


TIE_TOLERANCE = 1e-9
"""Relative difference below which two path lengths are equal, as sums in another order."""


class Cpop:
    """Run the critical path on its best processor, and the other tasks around it (CPOP).

    Good for workflows with one long path and large data, which stay on one processor. Not good if
    many paths are about equally long, or if the tasks of the path are fastest on different
    machines: HEFT is better then, as it usually is. Cost: that of HEFT. H. Topcuoglu, S. Hariri,
    M.-Y. Wu: Performance-effective and low-complexity task scheduling for heterogeneous computing.
    IEEE TPDS 13(3), 2002.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """Return the plan, which places ready tasks on the longest entry-to-exit path first
        (section 4.3).
        """
        times, delays = mean_times(problem), mean_delays(problem)
        upward = upward_ranks(problem, times, delays)
        through = upward + downward_ranks(problem, times, delays)
        path = critical_path(problem, upward, delays)
        home = np.full(problem.tasks, NONE)
        if path:
            home[problem.group[path]] = _processor_of(problem, path)
            # The best processor of the path need not be able to run each of its tasks.
            able = np.isfinite(problem.pace[problem.row, home[problem.group]])
            home[problem.group[~able]] = NONE  # placed where it finishes first
        names = [problem.workflow.names[task] for task in path]
        notes = {"critical path": names}
        return list_schedule(
            problem, "cpop", topological_orders(problem, -through), home, notes=notes
        )


def critical_path(problem: Problem, upward: Floats, delays: Floats) -> list[int]:
    """Return the tasks of the longest path; *upward* has the upward ranks."""
    if not problem.tasks:
        return []
    first = np.flatnonzero(np.diff(problem.before.start) == 0)
    path, after = [_highest(first, upward[first])], problem.after
    # Every task of the path is followed by the child with the longest way to an exit.
    while True:
        edges = slice(after.start[path[-1]], after.start[path[-1] + 1])
        if edges.start == edges.stop:
            return path
        children = after.task[edges]
        path.append(_highest(children, delays[after.edge[edges]] + upward[children]))


def _highest(tasks: NDArray[Any], lengths: Floats) -> int:
    """Return the task with the greatest length; the lowest number on ties."""
    return int(tasks[lengths >= lengths.max() * (1 - TIE_TOLERANCE)].min())


def _processor_of(problem: Problem, path: list[int]) -> int:
    """Return the processor that can run most of *path*, in the least time on ties."""
    times = problem.pace[problem.row[path]]
    fits = np.isfinite(times)
    total = (np.where(fits, times, 0.0) * problem.work[path][:, None]).sum(axis=0)
    return int(np.lexsort((total, -fits.sum(axis=0)))[0])


class Peft:
    """Place each task where its finish time plus its optimistic cost is least (PEFT).

    Good for specialised machines: it considers the effect of a choice on later tasks. Not good for
    a million tasks, because its table has an entry for each task on each processor. Not good for
    large data and much work on few processors, because its estimate ignores queues. Cost: edges x
    processors, in time and memory. H. Arabnejad, J. G. Barbosa: List scheduling algorithm for
    heterogeneous systems by an optimistic cost table. IEEE TPDS 25(3), 2014.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """Return the plan, which places ready tasks by the mean of their row in the cost table."""
        table = optimistic_costs(problem)
        order = topological_orders(problem, -table.mean(axis=1))
        return list_schedule(problem, "peft", order, ahead=table)


def optimistic_costs(problem: Problem) -> Floats:
    """Return for each task on each processor the least time of what follows (equation 5)."""
    from zenturio.schedule.kernels.list_scheduling import optimistic_cost_table  # noqa: PLC0415 - loads Numba

    start, child, delay = child_edges(problem, mean_delays(problem))
    order = problem.order.astype(np.uint32)
    table: Floats = optimistic_cost_table(problem_arrays(problem), order, start, child, delay)
    return table


def plan_as_assigned(problem: Problem) -> Plan:
    """Return the plan with each task on the processor its ``machine`` names, by rank.

    Raise InputError if a task names no processor of the platform.
    """
    number = {name: i for i, name in enumerate(processor_names(problem))}
    processors = np.zeros(problem.tasks, np.int32)
    for task in range(problem.tasks):
        name = problem.workflow.task(task).machine
        if name not in number:
            hint = did_you_mean(name, number) if name else "--algorithm NAME or --plan FILE decide"
            raise InputError(
                f"task {problem.workflow.names[task]!r} is not assigned: {name!r} is not a "
                f"processor of {problem.platform.name}",
                hint=hint,
            )
        processors[task] = number[name]
    return evaluate(
        problem,
        processors,
        topological_orders(problem, -ranks_as_placed(problem, processors)),
        "assigned",
    )


def processor_names(problem: Problem) -> list[str]:
    """Return the name of each processor: its machine's, with a core number if needed."""
    counts = np.bincount(problem.node, minlength=len(problem.platform)).tolist()
    return [
        f"{machine.name}/{core}" if count > 1 else machine.name
        for machine, count in zip(problem.platform.machines, counts, strict=True)
        for core in range(count)
    ]


def ranks_as_placed(problem: Problem, processors: Indices) -> Floats:
    """Return the upward rank of each task when all tasks run as placed."""
    flow, times = problem.workflow, problem.work * problem.pace[problem.row, processors]
    a, b = processors[flow.sources], processors[flow.targets]
    source_site, target_site = problem.site[a], problem.site[b]
    delays = (
        problem.latency[source_site, target_site]
        + flow.data * problem.slowness[source_site, target_site]
    )
    crosses = problem.node[a] != problem.node[b]
    return upward_ranks(problem, times, np.where(crosses, delays, 0.0))
