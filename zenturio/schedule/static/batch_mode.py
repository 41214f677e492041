"""Batch-mode heuristics, which choose among all ready tasks, and baselines that ignore times."""

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
from zenturio.settings.schema import NoSettings


class MinMin:
    """Place the ready task with the earliest finish time first (Min-Min).

    Good for many short tasks and few long ones that hold up no others. Not good where long tasks
    should start early, nor for workflows with a critical path, which it does not see. Cost: tasks x
    ready tasks; and for each task the processors a few times. T. D. Braun et al.: A comparison of
    eleven static heuristics for mapping a class of independent tasks onto heterogeneous distributed
    computing systems. JPDC 61(6), 2001.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        return batch_mode_plan(problem, "min-min", 0)


class MaxMin:
    """Place the ready task with the latest earliest finish time first (Max-Min).

    Good for many tasks of which a few are long: these start first, and the short ones fill the
    rest. Not good for workflows with a critical path, which it does not see. Cost: tasks x ready
    tasks; and for each task the processors a few times. T. D. Braun et al.: A comparison of eleven
    static heuristics for mapping a class of independent tasks onto heterogeneous distributed
    computing systems. JPDC 61(6), 2001.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        return batch_mode_plan(problem, "max-min", 1)


class Sufferage:
    """Place first the ready task that would lose most without its best processor (Sufferage).

    Good for specialised machines, or where each task can run on few of them. Not good on identical
    machines: no task suffers there, and the lowest number goes first. Cost: tasks x ready tasks;
    and for each task the processors a few times. M. Maheswaran et al.: Dynamic mapping of a class
    of independent tasks onto heterogeneous computing systems. JPDC 59(2), 1999.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        return batch_mode_plan(problem, "sufferage", 2)


def batch_mode_plan(problem: Problem, algorithm: str, rule: int) -> Plan:
    """Return the plan of a rule of the kernel: Min-Min, Max-Min or Sufferage.

    Ties go to the lower task number.
    """
    from zenturio.schedule.kernels.list_scheduling import batch_mode  # noqa: PLC0415 - loads Numba

    _ = problem.order  # refuses a loop
    after = problem.after
    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    place = np.zeros(problem.tasks, np.uint32)
    waits = np.diff(problem.before.start)
    groups = problem.group.astype(np.uint32)
    first, child = after.start.astype(np.uint64), after.task.astype(np.uint32)
    numbers, times = problem_arrays(problem), (start, end, place)
    if problem.resources is None:
        batch_mode(numbers, groups, waits, first, child, rule, *times)
    else:
        from zenturio.schedule.kernels.capacities import batch_by_capacity  # noqa: PLC0415

        arrays = problem.resources.arrays()
        batch_by_capacity(numbers, arrays, groups, waits, first, child, rule, *times)
    return Plan(problem, algorithm, place.astype(np.int32), start, check_finite(end))


class Shuffle:
    """Place the j-th task of a layer on the j-th processor that can run it, cyclically.

    The baseline of the average scheduling effectiveness (ASE). Not good for real runs: it ignores
    times. Cost: one step for each task. T. Ma, R. Buyya: Critical-path and priority based
    algorithms for scheduling workflows with parameter sweep tasks on global grids. SBAC-PAD 2005,
    section III-A.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        return evaluate(problem, shuffle_placement(problem), problem.order, "shuffle")


class RoundRobin:
    """Place each task on the processor after that of the previous task.

    A baseline, and good for equal tasks on equal machines. Not good where tasks or machines differ:
    it ignores times. Cost: one step for each task. Folklore.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        places = round_robin_placement(problem, np.zeros(problem.tasks, np.int32))
        return evaluate(problem, places, problem.order, "round-robin")


class RandomScheduler:
    """Place each task on a random processor that can run it.

    A baseline that every useful algorithm should beat. Not good for real runs. Cost: one step for
    each task. Folklore.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        self.settings = settings or NoSettings()
        self.seed = seed

    def plan(self, problem: Problem) -> Plan:
        rng = np.random.default_rng(self.seed)
        kinds, processors_of_kind = _task_kinds(problem)
        draws = rng.random(problem.tasks)
        places = np.zeros(problem.tasks, np.int32)
        for kind, processors in enumerate(processors_of_kind):
            members = np.flatnonzero(kinds == kind)
            places[members] = processors[(draws[members] * len(processors)).astype(np.int64)]
        return evaluate(problem, places[problem.group], problem.order, "random")


def shuffle_placement(problem: Problem) -> Indices:
    """Return the processor of each task, assigned cyclically within each layer."""
    return round_robin_placement(problem, problem.workflow.level)


def round_robin_placement(problem: Problem, layer: Indices) -> Indices:
    """Return the processor of each task: those of a layer and kind take turns.

    Tasks of a group are placed with the first of them.
    """
    kinds, processors_of_kind = _task_kinds(problem)
    order = problem.order
    group_heads = order[problem.group[order] == order]
    bucket = layer[group_heads].astype(np.int64) * len(processors_of_kind) + kinds[group_heads]
    order_by_bucket = np.argsort(bucket, kind="stable")
    # Tasks of one layer and kind form a bucket; the k-th of a bucket goes to processor k,
    # cyclically.
    _, first, counts = np.unique(bucket[order_by_bucket], return_index=True, return_counts=True)
    turn = np.arange(len(group_heads)) - np.repeat(first, counts)
    places = np.zeros(problem.tasks, np.int32)
    for task, number in zip(group_heads[order_by_bucket].tolist(), turn.tolist(), strict=True):
        processors = processors_of_kind[kinds[task]]
        places[task] = processors[number % len(processors)]
    return places[problem.group]


def _task_kinds(problem: Problem) -> tuple[Indices, Sequence[Indices]]:
    """Return the kind of each task, and the processors that can run each kind."""
    fits, kind = np.unique(np.isfinite(problem.pace), axis=0, return_inverse=True)
    processors = [np.flatnonzero(row).astype(np.int32) for row in fits]
    kinds: Indices = kind.reshape(-1).astype(np.int32)[problem.row]
    return kinds, processors
