"""Moldable plans on real hosts: a moldable algorithm says how many cores each task gets.

A node of the algorithm is a core here. A task runs on the cores of one host, so its curve ends at
the widest host. Where and when tasks run is decided by the order of the moldable plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.platform import Platform, PlatformMachine, ScalingCurve
from zenturio.schedule.model.problem import MoldableProblem, Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.list_scheduling import list_schedule


def allotted_plan(algorithm: Any, flow: Workflow, platform: Platform, name: str) -> Plan:
    """Return the plan of *flow* on *platform* with the cores that *algorithm* gives each task.

    Its workflow has a width and a time in place of each curve. Raise InputError if a task needs
    more cores than any machine has.
    """
    widest = max(machine.cores for machine in platform.machines)
    narrowed = _with_tasks(flow, [_narrowed(task, widest) for task in flow.tasks])
    cores = sum(machine.cores for machine in platform.machines)
    # Nodes of a moldable problem are alike: those of hosts count as if they were.
    speed = float(np.average(
        [machine.speed for machine in platform.machines],
        weights=[machine.cores for machine in platform.machines],
    ))  # fmt: skip
    nodes = tuple(PlatformMachine(f"core{i}", speed) for i in range(cores))
    plan = algorithm.plan(MoldableProblem.of(narrowed, Platform(platform.name, nodes)))
    rigid = [
        _rigid(task, limited, int(plan.counts[i]))
        for i, (task, limited) in enumerate(zip(flow.tasks, narrowed.tasks, strict=True))
    ]
    problem = Problem.of(_with_tasks(flow, rigid), platform)
    position = np.empty(problem.tasks, np.int64)
    position[problem.order] = np.arange(problem.tasks)
    order = np.lexsort((position, plan.start)).astype(np.int32)
    placed = list_schedule(problem, name, order)
    return replace(placed, notes={**plan.notes, "cores": plan.counts.tolist()})


def _with_tasks(flow: Workflow, tasks: list[WorkflowTask]) -> Workflow:
    return Workflow.of(flow.name, tasks, flow.edges, **flow.notes)


def _narrowed(task: WorkflowTask, widest: int) -> WorkflowTask:
    """Return *task* with a curve of at most *widest* nodes."""
    least = task.curve.nodes[0] if task.curve else task.cores
    if least > widest:
        raise InputError(
            f"task {task.name!r} needs {least} cores; the widest host has {widest}",
            hint="slots of the hosts file say how many cores a host gives",
        )
    # What a host must have is checked again when tasks are placed on hosts.
    plain = replace(task, memory=0.0, tag="", machine="")
    if task.curve is None or task.curve.nodes[-1] <= widest:
        return plain
    counts = tuple(range(least, widest + 1))
    seconds = task.curve.table(widest)[least:]
    return replace(plain, curve=ScalingCurve(counts, tuple(seconds.tolist())))


def _rigid(task: WorkflowTask, narrowed: WorkflowTask, count: int) -> WorkflowTask:
    """Return *task* on *count* cores, with the time that its curve has for them."""
    if narrowed.curve is None:
        return task
    seconds = float(narrowed.curve.table(count)[count])
    return replace(task, curve=None, cores=count, work=seconds)
