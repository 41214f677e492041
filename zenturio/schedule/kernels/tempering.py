"""Numbers of nodes and an order, changed again and again, ever less willing to become worse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from zenturio.schedule.kernels.cluster import QueueGraph, play_queue, queue_buffers
from zenturio.search.kernels.rng import below, unit

HOT_START, WARM_START, COLD_END = 0.1, 0.003, 1e-5
"""By which share of its fitness a plan may become worse as likely as not: at first, at last."""
ROUNDS = 8


@njit(cache=True)
def weighted_figures(weights: Any, total: Any, makespan: Any, cost: Any) -> Any:
    """What makes a plan's fitness: weighed seconds, makespan, node seconds, busy nodes."""
    busy = cost / makespan if makespan > 0 else cost
    return (weights[0] * total, weights[1] * makespan, weights[2] * cost, weights[3] * busy)


@njit(cache=True)
def nearby_count(choices: Any, count: Any, state: Any) -> Any:
    """A number of nodes out of *choices*, mostly one that is at most two from *count*."""
    if unit(state) < 0.2:
        return choices[below(state, len(choices))]
    at = np.searchsorted(choices, count) + below(state, 5) - 2
    return choices[min(max(at, 0), len(choices) - 1)]


@njit(cache=True)
def move_in_order(order: Any, rank: Any, place: Any, to: Any) -> None:
    """Move the task at *place* of *order* to another; those between go a step aside."""
    task, step = order[place], 1 if to > place else -1
    while place != to:
        order[place] = order[place + step]
        rank[order[place]] = place
        place += step
    order[to] = task
    rank[task] = to


@njit(cache=True)
def anneal_queue(
    kind: Any,
    nodes: Any,
    graph: Any,
    table: Any,
    row: Any,
    choices: Any,
    sizes: Any,
    weights: Any,
    budget: Any,
    counts: Any,
    state: Any,
) -> Any:
    """The best of *budget* plans, each a small step from one before; *counts* and the order of it.

    A step gives a task another number of nodes, of the *choices* of its row, or submits it sooner
    or later. Rounds that begin cold, and search nearby, take turns with some that begin hot.
    """
    tasks = len(row)
    on, start, end = queue_buffers(tasks), np.empty(tasks), np.empty(tasks)
    order, rank, seconds = graph.order.copy(), graph.rank.copy(), np.empty(tasks)
    queue = QueueGraph(graph.waits, graph.first, graph.child, graph.delay, order, rank)
    best, best_counts, best_order = np.inf, counts.copy(), order.copy()
    now, heat, cooling, total, cost = np.inf, 0.0, 1.0, 0.0, 0.0
    length = max(1, budget // ROUNDS)
    for step in range(budget):
        if step % length == 0:
            counts[:], order[:] = best_counts, best_order
            total, cost = 0.0, 0.0
            for task in range(tasks):
                rank[order[task]] = task
                seconds[task] = table[row[task], counts[task]]
                total += seconds[task]
                cost += seconds[task] * counts[task]
            makespan = play_queue(kind, nodes, queue, counts, seconds, on, start, end)
            told = weighted_figures(weights, total, makespan, cost)
            now = best = told[0] + told[1] + told[2] + told[3]
            heat = HOT_START if step // length % 2 else WARM_START
            cooling = (COLD_END / heat) ** (1.0 / length)
            heat *= abs(told[0]) + abs(told[1]) + abs(told[2]) + abs(told[3])
        heat *= cooling
        task = below(state, tasks)
        before, place = counts[task], rank[task]
        other, to = before, place
        if unit(state) < 0.5:
            to = below(state, tasks)
            move_in_order(order, rank, place, to)
        else:
            other = nearby_count(choices[row[task], : sizes[row[task]]], before, state)
        lasts = table[row[task], other]
        longer, more = lasts - seconds[task], lasts * other - seconds[task] * before
        counts[task], seconds[task] = other, lasts
        makespan = play_queue(kind, nodes, queue, counts, seconds, on, start, end)
        told = weighted_figures(weights, total + longer, makespan, cost + more)
        found = told[0] + told[1] + told[2] + told[3]
        if found <= now or unit(state) < math.exp((now - found) / heat):
            now, total, cost = found, total + longer, cost + more
            if now < best:
                best, best_counts[:], best_order[:] = now, counts, order
        else:
            counts[task], seconds[task] = before, table[row[task], before]
            move_in_order(order, rank, to, place)
    return best_counts, best_order
