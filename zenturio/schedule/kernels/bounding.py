"""Sums and counts that no plan can be shorter than."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def crowding(first: Any, last: Any, length: Any, begins: Any, processors: Any) -> Any:
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
def multiples(pace: Any, count: Any) -> Any:
    """The shortest times in which processors do 1 to *count* tasks of work 1."""
    found, ends = np.empty(count), pace.copy()
    for i in range(count):
        place = np.argmin(ends)
        found[i] = ends[place]
        ends[place] += pace[place]
    return found
