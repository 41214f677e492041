"""Times that no plan can beat: how far from the best a plan may be at the most."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Floats

_INTERVALS = 4_000_000
"""Tasks times beginnings of intervals, at the most."""
_THRESHOLDS = 64
"""Sets of tasks that are tried of each level, by how much comes behind them."""
_WHOLE = 2.0**40
"""Numbers up to this are added without rounding, if they are whole."""


@dataclass(frozen=True, slots=True)
class Bounds:
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


def lower_bounds(problem: Problem) -> Bounds:
    """What is known about the shortest plan of *problem*."""
    if not problem.tasks:
        return Bounds(0.0, 0.0, 0.0, 0.0)
    least: Floats = problem.work * problem.pace.min(axis=1)[problem.row]
    unit = _unit(problem)
    head, tail = _ways(problem, least, unit)
    critical = float((head + least + tail).max())
    whole = _is_whole(problem)
    found = (
        critical,
        _load(problem, least),
        _crowded(problem, least, head, tail, critical),
        _level(problem, least, unit, head, tail),
    )
    return Bounds(*(float(math.ceil(each - 1e-9)) if whole else each for each in found))


def lower_bound(problem: Problem) -> float:
    """The best of the lower bounds."""
    return lower_bounds(problem).best


def gap(makespan: float, bound: float) -> float:
    """By which share of *bound* a plan is longer, at the most."""
    return max(0.0, makespan / bound - 1) if bound else 0.0


def _ways(problem: Problem, least: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """How long it takes to each task, and from its end on, at the least."""
    from zenturio.schedule.kernels.bounding import ways  # noqa: PLC0415 - loads Numba

    count = len(_fastest(problem))
    order = problem.order.astype(np.uint32)
    head, tail = (
        ways(
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


def _is_whole(problem: Problem) -> bool:
    """Whether all plans are of whole numbers: then so are the shortest."""
    moves = problem.latency.any() or (problem.slowness.any() and problem.workflow.data.any())
    if moves or problem.work.sum() * _finite(problem).max() > _WHOLE:
        return False
    times = np.unique(problem.work)[:, None] * np.unique(_finite(problem))
    return bool((times == np.floor(times)).all())


def _finite(problem: Problem) -> Floats:
    pace = problem.pace[np.unique(problem.row)]
    return pace[np.isfinite(pace)]


def _fastest(problem: Problem) -> Floats:
    """For each processor, the least that any task takes there for a unit of its work."""
    found: Floats = problem.pace[np.unique(problem.row)].min(axis=0)
    return found[np.isfinite(found)]


def _load(problem: Problem, least: Floats) -> float:
    pace = _fastest(problem)
    even = float(least.sum()) / len(pace)
    speed = float((1 / pace).sum()) if pace.all() else math.inf
    return max(even, float(problem.work.sum()) / speed)


def _crowded(problem: Problem, least: Floats, head: Floats, tail: Floats, critical: float) -> float:
    from zenturio.schedule.kernels.bounding import crowding  # noqa: PLC0415 - loads Numba

    lasting = least > 0
    first, length = head[lasting], least[lasting]
    last = (critical - tail - least)[lasting]
    begins = np.unique(np.concatenate([first, last]))
    step = max(1, -(-len(begins) * len(first) // _INTERVALS))
    more = float(crowding(first, last, length, begins[::step], len(_fastest(problem))))
    return critical + more


def _unit(problem: Problem) -> Floats:
    """The shortest times for 1, 2, ... equal tasks: as many as a level or a task's neighbours."""
    from zenturio.schedule.kernels.bounding import multiples  # noqa: PLC0415 - loads Numba

    links = problem.before.start, problem.after.start
    most = max(np.bincount(problem.workflow.level).max(), *(np.diff(each).max() for each in links))
    found: Floats = multiples(_fastest(problem), most)
    return found


def _level(problem: Problem, least: Floats, unit: Floats, head: Floats, tail: Floats) -> float:
    """Of each level, tasks that are done together: the first before them, the last behind them."""
    from zenturio.schedule.kernels.bounding import together  # noqa: PLC0415 - loads Numba

    level, count = problem.workflow.level, len(_fastest(problem))
    by = np.lexsort((-tail, level))
    best = 0.0
    for row in np.split(by, np.flatnonzero(np.diff(level[by])) + 1):
        for stop in np.unique(np.linspace(1, len(row), _THRESHOLDS).astype(int)):
            some = row[:stop]
            behind = float(together(some, problem.work, least, unit, count))
            best = max(best, float(head[some].min()) + behind + float(tail[row[stop - 1]]))
    return best
