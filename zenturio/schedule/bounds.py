"""Times that no plan can beat: how far from the best a plan may be at the most."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Floats

_MAX_INTERVALS = 4_000_000
"""Tasks times beginnings of intervals, at the most."""
_MAX_THRESHOLDS = 64
"""Sets of tasks that are tried of each level, by how much comes behind them."""
_MAX_EXACT = 2.0**40
"""Numbers up to this are added without rounding, if they are whole."""


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """Lower bounds of the makespan, each by its reason."""

    critical: float
    """The longest way, each task where it is fastest, and no transfer.

    What waits for a task, or a task for, is done together where that takes longer."""
    load: float
    """All work, spread evenly."""
    crowded: float
    """Work that must lie in some interval (Fernandez and Bussell, 1973)."""
    level: float
    """Tasks that are not to be cut: if two share a processor, that takes twice as long."""

    @property
    def best(self) -> float:
        return max(self.critical, self.load, self.crowded, self.level)


def lower_bounds(problem: Problem) -> LowerBounds:
    """What is known about the shortest plan of *problem*."""
    if not problem.tasks:
        return LowerBounds(0.0, 0.0, 0.0, 0.0)
    least: Floats = problem.work * problem.pace.min(axis=1)[problem.row]
    unit = _equal_task_times(problem)
    head, tail = _heads_and_tails(problem, least, unit)
    critical = float((head + least + tail).max())
    whole = _has_whole_times(problem)
    found = (
        critical,
        _load_bound(problem, least),
        _interval_bound(problem, least, head, tail, critical),
        _level_bound(problem, least, unit, head, tail),
    )
    return LowerBounds(*(float(math.ceil(each - 1e-9)) if whole else each for each in found))


def lower_bound(problem: Problem) -> float:
    """The best of the lower bounds."""
    return lower_bounds(problem).best


def gap(makespan: float, bound: float) -> float:
    """By which share of *bound* a plan is longer, at the most."""
    return max(0.0, makespan / bound - 1) if bound else 0.0


def _heads_and_tails(problem: Problem, least: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """How long it takes to each task, and from its end on, at the least."""
    from zenturio.schedule.kernels.bounding import earliest_starts  # noqa: PLC0415 - loads Numba

    count = len(_fastest(problem))
    order = problem.order.astype(np.uint32)
    head, tail = (
        earliest_starts(
            order[::step],
            links.start.astype(np.uint64),
            links.task.astype(np.uint32),
            problem.work,
            least,
            unit,
            count,
        )
        for step, links in ((1, problem.before), (-1, problem.after))
    )
    return head, tail


def _has_whole_times(problem: Problem) -> bool:
    """Whether all plans are of whole numbers: then so are the shortest."""
    moves = problem.latency.any() or (problem.slowness.any() and problem.workflow.data.any())
    if moves or problem.work.sum() * _finite_paces(problem).max() > _MAX_EXACT:
        return False
    times = np.unique(problem.work)[:, None] * np.unique(_finite_paces(problem))
    return bool((times == np.floor(times)).all())


def _finite_paces(problem: Problem) -> Floats:
    pace = problem.pace[np.unique(problem.row)]
    return pace[np.isfinite(pace)]


def _fastest(problem: Problem) -> Floats:
    """For each processor, the least that any task takes there for a unit of its work."""
    found: Floats = problem.pace[np.unique(problem.row)].min(axis=0)
    return found[np.isfinite(found)]


def _load_bound(problem: Problem, least: Floats) -> float:
    pace = _fastest(problem)
    even = float(least.sum()) / len(pace)
    speed = float((1 / pace).sum()) if pace.all() else math.inf
    return max(even, float(problem.work.sum()) / speed)


def _interval_bound(
    problem: Problem, least: Floats, head: Floats, tail: Floats, critical: float
) -> float:
    from zenturio.schedule.kernels.bounding import interval_excess  # noqa: PLC0415 - loads Numba

    lasting = least > 0
    first, length = head[lasting], least[lasting]
    last = (critical - tail - least)[lasting]
    begins = np.unique(np.concatenate([first, last]))
    step = max(1, -(-len(begins) * len(first) // _MAX_INTERVALS))
    more = float(interval_excess(first, last, length, begins[::step], len(_fastest(problem))))
    return critical + more


def _equal_task_times(problem: Problem) -> Floats:
    """The shortest times for 1, 2, ... equal tasks: as many as a level or a task's neighbours."""
    from zenturio.schedule.kernels.bounding import equal_task_times  # noqa: PLC0415 - loads Numba

    links = problem.before.start, problem.after.start
    most = max(np.bincount(problem.workflow.level).max(), *(np.diff(each).max() for each in links))
    found: Floats = equal_task_times(_fastest(problem), most)
    return found


def _level_bound(
    problem: Problem, least: Floats, unit: Floats, head: Floats, tail: Floats
) -> float:
    """Of each level, tasks that are done together: the first before them, the last behind them."""
    from zenturio.schedule.kernels.bounding import joint_time  # noqa: PLC0415 - loads Numba

    level, count = problem.workflow.level, len(_fastest(problem))
    by = np.lexsort((-tail, level))
    best = 0.0
    for row in np.split(by, np.flatnonzero(np.diff(level[by])) + 1):
        for stop in np.unique(np.linspace(1, len(row), _MAX_THRESHOLDS).astype(int)):
            some = row[:stop]
            behind = float(joint_time(some, problem.work, least, unit, count))
            best = max(best, float(head[some].min()) + behind + float(tail[row[stop - 1]]))
    return best
