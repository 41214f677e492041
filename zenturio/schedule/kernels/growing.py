"""Nodes for tasks, one after the other, as long as the critical path weighs more than the area."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from zenturio.schedule.kernels.cluster import QueueGraph, play_queue, queue_buffers
from zenturio.schedule.kernels.paths import TIE_TOLERANCE


@njit(cache=True)
def bottom_levels(graph: Any, topological: Any, seconds: Any, below: Any) -> Any:
    """Fill *below* with the longest way from each task to an end, itself included; the longest."""
    longest = 0.0
    for i in range(len(topological) - 1, -1, -1):
        task = topological[i]
        way = 0.0
        for at in range(graph.first[task], graph.first[task + 1]):
            way = max(way, graph.delay[at] + below[graph.child[at]])
        below[task] = seconds[task] + way
        longest = max(longest, below[task])
    return longest


@njit(cache=True)
def best_candidate(
    graph: Any,
    topological: Any,
    table: Any,
    row: Any,
    counts: Any,
    seconds: Any,
    following: Any,
    below: Any,
) -> Any:
    """The task of the critical path that gains most by more nodes; -1, if none can have more.

    What it gains is how much less time it takes for each of its nodes (CPA). *following* is, by
    row and number of nodes, the next larger number on which it is faster; 0, if there is none.
    """
    task, found, most = -1, -1, -np.inf
    for i in topological:
        if graph.waits[i] == 0 and (task < 0 or below[i] > below[task]):
            task = i
    while task >= 0:
        more = following[row[task], counts[task]]
        if more:
            gain = seconds[task] / counts[task] - table[row[task], more] / more
            if gain > most:
                found, most = task, gain
        way, task_after = -1.0, -1
        for at in range(graph.first[task], graph.first[task + 1]):
            child = graph.child[at]
            if graph.delay[at] + below[child] > way:
                way, task_after = graph.delay[at] + below[child], child
        task = task_after
    return found


@njit(cache=True)
def grow_nodes(
    kind: Any,
    nodes: Any,
    graph: Any,
    topological: Any,
    table: Any,
    row: Any,
    counts: Any,
    following: Any,
    stride: Any,
) -> Any:
    """Nodes for each task, grown from *counts*.

    With a *stride* of 0 until the area, node seconds by nodes, is as long as the critical path.
    Else on, as long as the area is shorter than the best plan, which is looked for after every
    *stride* steps: tasks with the longest way to an end are submitted first.
    """
    tasks = len(row)
    seconds, below = np.empty(tasks), np.empty(tasks)
    on, start, end = queue_buffers(tasks), np.empty(tasks), np.empty(tasks)
    order, rank = np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    best, grown, area, step = counts.copy(), counts.copy(), 0.0, 0
    for task in range(tasks):
        seconds[task] = table[row[task], grown[task]]
        area += seconds[task] * grown[task]
    least = np.inf
    while True:
        longest = bottom_levels(graph, topological, seconds, below)
        task = best_candidate(graph, topological, table, row, grown, seconds, following, below)
        if stride and (task < 0 or step % stride == 0):
            order[:] = topological[np.argsort(-below[topological], kind="mergesort")]
            for place in range(tasks):
                rank[order[place]] = place
            queue = QueueGraph(graph.waits, graph.first, graph.child, graph.delay, order, rank)
            makespan = play_queue(kind, nodes, queue, grown, seconds, on, start, end)
            if makespan < least:
                least = makespan
                best[:] = grown
        # What is as long but for the rounding of a sum is as long.
        if task < 0 or area / nodes >= (least if stride else longest) * (1 - TIE_TOLERANCE):
            return best if stride else grown
        area -= seconds[task] * grown[task]
        grown[task] = following[row[task], grown[task]]
        seconds[task] = table[row[task], grown[task]]
        area += seconds[task] * grown[task]
        step += 1
