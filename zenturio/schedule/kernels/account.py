"""What a plan is made of: the critical path, what waits and moves on it, who is busy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.evaluate import plan_times

FIGURES = (
    "makespan", "computation", "communication", "synchronisation", "sequential", "processors",
    "busy", "cost",
)  # fmt: skip
"""What `account` fills in, in this order."""


class CostArrays(NamedTuple):
    """What more is to be known of a problem."""

    alone: Any
    """For each processor: seconds of all tasks on it."""
    cores: Any
    """For each task."""
    price: Any
    """For each processor: of one core for a second."""


@njit(cache=True)
def plan_figures(
    numbers: Any, prices: Any, processor: Any, start: Any, end: Any, used: Any, row: Any
) -> None:
    """Fills *row* with the `COLUMNS` of a plan; *used* has room for a mark for each processor.

    The critical path goes back from the task that ends last to the one whose data came last, and
    so on; of several, to the first.
    """
    used[:] = False
    last, busy, cost = 0, 0.0, 0.0
    for task in range(len(end)):
        place, length = processor[task], end[task] - start[task]
        used[place] = True
        busy += length
        cost += length * prices.cores[task] * prices.price[place]
        if end[task] > end[last]:
            last = task
    sequential, processors = np.inf, 0
    for place in range(len(used)):
        if used[place]:
            processors += 1
            sequential = min(sequential, prices.alone[place])
    row[0] = end[last] if len(end) else 0.0
    row[1], row[2], row[3] = critical_path_parts(numbers, processor, start, end, np.uint32(last))
    row[4], row[5], row[6], row[7] = sequential, processors, busy, cost


@njit(cache=True)
def critical_path_parts(numbers: Any, processor: Any, start: Any, end: Any, last: Any) -> Any:
    """Seconds on the critical path to task *last*: computing, moving data, and waiting."""
    computation, communication, synchronisation = 0.0, 0.0, 0.0
    task, found = last, len(end) > 0
    while found:
        computation += end[task] - start[task]
        found, latest, moved, before = False, 0.0, 0.0, task
        for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
            parent = numbers.parent[edge]
            way, origin, place = 0.0, processor[parent], processor[task]
            if numbers.node[origin] != numbers.node[place]:
                here, there = numbers.site[origin], numbers.site[place]
                way = (
                    numbers.latency[here, there]
                    + numbers.data[edge] * numbers.slowness[here, there]
                )
            if not found or end[parent] + way > latest:
                found, latest, moved, before = True, end[parent] + way, way, parent
        communication += moved
        synchronisation += start[task] - latest
        task = before
    return computation, communication, synchronisation


@njit(cache=True)
def all_plan_figures(numbers: Any, prices: Any, processors: Any, orders: Any, rows: Any) -> None:
    """Plays each row of *processors* in its row of *orders*, or the only, and accounts for it."""
    tasks = len(numbers.work)
    free, start, end = np.empty(len(numbers.node)), np.empty(tasks), np.empty(tasks)
    used = np.empty(len(numbers.node), np.bool_)
    for i in range(len(processors)):
        order = orders[i if len(orders) > 1 else 0]
        plan_times(numbers, processors[i], order, free, start, end)
        plan_figures(numbers, prices, processors[i], start, end, used, rows[i])


@njit(cache=True)
def longest_path(numbers: Any, order: Any, least: Any, ends: Any) -> Any:
    """The longest path, where each task takes its *least* time, and data none."""
    found = 0.0
    for i in range(len(order)):
        task, begin = order[i], 0.0
        for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
            begin = max(begin, ends[numbers.parent[edge]])
        ends[task] = begin + least[task]
        found = max(found, ends[task])
    return found
