"""Traces of executed workflows: events, runs of tasks, and the resulting plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem

EventKind = Literal[
    "began",
    "arrived",
    "started",
    "ended",
    "lost",
    "cancelled",
    "again",
    "skipped",
    "load",
    "failed",
    "back",
    "woke",
]


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """An event at *time*, of a task or of a machine of the platform."""

    time: float
    kind: EventKind
    task: int = -1
    machine: int = -1
    share: float = 1.0
    """For load events: the share of its speed that the machine gives from now on."""


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A run of a task on a processor, successful or not."""

    task: int
    processor: int
    start: float
    end: float
    kind: Literal["ended", "lost", "cancelled"] = "ended"


@dataclass(frozen=True)
class ExecutionTrace:
    """All runs in the order of their ends, and all events in the order they happened."""

    problem: Problem
    algorithm: str
    runs: tuple[TaskRun, ...]
    events: tuple[TraceEvent, ...] = field(repr=False)
    left: tuple[int, ...] = ()
    """Tasks that did not finish: their machine never came back, or the policy never sent them."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Facts from the policy."""

    @cached_property
    def makespan(self) -> float:
        """When the last task ended; infinite if one did not finish."""
        return float("inf") if self.left else max((run.end for run in self.good), default=0.0)

    @property
    def good(self) -> Iterator[TaskRun]:
        return (run for run in self.runs if run.kind == "ended")

    @property
    def again(self) -> tuple[TraceEvent, ...]:
        """One event for each further iteration of a loop, with its first task."""
        return tuple(event for event in self.events if event.kind == "again")

    @cached_property
    def skipped(self) -> tuple[int, ...]:
        """The tasks that did not run at last, because of an exit code."""
        last = {e.task: e.kind for e in self.events if e.kind in {"skipped", "ended"}}
        return tuple(sorted(task for task, kind in last.items() if kind == "skipped"))

    @property
    def wasted(self) -> float:
        """Processor seconds of runs that were lost or cancelled."""
        return sum(run.end - run.start for run in self.runs if run.kind != "ended")

    @cached_property
    def plan(self) -> Plan:
        """The last successful run of each task; for loops, that of the last iteration.

        Times are NaN for tasks that did not finish. A skipped task has no length.
        """
        count = self.problem.tasks
        processor = np.zeros(count, np.int32)
        start, end = np.full(count, np.nan), np.full(count, np.nan)
        for run in self.good:
            processor[run.task], start[run.task], end[run.task] = run.processor, run.start, run.end
        for event in self.events:
            if event.kind == "skipped" and event.task in self.skipped:
                start[event.task] = end[event.task] = event.time
        return Plan(self.problem, self.algorithm, processor, start, end, self.notes)
