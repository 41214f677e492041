"""Lower bounds of the makespan.

Data are free only between tasks of one machine, so the bounds see transfers: what does not share a
machine waits for its data, and what does shares its capacity.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from zenturio.schedule.model.evaluation import problem_arrays
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.shared_resources import ROUNDING, Resources
from zenturio.schedule.model.workflow import Adjacency, Floats

if TYPE_CHECKING:
    from zenturio.schedule.kernels.lower_bounds import MachineKinds, TaskAdjacency

_MAX_INTERVALS = 4_000_000
"""Limit of tasks times interval starts; beyond it only some starts are tried."""
_MAX_THRESHOLDS = 64
"""Number of subsets tried for each level, chosen by the length of the paths behind them."""
_MAX_EXACT = 2.0**40
"""Whole numbers up to this value are added without rounding errors."""
_MAX_STEPS = 20_000_000
"""Edges times kinds of machine, and sites; beyond it all machines count as the best of them."""
_MAX_REFUTED_STEPS = 1_000_000
"""Those steps up to which makespans are refuted one by one."""
_PRECISION = 1e-4
"""How near the largest makespan that is refuted is found."""
_WEIGHTINGS = 60
"""Steps towards the best weights of machines."""


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """Lower bounds of the makespan, by how they are derived."""

    critical: float = 0.0
    """The longest path, each task at its fastest.

    Of the predecessors or successors of a task, those with which it does not share a machine wait
    for a transfer; those with which it does share the machine's capacity. All share processors."""
    load: float = 0.0
    """The total work, spread as machines do it best."""
    crowded: float = 0.0
    """Work that must be done within some interval (Fernandez and Bussell, 1973)."""
    level: float = 0.0
    """Tasks of a level cannot be split: two on one processor take twice as long."""
    refuted: float = 0.0
    """The longest makespan that leads to a contradiction: too long a transfer puts two tasks on one
    machine, where there is no room for all that must be there."""

    @property
    def best(self) -> float:
        """The largest of the bounds."""
        return float(max(astuple(self)))


_known: WeakKeyDictionary[Problem, LowerBounds] = WeakKeyDictionary()
"""Several parts of one search ask for the same bounds."""


def lower_bounds(problem: Problem) -> LowerBounds:
    """Return lower bounds of the makespan of every plan of *problem*."""
    bounds = _known.get(problem)
    if bounds is None:
        bounds = _known[problem] = _computed(problem)
    return bounds


def lower_bound(problem: Problem) -> float:
    """Return the largest lower bound of the makespan, in seconds."""
    return lower_bounds(problem).best


def gap(makespan: float, bound: float) -> float:
    """Return by which share of *bound* a plan may at most be longer than the optimum."""
    return max(0.0, makespan / bound - 1) if bound else 0.0


def _computed(problem: Problem) -> LowerBounds:
    from zenturio.schedule.kernels.lower_bounds import fill_bounds_of_tasks  # noqa: PLC0415 - Numba

    if not problem.tasks:
        return LowerBounds()
    fastest: Floats = problem.work * problem.pace.min(axis=1)[problem.row]
    unit = _equal_task_times(problem) if problem.resources is None else None
    kinds = _machine_kinds(problem)
    forth, back = _links(problem, kinds, fastest, unit)
    group = problem.group.astype(np.int64)
    fits = np.isfinite(kinds.pace)[problem.row]
    heads, tails = np.empty((2, *fits.shape))
    critical = float(fill_bounds_of_tasks(kinds, forth, back, group, fits, heads, tails))
    head, tail = heads.min(axis=1), tails.min(axis=1)
    load, crowded, level = _load_bound(problem, kinds), 0.0, 0.0
    if unit is not None:
        crowded = _interval_bound(problem, fastest, head, tail, critical)
        level = _level_bound(problem, fastest, unit, head, tail)
    # Times may carry rounding errors: subtract a little before rounding up to a whole makespan.
    has_whole_times = problem.resources is None and _has_whole_times(problem)
    best = max(critical, load, crowded, level)
    refuted = best
    steps = len(forth.task) * len(kinds.machines) * len(kinds.latency)
    if best and steps <= _MAX_REFUTED_STEPS and not _is_refutation_implied(problem, kinds):
        refuted = _longest_refuted(best, kinds, forth, back, group, fits)
    bounds = critical, load, crowded, level, refuted
    return LowerBounds(
        *(float(math.ceil(bound - 1e-9)) if has_whole_times else bound for bound in bounds)
    )


def _is_refutation_implied(problem: Problem, kinds: MachineKinds) -> bool:
    """Return whether crowded intervals say as much: a span that is too full is one of them.

    So it is where machines are alike and take one task at a time, no data pass, and none is tied to
    the machine of another.
    """
    is_alike = problem.resources is None and len(kinds.machines) == 1
    return is_alike and not problem.grouped and not problem_arrays(problem).moves


def critical_bound(problem: Problem, release: Floats) -> float:
    """Return the longest way from a task's *release* to the end of all that waits for it.

    A lower bound of when all tasks have ended, if none starts before its release.
    """
    from zenturio.schedule.kernels.lower_bounds import fill_bounds_of_tasks  # noqa: PLC0415 - Numba

    kinds = _machine_kinds(problem)
    forth, back = _links(problem, kinds, np.zeros(problem.tasks), None)
    group, fits = problem.group.astype(np.int64), np.isfinite(kinds.pace)[problem.row]
    heads, tails = np.empty((2, *fits.shape))
    forth = forth._replace(floor=np.ascontiguousarray(release, np.float64))
    return float(fill_bounds_of_tasks(kinds, forth, back, group, fits, heads, tails))


def _longest_refuted(
    bound: float,
    kinds: MachineKinds,
    forth: TaskAdjacency,
    back: TaskAdjacency,
    group: Any,
    fits: Any,
) -> float:
    """Return the longest makespan that is refuted, or *bound* if none beyond it is."""
    from zenturio.schedule.kernels.lower_bounds import is_refuted  # noqa: PLC0415 - loads Numba

    heads, tails = np.empty((2, *fits.shape))

    def fails(makespan: float) -> bool:
        return bool(is_refuted(kinds, forth, back, group, fits, makespan, heads, tails))

    low, step = bound, bound * _PRECISION * 16
    while math.isfinite(step) and fails(low + step):
        low += step
        step *= 2
    high = low + step
    while high - low > _PRECISION * low:
        middle = (low + high) / 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return low


def _machine_kinds(problem: Problem) -> MachineKinds:
    """Return the machines of *problem* by kind, or all as the best of them if there are many."""
    from zenturio.schedule.kernels.lower_bounds import MachineKinds  # noqa: PLC0415 - loads Numba

    resources = problem.resources
    _, first, cores = np.unique(problem.node, return_index=True, return_counts=True)
    if resources is None:
        need, capacity = np.ones((problem.tasks, 1)), cores[:, None].astype(np.float64)
        boot = np.zeros(len(first))
    else:
        is_needed = resources.need.any(axis=0)
        need, capacity = resources.need[:, is_needed], resources.capacity[:, is_needed]
        capacity, boot = capacity * (1 + ROUNDING), resources.boot
    pace, site = problem.pace[:, first], problem.site[first]
    alike: dict[object, list[int]] = {}
    for machine in range(len(first)):
        key = (pace[:, machine].tobytes(), site[machine], capacity[machine].tobytes())
        alike.setdefault((*key, boot[machine]), []).append(machine)
    one = [members[0] for members in alike.values()]
    latency, slowness = problem.latency, problem.slowness
    edges = len(problem.workflow.data) + problem.tasks
    if edges * len(one) * len(latency) > _MAX_STEPS:
        pace, capacity = pace.min(axis=1, keepdims=True), capacity.max(axis=0, keepdims=True)
        counts, site, boot = np.array([len(first)]), np.zeros(1, np.int64), boot.min(keepdims=True)
        latency, slowness = latency.min(keepdims=True), slowness.min(keepdims=True)
    else:
        counts = np.array([len(members) for members in alike.values()])
        pace, site, capacity, boot = pace[:, one], site[one], capacity[one], boot[one]
    # Where a resource is missing, tasks that need it do not run, and others need none of it.
    share = 1 / np.maximum(capacity, 1e-300)
    return MachineKinds(
        np.ascontiguousarray(problem.work),
        problem.row.astype(np.int64),
        np.ascontiguousarray(pace),
        counts.astype(np.int64),
        site.astype(np.int64),
        np.ascontiguousarray(latency),
        np.ascontiguousarray(slowness),
        np.ascontiguousarray(need),
        np.ascontiguousarray(share),
        np.ascontiguousarray(boot),
        _weights(problem, pace, counts, need, capacity),
    )


def _weights(
    problem: Problem, pace: Floats, counts: Floats, need: Floats, capacity: Floats
) -> Floats:
    """Return for each resource what a second of it is worth on each kind of machine.

    If each task counts with the least that it takes anywhere, the work of all tasks is at most what
    all machines offer. Any weights do; those are sought that say most.
    """
    best = np.ones((need.shape[1], len(counts)))
    for resource in range(need.shape[1]):
        work = np.bincount(problem.row, problem.work * need[:, resource], len(pace))
        used = np.flatnonzero(work > 0)
        offer = counts * capacity[:, resource]
        if not len(used) or not np.isfinite(offer).all() or not offer.any():
            continue
        paces, work = pace[used], work[used]
        fits = np.isfinite(paces)
        mean = np.where(fits, paces, 0.0).T @ work / np.maximum(fits.T @ work, 1e-300)
        value, most = np.where(mean > 0, 1 / np.maximum(mean, 1e-300), 1.0), -1.0
        for step in range(_WEIGHTINGS):
            seconds = np.where(fits, paces * value, np.inf)
            where = seconds.argmin(axis=1)
            rows = np.arange(len(used))
            total = float(work @ seconds[rows, where]) / float(offer @ value)
            if total > most:
                most, best[resource] = total, value
            busy = np.bincount(where, work * paces[rows, where], len(counts))
            busy = np.divide(busy, offer, out=np.zeros_like(busy), where=offer > 0)
            # Machines that get too much work become worth more.
            value = value * np.exp(0.5 / (1 + step) * (busy / (busy.max() or 1.0) - 0.5))
    return best


def _links(
    problem: Problem, kinds: MachineKinds, fastest: Floats, unit: Floats | None
) -> tuple[TaskAdjacency, TaskAdjacency]:
    """Return the edges towards each task, and away from it, with times that are known."""
    from zenturio.schedule.kernels.lower_bounds import (  # noqa: PLC0415 - loads Numba
        TaskAdjacency,
        earliest_starts,
    )

    order = problem.order.astype(np.int64)

    def links(way: Adjacency, order: Any, latency: Floats, slowness: Floats, boot: Floats) -> Any:
        floor = np.zeros(problem.tasks)
        if unit is not None:
            floor = earliest_starts(
                order.astype(np.uint32),
                way.start.astype(np.uint64),
                way.task.astype(np.uint32),
                problem.work,
                fastest,
                unit,
                len(_fastest(problem)),
            )
        return TaskAdjacency(
            np.ascontiguousarray(order),
            way.start.astype(np.int64),
            way.task.astype(np.int64),
            problem.workflow.data[way.edge],
            np.ascontiguousarray(latency),
            np.ascontiguousarray(slowness),
            floor,
            boot,
        )

    return (
        links(problem.before, order, kinds.latency, kinds.slowness, kinds.boot),
        links(
            problem.after, order[::-1], kinds.latency.T, kinds.slowness.T, np.zeros_like(kinds.boot)
        ),
    )


def _load_bound(problem: Problem, kinds: MachineKinds) -> float:
    """Return when the work of all tasks can be done, as far as each resource is concerned."""
    resources, load = problem.resources, 0.0
    fastest: Floats = problem.work * problem.pace.min(axis=1)[problem.row]
    if resources is None:
        pace = _fastest(problem)
        load = max(load, float(fastest.sum()) / len(pace))
    else:
        load = _load_by_capacity(fastest, resources)
    if not kinds.boot.any():
        least = np.where(np.isfinite(kinds.pace), kinds.pace, np.inf)
        for weight, share, need in zip(kinds.weight, kinds.share.T, kinds.need.T, strict=True):
            if (share > 0).all():
                seconds = (least * weight).min(axis=1)[problem.row] * problem.work
                offer = float(kinds.machines / share @ weight)
                # Sums of products may be rounded up.
                load = max(load, float(seconds @ need) / offer * (1 - 1e-12))
    return load


def _load_by_capacity(fastest: Floats, resources: Resources) -> float:
    """Return when machines that boot have offered what all tasks need of each resource.

    A machine offers its cores from its boot on, so the work of all tasks needs at least as long as
    all machines together.
    """
    load = 0.0
    for need, capacity in zip(resources.need.T, resources.capacity.T, strict=True):
        if need.any() and np.isfinite(capacity).all():
            load = max(load, _filled_at(resources.boot, capacity, float(need @ fastest)))
    return load


def _filled_at(boot: Floats, capacity: Floats, work: float) -> float:
    """Return when machines that start after *boot* have offered *work* units of a resource."""
    if not work:
        return 0.0
    order = np.argsort(boot)
    total = np.cumsum(capacity[order])
    offered = np.cumsum(capacity[order] * boot[order])
    # With the first k machines, work is offered until (work + sum of c b) / sum of c.
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(total > 0, (work + offered) / total, np.inf)
    return float(times.min())


def _has_whole_times(problem: Problem) -> bool:
    """Return whether all times are whole numbers; then every makespan is whole, too."""
    moves = problem.latency.any() or (problem.slowness.any() and problem.workflow.data.any())
    if moves or problem.work.sum() * _finite_paces(problem).max() > _MAX_EXACT:
        return False
    times = np.unique(problem.work)[:, None] * np.unique(_finite_paces(problem))
    return bool((times == np.floor(times)).all())


def _finite_paces(problem: Problem) -> Floats:
    pace = problem.pace[np.unique(problem.row)]
    return pace[np.isfinite(pace)]


def _fastest(problem: Problem) -> Floats:
    """Return for each processor the least pace of any task there."""
    paces: Floats = problem.pace[np.unique(problem.row)].min(axis=0)
    return paces[np.isfinite(paces)]


def _interval_bound(
    problem: Problem, fastest: Floats, head: Floats, tail: Floats, critical: float
) -> float:
    from zenturio.schedule.kernels.lower_bounds import interval_excess  # noqa: PLC0415 - loads Numba

    nonzero = fastest > 0
    first, length = head[nonzero], fastest[nonzero]
    last = (critical - tail - fastest)[nonzero]
    begins = np.unique(np.concatenate([first, last]))
    step = max(1, -(-len(begins) * len(first) // _MAX_INTERVALS))
    excess = float(interval_excess(first, last, length, begins[::step], len(_fastest(problem))))
    return critical + excess


def _equal_task_times(problem: Problem) -> Floats:
    """Return the shortest times for 1, 2, ... equal tasks, up to the largest level or fan-out."""
    from zenturio.schedule.kernels.lower_bounds import equal_task_times  # noqa: PLC0415 - loads Numba

    links = problem.before.start, problem.after.start
    max_tasks = max(
        np.bincount(problem.workflow.level).max(), *(np.diff(starts).max() for starts in links)
    )
    times: Floats = equal_task_times(_fastest(problem), max_tasks)
    return times


def _level_bound(
    problem: Problem, fastest: Floats, unit: Floats, head: Floats, tail: Floats
) -> float:
    """Return the best bound from tasks of one level that are done together.

    For some tasks of a level: the earliest start of any, plus their joint time, plus the shortest
    path behind any.
    """
    from zenturio.schedule.kernels.lower_bounds import joint_time  # noqa: PLC0415 - loads Numba

    level, count = problem.workflow.level, len(_fastest(problem))
    order = np.lexsort((-tail, level))
    best = 0.0
    for row in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
        for stop in np.unique(np.linspace(1, len(row), _MAX_THRESHOLDS).astype(int)):
            subset = row[:stop]
            joint = float(joint_time(subset, problem.work, fastest, unit, count))
            best = max(best, float(head[subset].min()) + joint + float(tail[row[stop - 1]]))
    return best
