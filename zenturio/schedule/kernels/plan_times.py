"""Times of plans: the innermost loop of every search, and the figures that metrics need.

Kernels take bare arrays where they can: each access to an array inside a tuple counts references,
which costs more than the work itself. Indices are unsigned, because NumPy's wrap-around of negative
indices would cost half of the speed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


@njit(cache=True)
def push(times: Any, codes: Any, size: Any, time: Any, code: Any) -> None:
    """Insert *code* into a binary heap of *size* entries; ties go to the lower code."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if times[parent] < time or (times[parent] == time and codes[parent] < code):
            break
        times[child], codes[child] = times[parent], codes[parent]
        child = parent
    times[child], codes[child] = time, code


@njit(cache=True)
def pop(times: Any, codes: Any, size: Any) -> Any:
    """Remove and return the first code of a heap of *size* entries."""
    first = codes[0]
    last = size - 1
    time, code = times[last], codes[last]
    hole, child = 0, 1
    while child < last:
        right = child + 1
        if right < last and (
            times[right] < times[child]
            or (times[right] == times[child] and codes[right] < codes[child])
        ):
            child = right
        if time < times[child] or (time == times[child] and code < codes[child]):
            break
        times[hole], codes[hole] = times[child], codes[child]
        hole, child = child, 2 * child + 1
    times[hole], codes[hole] = time, code
    return first


class ProblemArrays(NamedTuple):
    """A problem as bare arrays; the predecessors are stored as in ``Adjacency``."""

    work: Any
    row: Any
    pace: Any
    start: Any
    """Where the predecessors of a task begin in *parent* and *data*."""
    parent: Any
    data: Any
    """Bytes, in the order of *parent*."""
    node: Any
    site: Any
    latency: Any
    slowness: Any
    moves: bool
    """Whether transfers ever take time."""


@njit(cache=True, inline="always")  # LLVM would not inline it; saves a quarter
def plan_times(numbers: Any, processor: Any, order: Any, free: Any, start: Any, end: Any) -> Any:
    """Fill *start* and *end* and return the makespan.

    Each task of *order* starts when the tasks before it on its processor have ended and its data
    have arrived. The makespan is infinite if a task cannot run, or precedes one of its
    predecessors.
    """
    makespan = 0.0
    end[:] = np.inf
    # For few tasks on many processors, resetting only the processors in use is cheaper.
    if len(free) <= 8 * len(order):
        free[:] = 0.0
    else:
        for i in range(len(order)):
            free[processor[i]] = 0.0
    for i in range(len(order)):
        task = order[i]
        place = processor[task]
        begin, node = free[place], numbers.node[place]
        site = numbers.site[place]  # rows of one site suffice: links are symmetric
        latency, slowness = numbers.latency[site], numbers.slowness[site]
        for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
            parent = numbers.parent[edge]
            ready, origin = end[parent], processor[parent]
            if numbers.moves and numbers.node[origin] != node:
                origin_site = numbers.site[origin]
                ready += latency[origin_site] + numbers.data[edge] * slowness[origin_site]
            begin = max(begin, ready)
        stop = begin + numbers.work[task] * numbers.pace[numbers.row[task], place]
        if stop != stop:  # 0 * inf: no work, but it cannot run  # noqa: PLR0124
            stop = np.inf
        start[task] = begin
        end[task] = stop
        free[place] = stop
        makespan = max(makespan, stop)
    return makespan


@njit(cache=True)
def all_makespans(numbers: Any, processors: Any, orders: Any, makespans: Any) -> None:
    """Fill *makespans* for each row of *processors*, with its row of *orders* or the only one."""
    tasks = len(numbers.work)
    free, start, end = np.empty(len(numbers.node)), np.empty(tasks), np.empty(tasks)
    for i in range(len(processors)):
        order = orders[i if len(orders) > 1 else 0]
        makespans[i] = plan_times(numbers, processors[i], order, free, start, end)


@njit(cache=True)
def topological_sorts(start: Any, after: Any, waits: Any, ranks: Any, orders: Any) -> None:
    """Fill *orders* with a topological order for each row of *ranks*, lowest ready rank first.

    *start* and *after* are the successors of each task, *waits* its number of predecessors. Ties go
    to the lower number.
    """
    heap = np.empty(len(waits), np.uint32)
    missing = np.empty(len(waits), np.uint32)
    for i in range(len(ranks)):
        rank, order, size = ranks[i], orders[i], 0
        for task in range(len(waits)):
            missing[task] = waits[task]
            if waits[task] == 0:
                size = push_by_rank(heap, size, np.uint32(task), rank)
        done = 0
        while size > 0:
            task = heap[0]
            size = pop_by_rank(heap, size, rank)
            order[done] = task
            done += 1
            for edge in range(start[task], start[task + np.uint64(1)]):
                successor = after[edge]
                missing[successor] -= np.uint32(1)
                if missing[successor] == 0:
                    size = push_by_rank(heap, size, successor, rank)


@njit(cache=True)
def sooner(first: Any, second: Any, rank: Any) -> Any:
    """Return whether task *first* precedes task *second* in the heap."""
    return rank[first] < rank[second] or (rank[first] == rank[second] and first < second)


@njit(cache=True)
def push_by_rank(heap: Any, size: Any, task: Any, rank: Any) -> Any:
    """Insert *task* into *heap*, and return the new size."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if not sooner(task, heap[parent], rank):
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = task
    return size + 1


@njit(cache=True)
def pop_by_rank(heap: Any, size: Any, rank: Any) -> Any:
    """Remove the first task of *heap*, and return the new size."""
    size -= 1
    task, hole = heap[size], 0
    # The smaller child moves up until the last task of the heap fits into the hole.
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and sooner(heap[child + 1], heap[child], rank):
            child += 1
        if not sooner(heap[child], task, rank):
            break
        heap[hole] = heap[child]
        hole = child
    heap[hole] = task
    return size


class LoadArrays(NamedTuple):
    """For each machine, the times at which its share changes, and the shares."""

    start: Any
    time: Any
    share: Any


@njit(cache=True)
def play_loaded(
    numbers: Any, loads: Any, processor: Any, order: Any, free: Any, start: Any, end: Any
) -> Any:
    """Fill *start* and *end* under changing loads, and return the makespan.

    Without decisions at run time, tasks can be played one after the other through the loads of
    their machines. A task that is lost with its machine fetches its data again and restarts when
    the machine is back. A task of zero length delays no other.
    """
    makespan = 0.0
    for i in range(len(order)):
        end[i] = np.inf
        free[processor[i]] = 0.0
    for i in range(len(order)):
        task = order[i]
        place = processor[task]
        seconds = numbers.work[task] * numbers.pace[numbers.row[task], place]
        sent, is_lost = 0.0, True
        while is_lost:
            begin = arrival_under_load(numbers, processor, end, task, sent)
            if seconds > 0.0:
                begin = max(begin, free[place])
            start[task], stop, is_lost = run_under_load(loads, numbers.node[place], begin, seconds)
            sent = stop
            if seconds > 0.0:
                free[place] = stop
        end[task] = stop
        makespan = max(makespan, stop)
    return makespan


@njit(cache=True)
def arrival_under_load(numbers: Any, processor: Any, end: Any, task: Any, sent: Any) -> Any:
    """Return when the data of *task*, sent to its processor at *sent*, arrive."""
    begin, place = sent, processor[task]
    for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
        parent = numbers.parent[edge]
        origin, ready = processor[parent], max(end[parent], sent)
        if numbers.node[origin] != numbers.node[place]:
            origin_site, target_site = numbers.site[origin], numbers.site[place]
            ready += (
                numbers.latency[origin_site, target_site]
                + numbers.data[edge] * numbers.slowness[origin_site, target_site]
            )
        begin = max(begin, ready)
    return begin


@njit(cache=True)
def run_under_load(loads: Any, machine: Any, begin: Any, left: Any) -> Any:
    """Return start and end of *left* seconds of work from *begin* on, and whether it was lost.

    If the machine fails, the end is the time of the failure.
    """
    step, last = loads.start[machine], loads.start[machine + np.uint32(1)]
    share = 1.0
    while step < last and loads.time[step] <= begin:
        share = loads.share[step]
        step += np.uint64(1)
    # The machine is down: wait for its next load change.
    while share <= 0.0:
        if step == last:
            return np.inf, np.inf, False
        begin, share = loads.time[step], loads.share[step]
        step += np.uint64(1)
        while step < last and loads.time[step] <= begin:
            share = loads.share[step]
            step += np.uint64(1)
    now = begin
    while True:
        stop = now + left / share
        if stop != stop:  # 0 * inf: no work, but it cannot run  # noqa: PLR0124
            stop = np.inf
        # A task that ends at the very moment of a change is not touched by it.
        if step == last or stop <= loads.time[step]:
            return begin, stop, False
        left = max(left - (loads.time[step] - now) * share, 0.0)
        now, share = loads.time[step], loads.share[step]
        step += np.uint64(1)
        if share <= 0.0:
            return begin, now, True


FIGURES = (
    "makespan", "computation", "communication", "synchronisation", "sequential", "processors",
    "busy", "cost", "energy", "failures",
)  # fmt: skip
"""The columns that `plan_figures` fills."""


class PlanMetricArrays(NamedTuple):
    """Further data of a problem, for figures of plans."""

    alone: Any
    """Seconds of all tasks on each processor."""
    cores: Any
    """Cores of each task."""
    price: Any
    """Price of a core for a second, by processor."""
    width: Any
    """Cores of each processor: 1, unless tasks share machines."""
    charges: bool
    """Whether any machine has a price of its own or power; otherwise the rest is not read."""
    machines: Any
    """By machine: cores, seconds to boot, price, seconds that are paid at once, idle and busy
    watts."""
    failures: Any
    """Failures in a second, by processor."""


@njit(cache=True)
def plan_figures(
    numbers: Any, prices: Any, processor: Any, start: Any, end: Any, used: Any, row: Any
) -> None:
    """Fill *row* with the FIGURES of a plan; *used* is a buffer of one mark for each processor.

    The critical path goes from the task that ends last back to the predecessor whose data arrived
    last, and so on; ties go to the first.
    """
    used[:] = False
    last, busy, cost, failures = 0, 0.0, 0.0, 0.0
    for task in range(len(end)):
        place, length = processor[task], end[task] - start[task]
        used[place] = True
        busy += length * prices.cores[task] / prices.width[place]
        cost += length * prices.cores[task] * prices.price[place]
        failures += length * prices.failures[place]
        if end[task] > end[last]:
            last = task
    # Sequential time: all tasks on the best of the processors in use.
    sequential, processors = np.inf, 0
    for place in range(len(used)):
        if used[place]:
            processors += 1
            sequential = min(sequential, prices.alone[place])
    row[0] = end[last] if len(end) else 0.0
    row[1], row[2], row[3] = critical_path_parts(numbers, processor, start, end, np.uint32(last))
    charge, energy = 0.0, np.nan
    if prices.charges:
        charge, energy = machine_charges(numbers, prices, processor, start, end)
    row[4], row[5], row[6], row[7], row[8] = sequential, processors, busy, cost + charge, energy
    row[9] = failures


@njit(cache=True)
def machine_charges(numbers: Any, prices: Any, processor: Any, start: Any, end: Any) -> Any:
    """Return what the machines in use cost as a whole, and their energy in joules.

    A machine is switched on so that it has booted when its first task starts, and off when its last
    task ends.
    """
    count, charge, energy = len(prices.machines), 0.0, 0.0
    first, last, core_seconds = np.full(count, np.inf), np.zeros(count), np.zeros(count)
    for task in range(len(end)):
        machine = numbers.node[processor[task]]
        first[machine] = min(first[machine], start[task])
        last[machine] = max(last[machine], end[task])
        core_seconds[machine] += (end[task] - start[task]) * prices.cores[task]
    for machine in range(count):
        if first[machine] < np.inf:
            facts = prices.machines[machine]
            cores, boot, price, billing, idle, busy = (
                facts[0], facts[1], facts[2], facts[3], facts[4], facts[5],
            )  # fmt: skip
            seconds = last[machine] - max(first[machine] - boot, 0.0)
            # Rounding errors of sums must not start another hour.
            periods = max(np.ceil(seconds / billing - 1e-9), 1.0)
            charge += periods * price
            energy += idle * seconds + (busy - idle) * core_seconds[machine] / cores
    return charge, energy if prices.machines[:, 4:].any() else np.nan


@njit(cache=True)
def partial_charges(
    numbers: Any, prices: Any, processor: Any, order: Any, fastest: Any, delays: Any, start: Any,
    end: Any,
) -> Any:  # fmt: skip
    """Fill *start* and *end*, and return the makespan and the cost of the tasks with a processor.

    A task whose processor is -1 takes its *fastest* time as soon as its data are there. Data from
    or to such a task take the *delays*, in the order of ``numbers.parent``.
    """
    makespan, cost = 0.0, 0.0
    free = np.zeros(len(numbers.node))
    count = len(prices.machines)
    first, last = np.full(count, np.inf), np.zeros(count)
    for i in range(len(order)):
        task = order[i]
        place, begin = processor[task], 0.0
        if place >= 0:
            boot = prices.machines[numbers.node[place], 1]
            begin = max(free[place], boot)
        for edge in range(numbers.start[task], numbers.start[task + 1]):
            parent = numbers.parent[edge]
            ready, origin = end[parent], processor[parent]
            if origin < 0 or place < 0:
                ready += delays[edge]
            elif numbers.moves and numbers.node[origin] != numbers.node[place]:
                origin_site, site = numbers.site[origin], numbers.site[place]
                ready += numbers.latency[origin_site, site]
                ready += numbers.data[edge] * numbers.slowness[origin_site, site]
            begin = max(begin, ready)
        seconds = fastest[task]
        if place >= 0:
            seconds = numbers.work[task] * numbers.pace[numbers.row[task], place]
            machine = numbers.node[place]
            free[place] = begin + seconds
            first[machine] = min(first[machine], begin)
            last[machine] = max(last[machine], begin + seconds)
            cost += seconds * prices.cores[task] * prices.price[place]
        start[task], end[task] = begin, begin + seconds
        makespan = max(makespan, begin + seconds)
    for machine in range(count):
        if first[machine] < np.inf:
            boot, price, billing = (
                prices.machines[machine, 1],
                prices.machines[machine, 2],
                prices.machines[machine, 3],
            )
            seconds = last[machine] - max(first[machine] - boot, 0.0)
            cost += max(np.ceil(seconds / billing - 1e-9), 1.0) * price
    return makespan, cost


@njit(cache=True)
def critical_path_parts(numbers: Any, processor: Any, start: Any, end: Any, last: Any) -> Any:
    """Return the seconds of computing, transfers and waiting on the path to task *last*."""
    computation, communication, synchronisation = 0.0, 0.0, 0.0
    task, has_more = last, len(end) > 0
    while has_more:
        computation += end[task] - start[task]
        has_more, latest, moved, previous = False, 0.0, 0.0, task
        for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
            parent = numbers.parent[edge]
            delay, origin, place = 0.0, processor[parent], processor[task]
            if numbers.node[origin] != numbers.node[place]:
                origin_site, target_site = numbers.site[origin], numbers.site[place]
                delay = (
                    numbers.latency[origin_site, target_site]
                    + numbers.data[edge] * numbers.slowness[origin_site, target_site]
                )
            if not has_more or end[parent] + delay > latest:
                has_more, latest, moved, previous = True, end[parent] + delay, delay, parent
        communication += moved
        synchronisation += start[task] - latest
        task = previous
    return computation, communication, synchronisation


@njit(cache=True)
def all_plan_figures(numbers: Any, prices: Any, processors: Any, orders: Any, rows: Any) -> None:
    """Fill a row of figures for each row of *processors*, with its order or the only one."""
    tasks = len(numbers.work)
    free, start, end = np.empty(len(numbers.node)), np.empty(tasks), np.empty(tasks)
    used = np.empty(len(numbers.node), np.bool_)
    for i in range(len(processors)):
        order = orders[i if len(orders) > 1 else 0]
        plan_times(numbers, processors[i], order, free, start, end)
        plan_figures(numbers, prices, processors[i], start, end, used, rows[i])


@njit(cache=True)
def figures_of_times(
    numbers: Any, prices: Any, processors: Any, starts: Any, ends: Any, rows: Any
) -> None:
    """Fill a row of figures for each row of *processors*, *starts* and *ends*."""
    used = np.empty(len(numbers.node), np.bool_)
    for i in range(len(processors)):
        plan_figures(numbers, prices, processors[i], starts[i], ends[i], used, rows[i])


@njit(cache=True)
def longest_path(numbers: Any, order: Any, least: Any, ends: Any) -> Any:
    """Return the longest path where each task takes its *least* time and transfers take none."""
    longest = 0.0
    for i in range(len(order)):
        task, begin = order[i], 0.0
        for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
            begin = max(begin, ends[numbers.parent[edge]])
        ends[task] = begin + least[task]
        longest = max(longest, ends[task])
    return longest
