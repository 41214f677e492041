"""A plan for moldable tasks: which nodes run what, and when; and whether that can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from zenturio.schedule.metrics import metrics
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.plan import SLACK, faults
from zenturio.schedule.workflow import Floats, Indices


@dataclass(frozen=True, eq=False)
class MoldablePlan:
    """A start, an end and some nodes for each task of *problem*.

    Those of task t are ``node[first[t]:first[t + 1]]``.
    """

    problem: MoldableProblem
    algorithm: str
    start: Floats
    end: Floats
    first: Indices
    node: Indices
    notes: dict[str, Any] = field(default_factory=dict)
    """What the algorithm tells of itself: generations, a front, a reason to stop."""

    def __repr__(self) -> str:
        return f"<MoldablePlan by {self.algorithm}: {len(self.end)} tasks in {self.makespan:g} s>"

    @cached_property
    def counts(self) -> Indices:
        """How many nodes each task has."""
        return np.diff(self.first).astype(np.int32)

    @cached_property
    def makespan(self) -> float:
        return float(self.end.max(initial=0.0))

    @cached_property
    def cost(self) -> float:
        """Node seconds that tasks take: what a shared cluster charges (Equation 7)."""
        return float(((self.end - self.start) * self.counts).sum())

    @property
    def paid(self) -> float:
        """Node seconds of the whole cluster until the end: what a dedicated one charges."""
        return self.problem.nodes * self.makespan

    @property
    def idle(self) -> float:
        """The share of these in which no task runs: the paper's unused resources."""
        return 1 - self.cost / self.paid if self.paid else 0.0

    def nodes(self, task: int) -> Indices:
        """The numbers of the nodes that run *task*."""
        return self.node[self.first[task] : self.first[task + 1]]

    def machine(self, task: int) -> str:
        """Where *task* runs, as a person reads it: machines, and from which to which."""
        names = [machine.name for machine in self.problem.platform.machines]
        runs = np.split(self.nodes(task), np.flatnonzero(np.diff(self.nodes(task)) != 1) + 1)
        ends = [(names[run[0]], names[run[-1]]) for run in runs if len(run)]
        return ", ".join(a if a == b else f"{a}-{b}" for a, b in ends)


@metrics.register
def _(plan: MoldablePlan) -> dict[str, float]:
    """Those that other plans have too, with nodes for processors; then what clusters charge."""
    time, alone = plan.makespan, plan.problem.alone
    used = len(np.unique(plan.node))
    machines = plan.problem.platform.machines
    price = np.array([machine.cost * machine.cores for machine in machines], np.float64)
    lasts = np.repeat(plan.end - plan.start, plan.counts)
    speedup = alone / time if time else np.nan
    return {
        "makespan": time,
        "speedup": speedup,
        "efficiency": speedup / used if used else np.nan,
        "cost": float(price[plan.node] @ lasts),
        "idle": 1 - plan.cost / (used * time) if time else np.nan,
        "processors": float(used),
        "sequential": alone,
        "node_seconds": plan.cost,
        "paid_seconds": plan.paid,
        "unused": plan.idle,
    }


@faults.register
def _(plan: MoldablePlan) -> Iterator[str]:
    problem = plan.problem
    if not (len(plan.start) == len(plan.end) == len(plan.first) - 1 == problem.tasks):
        planned = min(len(plan.start), len(plan.end), len(plan.first) - 1)
        yield f"{planned} of {problem.tasks} tasks are planned"
        return
    names = problem.workflow.names
    slack = SLACK * max(plan.makespan, 1.0) if np.isfinite(plan.makespan) else SLACK
    for task in range(problem.tasks):
        start, end, count = plan.start[task], plan.end[task], int(plan.counts[task])
        takes = problem.time(task, count)
        if not -slack <= start <= end < np.inf:
            yield f"{names[task]} starts at {start} and ends at {end}"
        elif not np.isfinite(takes):
            yield f"{names[task]} cannot run on {count} nodes"
        elif not abs(end - start - takes) <= slack:
            yield f"{names[task]} lasts {end - start:g} s on {count} nodes, not {takes:g}"
        if len(set(plan.nodes(task).tolist()) & set(range(problem.nodes))) < count:
            yield f"{names[task]} has a node twice, or one that is not there"
    yield from _early_moldable_starts(plan, slack)
    yield from _shared_nodes(plan, slack)


def _early_moldable_starts(plan: MoldablePlan, slack: float) -> Iterator[str]:
    flow = plan.problem.workflow
    ready = plan.end[flow.sources] + plan.problem.delay
    for edge in np.flatnonzero(plan.start[flow.targets] < ready - slack):
        source, target = flow.sources[edge], flow.targets[edge]
        yield (
            f"{flow.names[target]} starts at {plan.start[target]:g}, "
            f"before {flow.names[source]} and its data are there, at {ready[edge]:g}"
        )


def _shared_nodes(plan: MoldablePlan, slack: float) -> Iterator[str]:
    """Tasks of one node at one time; a task of no length is in nobody's way."""
    task = np.repeat(np.arange(len(plan.end)), plan.counts)
    lasting = np.flatnonzero((plan.end - plan.start)[task] > slack)
    order = lasting[np.lexsort((plan.start[task[lasting]], plan.node[lasting]))]
    one, other = order[:-1], order[1:]
    same = plan.node[one] == plan.node[other]
    names = plan.problem.workflow.names
    for i in np.flatnonzero(same & (plan.start[task[other]] < plan.end[task[one]] - slack)):
        node = plan.problem.platform.machines[plan.node[one[i]]].name
        yield f"{names[task[one[i]]]} and {names[task[other[i]]]} overlap on {node}"
