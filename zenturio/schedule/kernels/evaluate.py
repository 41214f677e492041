"""From who runs what, in which order, to when: the innermost loop of every search for a plan."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class ProblemArrays(NamedTuple):
    """A problem as bare arrays, indices without a sign: NumPy's wrapping around costs half."""

    work: Any
    row: Any
    pace: Any
    start: Any
    """Where in *parent* and *data* those that a task waits for begin, as in ``Links``."""
    parent: Any
    data: Any
    """Bytes, in the order of *parent*."""
    node: Any
    site: Any
    latency: Any
    slowness: Any
    moves: bool
    """Whether data ever take time."""


@njit(cache=True, inline="always")  # LLVM finds it too long, and it is a quarter of the time
def plan_times(numbers: Any, processor: Any, order: Any, free: Any, start: Any, end: Any) -> Any:
    """Fills *start* and *end*, and returns the makespan.

    Each task of *order* starts when its processor has ended those before and its data are there.
    It is infinite where a task cannot run, or comes before one that it waits for.
    """
    makespan = 0.0
    end[:] = np.inf
    if len(free) <= 8 * len(order):
        free[:] = 0.0
    else:
        for i in range(len(order)):
            free[processor[i]] = 0.0
    for i in range(len(order)):
        task = order[i]
        place = processor[task]
        begin, node = free[place], numbers.node[place]
        site = numbers.site[place]  # rows of one site: its links go both ways
        latency, slowness = numbers.latency[site], numbers.slowness[site]
        for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
            parent = numbers.parent[edge]
            ready, origin = end[parent], processor[parent]
            if numbers.moves and numbers.node[origin] != node:
                there = numbers.site[origin]
                ready += latency[there] + numbers.data[edge] * slowness[there]
            begin = max(begin, ready)
        stop = begin + numbers.work[task] * numbers.pace[numbers.row[task], place]
        if stop != stop:  # no work, where it cannot run  # noqa: PLR0124
            stop = np.inf
        start[task] = begin
        end[task] = stop
        free[place] = stop
        makespan = max(makespan, stop)
    return makespan


@njit(cache=True)
def all_makespans(numbers: Any, processors: Any, orders: Any, makespans: Any) -> None:
    """The makespan of each row of *processors*, in its row of *orders* or in the only one."""
    tasks = len(numbers.work)
    free, start, end = np.empty(len(numbers.node)), np.empty(tasks), np.empty(tasks)
    for i in range(len(processors)):
        order = orders[i if len(orders) > 1 else 0]
        makespans[i] = plan_times(numbers, processors[i], order, free, start, end)


@njit(cache=True)
def topological_sorts(start: Any, after: Any, waits: Any, ranks: Any, orders: Any) -> None:
    """For each row of *ranks* the tasks, each after all before it, the lowest ready rank first.

    *start* and *after* list those that wait for each task; *waits* says for how many each waits.
    Of equal ranks, the lower number.
    """
    heap = np.empty(len(waits), np.uint32)
    left = np.empty(len(waits), np.uint32)
    for i in range(len(ranks)):
        rank, order, size = ranks[i], orders[i], 0
        for task in range(len(waits)):
            left[task] = waits[task]
            if waits[task] == 0:
                size = push_by_rank(heap, size, np.uint32(task), rank)
        done = 0
        while size > 0:
            task = heap[0]
            size = pop_by_rank(heap, size, rank)
            order[done] = task
            done += 1
            for edge in range(start[task], start[task + np.uint64(1)]):
                other = after[edge]
                left[other] -= np.uint32(1)
                if left[other] == 0:
                    size = push_by_rank(heap, size, other, rank)


@njit(cache=True)
def sooner(one: Any, other: Any, rank: Any) -> Any:
    """Whether task *one* comes before *other*."""
    return rank[one] < rank[other] or (rank[one] == rank[other] and one < other)


@njit(cache=True)
def push_by_rank(heap: Any, size: Any, task: Any, rank: Any) -> Any:
    """Puts *task* among the *size* tasks of *heap*, and returns how many they are then."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if not sooner(task, heap[above], rank):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = task
    return size + 1


@njit(cache=True)
def pop_by_rank(heap: Any, size: Any, rank: Any) -> Any:
    """Takes the first of the *size* tasks of *heap* away, and returns how many are left."""
    size -= 1
    task, at = heap[size], 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and sooner(heap[below + 1], heap[below], rank):
            below += 1
        if not sooner(heap[below], task, rank):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = task
    return size
