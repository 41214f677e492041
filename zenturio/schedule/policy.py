"""The policy that follows a plan, whatever happens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zenturio.schedule.grid import MachineState, Policy
from zenturio.schedule.plan import Plan
from zenturio.schedule.trace import TraceEvent

__all__ = ["FollowPlan", "Policy", "task_sequence"]


class FollowPlan:
    """Sends each task where *plan* has it, in its order, whatever happens.

    A task that was lost with its machine waits there until the machine is back.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._sequence = task_sequence(plan)

    def react(self, grid: MachineState, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.kind == "lost":
                grid.send(event.task, int(self.plan.processor[event.task]), first=True)
        if any(event.kind in {"began", "arrived"} for event in events):
            for task in self._sequence:
                if grid.state[task] == "waiting":
                    grid.place(task, int(self.plan.processor[task]))


def task_sequence(plan: Plan) -> list[int]:
    """The tasks by their starts; of equal ones, as the workflow orders them."""
    place = np.empty(plan.problem.tasks, np.int64)
    place[plan.problem.order] = np.arange(plan.problem.tasks)
    found: list[int] = np.lexsort((place, plan.end, plan.start)).tolist()
    return found
