"""Of all ready tasks the one to place next: the soonest, the latest, or that which would suffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.evaluation import evaluate, problem_arrays
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Indices
from zenturio.schedule.static.list_scheduling import check_finite
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
    from zenturio.schedule.kernels.list_scheduling import batch_mode  # noqa: PLC0415 - loads Numba

    _ = problem.order  # refuses a loop
    after = problem.after
    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    place = np.zeros(problem.tasks, np.uint32)
    waits = np.diff(problem.before.start)
    groups = problem.group.astype(np.uint32)
    first, child = after.start.astype(np.uint64), after.task.astype(np.uint32)
    batch_mode(problem_arrays(problem), groups, waits, first, child, rule, start, end, place)
    return Plan(problem, algorithm, place.astype(np.int32), start, check_finite(end))


class Shuffle:
    """The j-th task of a layer on the j-th processor that can run it, and round again.

    For measuring others: the average scheduling effectiveness (ASE) is a makespan by that of this
    plan. Not for running anything: it knows no time.
    Cost: one look at each task.
    T. Ma, R. Buyya: Critical-path and priority based algorithms for scheduling workflows with
    parameter sweep tasks on global grids. SBAC-PAD 2005, section III-A.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        return evaluate(problem, shuffle_placement(problem), problem.order, "shuffle")


class RoundRobin:
    """Each task on the processor after the one that the task before it was put on.

    For measuring others, and for equal tasks on equal machines. Not where tasks or machines
    differ: it knows no time.
    Cost: one look at each task.
    Folklore: as hands are dealt.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        places = round_robin_placement(problem, np.zeros(problem.tasks, np.int32))
        return evaluate(problem, places, problem.order, "round-robin")


class RandomScheduler:
    """Each task on any processor that can run it, by the seed.

    For measuring others: what is no better than this has found nothing. Not for running anything.
    Cost: one look at each task.
    Folklore.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        self.settings = settings or NoSettings()
        self.seed = seed

    def plan(self, problem: Problem) -> Plan:
        chance = np.random.default_rng(self.seed)
        kinds, able = _task_kinds(problem)
        draws = chance.random(problem.tasks)
        places = np.zeros(problem.tasks, np.int32)
        for kind, processors in enumerate(able):
            mine = np.flatnonzero(kinds == kind)
            places[mine] = processors[(draws[mine] * len(processors)).astype(np.int64)]
        return evaluate(problem, places[problem.group], problem.order, "random")


def shuffle_placement(problem: Problem) -> Indices:
    """The processor of each task, dealt anew in each layer."""
    return round_robin_placement(problem, problem.workflow.level)


def round_robin_placement(problem: Problem, layer: Indices) -> Indices:
    """The processor of each task: those of one layer that can run alike are dealt in turn.

    Tasks that share a machine are dealt once, with the first of them.
    """
    kinds, able = _task_kinds(problem)
    order = problem.order
    leads = order[problem.group[order] == order]
    hand = layer[leads].astype(np.int64) * len(able) + kinds[leads]
    by = np.argsort(hand, kind="stable")
    _, first, counts = np.unique(hand[by], return_index=True, return_counts=True)
    turn = np.arange(len(leads)) - np.repeat(first, counts)
    places = np.zeros(problem.tasks, np.int32)
    for task, number in zip(leads[by].tolist(), turn.tolist(), strict=True):
        processors = able[kinds[task]]
        places[task] = processors[number % len(processors)]
    return places[problem.group]


def _task_kinds(problem: Problem) -> tuple[Indices, Sequence[Indices]]:
    """For each task its kind, and for each kind the processors that can run it."""
    fits, kind = np.unique(np.isfinite(problem.pace), axis=0, return_inverse=True)
    able = [np.flatnonzero(row).astype(np.int32) for row in fits]
    kinds: Indices = kind.reshape(-1).astype(np.int32)[problem.row]
    return kinds, able
