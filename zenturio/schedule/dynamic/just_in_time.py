"""Just-in-time algorithms: a task is sent only when all its predecessors have ended."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.simulate.machine_state import MachineState
from zenturio.schedule.simulate.trace import TraceEvent
from zenturio.schedule.static.list_scheduling import check_finite
from zenturio.settings.schema import NoSettings, setting

SOONEST, QUICKEST, MASTERS, PRIORITIES = range(4)
"""The rules of the kernel."""


class ReadyTasks:
    """The tasks of a simulation that could be sent, and where groups run."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tasks: set[int] = set()
        self.home: dict[int, int] = {}
        """Of each group, the processor of the first of its tasks that was sent."""
        self._group: list[int] = problem.group.tolist()
        self._left: list[int] = np.diff(problem.before.start).tolist()
        self._looped = problem.workflow.looped

    def see(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        """Update the ready tasks after *events*, including lost and recalled ones."""
        for event in events:
            if event.kind == "began":
                self.tasks.update(grid.ready())
            elif event.kind in {"ended", "skipped"} and not self._looped:
                for child in self.problem.after.of(event.task).tolist():
                    self._left[child] -= 1
                    self._add(grid, child)
            elif event.kind in {"arrived", "lost"}:
                self._add(grid, event.task)
            elif event.kind == "failed":
                self._recall(grid, event.machine)
        if self._looped:  # counts of missing predecessors differ in each iteration
            self.tasks.update(grid.ready())

    def send(self, grid: MachineState, task: int, processor: int) -> None:
        """Send *task* to *processor*, and its group after it."""
        grid.send(task, processor)
        self.tasks.remove(task)
        if self.problem.grouped:
            self.home[self._group[task]] = processor

    def bound(self, task: int) -> int | None:
        """Return the processor on which *task* must run because of its group, or None."""
        return self.home.get(self._group[task])

    def possible(self, grid: MachineState, task: int) -> Iterator[int]:
        """Yield the processors that can run *task* and have not failed."""
        row = self.problem.pace[self.problem.row[task]]
        return (p for p in np.flatnonzero(np.isfinite(row)).tolist() if grid.up(p))

    def _add(self, grid: MachineState, task: int) -> None:
        if not self._left[task] and grid.state[task] == "waiting":
            self.tasks.add(task)

    def _recall(self, grid: MachineState, machine: int) -> None:
        """Cancel the tasks queued on a failed machine, unless they must run there."""
        for processor in np.flatnonzero(self.problem.node == machine).tolist():
            for task in list(grid.queue[processor]):
                if self.bound(task) is None:
                    grid.cancel(task)
                    self.tasks.add(task)


def just_in_time_plan(problem: Problem, algorithm: str, rule: int) -> Plan:
    """Return the plan that results from *rule* on undisturbed machines."""
    if problem.resources is not None:
        return _simulated_plan(problem, algorithm, rule)
    from zenturio.schedule.kernels.just_in_time import DispatchProblem, dispatch  # noqa: PLC0415
    from zenturio.schedule.model.evaluation import problem_arrays  # noqa: PLC0415 - loads Numba

    _ = problem.order  # refuses a loop
    runs_on, kind = np.unique(np.isfinite(problem.pace), axis=0, return_inverse=True)
    flow = DispatchProblem(
        problem_arrays(problem),
        np.diff(problem.before.start),
        problem.after.start.astype(np.uint64),
        problem.after.task.astype(np.uint32),
        problem.group.astype(np.uint32),
        problem.workflow.level.astype(np.int64),
        kind.reshape(-1)[problem.row].astype(np.int64),
        runs_on.astype(np.int64),
    )
    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    place = np.zeros(problem.tasks, np.uint32)
    dispatch(flow, rule, start, end, place)
    return Plan(problem, algorithm, place.astype(np.int32), start, check_finite(end))


def _simulated_plan(problem: Problem, algorithm: str, rule: int) -> Plan:
    """Return the plan of *rule* where tasks share machines: what a simulation makes of it."""
    from zenturio.schedule.simulate.simulator import simulate  # noqa: PLC0415 - cycle

    _ = problem.order  # refuses a loop
    # Loads and shared links are not known beforehand.
    machines = tuple(
        replace(machine, load=(), network=inf) for machine in problem.platform.machines
    )
    links = tuple(replace(link, capacity=inf) for link in problem.platform.links)
    default = replace(problem.platform.default, capacity=inf)
    platform = replace(problem.platform, machines=machines, links=links, default=default)
    policies: dict[int, Any] = {
        SOONEST: Lazy(), QUICKEST: Lazy(LazySettings("time")),
        MASTERS: MasterSlave(), PRIORITIES: PriorityMasterSlave(),
    }  # fmt: skip
    plan = simulate(replace(problem, platform=platform), policies[rule]).plan
    return Plan(problem, algorithm, plan.processor, plan.start, check_finite(plan.end))


Node = TypeVar("Node", bound=Hashable)
Near = Callable[[Node], Iterable[Node]]


def more_urgent_tasks(
    ended: Node, after: Near[Node], before: Near[Node], done: Callable[[Node], bool]
) -> set[Node]:
    """Return all unfinished ancestors of the children of *ended*.

    Each becomes more urgent by one: step 5 of pM-S in T. Ma, R. Buyya: Critical-path and priority
    based algorithms for scheduling workflows with parameter sweep tasks on global grids, SBAC-PAD
    2005, section III-B. *after* and *before* return the children and the parents of a node.
    """
    pending, ancestors = list(after(ended)), set[Node]()
    while pending:
        for parent in before(pending.pop()):
            if parent not in ancestors and not done(parent):
                ancestors.add(parent)
                pending.append(parent)
    return ancestors


@dataclass(frozen=True)
class LazySettings:
    by: Literal["end", "time"] = setting(
        "end",
        "end: send a task where it finishes first; time: where it runs shortest, as printed",
    )


class Lazy:
    """Send each ready task to the processor where it finishes first, one at a time.

    Good for machines whose behaviour cannot be predicted, and as the baseline that a static plan
    must beat. Not good for workflows with a critical path: it sees only ready tasks, and data leave
    only when their task is sent. Cost: tasks x processors. R. Prodan, T. Fahringer: Dynamic
    scheduling of scientific workflow applications on the grid: a case study. SAC 2005, section 5:
    "a lazy just-in-time approach".
    """

    kind: ClassVar[Kind] = "just-in-time"
    Settings = LazySettings

    def __init__(self, settings: LazySettings | None = None, seed: int = 0) -> None:  # noqa: ARG002
        self.settings = settings or LazySettings()

    def plan(self, problem: Problem) -> Plan:
        """Return the plan that results on undisturbed machines."""
        return just_in_time_plan(
            problem, "lazy", SOONEST if self.settings.by == "end" else QUICKEST
        )

    def react(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        if events[0].kind == "began":
            self._ready = ReadyTasks(grid.problem)
            self._until = [0.0] * grid.problem.processors
        self._ready.see(grid, events)
        for task in sorted(self._ready.tasks):
            pinned = self._ready.bound(task)
            candidates = list(self._ready.possible(grid, task)) if pinned is None else [pinned]
            if candidates:
                best = min(candidates, key=lambda p: (self._merit(grid, task, p), p))
                self._until[best] = self._end(grid, task, best)
                self._ready.send(grid, task, best)

    def _merit(self, grid: MachineState, task: int, processor: int) -> float:
        if self.settings.by == "end":
            return self._end(grid, task, processor)
        return grid.time(task, processor)

    def _end(self, grid: MachineState, task: int, processor: int) -> float:
        """Return when *task* would end, given what was sent there and the present load."""
        if not grid.up(processor):
            return float("inf")
        free = grid.room_at(task, processor)
        if grid.problem.resources is None:
            free = max(free, self._until[processor])
        share = grid.share[grid.node[processor]]
        return max(free, grid.arrival(task, processor)) + grid.time(task, processor) / share


class MasterSlave:
    """Send the next ready task of each layer to the next idle processor (M-S).

    Good for parameter sweeps on shared, unpredictable machines, because it needs no estimates. Not
    good if a long task waits for a few tasks of a large layer, because the tasks of a layer run in
    their order. Cost: tasks x ready tasks. T. Ma, R. Buyya: Critical-path and priority based
    algorithms for scheduling workflows with parameter sweep tasks on global grids. SBAC-PAD 2005,
    section III-B.
    """

    kind: ClassVar[Kind] = "just-in-time"
    Settings = NoSettings
    name: ClassVar[str] = "m-s"
    rule: ClassVar[int] = MASTERS

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        """Return the plan that results on undisturbed machines."""
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
        full: set[int] = set()  # rows of paces whose processors are all busy: not searched again
        for task in sorted(self._ready.tasks, key=lambda t: (self._level[t], self._rank[t], t)):
            processor = self._ready.bound(task)
            row = self._row[task]
            if processor is None and row not in full:
                candidates = self._ready.possible(grid, task)
                processor = next((p for p in candidates if grid.has_room(task, p)), None)
                if processor is None:
                    full.add(row)
            if processor is not None:
                self._ready.send(grid, task, processor)

    def _learn(self, grid: MachineState, task: int) -> None:
        """Update priorities after the end of *task*: M-S has none."""


class PriorityMasterSlave(MasterSlave):
    """As M-S, but prefer tasks whose siblings have already ended (pM-S).

    Good for parameter sweeps in which tasks wait for several of the layer above. It equals M-S if
    each task waits for only one. Cost: tasks x (tasks + edges). T. Ma, R. Buyya: Critical-path and
    priority based algorithms for scheduling workflows with parameter sweep tasks on global grids.
    SBAC-PAD 2005, section III-B.
    """

    name: ClassVar[str] = "pm-s"
    rule: ClassVar[int] = PRIORITIES

    def _learn(self, grid: MachineState, task: int) -> None:
        """Raise the priority of all ancestors of its children by one (step 5)."""
        before, after = grid.problem.before, grid.problem.after
        for ancestor in more_urgent_tasks(
            task,
            lambda node: after.of(node).tolist(),
            lambda node: before.of(node).tolist(),
            lambda node: grid.state[node] == "done",
        ):
            self._rank[ancestor] -= 1
