"""Plans: a processor, a start and an end for each task, and checks that they are possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.shared_resources import overfull
from zenturio.schedule.model.workflow import Floats, Indices

SLACK = 1e-9
"""Relative tolerance of a comparison of times that were summed in different orders."""

P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class Plan:
    """A processor, a start and an end (seconds) for each task of *problem*."""

    problem: Problem
    algorithm: str
    processor: Indices
    start: Floats
    end: Floats
    notes: dict[str, Any] = field(default_factory=dict)
    """Facts from the algorithm: generations, a lower bound, why it stopped."""

    @cached_property
    def makespan(self) -> float:
        return float(self.end.max(initial=0.0))

    def __repr__(self) -> str:
        return f"<Plan by {self.algorithm}: {len(self.end)} tasks in {self.makespan:g} s>"

    def machine(self, task: int) -> str:
        """Return where *task* runs, for display: a machine, and the core if it has several."""
        processor = int(self.processor[task])
        node = int(self.problem.node[processor])
        name = self.problem.platform.machines[node].name
        first = int(np.searchsorted(self.problem.node, node))
        has_cores = np.count_nonzero(self.problem.node == node) > 1
        return f"{name}/{processor - first}" if has_cores else name


@singledispatch
def faults(plan: Any) -> Iterator[str]:
    """Yield a message for each way in which *plan* cannot be carried out."""
    raise TypeError(f"{plan!r} is not a plan")


@faults.register
def _(plan: Plan) -> Iterator[str]:
    problem = plan.problem
    if not (len(plan.processor) == len(plan.start) == len(plan.end) == problem.tasks):
        yield f"{len(plan.end)} of {problem.tasks} tasks are planned"
        return
    names = problem.workflow.names
    misplaced = _indices((plan.processor < 0) | (plan.processor >= problem.processors))
    for task in misplaced:
        yield f"{names[task]} runs on processor {plan.processor[task]} of {problem.processors}"
    if misplaced:
        return
    slack = SLACK * plan.makespan if np.isfinite(plan.makespan) else 0.0
    for task in _indices(~(np.isfinite(plan.start) & np.isfinite(plan.end))):
        yield f"{names[task]} starts at {plan.start[task]} and ends at {plan.end[task]}"
    for task in _indices(plan.start < -slack):
        yield f"{names[task]} starts before the beginning"
    times = problem.work * problem.pace[problem.row, plan.processor] + _staging_times(plan)
    for task in _indices(~(np.abs(plan.end - plan.start - times) <= slack)):
        lasts = plan.end[task] - plan.start[task]
        where = plan.machine(task)
        yield f"{names[task]} lasts {lasts:g} s on {where}, where it takes {times[task]:g}"
    yield from _early_starts(plan, slack)
    yield from _overlaps(plan, slack) if problem.resources is None else _overfull(plan, slack)
    for task in _indices(plan.processor != plan.processor[problem.group]):
        yield f"{names[task]} and {names[problem.group[task]]} must share a machine"


def check(plan: P) -> P:
    """Return *plan* if it can be carried out; otherwise raise InputError with the first fault."""
    for fault in faults(plan):
        raise InputError(f"not a plan: {fault}")
    return plan


def _early_starts(plan: Plan, slack: float) -> Iterator[str]:
    problem = plan.problem
    flow = problem.workflow
    delay = _transfer_times(plan)
    if problem.staged:  # the transfers are in the times of tasks, but for those without work
        delay[problem.work[flow.targets] > 0] = 0.0
    ready = plan.end[flow.sources] + delay
    for edge in _indices(plan.start[flow.targets] < ready - slack):
        source, target = flow.sources[edge], flow.targets[edge]
        yield (
            f"{flow.names[target]} starts at {plan.start[target]:g}, "
            f"before {flow.names[source]} and its data are there, at {ready[edge]:g}"
        )


def _transfer_times(plan: Plan) -> Floats:
    """Return the seconds of the transfer along each edge."""
    problem = plan.problem
    flow = problem.workflow
    a, b = plan.processor[flow.sources], plan.processor[flow.targets]
    source_site, target_site = problem.site[a], problem.site[b]
    delay: Floats = (
        problem.latency[source_site, target_site]
        + flow.data * problem.slowness[source_site, target_site]
    )
    delay[problem.node[a] == problem.node[b]] = 0.0
    return delay


def _staging_times(plan: Plan) -> Floats:
    """Return for how long each task holds its resources before it computes."""
    problem = plan.problem
    seconds = np.zeros(problem.tasks)
    if problem.staged:
        np.maximum.at(seconds, problem.workflow.targets, _transfer_times(plan))
        seconds[problem.work == 0] = 0.0
    return seconds


def _overfull(plan: Plan, slack: float) -> Iterator[str]:
    """Yield machines on which tasks need more than there is, or that have not booted."""
    resources = plan.problem.resources
    assert resources is not None
    machines, names = plan.problem.platform.machines, plan.problem.workflow.names
    for task in _indices(plan.start < resources.boot[plan.processor] - slack):
        name = machines[plan.processor[task]].name
        yield f"{names[task]} starts at {plan.start[task]:g}, before {name} has booted"
    for machine, time, kind in overfull(resources, plan.processor, plan.start, plan.end, slack):
        yield f"tasks on {machines[machine].name} need more {kind} than it has, at {time:g}"


def _overlaps(plan: Plan, slack: float) -> Iterator[str]:
    """Yield tasks that overlap on a processor; a task of zero length overlaps with none."""
    # Sorted by processor and start, only neighbours can overlap.
    lasting = np.flatnonzero(plan.end - plan.start > slack)
    order = lasting[np.lexsort((plan.start[lasting], plan.processor[lasting]))]
    earlier, later = order[:-1], order[1:]
    same_processor = plan.processor[earlier] == plan.processor[later]
    names = plan.problem.workflow.names
    for i in _indices(same_processor & (plan.start[later] < plan.end[earlier] - slack)):
        one, other = names[earlier[i]], names[later[i]]
        yield f"{one} and {other} overlap on {plan.machine(int(earlier[i]))}"


def _indices(mask: NDArray[np.bool_]) -> list[int]:
    indices: list[int] = np.flatnonzero(mask).tolist()
    return indices
