"""Tasks placed one by one, in an order that is known beforehand, each where it ends first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.gaps import NONE, find_gap, insert_gap, no_gaps, use_gap


class DataArrivals(NamedTuple):
    """When the data of a task are on each processor; the other arrays are for finding that out."""

    ready: Any
    first: Any
    """At each site, when the data of all that it waits for are there, if none is near."""
    origin: Any
    """From which machine the last of them come."""
    second: Any
    """When those of the other machines are there."""
    near: Any
    """On each machine, when the last of those that run on it ends."""
    begin: Any
    """The first processor of each machine."""


@njit(cache=True)
def data_arrivals(numbers: Any) -> Any:
    """Arrays for one task after the other."""
    processors, sites = len(numbers.node), len(numbers.latency)
    machines = np.int64(numbers.node[processors - 1]) + 1
    begin = np.zeros(machines + 1, np.uint32)
    for place in range(processors):
        begin[np.int64(numbers.node[place]) + 1] = place + 1
    return DataArrivals(
        np.zeros(processors),
        np.zeros(sites),
        np.full(sites, NONE, np.int64),
        np.zeros(sites),
        np.zeros(machines),
        begin,
    )


@njit(cache=True)
def fill_arrivals(numbers: Any, task: Any, processor: Any, end: Any, arrivals: Any) -> None:
    """Fills ``arrivals.ready`` for *task*: in the number of parents and sites, and processors.

    On the machine of a parent only the data of the others have a way to go. So of each site it
    must be known which machine's data are the last there, and when the others' are.
    """
    first, last = numbers.start[task], numbers.start[task + np.uint64(1)]
    if not numbers.moves:
        ready = 0.0
        for edge in range(first, last):
            ready = max(ready, end[numbers.parent[edge]])
        arrivals.ready[:] = ready
        return
    arrivals.first[:] = 0.0
    arrivals.second[:] = 0.0
    arrivals.origin[:] = NONE
    for edge in range(first, last):
        send_data(numbers, edge, processor, end, arrivals)
    for place in range(np.uint64(len(arrivals.ready))):
        arrivals.ready[place] = arrivals.first[numbers.site[place]]
    for edge in range(first, last):
        machine = numbers.node[processor[numbers.parent[edge]]]
        for place in range(arrivals.begin[machine], arrivals.begin[machine + np.uint64(1)]):
            site = numbers.site[place]
            same = arrivals.origin[site] == machine
            moved = arrivals.second[site] if same else arrivals.first[site]
            arrivals.ready[place] = max(arrivals.near[machine], moved)
    for edge in range(first, last):
        arrivals.near[numbers.node[processor[numbers.parent[edge]]]] = 0.0


@njit(cache=True)
def send_data(numbers: Any, edge: Any, processor: Any, end: Any, arrivals: Any) -> None:
    """Moves the data of *edge* to every site."""
    parent = numbers.parent[edge]
    machine, here = numbers.node[processor[parent]], numbers.site[processor[parent]]
    arrivals.near[machine] = max(arrivals.near[machine], end[parent])
    ended, data, own = end[parent], numbers.data[edge], np.int64(machine)
    latency, slowness = numbers.latency[here], numbers.slowness[here]
    first, second, origin = arrivals.first, arrivals.second, arrivals.origin
    for site in range(np.uint64(len(first))):  # without branches, so that it becomes vectors
        moved = ended + latency[site]
        moved += data * slowness[site]
        before, last = first[site], origin[site]
        if last != own:
            second[site] = max(second[site], min(before, moved))
        first[site] = max(before, moved)
        origin[site] = own if moved > before else last


@njit(cache=True)
def longest_paths(order: Any, time: Any, start: Any, child: Any, delay: Any) -> Any:
    """For each task the longest way to an end: its time, and delays and times behind it."""
    rank = np.zeros(len(order))
    for i in range(len(order) - 1, -1, -1):
        task, longest = order[i], 0.0
        for edge in range(start[task], start[task + np.uint64(1)]):
            longest = max(longest, delay[edge] + rank[child[edge]])
        rank[task] = time[task] + longest
    return rank


@njit(cache=True)
def optimistic_cost_table(numbers: Any, order: Any, start: Any, child: Any, delay: Any) -> Any:
    """For each task on each processor the longest way behind it, where all behind is at its best.

    A child ends best on the machine of its parent, or on any other after the delay.
    """
    processors = len(numbers.node)
    table = np.zeros((len(order), processors))
    near = np.empty(np.int64(numbers.node[processors - 1]) + 1)
    for i in range(len(order) - 1, -1, -1):
        task = order[i]
        for edge in range(start[task], start[task + np.uint64(1)]):
            other, best = child[edge], np.inf
            near[:] = np.inf
            pace = numbers.pace[numbers.row[other]]
            for place in range(processors):
                if np.isfinite(pace[place]):
                    cost = table[other, place] + numbers.work[other] * pace[place]
                    near[numbers.node[place]] = min(near[numbers.node[place]], cost)
                    best = min(best, cost)
            for place in range(processors):
                cost = min(near[numbers.node[place]], best + delay[edge])
                table[task, place] = max(table[task, place], cost)
    return table


@njit(cache=True)
def place_in_gaps(
    numbers: Any, order: Any, group: Any, home: Any, ahead: Any, start: Any, end: Any, place: Any
) -> None:
    """Fills *place*, *start* and *end*: each task of *order* in the first gap that fits.

    It goes where its end, and what *ahead* adds for the processor, are least: the lowest
    processor of equal ones. If *home* has one for its group, it goes there; if not, *home* is
    told.
    """
    tasks, processors = np.uint64(len(order)), np.uint64(len(numbers.node))
    gaps, arrivals = no_gaps(len(numbers.node), len(order)), data_arrivals(numbers)
    free, nothing = np.zeros(processors), np.zeros(processors)
    likely, bounds = np.empty(processors, np.uint64), np.empty(processors)
    for i in range(tasks):
        task = order[i]
        fill_arrivals(numbers, task, place, end, arrivals)
        ready, work, pace = arrivals.ready, numbers.work[task], numbers.pace[numbers.row[task]]
        more = ahead[task] if len(ahead) else nothing
        where = home[group[task]]
        if where == NONE:
            where = best_processor(gaps, ready, work, pace, more, free, likely, bounds)
            home[group[task]] = where
        length = work * pace[where]
        begin, gap = max(free[where], ready[where]), NONE
        if ready[where] + length <= gaps.latest[where]:
            gap = find_gap(gaps, where, ready[where], length)
        if gap != NONE:
            begin = max(gaps.start[gap], ready[where])
            use_gap(gaps, where, gap, begin, begin + length)
        else:
            if begin > free[where]:
                insert_gap(gaps, where, NONE, free[where], begin)
            free[where] = begin + length
        place[task], start[task], end[task] = where, begin, begin + length


@njit(cache=True)
def best_processor(
    gaps: Any, ready: Any, work: Any, pace: Any, more: Any, free: Any, likely: Any, bounds: Any
) -> Any:
    """The processor on which a task of so much *work* ends first, with what *more* adds.

    First behind all tasks, then in gaps: where it could end soonest there, first.
    """
    found: Any = np.uint64(0)
    best, count = np.inf, 0
    for place in range(np.uint64(len(free))):
        length = work * pace[place]
        end = max(free[place], ready[place]) + length + more[place]
        if end < best:
            best, found = end, place
        late = ready[place] + length <= gaps.latest[place]
        if late and gaps.longest[gaps.root[place]] >= length:
            likely[count], bounds[count] = place, ready[place] + length + more[place]
            count += 1
    while count > 0:
        at = np.argmin(bounds[:count])
        place, bound = likely[at], bounds[at]
        if bound > best:
            break
        count -= 1
        likely[at], bounds[at] = likely[count], bounds[count]
        length = work * pace[place]
        gap = find_gap(gaps, place, ready[place], length)
        if gap != NONE:
            end = max(gaps.start[gap], ready[place]) + length + more[place]
            if end < best or (end == best and place < found):
                best, found = end, place
    return np.int64(found)
