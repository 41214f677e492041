"""What is to come, by time: a heap in two arrays, which costs no more than it must.

Bare arrays and numbers: an array in a tuple is counted whenever it is touched, which takes ten
times as long as what is done with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
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


class LoadArrays(NamedTuple):
    """For each machine the times at which its share changes, and to what."""

    start: Any
    time: Any
    share: Any


@njit(cache=True)
def play_loaded(
    numbers: Any, loads: Any, processor: Any, order: Any, free: Any, start: Any, end: Any
) -> Any:
    """Fills *start* and *end*, the last ones of each task, and returns the makespan.

    A task that is lost with its machine fetches its data again, and starts when it is back. One of
    no length is in nobody's way.
    """
    makespan = 0.0
    for i in range(len(order)):
        end[i] = np.inf
        free[processor[i]] = 0.0
    for i in range(len(order)):
        task = order[i]
        place = processor[task]
        left = numbers.work[task] * numbers.pace[numbers.row[task], place]
        known, lost = 0.0, True
        while lost:
            begin = arrival_under_load(numbers, processor, end, task, known)
            if left > 0.0:
                begin = max(begin, free[place])
            start[task], stop, lost = run_under_load(loads, numbers.node[place], begin, left)
            known = stop
            if left > 0.0:
                free[place] = stop
        end[task] = stop
        makespan = max(makespan, stop)
    return makespan


@njit(cache=True)
def arrival_under_load(numbers: Any, processor: Any, end: Any, task: Any, known: Any) -> Any:
    """When the data of *task* are there, which is sent to its processor at *known*."""
    begin, place = known, processor[task]
    for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
        parent = numbers.parent[edge]
        origin, ready = processor[parent], max(end[parent], known)
        if numbers.node[origin] != numbers.node[place]:
            here, there = numbers.site[origin], numbers.site[place]
            ready += (
                numbers.latency[here, there] + numbers.data[edge] * numbers.slowness[here, there]
            )
        begin = max(begin, ready)
    return begin


@njit(cache=True)
def run_under_load(loads: Any, machine: Any, begin: Any, left: Any) -> Any:
    """Start and end of *left* seconds from *begin* on; or when they are lost with the machine."""
    at, last = loads.start[machine], loads.start[machine + np.uint32(1)]
    share = 1.0
    while at < last and loads.time[at] <= begin:
        share = loads.share[at]
        at += np.uint64(1)
    while share <= 0.0:
        if at == last:
            return np.inf, np.inf, False
        begin, share = loads.time[at], loads.share[at]
        at += np.uint64(1)
        while at < last and loads.time[at] <= begin:
            share = loads.share[at]
            at += np.uint64(1)
    now = begin
    while True:
        stop = now + left / share
        if stop != stop:  # no work, where it cannot run  # noqa: PLR0124
            stop = np.inf
        if at == last or stop <= loads.time[at]:
            return begin, stop, False
        left = max(left - (loads.time[at] - now) * share, 0.0)
        now, share = loads.time[at], loads.share[at]
        at += np.uint64(1)
        if share <= 0.0:
            return begin, now, True


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
