"""Masters that hand out tasks to whoever has nothing to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.grid import MachineState
from zenturio.schedule.just_in_time import MASTERS, PRIORITIES, ReadyTasks, just_in_time_plan
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.trace import TraceEvent
from zenturio.schedule.urgency import more_urgent_tasks
from zenturio.search.settings import NoSettings


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
