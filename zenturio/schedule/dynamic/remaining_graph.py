"""The unfinished part of a running workflow, as an acyclic problem for a static algorithm.

The graph is that of section 5.2 of "Dynamic Scheduling of Scientific Workflow Applications on the
Grid" (SAC 2005); where its formulas and its text differ, the text is followed
(decisions/dynamic.md). In the problem, tasks that keep running occupy their processors until they
are expected to end, and finished tasks stay where they ran. A loaded machine is slower accordingly;
a failed one is avoided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.model.loops import find_loops, single_iteration
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.shared_resources import Resources
from zenturio.schedule.model.workflow import Adjacency, Floats, Indices, Workflow
from zenturio.schedule.simulate.machine_state import MachineState

RemainderState = Literal["queued", "running", "completed", "failed"]
"""``failed``: lost with its machine, and not sent again."""
TaskSet = frozenset[int]
EdgeSet = frozenset[int]
IterationOrder = NDArray[np.int64]


@dataclass(frozen=True)
class Remainder:
    """The tasks to be planned, and the edges between them, by number."""

    migrating: TaskSet
    queued: TaskSet
    later: TaskSet
    """Tasks that have run in this iteration of a loop; they are next in the following iteration."""
    edges: EdgeSet

    @cached_property
    def tasks(self) -> tuple[int, ...]:
        return tuple(sorted(self.migrating | self.queued))


def remaining_graph(
    flow: Workflow,
    states: Sequence[RemainderState],
    contracts: Mapping[int, float],
    factor: float,
    course: IterationOrder | None = None,
) -> Remainder:
    """Return the graph A_t: Nodes_Migr and Nodes_Queued, and the edges between them.

    *contracts* has by which share running tasks are late: those beyond *factor* migrate. *course*
    is the `iteration_order` of the workflow, for callers that ask often. The edges are Edges_DAG
    without Edges_Migr and Edges_Queued.
    """
    migrating_tasks, queued_tasks = migrating(flow, states, contracts, factor), queued(flow, states)
    all_edges = edges_between(flow, migrating_tasks | queued_tasks)
    edges = all_edges - edges_migrating(flow, queued_tasks, migrating_tasks)
    later = frozenset(
        task for task in queued_tasks - migrating_tasks if states[task] == "completed"
    )
    positions = course if course is not None else iteration_order(flow)
    return Remainder(
        migrating_tasks, queued_tasks, later, edges - edges_closing(flow, edges, positions, later)
    )


def migrating(
    flow: Workflow, states: Sequence[RemainderState], contracts: Mapping[int, float], factor: float
) -> TaskSet:
    """Return Nodes_Migr: failed or late tasks, and what must be rerun because of them.

    With a task, the unfinished tasks on its abstract machine migrate too, so what these need there
    is rerun as well.
    """
    tasks = {
        task
        for task, state in enumerate(states)
        if state == "failed" or (state == "running" and contracts.get(task, 0.0) > factor)
    }
    machines = {flow.task(task).machine for task in tasks} - {""}
    mates = {
        task
        for task, description in flow.more.items()
        if description.machine in machines and states[task] != "completed"
    }
    return frozenset(tasks.union(*(must_rerun(flow, states, task) for task in tasks | mates)))


def must_rerun(flow: Workflow, states: Sequence[RemainderState], task: int) -> TaskSet:
    """Return Nodes_N: completed tasks that must be rerun when *task* migrates.

    These ran before it on its abstract machine, or transferred files there.
    """
    machine = flow.task(task).machine
    if not machine:
        return frozenset()
    ancestors = _reachable(flow.before, [task])
    return frozenset(
        ancestor
        for ancestor in ancestors
        if states[ancestor] == "completed" and _output_machine(flow, ancestor) == machine
    )


def queued(flow: Workflow, states: Sequence[RemainderState]) -> TaskSet:
    """Return Nodes_Queued: queued tasks, and completed ones that a loop will run again."""
    waiting = {task for task, state in enumerate(states) if state == "queued"}
    if flow.looped:
        unfinished = [task for task, state in enumerate(states) if state != "completed"]
        waiting |= {t for t in _reachable(flow.after, unfinished) if states[t] == "completed"}
    return frozenset(waiting)


def edges_between(flow: Workflow, tasks: Collection[int]) -> EdgeSet:
    """Return Edges_DAG: the edges between any two of *tasks*."""
    inside = _mask(flow, tasks)
    return _edges(inside[flow.sources] & inside[flow.targets])


def edges_migrating(flow: Workflow, queued: TaskSet, migrating: TaskSet) -> EdgeSet:
    """Return Edges_Migr: from queued to migrating tasks, which have waited for them already."""
    is_waiting, is_migrating = _mask(flow, queued - migrating), _mask(flow, migrating)
    return _edges(is_waiting[flow.sources] & is_migrating[flow.targets])


def edges_closing(
    flow: Workflow, edges: Iterable[int], course: IterationOrder, later: TaskSet
) -> EdgeSet:
    """Return Edges_Queued: those of *edges* that lead back in the order of *course*.

    Tasks in *later* run after all others.
    """
    place = course + len(flow) * _mask(flow, later)
    return _edges(place[flow.sources] >= place[flow.targets]).intersection(edges)


def iteration_order(flow: Workflow) -> IterationOrder:
    """Return for each task how many run before it in an iteration."""
    place = np.empty(len(flow), np.int64)
    place[single_iteration(flow, find_loops(flow)).order] = np.arange(len(flow))
    return place


def _output_machine(flow: Workflow, task: int) -> str:
    """Return the abstract machine on which *task* leaves its output."""
    description = flow.task(task)
    return description.target if description.kind == "transfer" else description.machine


def _reachable(links: Adjacency, tasks: Sequence[int]) -> set[int]:
    """Return all ancestors (pred^p) or descendants (succ^p) of *tasks*."""
    reached: set[int] = set()
    pending = list(tasks)
    while pending:
        for neighbour in links.of(pending.pop()).tolist():
            if neighbour not in reached:
                reached.add(neighbour)
                pending.append(neighbour)
    return reached


def _mask(flow: Workflow, tasks: Collection[int]) -> NDArray[np.bool_]:
    mask = np.zeros(len(flow), bool)
    mask[list(tasks)] = True
    return mask


def _edges(mask: NDArray[np.bool_]) -> EdgeSet:
    return frozenset(np.flatnonzero(mask).tolist())


FAILED_SHARE = 1e-9
"""The share of its speed that a failed machine seems to give, because it may recover."""


@dataclass(frozen=True)
class Snapshot:
    """The unfinished part of a running workflow as a problem."""

    problem: Problem
    tasks: tuple[int, ...]
    """The original number of each task of the problem: first those to be planned."""
    planned: int
    """The number of tasks to be planned."""


def snapshot(grid: MachineState, remainder: Remainder) -> Snapshot:
    """Return the problem of *remainder*'s tasks and the running or finished tasks they need."""
    problem, flow = grid.problem, grid.problem.workflow
    inside = set(remainder.tasks)
    running = [
        run.task for runs in grid.running for run in runs if run.task not in remainder.migrating
    ]
    edge_ends = zip(flow.sources.tolist(), flow.targets.tolist(), flow.data.tolist(), strict=True)
    edges = [
        (a, b, data)
        for edge, (a, b, data) in enumerate(edge_ends)
        if edge in remainder.edges or (b in inside and a not in inside)
    ]
    # Finished or running predecessors enter the problem as tasks that can only be where they are.
    fixed_tasks = sorted({a for a, _, _ in edges}.union(running) - inside)
    tasks = (*remainder.tasks, *fixed_tasks)
    number = {task: i for i, task in enumerate(tasks)}
    work = problem.work[list(tasks)].copy()
    for task in fixed_tasks:
        work[number[task]] = grid.remaining(task) if grid.state[task] == "running" else 0.0
    row, pace = _pace_rows(grid, remainder, tasks)
    names = [flow.names[task] for task in tasks]
    sources = np.array([number[a] for a, _, _ in edges], np.int32)
    targets = np.array([number[b] for _, b, _ in edges], np.int32)
    data = np.array([data for _, _, data in edges], np.float64)
    unfinished = Workflow(flow.name, names, work, sources, targets, data)
    group = _group_numbers(problem.group[list(remainder.tasks)].tolist(), len(fixed_tasks))
    remaining_problem = Problem(
        unfinished, problem.platform, work, row, pace, group,
        problem.node, problem.site, problem.latency, problem.slowness,
        _resources_left(grid, tasks),
    )  # fmt: skip
    return Snapshot(remaining_problem, tasks, len(remainder.tasks))


def _resources_left(grid: MachineState, tasks: Sequence[int]) -> Resources | None:
    """Return the resources of *tasks*, with the time that machines still boot."""
    resources = grid.problem.resources
    if resources is None:
        return None
    boot = [
        seconds if booted is None else max(booted - grid.now, 0.0)
        for seconds, booted in zip(resources.boot.tolist(), grid.booted, strict=True)
    ]
    return replace(resources.of(tasks), boot=np.array(boot))


def pinned_groups(grid: MachineState, remainder: Remainder) -> dict[int, int]:
    """Return the processor of each group of tasks that cannot be moved.

    One of its tasks runs or has run there, and its output there is needed.
    """
    group: list[int] = grid.problem.group.tolist()
    migrating = {group[task] for task in remainder.migrating}
    needed = {group[task] for task in remainder.queued - remainder.later} - migrating
    return {
        group[task]: grid.where[task]
        for task, state in enumerate(grid.state)
        if state in {"running", "done"} and group[task] in needed
    }


def loaded_seconds(grid: MachineState, task: int, processor: int) -> float:
    """Return the seconds of *task* on *processor*, if its load stays as it is."""
    return grid.time(task, processor) / (grid.share[grid.node[processor]] or FAILED_SHARE)


def _pace_rows(
    grid: MachineState, remainder: Remainder, tasks: tuple[int, ...]
) -> tuple[Indices, Floats]:
    """Return the row of each task, and the pace of each row on all processors."""
    problem = grid.problem
    shares = np.array(grid.share)[problem.node]
    slowed = problem.pace / np.maximum(shares, FAILED_SHARE)
    paces = [_without_failed(row, shares) for row in slowed]
    homes = pinned_groups(grid, remainder)
    inside = set(remainder.tasks)
    pinned: dict[tuple[int, int], int] = {}
    rows = np.empty(len(tasks), np.int32)
    for i, task in enumerate(tasks):
        base = int(problem.row[task]) if task in inside else -1
        home = homes.get(int(problem.group[task]), -1) if task in inside else grid.where[task]
        if home < 0:
            rows[i] = base
            continue
        if (base, home) not in pinned:
            pinned[base, home] = len(paces)
            row = np.full(problem.processors, inf)
            row[home] = slowed[base, home] if base >= 0 else 1 / max(shares[home], FAILED_SHARE)
            paces.append(row)
        rows[i] = pinned[base, home]
    return rows, np.array(paces)


def _without_failed(row: Floats, shares: Floats) -> Floats:
    """Return *row* without failed machines, unless no other can run the task."""
    alive = np.where(shares > 0, row, inf)
    return alive if np.isfinite(alive).any() else row


def _group_numbers(groups: list[int], unplanned: int) -> Indices:
    """Return the first task of each task's group; tasks that are not planned are alone."""
    first: dict[int, int] = {}
    numbers = [first.setdefault(group, i) for i, group in enumerate(groups)]
    return np.array([*numbers, *range(len(numbers), len(numbers) + unplanned)], np.int32)
