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


MIN_MIN, MAX_MIN, SUFFERAGE = range(3)


class BestProcessors(NamedTuple):
    """For each ready task, where it would end first, and where next."""

    place: Any
    begin: Any
    end: Any
    other: Any
    """The second best processor, or -1."""
    later: Any
    """When it would end there: infinite, if there is none."""


@njit(cache=True)
def find_best_two(
    numbers: Any, task: Any, home: Any, free: Any, arrivals: Any, place: Any, end: Any, choices: Any
) -> None:
    """Finds the best two processors for *task*, behind what runs there; or only *home*."""
    fill_arrivals(numbers, task, place, end, arrivals)
    work, pace = numbers.work[task], numbers.pace[numbers.row[task]]
    choices.place[task], choices.end[task] = 0, np.inf
    choices.other[task], choices.later[task] = NONE, np.inf
    first, last = 0, len(free)
    if home != NONE:
        first, last = home, home + 1
    for where in range(first, last):
        begin = max(free[where], arrivals.ready[where])
        ends = begin + work * pace[where]
        if ends < choices.end[task]:
            choices.other[task], choices.later[task] = choices.place[task], choices.end[task]
            choices.place[task], choices.begin[task], choices.end[task] = where, begin, ends
        elif ends < choices.later[task]:
            choices.other[task], choices.later[task] = where, ends


@njit(cache=True)
def merit(choices: Any, task: Any, rule: Any) -> Any:
    """The higher, the sooner *task* is placed."""
    if rule == MIN_MIN:
        return -choices.end[task]
    if rule == MAX_MIN:
        return choices.end[task]
    return choices.later[task] - choices.end[task]


@njit(cache=True)
def batch_mode(
    numbers: Any,
    group: Any,
    waits: Any,
    first: Any,
    child: Any,
    rule: Any,
    start: Any,
    end: Any,
    place: Any,
) -> None:
    """Fills *start*, *end* and *place*; of ready tasks of equal merit the lowest comes first."""
    tasks, processors = len(waits), len(numbers.node)
    free, arrivals, home = np.zeros(processors), data_arrivals(numbers), np.full(tasks, NONE)
    ready, count, left = np.empty(tasks, np.int64), 0, waits.copy()
    choices = BestProcessors(
        np.zeros(tasks, np.int64),
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(tasks, np.int64),
        np.zeros(tasks),
    )
    for task in range(tasks):
        if left[task] == 0:
            ready[count] = task
            count += 1
            find_best_two(numbers, task, NONE, free, arrivals, place, end, choices)
    while count > 0:
        at, best = 0, -np.inf
        for i in range(count):
            found = merit(choices, ready[i], rule)
            if found > best or (found == best and ready[i] < ready[at]):
                at, best = i, found
        task, count = ready[at], count - 1
        ready[at] = ready[count]
        where, mine = choices.place[task], group[task]
        place[task], start[task], end[task] = where, choices.begin[task], choices.end[task]
        free[where] = end[task]
        for i in range(count):
            other = ready[i]
            bound = group[other] == mine and home[mine] == NONE
            stale = choices.place[other] == where or choices.other[other] == where
            if stale or bound:
                to = where if bound else home[group[other]]
                find_best_two(numbers, other, to, free, arrivals, place, end, choices)
        home[mine] = where
        for edge in range(first[task], first[task + 1]):
            other = child[edge]
            left[other] -= 1
            if left[other] == 0:
                ready[count] = other
                count += 1
                find_best_two(
                    numbers, other, home[group[other]], free, arrivals, place, end, choices
                )
