"""Sums and counts that no plan can be shorter than."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

MAX_SETS = 64
"""So many sets of a task's neighbours are tried."""


@njit(cache=True)
def interval_excess(first: Any, last: Any, length: Any, begins: Any, processors: Any) -> Any:
    """By how much the work that must lie in some interval is more than processors have room for.

    *first* and *last* say when each task starts in a plan as long as the critical path, at the
    earliest and at the latest. For an interval from one of *begins* on, a task adds what of its
    *length* lies in it even if it is moved out as far as it may be: nothing, up to some end of the
    interval, then more and more, up to some other. So intervals need to end only at the latter.
    """
    count, worst = len(length), 0.0
    rises, stops = np.empty(count), np.empty(count)
    for begin in begins:
        used = 0
        for task in range(count):
            inside = min(length[task], first[task] + length[task] - begin)
            if inside > 0.0:
                rises[used] = max(last[task], begin)
                stops[used] = rises[used] + inside
                used += 1
        ups, downs = np.sort(rises[:used]), np.sort(stops[:used])
        begun, sum_up, sum_down = 0, 0.0, 0.0
        for ended in range(used):
            end = downs[ended]
            while begun < used and ups[begun] < end:
                sum_up += ups[begun]
                begun += 1
            rising = begun - ended
            inside = rising * end - sum_up + sum_down
            worst = max(worst, inside / processors - (end - begin))
            sum_down += end
    return worst


@njit(cache=True)
def equal_task_times(pace: Any, count: Any) -> Any:
    """The shortest times in which processors do 1 to *count* tasks of work 1."""
    found, ends = np.empty(count), pace.copy()
    for i in range(count):
        place = np.argmin(ends)
        found[i] = ends[place]
        ends[place] += pace[place]
    return found


@njit(cache=True)
def joint_time(tasks: Any, work: Any, least: Any, unit: Any, processors: Any) -> Any:
    """How long *tasks* take at the least, if they start at one time and wait for nothing."""
    longest, total = 0.0, 0.0
    for task in tasks:
        longest = max(longest, least[task])
        total += least[task]
    falling = np.sort(work[tasks])[::-1]
    for i in range(len(falling)):
        longest = max(longest, falling[i] * unit[i])
    return max(longest, total / processors)


@njit(cache=True)
def earliest_starts(
    order: Any, start: Any, near: Any, work: Any, least: Any, unit: Any, processors: Any
) -> Any:
    """How long it takes at the least from the beginning to each task of *order*.

    Of the *near* ones, that it waits for, those with the longest ways begin behind the shortest of
    these, and are done together. If they are many, some numbers of them are tried.
    """
    found = np.zeros(len(order))
    for task in order:
        parents = near[start[task] : start[task + np.uint64(1)]]
        count = len(parents)
        by = parents[np.argsort(-found[parents], kind="mergesort")]
        step = max(1, count // MAX_SETS)
        for used in range(1, count + 1):
            if used == count or used % step == 0:
                behind = joint_time(by[:used], work, least, unit, processors)
                found[task] = max(found[task], found[by[used - 1]] + behind)
            else:
                alone = found[by[used - 1]] + least[by[used - 1]]
                found[task] = max(found[task], alone)
    return found
