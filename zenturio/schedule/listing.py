"""What list algorithms share: means, ranks, and placing tasks in an order."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.evaluate import problem_arrays
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Adjacency, Floats, Indices

NONE = -1
"""In place of a processor: the one where the task ends first."""


def mean_times(problem: Problem) -> Floats:
    """The mean time of each task over the processors that can run it."""
    fits = np.isfinite(problem.pace)
    total = np.where(fits, problem.pace, 0.0).sum(axis=1)
    found: Floats = problem.work * (total / np.maximum(fits.sum(axis=1), 1))[problem.row]
    return found


def mean_delays(problem: Problem) -> Floats:
    """The mean time that the data of each edge take between two processors of two machines."""
    counts = np.bincount(problem.node)
    sites = np.zeros(len(counts), np.int64)
    sites[problem.node] = problem.site
    processors = np.bincount(problem.site, minlength=len(problem.latency)).astype(np.float64)
    pairs = np.outer(processors, processors)
    pairs -= np.diag(np.bincount(sites, counts.astype(np.float64) ** 2, len(processors)))
    share = pairs / max(pairs.sum(), 1.0)
    slowness = float((share * problem.slowness).sum())
    return float((share * problem.latency).sum()) + problem.workflow.data * slowness


def upward_ranks(problem: Problem, times: Floats, delays: Floats) -> Floats:
    """The longest way from each task to an end: times of tasks and delays of edges."""
    from zenturio.schedule.kernels.listing import longest_paths  # noqa: PLC0415 - loads Numba

    ranks: Floats = longest_paths(
        problem.order.astype(np.uint32), times, *child_edges(problem, delays)
    )
    return ranks


def downward_ranks(problem: Problem, times: Floats, delays: Floats) -> Floats:
    """The longest way from a beginning to each task, which does not count itself."""
    from zenturio.schedule.kernels.listing import longest_paths  # noqa: PLC0415 - loads Numba

    order = problem.order[::-1].astype(np.uint32)
    ways: Floats = longest_paths(order, times, *_edge_arrays(problem.before, delays))
    return ways - times


def child_edges(problem: Problem, delays: Floats) -> tuple[Any, Any, Any]:
    """What follows each task, and after which delay, as bare arrays."""
    return _edge_arrays(problem.after, delays)


def _edge_arrays(links: Adjacency, delays: Floats) -> tuple[Any, Any, Any]:
    return links.start.astype(np.uint64), links.task.astype(np.uint32), delays[links.edge]


def list_schedule(
    problem: Problem,
    algorithm: str,
    order: Indices,
    home: Indices | None = None,
    ahead: Floats | None = None,
    notes: dict[str, Any] | None = None,
) -> Plan:
    """The plan in which each task of *order* is put into the first gap that fits.

    On the processor that *home* has for its group, if any; else on the one where its end, and
    what *ahead* has for it there, are least.
    """
    from zenturio.schedule.kernels.listing import place_in_gaps  # noqa: PLC0415

    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    place = np.zeros(problem.tasks, np.uint32)
    place_in_gaps(
        problem_arrays(problem),
        order.astype(np.uint32),
        problem.group.astype(np.uint32),
        np.full(problem.tasks, NONE, np.int64) if home is None else home.astype(np.int64),
        np.empty((0, 0)) if ahead is None else ahead,
        start,
        end,
        place,
    )
    return Plan(problem, algorithm, place.astype(np.int32), start, check_finite(end), notes or {})


def check_finite(end: Floats) -> Floats:
    """*end*, of which each must be finite: every task runs where it can."""
    if not np.isfinite(end).all():
        raise InputError("an algorithm put a task where it cannot run")
    return end
