"""A cluster with a queue of moldable tasks: from numbers of nodes to plans or to figures.

On real hosts a moldable algorithm says how many cores each task gets: a node of the algorithm is a
core there. A task runs on the cores of one host, so its curve ends at the widest host. Where and
when tasks run is decided by the order of the moldable plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.model.metrics import MoldablePlan
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.platform import Platform, PlatformMachine, RuntimeCurve
from zenturio.schedule.model.problem import MoldableProblem, Problem
from zenturio.schedule.model.workflow import Floats, Workflow, WorkflowTask
from zenturio.schedule.static.list_scheduling import list_schedule

Discipline = Literal["fifo", "easy", "conservative"]
Counts = NDArray[np.integer[Any]]
"""Numbers of nodes, one for each task; or rows of them."""

_DISCIPLINES = ("fifo", "easy", "conservative")


@dataclass(frozen=True, eq=False)
class PlanFigures:
    """Figures of many plans, one array for each figure."""

    total: Floats
    """Seconds of all tasks."""
    makespan: Floats
    cost: Floats
    """Node seconds of all tasks."""


@dataclass(frozen=True, eq=False)
class ClusterQueue:
    """The nodes of *problem* behind a batch queue.

    Tasks are submitted in *order* (breadth-first by default) and held until their predecessors have
    ended. Among the others, in order of submission:

    * ``fifo``: start the first tasks until one does not fit; later tasks never overtake it.
    * ``easy``: also start others that fit and do not delay the first that does not (backfilling).
    * ``conservative``: start each at the earliest time that delays none released before it.
    """

    problem: MoldableProblem
    discipline: Discipline = "fifo"
    order: NDArray[np.integer[Any]] | None = None

    def plan(
        self, counts: Counts, algorithm: str = "", notes: Mapping[str, Any] | None = None
    ) -> MoldablePlan:
        """Return the plan in which each task gets its number of nodes.

        Raise InputError if a task cannot run on its number of nodes.
        """
        from zenturio.schedule.kernels.cluster_queue import assign_nodes, play_queue, queue_buffers  # noqa: PLC0415 - Numba

        problem = self.problem
        counts = np.ascontiguousarray(counts, np.int64)
        seconds = self._seconds(counts)
        start, end = np.empty(problem.tasks), np.empty(problem.tasks)
        play_queue(
            self.kind,
            problem.nodes,
            self.graph,
            counts,
            seconds,
            queue_buffers(problem.tasks),
            start,
            end,
        )
        first = np.append(0, np.cumsum(counts))
        node = np.empty(first[-1], np.int32)
        # Nodes are assigned afterwards: the queue only counts them.
        sequence = np.lexsort((self.graph.rank, start))
        assign_nodes(sequence, problem.nodes, counts, first, start, end, node)
        return MoldablePlan(problem, algorithm, start, end, first, node, dict(notes or {}))

    def outcomes(self, counts: Counts) -> PlanFigures:
        """Return the figures of each row of *counts*, all of which must be possible."""
        from zenturio.schedule.kernels.cluster_queue import play_queues  # noqa: PLC0415 - Numba

        problem = self.problem
        counts = np.ascontiguousarray(counts, np.int64)
        assert counts.min(initial=0) >= 0, "a number of nodes is below 0"
        assert counts.max(initial=0) < problem.seconds.shape[1], "a task got too many nodes"
        figures = np.empty((len(counts), 3))
        play_queues(
            self.kind, problem.nodes, self.graph, problem.seconds, problem.row, counts, figures
        )
        assert np.isfinite(figures).all(), "a task got nodes on which it cannot run"
        return PlanFigures(*np.ascontiguousarray(figures.T))

    @property
    def kind(self) -> int:
        """The discipline as the kernels take it."""
        return _DISCIPLINES.index(self.discipline)

    @cached_property
    def graph(self) -> Any:
        """The workflow as the kernels take it."""
        from zenturio.schedule.kernels.cluster_queue import QueueGraph  # noqa: PLC0415 - needs Numba

        problem = self.problem
        order = np.ascontiguousarray(problem.order if self.order is None else self.order, np.int64)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        after = problem.workflow.after
        waits = np.diff(problem.workflow.before.start)
        child, delay = after.task.astype(np.int64), problem.delay[after.edge]
        return QueueGraph(waits, after.start, child, delay, order, rank)

    def _seconds(self, counts: Counts) -> Floats:
        """Return the seconds of each task; InputError if one cannot run on its nodes."""
        problem = self.problem
        if counts.shape != (problem.tasks,):
            raise InputError(f"{counts.size} numbers of nodes for {problem.tasks} tasks")
        for task, count in enumerate(counts.tolist()):
            if not np.isfinite(problem.time(task, count)):
                allowed = problem.possible[problem.row[task]]
                raise InputError(
                    f"task {problem.workflow.names[task]!r} cannot run on {count} nodes",
                    hint=f"from {allowed[0]} to {allowed[-1]}"
                    if len(allowed) > 1
                    else f"on {allowed[0]}",
                )
        return problem.times(counts)


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
    return replace(plain, curve=RuntimeCurve(counts, tuple(seconds.tolist())))


def _rigid(task: WorkflowTask, narrowed: WorkflowTask, count: int) -> WorkflowTask:
    """Return *task* on *count* cores, with the time that its curve has for them."""
    if narrowed.curve is None:
        return task
    seconds = float(narrowed.curve.table(count)[count])
    return replace(task, curve=None, cores=count, work=seconds)
