"""What those share that send each task when all before it have ended, and not earlier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zenturio.schedule.grid import MachineState
from zenturio.schedule.listing import check_finite
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.trace import TraceEvent

SOONEST, QUICKEST, MASTERS, PRIORITIES = range(4)
"""The rules of the kernel."""


class ReadyTasks:
    """The tasks of one play that could be sent, and where those that share a machine are."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tasks: set[int] = set()
        self.home: dict[int, int] = {}
        """Of each group, the processor of the first of its tasks that was sent."""
        self._group: list[int] = problem.group.tolist()
        self._left: list[int] = np.diff(problem.before.start).tolist()
        self._looped = problem.workflow.looped

    def see(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        """What *events* let run; what was lost, or waits for a machine that failed, as well."""
        for event in events:
            if event.kind == "began":
                self.tasks.update(grid.ready())
            elif event.kind == "ended" and not self._looped:
                for child in self.problem.after.of(event.task).tolist():
                    self._left[child] -= 1
                    self._add(grid, child)
            elif event.kind in {"arrived", "lost"}:
                self._add(grid, event.task)
            elif event.kind == "failed":
                self._recall(grid, event.machine)
        if self._looped:  # how many are left to wait for is another number in each iteration
            self.tasks.update(grid.ready())

    def send(self, grid: MachineState, task: int, processor: int) -> None:
        grid.send(task, processor)
        self.tasks.remove(task)
        if self.problem.grouped:
            self.home[self._group[task]] = processor

    def bound(self, task: int) -> int | None:
        """The processor on which *task* must run, if another of its group decided it."""
        return self.home.get(self._group[task])

    def possible(self, grid: MachineState, task: int) -> Iterator[int]:
        """The processors on which *task* could run."""
        row = self.problem.pace[self.problem.row[task]]
        return (p for p in np.flatnonzero(np.isfinite(row)).tolist() if grid.up(p))

    def _add(self, grid: MachineState, task: int) -> None:
        if not self._left[task] and grid.state[task] == "waiting":
            self.tasks.add(task)

    def _recall(self, grid: MachineState, machine: int) -> None:
        """What waits on a machine that failed is sent again, unless it must run there."""
        for processor in np.flatnonzero(self.problem.node == machine).tolist():
            for task in list(grid.queue[processor]):
                if self.bound(task) is None:
                    grid.cancel(task)
                    self.tasks.add(task)


def just_in_time_plan(problem: Problem, algorithm: str, rule: int) -> Plan:
    """The plan that comes of *rule* where nothing disturbs it."""
    from zenturio.schedule.evaluate import problem_arrays  # noqa: PLC0415 - loads Numba
    from zenturio.schedule.kernels.dispatching import DispatchProblem, dispatch  # noqa: PLC0415

    _ = problem.order  # refuses a loop
    fits, kind = np.unique(np.isfinite(problem.pace), axis=0, return_inverse=True)
    flow = DispatchProblem(
        problem_arrays(problem),
        np.diff(problem.before.start),
        problem.after.start.astype(np.uint64),
        problem.after.task.astype(np.uint32),
        problem.group.astype(np.uint32),
        problem.workflow.level.astype(np.int64),
        kind.reshape(-1)[problem.row].astype(np.int64),
        fits.astype(np.int64),
    )
    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    place = np.zeros(problem.tasks, np.uint32)
    dispatch(flow, rule, start, end, place)
    return Plan(problem, algorithm, place.astype(np.int32), start, check_finite(end))
