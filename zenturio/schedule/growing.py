"""Numbers of nodes without a genetic search: grown, guessed, and improved by annealing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from zenturio.schedule.choices import NodeChoices
from zenturio.schedule.cluster import ClusterQueue, Counts
from zenturio.schedule.fitness import Fitness
from zenturio.schedule.moldable import MoldableProblem

_MAX_TASKS_PLAYED, _MAX_PLAYS = 5_000_000, 50_000
"""To improve a plan so many tasks are started, and queues played, unless something else is said."""


def grow_allocations(cluster: ClusterQueue, until: Literal["best", "balance"] = "best") -> Counts:
    """The numbers of nodes of CPA: grown on the critical path, from the fewest.

    Until the area is as long as the critical path, as published; or as long as that can still
    make a better plan, of which the *best* is taken.
    """
    from zenturio.schedule.kernels.growing import grow_nodes  # noqa: PLC0415 - needs Numba

    problem = cluster.problem
    following = np.zeros(problem.seconds.shape, np.int64)
    for row, counts in zip(following, problem.lean, strict=True):
        row[counts[:-1]] = counts[1:]
    stride = max(1, problem.tasks // 100) if until == "best" else 0
    found: Counts = grow_nodes(
        cluster.kind, problem.nodes, cluster.graph, problem.order.astype(np.int64),
        problem.seconds, problem.row, problem.fewest.astype(np.int64), following, stride,
    )  # fmt: skip
    return found


def submitted_by_rank(cluster: ClusterQueue, counts: Counts) -> ClusterQueue:
    """*cluster*, to which tasks with the longest way to an end are submitted first."""
    from zenturio.schedule.kernels.growing import bottom_levels  # noqa: PLC0415 - needs Numba

    problem = cluster.problem
    order, below = problem.order.astype(np.int64), np.empty(problem.tasks)
    bottom_levels(cluster.graph, order, problem.times(counts), below)
    return replace(cluster, order=order[np.argsort(-below[order], kind="stable")])


def simple_allocations(problem: MoldableProblem) -> list[Counts]:
    """Numbers of nodes to begin with: as many for all tasks, or as many as they make good use of.

    All tasks get one, two, ... nodes, as far as they become faster by them; or each gets more as
    long as a share of the nodes' number is saved in time.
    """
    evens = sorted({1 << k for k in range(13)} | {3 << k for k in range(12)})
    choices = NodeChoices(problem, "lean")
    most = int(problem.fastest.max(initial=1))
    upto = [even for even in evens if even < most] + [most]
    found: list[Counts] = [choices.of(choices.genes(np.full(problem.tasks, k))) for k in upto]
    known = np.isfinite(problem.seconds)
    time = np.log(
        problem.seconds, out=np.full(known.shape, np.inf), where=known & (problem.seconds > 0)
    )
    time[problem.seconds == 0] = 0
    nodes = np.log(np.maximum(np.arange(known.shape[1]), 1))
    return found + [
        (time + share * nodes).argmin(axis=1)[problem.row] for share in (0.05, 0.1, 0.2, 0.4)
    ]


def best_start(
    cluster: ClusterQueue, fitness: Fitness, guessed: Sequence[Counts]
) -> tuple[ClusterQueue, Counts, float]:
    """The best of what was *guessed*, where the longest ways are submitted first."""
    found = []
    for counts in guessed:
        by = submitted_by_rank(cluster, counts)
        found.append((by, counts, float(fitness(by.outcomes(counts[None]))[0])))
    return min(found, key=lambda each: each[2])


def anneal_allocations(
    cluster: ClusterQueue, fitness: Fitness, counts: Counts, seed: int, budget: int | None = None
) -> tuple[ClusterQueue, Counts]:
    """*counts* changed step by step, and the order of submission too; never to a worse fitness.

    After *budget* plays of the queue; None: as many as take some tenths of a second.
    """
    from zenturio.schedule.kernels.tempering import anneal_queue  # noqa: PLC0415 - needs Numba
    from zenturio.search.kernels.rng import stream  # noqa: PLC0415

    problem = cluster.problem
    choices = NodeChoices(problem)
    if budget is None:
        budget = min(_MAX_TASKS_PLAYED // max(problem.tasks, 1), _MAX_PLAYS)
    if not problem.tasks or not budget:
        return cluster, counts
    found, order = anneal_queue(
        cluster.kind, problem.nodes, cluster.graph, problem.seconds, problem.row, choices.table,
        choices.sizes, fitness.weights, budget, counts.astype(np.int64), stream(seed),
    )  # fmt: skip
    return replace(cluster, order=order), found
