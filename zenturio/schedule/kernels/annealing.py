"""One plan, changed again and again, ever less willing to become worse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from zenturio.schedule.kernels.memetic import evaluate_plan
from zenturio.schedule.kernels.placing import empty_plan
from zenturio.schedule.kernels.varying import critical_tasks, random_move
from zenturio.search.kernels.rng import below, unit

CRITICAL_CHANCE = 0.8
"""How likely a move is of a critical task; else it is of any."""


@njit(cache=True)
def anneal(
    case: Any, order: Any, genes: Any, hot: Any, cold: Any, count: Any, bound: Any, state: Any
) -> Any:
    """Makes *order* and *genes* the best plan that *count* moves lead to.

    A plan that is longer by a temperature is taken with a chance of 1 / e; that falls from *hot*
    to *cold* evenly in its logarithm. Returns the makespan, how many moves there were, and which
    found the best.
    """
    tasks = len(order)
    board, path = empty_plan(tasks, len(case.forth.node)), np.empty(tasks, np.int64)
    now = evaluate_plan(case, order, genes, board)
    length = critical_tasks(case.forth, board, state, path)
    best, last, done = now, 0, 0
    here, at = order.copy(), genes.copy()
    trial, there = order.copy(), genes.copy()
    heat, cooling = hot, (cold / hot) ** (1.0 / count)
    while done < count and best > bound:
        trial[:], there[:] = here, at
        near = unit(state) < CRITICAL_CHANCE
        task = path[below(state, length)] if near else below(state, tasks)
        random_move(case, trial, there, np.uint32(task), state)
        found = evaluate_plan(case, trial, there, board)
        done += 1
        heat *= cooling
        if found <= now or unit(state) < math.exp((now - found) / heat):
            now = found
            here[:], at[:] = trial, there
            length = critical_tasks(case.forth, board, state, path)
            if now < best:
                best, last = now, done
                order[:], genes[:] = here, at
    return best, done, last
