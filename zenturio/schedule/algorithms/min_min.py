"""Of all ready tasks the one to place next: the soonest, the latest, or that which would suffer."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.evaluate import problem_arrays
from zenturio.schedule.listing import check_finite
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.search.settings import NoSettings


class MinMin:
    """Of the ready tasks the one that can end first, where it does so (Min-Min).

    For many short tasks and few long ones, none of which holds others up. Not where long tasks
    should begin early, nor for workflows with a critical path, of which it knows nothing.
    Cost: tasks x ready tasks; and for each task the processors a few times.
    T. D. Braun et al.: A comparison of eleven static heuristics for mapping a class of
    independent tasks onto heterogeneous distributed computing systems. JPDC 61(6), 2001.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        return batch_mode_plan(problem, "min-min", 0)


class MaxMin:
    """Of the ready tasks the one whose earliest end is the latest, where it ends first (Max-Min).

    For many tasks of which a few are long: these begin first, and the short ones fill what is
    left. Not for workflows with a critical path, of which it knows nothing.
    Cost: tasks x ready tasks; and for each task the processors a few times.
    T. D. Braun et al.: A comparison of eleven static heuristics for mapping a class of
    independent tasks onto heterogeneous distributed computing systems. JPDC 61(6), 2001.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        return batch_mode_plan(problem, "max-min", 1)


class Sufferage:
    """Of the ready tasks the one that would lose most if it had not its best processor.

    For machines that differ in what they are good at, or where each task is bound to few of them.
    Not on machines that are all the same: then no task suffers, and the lowest number is first.
    Cost: tasks x ready tasks; and for each task the processors a few times.
    M. Maheswaran et al.: Dynamic mapping of a class of independent tasks onto heterogeneous
    computing systems. JPDC 59(2), 1999.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        return batch_mode_plan(problem, "sufferage", 2)


def batch_mode_plan(problem: Problem, algorithm: str, rule: int) -> Plan:
    """The plan by *rule* 0: soonest, 1: latest, 2: most to lose; lower numbers win ties."""
    from zenturio.schedule.kernels.picking import batch_mode  # noqa: PLC0415 - loads Numba

    _ = problem.order  # refuses a loop
    after = problem.after
    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    place = np.zeros(problem.tasks, np.uint32)
    waits = np.diff(problem.before.start)
    groups = problem.group.astype(np.uint32)
    first, child = after.start.astype(np.uint64), after.task.astype(np.uint32)
    batch_mode(problem_arrays(problem), groups, waits, first, child, rule, start, end, place)
    return Plan(problem, algorithm, place.astype(np.int32), start, check_finite(end))
