"""What is left of a running workflow, as a graph without loops that a static algorithm can plan.

Section 5.2 of "Dynamic Scheduling of Scientific Workflow Applications on the Grid" (SAC 2005).
Where its formulas and its words differ, the words are followed: decisions/dynamic.md tells where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.model.loops import find_loops, single_iteration
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Adjacency, Floats, Indices, Workflow
from zenturio.schedule.simulate.machine_state import MachineState

RemainderState = Literal["queued", "running", "completed", "failed"]
"""``failed``: it was lost with its machine, and was not sent again."""
TaskSet = frozenset[int]
EdgeSet = frozenset[int]
IterationOrder = NDArray[np.int64]


@dataclass(frozen=True)
class Remainder:
    """The tasks that are to be planned, and the edges between them, by their numbers."""

    migrating: TaskSet
    queued: TaskSet
    later: TaskSet
    """Those that have run in this iteration of a loop: their turn is in the next."""
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
    """The graph A_t: Nodes_Migr and Nodes_Queued, Edges_DAG without Edges_Migr and Edges_Queued.

    *contracts* has by which part tasks that run are behind: those beyond *factor* migrate.
    *course* is `course_of` the workflow, for those who ask often.
    """
    moved, waiting = migrating(flow, states, contracts, factor), queued(flow, states)
    between = edges_between(flow, moved | waiting)
    rest = between - edges_migrating(flow, waiting, moved)
    later = frozenset(task for task in waiting - moved if states[task] == "completed")
    places = course if course is not None else iteration_order(flow)
    return Remainder(moved, waiting, later, rest - edges_closing(flow, rest, places, later))


def migrating(
    flow: Workflow, states: Sequence[RemainderState], contracts: Mapping[int, float], factor: float
) -> TaskSet:
    """Nodes_Migr: what failed or violates its contract, and what must be run again because of it.

    With a task all that is left to run on its abstract machine migrates, so also what that needs
    there is run again.
    """
    found = {
        task
        for task, state in enumerate(states)
        if state == "failed" or (state == "running" and contracts.get(task, 0.0) > factor)
    }
    moved = {flow.task(task).machine for task in found} - {""}
    mates = {
        task
        for task, each in flow.more.items()
        if each.machine in moved and states[task] != "completed"
    }
    return frozenset(found.union(*(must_rerun(flow, states, task) for task in found | mates)))


def must_rerun(flow: Workflow, states: Sequence[RemainderState], task: int) -> TaskSet:
    """Nodes_N: what is completed and must be run again when *task* migrates.

    Those that ran on its abstract machine before it, and those that brought files there.
    """
    machine = flow.task(task).machine
    if not machine:
        return frozenset()
    before = _reachable(flow.before, [task])
    return frozenset(
        other
        for other in before
        if states[other] == "completed" and _output_machine(flow, other) == machine
    )


def queued(flow: Workflow, states: Sequence[RemainderState]) -> TaskSet:
    """Nodes_Queued: what is queued, and what is completed but will be run again in a loop."""
    waiting = {task for task, state in enumerate(states) if state == "queued"}
    if flow.looped:
        open_ = [task for task, state in enumerate(states) if state != "completed"]
        waiting |= {t for t in _reachable(flow.after, open_) if states[t] == "completed"}
    return frozenset(waiting)


def edges_between(flow: Workflow, tasks: Collection[int]) -> EdgeSet:
    """Edges_DAG: those that connect any of *tasks*."""
    inside = _mask(flow, tasks)
    return _edges(inside[flow.sources] & inside[flow.targets])


def edges_migrating(flow: Workflow, queued: TaskSet, migrating: TaskSet) -> EdgeSet:
    """Edges_Migr: from what is queued to what migrates, which has waited for it already."""
    waits, moves = _mask(flow, queued - migrating), _mask(flow, migrating)
    return _edges(waits[flow.sources] & moves[flow.targets])


def edges_closing(
    flow: Workflow, edges: Iterable[int], course: IterationOrder, later: TaskSet
) -> EdgeSet:
    """Edges_Queued: those of *edges* that lead back, where tasks run in the order of *course*.

    What is *later* runs after all else.
    """
    place = course + len(flow) * _mask(flow, later)
    return _edges(place[flow.sources] >= place[flow.targets]).intersection(edges)


def iteration_order(flow: Workflow) -> IterationOrder:
    """For each task, how many run before it in an iteration."""
    place = np.empty(len(flow), np.int64)
    place[single_iteration(flow, find_loops(flow)).order] = np.arange(len(flow))
    return place


def _output_machine(flow: Workflow, task: int) -> str:
    """The abstract machine on which *task* leaves what it made."""
    found = flow.task(task)
    return found.target if found.kind == "transfer" else found.machine


def _reachable(links: Adjacency, tasks: Sequence[int]) -> set[int]:
    """pred^p or succ^p of all *tasks*, for all p."""
    found: set[int] = set()
    ahead = list(tasks)
    while ahead:
        for other in links.of(ahead.pop()).tolist():
            if other not in found:
                found.add(other)
                ahead.append(other)
    return found


def _mask(flow: Workflow, tasks: Collection[int]) -> NDArray[np.bool_]:
    found = np.zeros(len(flow), bool)
    found[list(tasks)] = True
    return found


def _edges(mask: NDArray[np.bool_]) -> EdgeSet:
    return frozenset(np.flatnonzero(mask).tolist())


FAILED_SHARE = 1e-9
"""The share of its speed that a failed machine seems to give: it may come back some day."""


@dataclass(frozen=True)
class Snapshot:
    problem: Problem
    tasks: tuple[int, ...]
    """The task that each of the problem stands for: first those to be planned, then the others."""
    planned: int
    """How many are to be planned."""


def snapshot(grid: MachineState, rest: Remainder) -> Snapshot:
    """The tasks of *rest*, with what runs on or has ended and they wait for."""
    problem, flow = grid.problem, grid.problem.workflow
    inside = set(rest.tasks)
    runs = [r.task for r in grid.running if r and r.task not in rest.migrating]
    ends = zip(flow.sources.tolist(), flow.targets.tolist(), flow.data.tolist(), strict=True)
    edges = [
        (a, b, data)
        for edge, (a, b, data) in enumerate(ends)
        if edge in rest.edges or (b in inside and a not in inside)
    ]
    there = sorted({a for a, _, _ in edges}.union(runs) - inside)
    tasks = (*rest.tasks, *there)
    number = {task: i for i, task in enumerate(tasks)}
    work = problem.work[list(tasks)].copy()
    for task in there:
        work[number[task]] = grid.remaining(task) if grid.state[task] == "running" else 0.0
    row, pace = _pace_rows(grid, rest, tasks)
    names = [flow.names[task] for task in tasks]
    sources = np.array([number[a] for a, _, _ in edges], np.int32)
    targets = np.array([number[b] for _, b, _ in edges], np.int32)
    data = np.array([data for _, _, data in edges], np.float64)
    left = Workflow(flow.name, names, work, sources, targets, data)
    group = _group_numbers(problem.group[list(rest.tasks)].tolist(), len(there))
    found = Problem(
        left, problem.platform, work, row, pace, group,
        problem.node, problem.site, problem.latency, problem.slowness,
    )  # fmt: skip
    return Snapshot(found, tasks, len(rest.tasks))


def pinned_groups(grid: MachineState, rest: Remainder) -> dict[int, int]:
    """The processor of each group of tasks that cannot be moved.

    One of them runs there or has run there, and what it left there is needed.
    """
    group: list[int] = grid.problem.group.tolist()
    moved = {group[task] for task in rest.migrating}
    needed = {group[task] for task in rest.queued - rest.later} - moved
    return {
        group[task]: grid.where[task]
        for task, state in enumerate(grid.state)
        if state in {"running", "done"} and group[task] in needed
    }


def loaded_seconds(grid: MachineState, task: int, processor: int) -> float:
    """How long *task* would take on *processor*, if its load stayed as it is."""
    return grid.time(task, processor) / (grid.share[grid.node[processor]] or FAILED_SHARE)


def _pace_rows(
    grid: MachineState, rest: Remainder, tasks: tuple[int, ...]
) -> tuple[Indices, Floats]:
    """A row for each task, and the paces of each row."""
    problem = grid.problem
    shares = np.array(grid.share)[problem.node]
    slowed = problem.pace / np.maximum(shares, FAILED_SHARE)
    paces = [_without_failed(row, shares) for row in slowed]
    homes = pinned_groups(grid, rest)
    inside = set(rest.tasks)
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
    """*row* without the machines that have failed, unless no other can run the task."""
    found = np.where(shares > 0, row, inf)
    return found if np.isfinite(found).any() else row


def _group_numbers(given: list[int], more: int) -> Indices:
    """The first task of each group, for each task; those that are not planned are alone."""
    first: dict[int, int] = {}
    found = [first.setdefault(group, i) for i, group in enumerate(given)]
    return np.array([*found, *range(len(found), len(found) + more)], np.int32)
