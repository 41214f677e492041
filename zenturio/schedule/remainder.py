"""What is left of a running workflow, as a graph without loops that a static algorithm can plan.

Section 5.2 of "Dynamic Scheduling of Scientific Workflow Applications on the Grid" (SAC 2005).
Where its formulas and its words differ, the words are followed: decisions/dynamic.md tells where.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.loops import find_loops, single_iteration
from zenturio.schedule.workflow import Adjacency, Workflow

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
