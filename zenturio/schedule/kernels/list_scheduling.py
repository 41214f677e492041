"""List scheduling: placing tasks in order into idle gaps, and batch-mode selection.

The gaps of a processor form a treap (Seidel and Aragon 1996) in the order of time. Each node knows
the longest gap of its subtree, so that a search skips subtrees that are too short: a gap is found
in logarithmic time. A gap that is used up stays with zero length; there are never more gaps than
tasks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

NONE = -1


class Gaps(NamedTuple):
    """The gaps of all processors; -1 means none."""

    root: Any
    """Root of the treap of each processor."""
    latest: Any
    """For each processor, a time after which it has no gap; -1 if it never had one."""
    start: Any
    end: Any
    longest: Any
    """Length of the longest gap in each subtree."""
    left: Any
    right: Any
    above: Any
    count: Any
    """The number of gaps, in an array of one element."""


@njit(cache=True)
def no_gaps(processors: Any, capacity: Any) -> Any:
    """Return an empty set of gaps with room for *capacity*."""
    return Gaps(
        np.full(processors, NONE, np.int32),
        np.full(processors, -1.0),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.zeros(1, np.int32),
    )


@njit(cache=True)
def heap_weight(gap: Any) -> Any:
    """Return a deterministic pseudo-random weight, which keeps the treap balanced."""
    # Fibonacci hashing with the golden ratio; the constants are those of common integer mixers.
    mixed = np.uint64(gap) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return mixed * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(32)


@njit(cache=True)
def update_longest(gaps: Any, gap: Any) -> Any:
    """Recompute the longest gap below *gap*; return whether it changed."""
    longest = gaps.end[gap] - gaps.start[gap]
    if gaps.left[gap] != NONE:
        longest = max(longest, gaps.longest[gaps.left[gap]])
    if gaps.right[gap] != NONE:
        longest = max(longest, gaps.longest[gaps.right[gap]])
    changed = longest != gaps.longest[gap]
    gaps.longest[gap] = longest
    return changed


@njit(cache=True)
def update_longest_upwards(gaps: Any, gap: Any) -> None:
    """Recompute the longest gaps from *gap* to the root, as far as they change."""
    while gap != NONE and update_longest(gaps, gap):
        gap = gaps.above[gap]


@njit(cache=True)
def rotate_up(gaps: Any, processor: Any, gap: Any) -> None:
    """Rotate *gap* into the place of its parent."""
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
    """Insert a gap directly after *before*, or after all gaps if that is -1."""
    gaps.latest[processor] = max(gaps.latest[processor], end)
    gap = gaps.count[0]
    gaps.count[0] = gap + 1
    gaps.start[gap], gaps.end[gap], gaps.longest[gap] = start, end, end - start
    gaps.left[gap] = gaps.right[gap] = NONE
    parent = gaps.root[processor]
    if before != NONE and gaps.right[before] == NONE:
        parent = before
        gaps.right[parent] = gap
    elif before != NONE:
        parent = gaps.right[before]
        while gaps.left[parent] != NONE:
            parent = gaps.left[parent]
        gaps.left[parent] = gap
    elif parent != NONE:
        while gaps.right[parent] != NONE:
            parent = gaps.right[parent]
        gaps.right[parent] = gap
    else:
        gaps.root[processor] = gap
    gaps.above[gap] = parent
    # Restore the heap order of the treap: rotate up while the parent has a smaller weight.
    while gaps.above[gap] != NONE and heap_weight(gap) > heap_weight(gaps.above[gap]):
        rotate_up(gaps, processor, gap)
    update_longest_upwards(gaps, gaps.above[gap])


@njit(cache=True)
def use_gap(gaps: Any, processor: Any, gap: Any, start: Any, end: Any) -> None:
    """Remove *start* to *end* from *gap*; what remains before and after stays a gap."""
    first, last = gaps.start[gap], gaps.end[gap]
    # A gap that is used from its beginning shrinks, perhaps to nothing: removing a node would cost
    # rotations, and an empty gap fits no task.
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
    """Return the first gap of length *length* in the subtree of *gap*; one must exist."""
    while True:
        left_child = gaps.left[gap]
        if left_child != NONE and gaps.longest[left_child] >= length:
            gap = left_child
        elif gaps.end[gap] - gaps.start[gap] >= length:
            return gap
        else:
            gap = gaps.right[gap]


@njit(cache=True)
def next_long(gaps: Any, gap: Any, length: Any) -> Any:
    """Return the next gap after *gap* of length *length*, or -1."""
    while True:
        right_child = gaps.right[gap]
        if right_child != NONE and gaps.longest[right_child] >= length:
            return first_long(gaps, right_child, length)
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
    """Return the first gap in which a task of *length* fits from *ready* on, or -1."""
    # Gaps do not overlap, so the order of their starts is also the order of their ends.
    candidate, node = NONE, gaps.root[processor]
    while node != NONE:  # the first gap that ends late enough
        if gaps.end[node] >= ready + length:
            candidate, node = node, gaps.left[node]
        else:
            node = gaps.right[node]
    while candidate != NONE:
        first, last = gaps.start[candidate], gaps.end[candidate]
        if last > first and last - first >= length and max(first, ready) + length <= last:
            return candidate
        candidate = next_long(gaps, candidate, length)
    return NONE


class DataArrivals(NamedTuple):
    """When the data of a task arrive on each processor, with buffers to compute it."""

    ready: Any
    first: Any
    """At each site, when all data arrive, ignoring data that are local to a machine."""
    origin: Any
    """The machine from which the last of these data come."""
    second: Any
    """At each site, when the data of all other machines arrive."""
    near: Any
    """On each machine, when the last predecessor that ran there ended."""
    begin: Any
    """The first processor of each machine."""


@njit(cache=True)
def data_arrivals(numbers: Any) -> Any:
    """Return buffers for the arrivals of one task after the other."""
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
    """Fill ``arrivals.ready`` for *task*, in O(parents x sites + processors).

    Data of a parent need no transfer on its own machine. So for each site, the machine whose data
    arrive last must be known, and when those of all other machines have arrived.
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
    # Each machine of a parent is visited once for each of its parents: the result is the same.
    for edge in range(first, last):
        machine = numbers.node[processor[numbers.parent[edge]]]
        for place in range(arrivals.begin[machine], arrivals.begin[machine + np.uint64(1)]):
            site = numbers.site[place]
            is_origin = arrivals.origin[site] == machine
            transferred = arrivals.second[site] if is_origin else arrivals.first[site]
            arrivals.ready[place] = max(arrivals.near[machine], transferred)
    # Clearing only what was set costs less than clearing all machines.
    for edge in range(first, last):
        arrivals.near[numbers.node[processor[numbers.parent[edge]]]] = 0.0


@njit(cache=True)
def send_data(numbers: Any, edge: Any, processor: Any, end: Any, arrivals: Any) -> None:
    """Update the arrivals at every site by the data of *edge*."""
    parent = numbers.parent[edge]
    machine, origin_site = numbers.node[processor[parent]], numbers.site[processor[parent]]
    arrivals.near[machine] = max(arrivals.near[machine], end[parent])
    ended, data, machine_number = end[parent], numbers.data[edge], np.int64(machine)
    latency, slowness = numbers.latency[origin_site], numbers.slowness[origin_site]
    first, second, origin = arrivals.first, arrivals.second, arrivals.origin
    for site in range(np.uint64(len(first))):  # branch-free, so that LLVM vectorises it
        arrival = ended + latency[site]
        arrival += data * slowness[site]
        previous, last = first[site], origin[site]
        # Only data of other machines count for the second-latest arrival.
        if last != machine_number:
            second[site] = max(second[site], min(previous, arrival))
        first[site] = max(previous, arrival)
        origin[site] = machine_number if arrival > previous else last


@njit(cache=True)
def longest_paths(order: Any, time: Any, start: Any, child: Any, delay: Any) -> Any:
    """Return for each task the longest path to an exit: times of tasks and delays of edges."""
    rank = np.zeros(len(order))
    for i in range(len(order) - 1, -1, -1):
        task, longest = order[i], 0.0
        for edge in range(start[task], start[task + np.uint64(1)]):
            longest = max(longest, delay[edge] + rank[child[edge]])
        rank[task] = time[task] + longest
    return rank


@njit(cache=True)
def optimistic_cost_table(numbers: Any, order: Any, start: Any, child: Any, delay: Any) -> Any:
    """Return the optimistic cost table of PEFT (equation 5).

    The cost of a task on a processor is the longest path behind it if all following tasks run at
    their best: a child either on its parent's machine, or on any other after the delay.
    """
    processors = len(numbers.node)
    table = np.zeros((len(order), processors))
    near = np.empty(np.int64(numbers.node[processors - 1]) + 1)
    for i in range(len(order) - 1, -1, -1):
        task = order[i]
        for edge in range(start[task], start[task + np.uint64(1)]):
            child_task, best = child[edge], np.inf
            near[:] = np.inf
            pace = numbers.pace[numbers.row[child_task]]
            for place in range(processors):
                if np.isfinite(pace[place]):
                    cost = table[child_task, place] + numbers.work[child_task] * pace[place]
                    near[numbers.node[place]] = min(near[numbers.node[place]], cost)
                    best = min(best, cost)
            for place in range(processors):
                # On the machine of the parent the data are local; elsewhere the delay is the mean
                # one.
                cost = min(near[numbers.node[place]], best + delay[edge])
                table[task, place] = max(table[task, place], cost)
    return table


@njit(cache=True)
def place_in_gaps(
    numbers: Any, order: Any, group: Any, home: Any, ahead: Any, start: Any, end: Any, place: Any
) -> None:
    """Fill *place*, *start* and *end*: each task of *order* takes the first gap that fits.

    A task goes where its end plus the entry of *ahead* is least; ties go to the lower processor. If
    *home* has a processor for its group, the task goes there; otherwise its processor is stored in
    *home*.
    """
    tasks, processors = np.uint64(len(order)), np.uint64(len(numbers.node))
    gaps, arrivals = no_gaps(len(numbers.node), len(order)), data_arrivals(numbers)
    free, nothing = np.zeros(processors), np.zeros(processors)
    likely, bounds = np.empty(processors, np.uint64), np.empty(processors)
    for i in range(tasks):
        task = order[i]
        fill_arrivals(numbers, task, place, end, arrivals)
        ready, work, pace = arrivals.ready, numbers.work[task], numbers.pace[numbers.row[task]]
        extra = ahead[task] if len(ahead) else nothing
        processor = home[group[task]]
        if processor == NONE:
            processor = best_processor(gaps, ready, work, pace, extra, free, likely, bounds)
            home[group[task]] = processor
        length = work * pace[processor]
        begin, gap = max(free[processor], ready[processor]), NONE
        # Most tasks begin after all gaps: this comparison saves the search.
        if ready[processor] + length <= gaps.latest[processor]:
            gap = find_gap(gaps, processor, ready[processor], length)
        if gap != NONE:
            begin = max(gaps.start[gap], ready[processor])
            use_gap(gaps, processor, gap, begin, begin + length)
        else:
            # The processor idles until the data arrive: remember the gap for later tasks.
            if begin > free[processor]:
                insert_gap(gaps, processor, NONE, free[processor], begin)
            free[processor] = begin + length
        place[task], start[task], end[task] = processor, begin, begin + length


@njit(cache=True)
def best_processor(
    gaps: Any, ready: Any, work: Any, pace: Any, more: Any, free: Any, likely: Any, bounds: Any
) -> Any:
    """Return the processor on which *work* ends first, plus the entry of *more*.

    First tries the ends of all processors, then gaps, in the order of their lower bounds; gaps
    whose bound is no better than the best end are skipped.
    """
    best_place: Any = np.uint64(0)
    best, count = np.inf, 0
    for place in range(np.uint64(len(free))):
        length = work * pace[place]
        end = max(free[place], ready[place]) + length + more[place]
        if end < best:
            best, best_place = end, place
        fits_before_last = ready[place] + length <= gaps.latest[place]
        if fits_before_last and gaps.longest[gaps.root[place]] >= length:
            likely[count], bounds[count] = place, ready[place] + length + more[place]
            count += 1
    while count > 0:
        index = np.argmin(bounds[:count])
        place, bound = likely[index], bounds[index]
        if bound > best:
            break
        count -= 1
        likely[index], bounds[index] = likely[count], bounds[count]
        length = work * pace[place]
        gap = find_gap(gaps, place, ready[place], length)
        if gap != NONE:
            end = max(gaps.start[gap], ready[place]) + length + more[place]
            if end < best or (end == best and place < best_place):
                best, best_place = end, place
    return np.int64(best_place)


MIN_MIN, MAX_MIN, SUFFERAGE = range(3)


class BestProcessors(NamedTuple):
    """For each ready task, its best and second-best processor."""

    place: Any
    begin: Any
    end: Any
    other: Any
    """The second-best processor, or -1."""
    later: Any
    """The end on the second-best processor; infinite if there is none."""


@njit(cache=True)
def find_best_two(
    numbers: Any, task: Any, home: Any, free: Any, arrivals: Any, place: Any, end: Any, choices: Any
) -> None:
    """Find the best two processors of *task* after the tasks placed there, or only *home*."""
    fill_arrivals(numbers, task, place, end, arrivals)
    work, pace = numbers.work[task], numbers.pace[numbers.row[task]]
    choices.place[task], choices.end[task] = 0, np.inf
    choices.other[task], choices.later[task] = NONE, np.inf
    first, last = 0, len(free)
    if home != NONE:
        first, last = home, home + 1
    for processor in range(first, last):
        begin = max(free[processor], arrivals.ready[processor])
        finish = begin + work * pace[processor]
        if finish < choices.end[task]:
            choices.other[task], choices.later[task] = choices.place[task], choices.end[task]
            choices.place[task], choices.begin[task], choices.end[task] = processor, begin, finish
        elif finish < choices.later[task]:
            choices.other[task], choices.later[task] = processor, finish


@njit(cache=True)
def merit(choices: Any, task: Any, rule: Any) -> Any:
    """Return the merit of a ready task: the highest is placed next."""
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
    """Fill *start*, *end* and *place*; ties go to the lower task number.

    After a task is placed, only tasks are re-evaluated whose best or second-best processor was
    used, so a step costs as much as there are such tasks.
    """
    tasks, processors = len(waits), len(numbers.node)
    free, arrivals, home = np.zeros(processors), data_arrivals(numbers), np.full(tasks, NONE)
    ready, count, missing = np.empty(tasks, np.int64), 0, waits.copy()
    choices = BestProcessors(
        np.zeros(tasks, np.int64),
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(tasks, np.int64),
        np.zeros(tasks),
    )
    for task in range(tasks):
        if missing[task] == 0:
            ready[count] = task
            count += 1
            find_best_two(numbers, task, NONE, free, arrivals, place, end, choices)
    while count > 0:
        chosen, best = 0, -np.inf
        for i in range(count):
            value = merit(choices, ready[i], rule)
            if value > best or (value == best and ready[i] < ready[chosen]):
                chosen, best = i, value
        task, count = ready[chosen], count - 1
        ready[chosen] = ready[count]
        processor, group_of_task = choices.place[task], group[task]
        place[task], start[task], end[task] = processor, choices.begin[task], choices.end[task]
        free[processor] = end[task]
        for i in range(count):
            waiting_task = ready[i]
            # The first task of a group fixes the processor of the others, ready ones included.
            bound = group[waiting_task] == group_of_task and home[group_of_task] == NONE
            stale = (
                choices.place[waiting_task] == processor or choices.other[waiting_task] == processor
            )
            if stale or bound:
                allowed = processor if bound else home[group[waiting_task]]
                find_best_two(numbers, waiting_task, allowed, free, arrivals, place, end, choices)
        home[group_of_task] = processor
        for edge in range(first[task], first[task + 1]):
            waiting_task = child[edge]
            missing[waiting_task] -= 1
            if missing[waiting_task] == 0:
                ready[count] = waiting_task
                count += 1
                find_best_two(
                    numbers,
                    waiting_task,
                    home[group[waiting_task]],
                    free,
                    arrivals,
                    place,
                    end,
                    choices,
                )
