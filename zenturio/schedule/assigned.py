"""The plan that a workflow itself tells: each task names the processor that it runs on."""

from __future__ import annotations

import numpy as np

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.evaluate import evaluate, topological_orders
from zenturio.schedule.listing import upward_ranks
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Floats, Indices


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
