"""No plan at all: each task is sent when it is ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.grid import MachineState
from zenturio.schedule.just_in_time import QUICKEST, SOONEST, ReadyTasks, just_in_time_plan
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.trace import TraceEvent
from zenturio.search.settings import setting


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
