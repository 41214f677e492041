"""What those share that send each task when all before it have ended, and not earlier."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import numpy as np

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.simulate.machine_state import MachineState
from zenturio.schedule.simulate.trace import TraceEvent
from zenturio.schedule.static.list_scheduling import check_finite
from zenturio.search.settings import NoSettings, setting

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
    from zenturio.schedule.kernels.dispatching import DispatchProblem, dispatch  # noqa: PLC0415
    from zenturio.schedule.model.evaluation import problem_arrays  # noqa: PLC0415 - loads Numba

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


Node = TypeVar("Node", bound=Hashable)
Near = Callable[[Node], Iterable[Node]]


def more_urgent_tasks(
    ended: Node, after: Near[Node], before: Near[Node], done: Callable[[Node], bool]
) -> set[Node]:
    """All that the children of *ended* still wait for: each of them is more urgent by one.

    *after* and *before* tell the children and the parents of a node. Step 5 of the algorithm in
    T. Ma, R. Buyya: Critical-path and priority based algorithms for scheduling workflows with
    parameter sweep tasks on global grids, SBAC-PAD 2005, section III-B.
    """
    ahead, found = list(after(ended)), set[Node]()
    while ahead:
        for parent in before(ahead.pop()):
            if parent not in found and not done(parent):
                found.add(parent)
                ahead.append(parent)
    return found


@dataclass(frozen=True)
class LazySettings:
    by: Literal["end", "time"] = setting(
        "end", "send a task to where it ends first; time: to where it runs shortest, as printed"
    )


class Lazy:
    """Each task, when all before it have ended, to where it ends first: one at a time.

    For machines of which one cannot know beforehand what they will do, and as what a static plan
    must beat. Not for workflows with a critical path: it sees no task that is not ready, and data
    leave only when their task is sent.
    Cost: tasks x processors.
    R. Prodan, T. Fahringer: Dynamic scheduling of scientific workflow applications on the grid: a
    case study. SAC 2005, section 5: "a lazy just-in-time approach".
    """

    kind: ClassVar[Kind] = "just-in-time"
    Settings = LazySettings

    def __init__(self, settings: LazySettings | None = None, seed: int = 0) -> None:  # noqa: ARG002
        self.settings = settings or LazySettings()

    def plan(self, problem: Problem) -> Plan:
        """What comes of it where nothing disturbs it."""
        return just_in_time_plan(
            problem, "lazy", SOONEST if self.settings.by == "end" else QUICKEST
        )

    def react(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        if events[0].kind == "began":
            self._ready = ReadyTasks(grid.problem)
            self._until = [0.0] * grid.problem.processors
        self._ready.see(grid, events)
        for task in sorted(self._ready.tasks):
            bound = self._ready.bound(task)
            able = list(self._ready.possible(grid, task)) if bound is None else [bound]
            if able:
                where = min(able, key=lambda p: (self._merit(grid, task, p), p))
                self._until[where] = self._end(grid, task, where)
                self._ready.send(grid, task, where)

    def _merit(self, grid: MachineState, task: int, processor: int) -> float:
        if self.settings.by == "end":
            return self._end(grid, task, processor)
        return grid.time(task, processor)

    def _end(self, grid: MachineState, task: int, processor: int) -> float:
        """When *task* would end, by what was sent there and what the machine gives now."""
        if not grid.up(processor):
            return float("inf")
        free = max(self._until[processor], grid.free_at(processor))
        share = grid.share[grid.node[processor]]
        return max(free, grid.arrival(task, processor)) + grid.time(task, processor) / share


class MasterSlave:
    """A master for each layer gives its next ready task to the next idle processor (M-S).

    For parameter sweeps on machines that are shared and unforeseeable: nothing must be known. Not
    where a long task waits for a few others of a large layer: these come in their order.
    Cost: tasks x ready tasks.
    T. Ma, R. Buyya: Critical-path and priority based algorithms for scheduling workflows with
    parameter sweep tasks on global grids. SBAC-PAD 2005, section III-B.
    """

    kind: ClassVar[Kind] = "just-in-time"
    Settings = NoSettings
    name: ClassVar[str] = "m-s"
    rule: ClassVar[int] = MASTERS

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """What comes of it where nothing disturbs it."""
        return just_in_time_plan(problem, self.name, self.rule)

    def react(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        if events[0].kind == "began":
            self._ready = ReadyTasks(grid.problem)
            self._level: list[int] = grid.problem.workflow.level.tolist()
            self._row: list[int] = grid.problem.row.tolist()
            self._rank = [0] * grid.problem.tasks
        self._ready.see(grid, events)
        for event in events:
            if event.kind == "ended":
                self._learn(grid, event.task)
        full: set[int] = set()  # rows of paces whose processors are all busy: none is sought again
        for task in sorted(self._ready.tasks, key=lambda t: (self._level[t], self._rank[t], t)):
            where = self._ready.bound(task)
            row = self._row[task]
            if where is None and row not in full:
                able = self._ready.possible(grid, task)
                where = next((p for p in able if grid.idle(p)), None)
                if where is None:
                    full.add(row)
            if where is not None:
                self._ready.send(grid, task, where)

    def _learn(self, grid: MachineState, task: int) -> None:
        """What the end of *task* changes in the order of the queues: nothing."""


class PriorityMasterSlave(MasterSlave):
    """As M-S, but first what is waited for together with what has already ended (pM-S).

    For parameter sweeps in which tasks wait for several of the layer above. The same as M-S where
    each waits for one only.
    Cost: tasks x (tasks + edges).
    T. Ma, R. Buyya: Critical-path and priority based algorithms for scheduling workflows with
    parameter sweep tasks on global grids. SBAC-PAD 2005, section III-B.
    """

    name: ClassVar[str] = "pm-s"
    rule: ClassVar[int] = PRIORITIES

    def _learn(self, grid: MachineState, task: int) -> None:
        """Step 5: all ancestors of its children are more urgent by one."""
        before, after = grid.problem.before, grid.problem.after
        for ancestor in more_urgent_tasks(
            task,
            lambda each: after.of(each).tolist(),
            lambda each: before.of(each).tolist(),
            lambda each: grid.state[each] == "done",
        ):
            self._rank[ancestor] -= 1
