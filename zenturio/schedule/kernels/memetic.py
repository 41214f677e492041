"""A population of plans that inherit from each other, and learn before they are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from zenturio.schedule.kernels.placing import decode_plan, empty_plan, reversed_order
from zenturio.schedule.kernels.varying import critical_tasks, crossover, random_move
from zenturio.search.kernels.rng import below, unit


@njit(cache=True)
def evaluate_plan(case: Any, order: Any, genes: Any, board: Any) -> Any:
    """The makespan of a plan; its genes are then where its tasks run, unless they stay free."""
    found = decode_plan(case, case.forth, order, genes, board)
    if not case.loose:
        genes[:] = board.home
    return found


@njit(cache=True)
def justify(case: Any, order: Any, genes: Any, board: Any) -> Any:
    """Every task as late as it may be, then as early; fills *order* and returns the makespan.

    On *board* is the plan before, and then the plan after. It is not longer but for rounding.
    """
    turned = np.empty_like(order)
    reversed_order(order, board.end, turned)
    decode_plan(case, case.back, turned, genes, board)
    reversed_order(turned, board.end, order)
    return evaluate_plan(case, order, genes, board)


@njit(cache=True)
def local_search(
    case: Any, order: Any, genes: Any, board: Any, tries: Any, bound: Any, state: Any
) -> Any:
    """Improves a plan until *tries* moves of critical tasks have been of no use.

    Returns its makespan, the sum of its ends, and how often a plan was decoded. Of plans that are
    as long, the one whose tasks end earlier is better: else most moves would go nowhere.
    """
    path = np.empty(len(order), np.int64)
    best, total, count = evaluate_plan(case, order, genes, board), board.end.sum(), 3
    trial, there = order.copy(), genes.copy()
    found = justify(case, trial, there, board)
    if found <= best:
        order[:], genes[:] = trial, there
        best, total = found, board.end.sum()
    else:
        evaluate_plan(case, order, genes, board)
        count += 1
    length, left = critical_tasks(case.forth, board, state, path), tries
    while left > 0 and best > bound:
        trial[:], there[:] = order, genes
        random_move(case, trial, there, np.uint32(path[below(state, length)]), state)
        found = evaluate_plan(case, trial, there, board)
        count += 1
        ends = board.end.sum()
        left = tries if found < best else left - 1
        if found < best or (found == best and ends <= total):
            best, total = found, ends
            order[:], genes[:] = trial, there
            length = critical_tasks(case.forth, board, state, path)
    return best, total, count


@njit(cache=True)
def is_better(marks: Any, one: Any, other: Any) -> Any:
    """Whether plan *one* is better than *other*."""
    if marks[one, 0] != marks[other, 0]:
        return marks[one, 0] < marks[other, 0]
    return marks[one, 1] < marks[other, 1]


@njit(cache=True)
def improve_all(
    case: Any, orders: Any, genes: Any, marks: Any, tries: Any, bound: Any, state: Any
) -> Any:
    """Improves each of the first plans, and fills *marks*; how often a plan was decoded."""
    board, count = empty_plan(orders.shape[1], len(case.forth.node)), 0
    for i in range(len(orders)):
        marks[i, 0], marks[i, 1], used = local_search(
            case, orders[i], genes[i], board, tries, bound, state
        )
        count += used
    return count


@njit(cache=True)
def tournament(marks: Any, state: Any) -> Any:
    """The better of two that chance takes."""
    one, other = below(state, len(marks)), below(state, len(marks))
    return other if is_better(marks, other, one) else one


@njit(cache=True)
def evolve_plans(
    case: Any,
    orders: Any,
    genes: Any,
    marks: Any,
    tries: Any,
    mutation: Any,
    bound: Any,
    state: Any,
    count: Any,
    stop: Any,
) -> Any:
    """Children, one by one, each for the worst of the plans, until *stop* plans were decoded.

    *count* were before. Returns how many they are now, at which the best was found (0: before),
    and how many children were born. A child whose like is there already is not taken.
    """
    board, born, last = empty_plan(orders.shape[1], len(case.forth.node)), 0, 0
    order, child = np.empty_like(orders[0]), np.empty_like(genes[0])
    best = marks[:, 0].min()
    while count < stop and best > bound:
        mother, father = tournament(marks, state), tournament(marks, state)
        crossover(
            case, orders[mother], orders[father], genes[mother], genes[father], state, order, child
        )
        while unit(state) < mutation:
            random_move(case, order, child, np.uint32(below(state, len(order))), state)
        found, total, used = local_search(case, order, child, board, tries, bound, state)
        count, born = count + used, born + 1
        worst, twin = 0, False
        for i in range(len(marks)):
            twin |= marks[i, 0] == found and marks[i, 1] == total
            if is_better(marks, worst, i):
                worst = i
        better = found < marks[worst, 0] or (found == marks[worst, 0] and total < marks[worst, 1])
        if better and not twin:
            orders[worst], genes[worst] = order, child
            marks[worst, 0], marks[worst, 1] = found, total
        if found < best:
            best, last = found, count
    return count, last, born
