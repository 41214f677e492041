"""How many nodes are free from when on: where a conservative queue looks for room."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def split_span(begins: Any, room: Any, size: Any, time: Any) -> Any:
    """The number of the span that begins at *time*, made if there is none; and how many there are.

    There is one that begins before.
    """
    at = np.searchsorted(begins[:size], time)
    if at < size and begins[at] == time:
        return at, size
    for i in range(size, at, -1):
        begins[i], room[i] = begins[i - 1], room[i - 1]
    begins[at], room[at] = time, room[at - 1]
    return at, size + 1


@njit(cache=True)
def drop_past(begins: Any, room: Any, size: Any, now: Any) -> Any:
    """Drop what was before *now*; how many spans are left, the first of which begins then."""
    at, size = split_span(begins, room, size, now)
    for i in range(at, size):
        begins[i - at], room[i - at] = begins[i], room[i]
    return size - at


@njit(cache=True)
def reserve_nodes(begins: Any, room: Any, size: Any, need: Any, lasts: Any) -> Any:
    """The earliest time at which *need* nodes are free for as long as it *lasts*; they are taken.

    With it, how many spans there are then.
    """
    first, at = 0, 0
    while at < size and (at == first or begins[at] < begins[first] + lasts):
        if room[at] < need:
            first = at + 1
        at += 1
    when = begins[first]
    if lasts > 0:
        last, size = split_span(begins, room, size, when + lasts)
        for i in range(first, last):
            room[i] -= need
    return when, size
