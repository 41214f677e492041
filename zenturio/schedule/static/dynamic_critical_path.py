"""Algorithms that recompute the critical path after each step: DCP and xDCP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.evaluation import evaluate, problem_arrays
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.static.batch_mode import shuffle_placement
from zenturio.schedule.static.list_scheduling import mean_delays, mean_times
from zenturio.settings.schema import NoSettings, setting

if TYPE_CHECKING:
    from zenturio.schedule.kernels.dynamic_critical_path import (
        FinishTimes,
        PathProblem,
        ProcessorQueues,
    )


class Dcp:
    """Place the task with the least slack where it and its critical child start first (DCP).

    Good for graphs with much communication and equal machines: it keeps tasks that communicate
    together. It uses the processors of the platform; in the paper their number is unlimited. Not
    good for wide graphs of thousands of tasks: all times are recomputed after each step. Cost:
    tasks x (tasks + edges + processors). Y.-K. Kwok, I. Ahmad: Dynamic critical-path scheduling: an
    effective technique for allocating task graphs to multiprocessors. IEEE TPDS 7(5), 1996.
    """

    kind: ClassVar[Kind] = "static"
    Settings = NoSettings

    def __init__(self, settings: NoSettings | None = None, seed: int = 0) -> None:
        pass

    def plan(self, problem: Problem) -> Plan:
        from zenturio.schedule.kernels.dynamic_critical_path import (  # noqa: PLC0415
            empty_queues,
            empty_times,
            place_by_urgency,
        )

        net = _path_problem(problem)
        queues, times = empty_queues(net), empty_times(problem.tasks)
        home = np.full(problem.tasks, -1, np.int64)
        place_by_urgency(net, queues, times, problem.group.astype(np.int64), home)
        return _plan_of_queues(problem, "dcp", queues, times)


@dataclass(frozen=True)
class XdcpSettings:
    formulas: Literal["words", "printed"] = setting(
        "words", "latest finish times: as the text says (min), or as the formula is printed (max)"
    )
    threshold: float = setting(
        0.05, "continue while a round shortens the plan by this share", low=0.001, high=1
    )


class Xdcp:
    """Improve a shuffled plan in rounds, moving each task to where it finishes first (xDCP).

    Good for workflows of parameter sweeps, each with resources of its own, above all if few edges
    join them. Not good for thousands of tasks: all times are recomputed after each step. With the
    printed formulas a plan may become longer from round to round; with those of the text it never
    does. Cost: rounds x tasks x (tasks + edges + processors). T. Ma, R. Buyya: Critical-path and
    priority based algorithms for scheduling workflows with parameter sweep tasks on global grids.
    SBAC-PAD 2005, section III-A.
    """

    kind: ClassVar[Kind] = "static"
    Settings = XdcpSettings

    def __init__(self, settings: XdcpSettings | None = None, seed: int = 0) -> None:  # noqa: ARG002
        self.settings = settings or XdcpSettings()

    def plan(self, problem: Problem) -> Plan:
        """Follow steps 1 to 7 of the listing, starting from the shuffled plan."""
        from zenturio.schedule.kernels.dynamic_critical_path import (  # noqa: PLC0415
            empty_times,
            improve_round,
            update_times,
        )

        net, times = _path_problem(problem), empty_times(problem.tasks)
        queues = _shuffled_queues(problem, net)
        level = problem.workflow.level.astype(np.int64)
        # Moving one task of a group would part it from the others, so these keep their processor.
        is_grouped = np.bincount(problem.group, minlength=problem.tasks)[problem.group] > 1
        printed = self.settings.formulas == "printed"
        # The first length is that of the shuffled plan.
        lengths = [update_times(net, queues, times, 0.0, printed)]
        while True:
            lengths.append(improve_round(net, queues, times, level, is_grouped, printed))
            if lengths[-1] >= (1 - self.settings.threshold) * lengths[-2]:
                return _plan_of_queues(problem, "xdcp", queues, times, lengths)


def _path_problem(problem: Problem) -> PathProblem:
    from zenturio.schedule.kernels.dynamic_critical_path import PathProblem  # noqa: PLC0415 - loads Numba

    _ = problem.order  # refuses a loop
    before, after = problem.before, problem.after
    return PathProblem(
        problem_arrays(problem),
        after.start.astype(np.uint64),
        after.task.astype(np.uint32),
        after.edge.astype(np.uint32),
        before.edge.astype(np.uint32),
        problem.workflow.data.copy(),
        mean_delays(problem),
        mean_times(problem),
    )


def _shuffled_queues(problem: Problem, net: PathProblem) -> ProcessorQueues:
    """Return queues with every task placed as shuffled, in topological order."""
    from zenturio.schedule.kernels.dynamic_critical_path import empty_queues, enqueue_task  # noqa: PLC0415

    queues: ProcessorQueues = empty_queues(net)
    places = shuffle_placement(problem)
    for task in problem.order.tolist():
        place = int(places[task])
        # Behind the last task: the topological order keeps every queue free of deadlocks.
        enqueue_task(net, queues, task, place, int(queues.last[place]), -1)
    return queues


def _plan_of_queues(
    problem: Problem,
    algorithm: str,
    queues: ProcessorQueues,
    times: FinishTimes,
    lengths: list[float] | None = None,
) -> Plan:
    """Return the plan of *queues*, with its tasks in the order of their times."""
    notes = {"rounds": lengths} if lengths else {}
    return evaluate(problem, queues.place, times.order, algorithm, notes)
