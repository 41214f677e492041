"""Idle times between the tasks of each processor, found by length in logarithmic time.

The gaps of a processor are a treap in the order of time. Each knows the longest of its subtree, so
that a search leaves out what is too short. A gap that is used up stays with no length: there are
never more than there are tasks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

NONE = -1


class Gaps(NamedTuple):
    """The gaps of all processors, by number; -1 stands for none."""

    root: Any
    """Of each processor."""
    latest: Any
    """Of each processor, a time after which it has none: -1, if it never had."""
    start: Any
    end: Any
    longest: Any
    """The length of the longest in the subtree of each."""
    left: Any
    right: Any
    above: Any
    count: Any
    """How many there are, in an array of one."""


@njit(cache=True)
def no_gaps(processors: Any, most: Any) -> Any:
    """None yet, with room for *most*."""
    return Gaps(
        np.full(processors, NONE, np.int32),
        np.full(processors, -1.0),
        np.empty(most),
        np.empty(most),
        np.empty(most),
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.zeros(1, np.int32),
    )


@njit(cache=True)
def heap_weight(gap: Any) -> Any:
    """A number that looks like chance, and is always the same."""
    mixed = np.uint64(gap) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return mixed * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(32)


@njit(cache=True)
def update_longest(gaps: Any, gap: Any) -> Any:
    """Finds the longest below *gap* again, and returns whether it is another one."""
    found = gaps.end[gap] - gaps.start[gap]
    if gaps.left[gap] != NONE:
        found = max(found, gaps.longest[gaps.left[gap]])
    if gaps.right[gap] != NONE:
        found = max(found, gaps.longest[gaps.right[gap]])
    changed = found != gaps.longest[gap]
    gaps.longest[gap] = found
    return changed


@njit(cache=True)
def update_longest_upwards(gaps: Any, gap: Any) -> None:
    """The same from *gap* to the root."""
    while gap != NONE and update_longest(gaps, gap):
        gap = gaps.above[gap]


@njit(cache=True)
def rotate_up(gaps: Any, processor: Any, gap: Any) -> None:
    """Puts *gap* in the place of the one above it, which comes below: a rotation."""
    parent = gaps.above[gap]
    grand = gaps.above[parent]
    if gaps.left[parent] == gap:
        inner = gaps.right[gap]
        gaps.left[parent], gaps.right[gap] = inner, parent
    else:
        inner = gaps.left[gap]
        gaps.right[parent], gaps.left[gap] = inner, parent
    if inner != NONE:
        gaps.above[inner] = parent
    gaps.above[parent], gaps.above[gap] = gap, grand
    if grand == NONE:
        gaps.root[processor] = gap
    elif gaps.left[grand] == parent:
        gaps.left[grand] = gap
    else:
        gaps.right[grand] = gap
    update_longest(gaps, parent)
    update_longest(gaps, gap)


@njit(cache=True)
def insert_gap(gaps: Any, processor: Any, before: Any, start: Any, end: Any) -> None:
    """A new gap right behind *before*; behind all, if that is none."""
    gaps.latest[processor] = max(gaps.latest[processor], end)
    gap = gaps.count[0]
    gaps.count[0] = gap + 1
    gaps.start[gap], gaps.end[gap], gaps.longest[gap] = start, end, end - start
    gaps.left[gap] = gaps.right[gap] = NONE
    at = gaps.root[processor]
    if before != NONE and gaps.right[before] == NONE:
        at = before
        gaps.right[at] = gap
    elif before != NONE:
        at = gaps.right[before]
        while gaps.left[at] != NONE:
            at = gaps.left[at]
        gaps.left[at] = gap
    elif at != NONE:
        while gaps.right[at] != NONE:
            at = gaps.right[at]
        gaps.right[at] = gap
    else:
        gaps.root[processor] = gap
    gaps.above[gap] = at
    while gaps.above[gap] != NONE and heap_weight(gap) > heap_weight(gaps.above[gap]):
        rotate_up(gaps, processor, gap)
    update_longest_upwards(gaps, gaps.above[gap])


@njit(cache=True)
def use_gap(gaps: Any, processor: Any, gap: Any, start: Any, end: Any) -> None:
    """Takes *start* to *end* out of *gap*; what is left before and behind remain gaps."""
    first, last = gaps.start[gap], gaps.end[gap]
    if start > first:
        gaps.end[gap] = start
        update_longest_upwards(gaps, gap)
        if end < last:
            insert_gap(gaps, processor, gap, end, last)
    else:
        gaps.start[gap] = end
        update_longest_upwards(gaps, gap)


@njit(cache=True)
def first_long(gaps: Any, gap: Any, length: Any) -> Any:
    """The first of the subtree of *gap* that is so long; one must be."""
    while True:
        below = gaps.left[gap]
        if below != NONE and gaps.longest[below] >= length:
            gap = below
        elif gaps.end[gap] - gaps.start[gap] >= length:
            return gap
        else:
            gap = gaps.right[gap]


@njit(cache=True)
def next_long(gaps: Any, gap: Any, length: Any) -> Any:
    """The first behind *gap* that is so long, or none."""
    while True:
        below = gaps.right[gap]
        if below != NONE and gaps.longest[below] >= length:
            return first_long(gaps, below, length)
        above = gaps.above[gap]
        while above != NONE and gaps.right[above] == gap:
            gap, above = above, gaps.above[above]
        if above == NONE:
            return NONE
        gap = above
        if gaps.end[gap] - gaps.start[gap] >= length:
            return gap


@njit(cache=True)
def find_gap(gaps: Any, processor: Any, ready: Any, length: Any) -> Any:
    """The first gap in which a task of *length* fits from *ready* on, or none."""
    found, at = NONE, gaps.root[processor]
    while at != NONE:  # the first that ends late enough
        if gaps.end[at] >= ready + length:
            found, at = at, gaps.left[at]
        else:
            at = gaps.right[at]
    while found != NONE:
        first, last = gaps.start[found], gaps.end[found]
        if last > first and last - first >= length and max(first, ready) + length <= last:
            return found
        found = next_long(gaps, found, length)
    return NONE
