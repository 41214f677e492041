"""Lower bounds of the makespan."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

MAX_SETS = 64
"""Subsets of a task's neighbours that are tried."""


@njit(cache=True)
def interval_excess(first: Any, last: Any, length: Any, begins: Any, processors: Any) -> Any:
    """Return how far the work of some interval exceeds what the processors can do in it.

    Fernandez and Bussell (1973). *first* and *last* are the earliest and latest starts in a plan as
    long as the critical path. For an interval that starts at one of *begins*, a task contributes
    the part of its *length* that lies inside however far it is shifted. That part is zero up to
    some end of the interval and then grows up to another; so intervals need to end only at the
    latter.
    """
    count, worst = len(length), 0.0
    rises, stops = np.empty(count), np.empty(count)
    for begin in begins:
        used = 0
        for task in range(count):
            overlap = min(length[task], first[task] + length[task] - begin)
            # A task counts with the least part that must lie inside, however far it is shifted.
            if overlap > 0.0:
                rises[used] = max(last[task], begin)
                stops[used] = rises[used] + overlap
                used += 1
        rise_times, stop_times = np.sort(rises[:used]), np.sort(stops[:used])
        # Both ends are sorted, so the overlap with all intervals is found in one sweep.
        rising_count, sum_up, sum_down = 0, 0.0, 0.0
        for stopped in range(used):
            end = stop_times[stopped]
            while rising_count < used and rise_times[rising_count] < end:
                sum_up += rise_times[rising_count]
                rising_count += 1
            rising = rising_count - stopped
            overlap = rising * end - sum_up + sum_down
            worst = max(worst, overlap / processors - (end - begin))
            sum_down += end
    return worst


@njit(cache=True)
def equal_task_times(pace: Any, count: Any) -> Any:
    """Return the shortest times in which the processors do 1 to *count* tasks of work 1."""
    times, ends = np.empty(count), pace.copy()
    for i in range(count):
        place = np.argmin(ends)
        times[i] = ends[place]
        ends[place] += pace[place]
    return times


@njit(cache=True)
def joint_time(tasks: Any, work: Any, fastest: Any, unit: Any, processors: Any) -> Any:
    """Return the least time of *tasks* that start together and wait for nothing."""
    longest, total = 0.0, 0.0
    for task in tasks:
        longest = max(longest, fastest[task])
        total += fastest[task]
    falling = np.sort(work[tasks])[::-1]
    for i in range(len(falling)):
        longest = max(longest, falling[i] * unit[i])
    return max(longest, total / processors)


@njit(cache=True)
def earliest_starts(
    order: Any, start: Any, parent_of: Any, work: Any, fastest: Any, unit: Any, processors: Any
) -> Any:
    """Return the least time from the start to each task of *order*.

    Of the predecessors of a task, the k with the longest paths start no earlier than the shortest
    of these paths and run together; the best k is taken. If there are many, only some k are tried.
    """
    starts = np.zeros(len(order))
    for task in order:
        parents = parent_of[start[task] : start[task + np.uint64(1)]]
        count = len(parents)
        sorted_parents = parents[np.argsort(-starts[parents], kind="mergesort")]
        step = max(1, count // MAX_SETS)
        for used in range(1, count + 1):
            if used == count or used % step == 0:
                joint = joint_time(sorted_parents[:used], work, fastest, unit, processors)
                starts[task] = max(starts[task], starts[sorted_parents[used - 1]] + joint)
            else:
                alone = starts[sorted_parents[used - 1]] + fastest[sorted_parents[used - 1]]
                starts[task] = max(starts[task], alone)
    return starts
