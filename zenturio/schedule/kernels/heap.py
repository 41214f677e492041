"""What is to come, by time: a heap in two arrays, which costs no more than it must.

Bare arrays and numbers: an array in a tuple is counted whenever it is touched, which takes ten
times as long as what is done with it.
"""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True)
def push(times: Any, codes: Any, size: Any, time: Any, code: Any) -> None:
    """Put *code* into a heap of *size*; of one time the lowest code comes first."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if times[above] < time or (times[above] == time and codes[above] < code):
            break
        times[at], codes[at] = times[above], codes[above]
        at = above
    times[at], codes[at] = time, code


@njit(cache=True)
def pop(times: Any, codes: Any, size: Any) -> Any:
    """Take the code that comes first out of a heap of *size*."""
    found = codes[0]
    last = size - 1
    time, code = times[last], codes[last]
    at, below = 0, 1
    while below < last:
        other = below + 1
        if other < last and (
            times[other] < times[below]
            or (times[other] == times[below] and codes[other] < codes[below])
        ):
            below = other
        if time < times[below] or (time == times[below] and code < codes[below]):
            break
        times[at], codes[at] = times[below], codes[below]
        at, below = below, 2 * below + 1
    times[at], codes[at] = time, code
    return found
