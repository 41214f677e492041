"""How many nodes are free from when on: where a conservative queue looks for room."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.critical_path import TIE_TOLERANCE
from zenturio.schedule.kernels.plan_times import pop, push
from zenturio.search.kernels.rng import below, unit


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


FIFO, EASY, CONSERVATIVE = range(3)


class QueueGraph(NamedTuple):
    """A workflow as bare arrays."""

    waits: Any
    """How many tasks each waits for."""
    first: Any
    """Where in *child* and *delay* those that wait for a task begin, as in ``Links``."""
    child: Any
    delay: Any
    order: Any
    """The tasks in the order in which they are submitted."""
    rank: Any
    """The place of each task in it."""


class QueueBuffers(NamedTuple):
    """What is on the desk of the one who plays: used again for every row of a batch."""

    waits: Any
    ready: Any
    """When each task is held no longer."""
    queue: Any
    """Ranks of those that are not held, ascending."""
    times: Any
    """With *codes* a heap of what is to come: task t ends; or its data arrive, if t + tasks."""
    codes: Any
    freed: Any
    begins: Any
    """With *room* how many nodes are free from when on: of CONSERVATIVE."""
    room: Any


@njit(cache=True)
def queue_buffers(tasks: Any) -> Any:
    """A desk for a workflow of so many *tasks*."""
    return QueueBuffers(
        np.empty(tasks, np.int64),
        np.empty(tasks),
        np.empty(tasks, np.int64),
        np.empty(2 * tasks + 1),
        np.empty(2 * tasks + 1, np.int64),
        np.empty(tasks, np.int64),
        np.empty(2 * tasks + 3),
        np.empty(2 * tasks + 3, np.int64),
    )


@njit(cache=True)
def enqueue(queue: Any, head: Any, tail: Any, rank: Any) -> None:
    """Put a task in its place in the queue, which is mostly its end."""
    at = tail
    while at > head and queue[at - 1] > rank:
        queue[at] = queue[at - 1]
        at -= 1
    queue[at] = rank


@njit(cache=True)
def reservation(codes: Any, size: Any, need: Any, free: Any, counts: Any, end: Any) -> Any:
    """When *need* nodes will be free, and how many more than these, if nothing else starts."""
    running = codes[:size]
    running = running[running < len(end)]
    running = running[np.argsort(end[running], kind="mergesort")]
    at = 0
    while free < need:
        free += counts[running[at]]
        at += 1
    when = end[running[at - 1]]
    while at < len(running) and end[running[at]] == when:
        free += counts[running[at]]
        at += 1
    return when, free - need


@njit(cache=True)
def backfill(
    queue: Any,
    head: Any,
    tail: Any,
    order: Any,
    times: Any,
    codes: Any,
    size: Any,
    free: Any,
    now: Any,
    counts: Any,
    seconds: Any,
    start: Any,
    end: Any,
) -> Any:
    """While the first of the queue waits, start others that do not make it wait longer.

    How many nodes are free then, what is to come, and where the queue ends.
    """
    need = counts[order[queue[head]]]
    when, extra = reservation(codes, size, need, free, counts, end)
    kept = head + 1
    for at in range(head + 1, tail):
        task = order[queue[at]]
        short = now + seconds[task] <= when
        if counts[task] <= free and (short or counts[task] <= extra):
            free -= counts[task]
            if not short:
                extra -= counts[task]
            start[task], end[task] = now, now + seconds[task]
            push(times, codes, size, end[task], task)
            size += 1
        else:
            queue[kept] = queue[at]
            kept += 1
    return free, size, kept


@njit(cache=True)
def submit_all(order: Any, waiting: Any, waits: Any, ready: Any, queue: Any) -> Any:
    """Submit all tasks; where the queue of those ends that wait for nothing."""
    tail = 0
    for place in range(len(order)):
        task = order[place]
        waits[task], ready[task] = waiting[task], 0.0
        if waits[task] == 0:
            queue[tail] = place
            tail += 1
    return tail


@njit(cache=True)
def release_children(graph: Any, task: Any, now: Any, waits: Any, ready: Any, freed: Any) -> Any:
    """Put into *freed* those that have waited for *task* alone; how many these are."""
    count = 0
    for at in range(graph.first[task], graph.first[task + 1]):
        child = graph.child[at]
        waits[child] -= 1
        ready[child] = max(ready[child], now + graph.delay[at])
        if waits[child] == 0:
            freed[count] = child
            count += 1
    return count


@njit(cache=True)
def play_queue(
    kind: Any, nodes: Any, graph: Any, counts: Any, seconds: Any, on: Any, start: Any, end: Any
) -> Any:
    """Fills *start* and *end*, and returns the makespan: FIFO, EASY or CONSERVATIVE, by *kind*."""
    order, rank = graph.order, graph.rank
    ready, queue, times, codes, freed = on.ready, on.queue, on.times, on.codes, on.freed
    begins, room = on.begins, on.room
    begins[0], room[0] = 0.0, nodes
    tasks, free, makespan, now = len(counts), nodes, 0.0, 0.0
    head, size, spans = 0, 0, 1
    tail = submit_all(order, graph.waits, on.waits, ready, queue)
    while True:
        if kind == CONSERVATIVE:
            spans = drop_past(begins, room, spans, now)
        while head < tail:
            task = order[queue[head]]
            when = now
            if kind == CONSERVATIVE:
                when, spans = reserve_nodes(begins, room, spans, counts[task], seconds[task])
            elif counts[task] > free:
                break
            head += 1
            free -= counts[task]
            start[task], end[task] = when, when + seconds[task]
            push(times, codes, size, end[task], task)
            size += 1
        if kind == EASY and head + 1 < tail and free > 0:
            free, size, tail = backfill(
                queue, head, tail, order, times, codes, size, free, now, counts, seconds, start, end
            )
        if size == 0:
            return makespan
        now = times[0]
        while size > 0 and times[0] == now:
            code = pop(times, codes, size)
            size -= 1
            freed[0], count = code - tasks, 1
            if code < tasks:
                free += counts[code]
                makespan = now
                count = release_children(graph, code, now, on.waits, ready, freed)
            for task in freed[:count]:
                if ready[task] > now:
                    push(times, codes, size, ready[task], task + tasks)
                    size += 1
                else:
                    enqueue(queue, head, tail, rank[task])
                    tail += 1


@njit(cache=True)
def play_queues(
    kind: Any, nodes: Any, graph: Any, table: Any, row: Any, counts: Any, found: Any
) -> None:
    """For each row of *counts*: all seconds, the makespan, all node seconds."""
    tasks = len(row)
    on, start, end = queue_buffers(tasks), np.empty(tasks), np.empty(tasks)
    seconds = np.empty(tasks)
    for i in range(len(counts)):
        total, cost = 0.0, 0.0
        for task in range(tasks):
            seconds[task] = table[row[task], counts[i, task]]
            total += seconds[task]
            cost += seconds[task] * counts[i, task]
        found[i, 0] = total
        found[i, 1] = play_queue(kind, nodes, graph, counts[i], seconds, on, start, end)
        found[i, 2] = cost


@njit(cache=True)
def assign_nodes(
    sequence: Any, nodes: Any, counts: Any, first: Any, start: Any, end: Any, node: Any
) -> None:
    """Give each task of *sequence*, which is by start, free nodes: *node* from *first* on.

    They are neighbours, the lowest that are free, where there are as many; else the lowest. To a
    task of no length all are free, and it takes none from others.
    """
    until = np.full(nodes, -np.inf)
    for task in sequence:
        count, now, lasts = counts[task], start[task], end[task] > start[task]
        at, run = 0, 0
        while at < nodes and run < count:
            run = run + 1 if until[at] <= now or not lasts else 0
            at += 1
        at = at - run if run == count else 0
        into = first[task]
        while into < first[task + 1]:
            if until[at] <= now or not lasts:
                node[into] = at
                until[at] = end[task] if lasts else until[at]
                into += 1
            at += 1


@njit(cache=True)
def bottom_levels(graph: Any, topological: Any, seconds: Any, below: Any) -> Any:
    """Fill *below* with the longest way from each task to an end, itself included; the longest."""
    longest = 0.0
    for i in range(len(topological) - 1, -1, -1):
        task = topological[i]
        way = 0.0
        for at in range(graph.first[task], graph.first[task + 1]):
            way = max(way, graph.delay[at] + below[graph.child[at]])
        below[task] = seconds[task] + way
        longest = max(longest, below[task])
    return longest


@njit(cache=True)
def best_candidate(
    graph: Any,
    topological: Any,
    table: Any,
    row: Any,
    counts: Any,
    seconds: Any,
    following: Any,
    below: Any,
) -> Any:
    """The task of the critical path that gains most by more nodes; -1, if none can have more.

    What it gains is how much less time it takes for each of its nodes (CPA). *following* is, by
    row and number of nodes, the next larger number on which it is faster; 0, if there is none.
    """
    task, found, most = -1, -1, -np.inf
    for i in topological:
        if graph.waits[i] == 0 and (task < 0 or below[i] > below[task]):
            task = i
    while task >= 0:
        more = following[row[task], counts[task]]
        if more:
            gain = seconds[task] / counts[task] - table[row[task], more] / more
            if gain > most:
                found, most = task, gain
        way, task_after = -1.0, -1
        for at in range(graph.first[task], graph.first[task + 1]):
            child = graph.child[at]
            if graph.delay[at] + below[child] > way:
                way, task_after = graph.delay[at] + below[child], child
        task = task_after
    return found


@njit(cache=True)
def grow_nodes(
    kind: Any,
    nodes: Any,
    graph: Any,
    topological: Any,
    table: Any,
    row: Any,
    counts: Any,
    following: Any,
    stride: Any,
) -> Any:
    """Nodes for each task, grown from *counts*.

    With a *stride* of 0 until the area, node seconds by nodes, is as long as the critical path.
    Else on, as long as the area is shorter than the best plan, which is looked for after every
    *stride* steps: tasks with the longest way to an end are submitted first.
    """
    tasks = len(row)
    seconds, below = np.empty(tasks), np.empty(tasks)
    on, start, end = queue_buffers(tasks), np.empty(tasks), np.empty(tasks)
    order, rank = np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    best, grown, area, step = counts.copy(), counts.copy(), 0.0, 0
    for task in range(tasks):
        seconds[task] = table[row[task], grown[task]]
        area += seconds[task] * grown[task]
    least = np.inf
    while True:
        longest = bottom_levels(graph, topological, seconds, below)
        task = best_candidate(graph, topological, table, row, grown, seconds, following, below)
        if stride and (task < 0 or step % stride == 0):
            order[:] = topological[np.argsort(-below[topological], kind="mergesort")]
            for place in range(tasks):
                rank[order[place]] = place
            queue = QueueGraph(graph.waits, graph.first, graph.child, graph.delay, order, rank)
            makespan = play_queue(kind, nodes, queue, grown, seconds, on, start, end)
            if makespan < least:
                least = makespan
                best[:] = grown
        # What is as long but for the rounding of a sum is as long.
        if task < 0 or area / nodes >= (least if stride else longest) * (1 - TIE_TOLERANCE):
            return best if stride else grown
        area -= seconds[task] * grown[task]
        grown[task] = following[row[task], grown[task]]
        seconds[task] = table[row[task], grown[task]]
        area += seconds[task] * grown[task]
        step += 1


HOT_START, WARM_START, COLD_END = 0.1, 0.003, 1e-5
"""By which share of its fitness a plan may become worse as likely as not: at first, at last."""
ROUNDS = 8


@njit(cache=True)
def weighted_figures(weights: Any, total: Any, makespan: Any, cost: Any) -> Any:
    """What makes a plan's fitness: weighed seconds, makespan, node seconds, busy nodes."""
    busy = cost / makespan if makespan > 0 else cost
    return (weights[0] * total, weights[1] * makespan, weights[2] * cost, weights[3] * busy)


@njit(cache=True)
def nearby_count(choices: Any, count: Any, state: Any) -> Any:
    """A number of nodes out of *choices*, mostly one that is at most two from *count*."""
    if unit(state) < 0.2:
        return choices[below(state, len(choices))]
    at = np.searchsorted(choices, count) + below(state, 5) - 2
    return choices[min(max(at, 0), len(choices) - 1)]


@njit(cache=True)
def move_in_order(order: Any, rank: Any, place: Any, to: Any) -> None:
    """Move the task at *place* of *order* to another; those between go a step aside."""
    task, step = order[place], 1 if to > place else -1
    while place != to:
        order[place] = order[place + step]
        rank[order[place]] = place
        place += step
    order[to] = task
    rank[task] = to


@njit(cache=True)
def anneal_queue(
    kind: Any,
    nodes: Any,
    graph: Any,
    table: Any,
    row: Any,
    choices: Any,
    sizes: Any,
    weights: Any,
    budget: Any,
    counts: Any,
    state: Any,
) -> Any:
    """The best of *budget* plans, each a small step from one before; *counts* and the order of it.

    A step gives a task another number of nodes, of the *choices* of its row, or submits it sooner
    or later. Rounds that begin cold, and search nearby, take turns with some that begin hot.
    """
    tasks = len(row)
    on, start, end = queue_buffers(tasks), np.empty(tasks), np.empty(tasks)
    order, rank, seconds = graph.order.copy(), graph.rank.copy(), np.empty(tasks)
    queue = QueueGraph(graph.waits, graph.first, graph.child, graph.delay, order, rank)
    best, best_counts, best_order = np.inf, counts.copy(), order.copy()
    now, heat, cooling, total, cost = np.inf, 0.0, 1.0, 0.0, 0.0
    length = max(1, budget // ROUNDS)
    for step in range(budget):
        if step % length == 0:
            counts[:], order[:] = best_counts, best_order
            total, cost = 0.0, 0.0
            for task in range(tasks):
                rank[order[task]] = task
                seconds[task] = table[row[task], counts[task]]
                total += seconds[task]
                cost += seconds[task] * counts[task]
            makespan = play_queue(kind, nodes, queue, counts, seconds, on, start, end)
            told = weighted_figures(weights, total, makespan, cost)
            now = best = told[0] + told[1] + told[2] + told[3]
            heat = HOT_START if step // length % 2 else WARM_START
            cooling = (COLD_END / heat) ** (1.0 / length)
            heat *= abs(told[0]) + abs(told[1]) + abs(told[2]) + abs(told[3])
        heat *= cooling
        task = below(state, tasks)
        before, place = counts[task], rank[task]
        other, to = before, place
        if unit(state) < 0.5:
            to = below(state, tasks)
            move_in_order(order, rank, place, to)
        else:
            other = nearby_count(choices[row[task], : sizes[row[task]]], before, state)
        lasts = table[row[task], other]
        longer, more = lasts - seconds[task], lasts * other - seconds[task] * before
        counts[task], seconds[task] = other, lasts
        makespan = play_queue(kind, nodes, queue, counts, seconds, on, start, end)
        told = weighted_figures(weights, total + longer, makespan, cost + more)
        found = told[0] + told[1] + told[2] + told[3]
        if found <= now or unit(state) < math.exp((now - found) / heat):
            now, total, cost = found, total + longer, cost + more
            if now < best:
                best, best_counts[:], best_order[:] = now, counts, order
        else:
            counts[task], seconds[task] = before, table[row[task], before]
            move_in_order(order, rank, to, place)
    return best_counts, best_order
