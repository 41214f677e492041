"""A problem as plain lists: while a workflow is played, single numbers are looked up."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite

import numpy as np
from numpy.typing import ArrayLike

from zenturio.errors import InputError
from zenturio.schedule.platform import LoadStep, PlatformMachine
from zenturio.schedule.problem import Problem

NeighbourEdges = list[list[tuple[int, float]]]
"""For each task, those on one side of it, and the bytes between."""


class TaskCosts:
    """What each task waits for and takes, and what befalls each machine."""

    def __init__(self, problem: Problem, forward: ArrayLike | None = None) -> None:
        flow = problem.workflow
        kept = np.ones(len(flow.data), bool) if forward is None else np.asarray(forward, bool)
        if len(kept) != len(flow.data):
            raise InputError(f"forward: {len(kept)} answers for {len(flow.data)} edges")
        self.before: NeighbourEdges = [[] for _ in range(problem.tasks)]
        self.after: NeighbourEdges = [[] for _ in range(problem.tasks)]
        sources, targets, data = flow.sources[kept], flow.targets[kept], flow.data[kept]
        for a, b, size in zip(sources.tolist(), targets.tolist(), data.tolist(), strict=True):
            self.before[b].append((a, size))
            self.after[a].append((b, size))
        self.steps = [_checked_load(machine) for machine in problem.platform.machines]
        self.processors: list[list[int]] = [[] for _ in problem.platform.machines]
        """Of each machine."""
        for processor, machine in enumerate(problem.node.tolist()):
            self.processors[machine].append(processor)
        self._work: list[float] = problem.work.tolist()
        self._row: list[int] = problem.row.tolist()
        self._pace: list[list[float]] = problem.pace.tolist()
        self._node: list[int] = problem.node.tolist()
        self._site: list[int] = problem.site.tolist()
        self._latency: list[list[float]] = problem.latency.tolist()
        self._slowness: list[list[float]] = problem.slowness.tolist()

    def run(self, task: int, processor: int) -> float:
        """Seconds that *task* takes on *processor*."""
        return self._work[task] * self._pace[self._row[task]][processor]

    def transfer(self, data: float, a: int, b: int) -> float:
        """Seconds that *data* take from processor *a* to *b*."""
        if self._node[a] == self._node[b]:
            return 0.0
        here, there = self._site[a], self._site[b]
        return self._latency[here][there] + data * self._slowness[here][there]


def _checked_load(machine: PlatformMachine) -> tuple[LoadStep, ...]:
    for step in machine.load:
        if not (isfinite(step.time) and isfinite(step.share) and step.share >= 0):
            raise InputError(
                f"machine {machine.name!r} has a load of {step.share} from {step.time} s on: "
                "a share of its speed, 0 or more, from a time on"
            )
    for one, other in pairwise(machine.load):
        if one.time > other.time:
            raise InputError(f"the loads of machine {machine.name!r} are not in their order")
    return machine.load
