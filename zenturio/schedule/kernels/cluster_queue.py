"""A cluster of identical nodes with a batch queue: from numbers of nodes to start and end times.

Tasks are submitted in a given order, each held until its predecessors have ended. The discipline
decides which of the others start. FIFO: the first ones, until one does not fit (the Tetrisator of
Jaros and Jaros). EASY: also others that do not delay the first (Lifka 1995). CONSERVATIVE: each at
the earliest time that delays none released before it (Mu'alem and Feitelson 2001). Free nodes over
time are spans: *begins* has their starts, *room* the free nodes of each.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.dynamic_critical_path import TIE_TOLERANCE
from zenturio.schedule.kernels.plan_times import pop, push
from zenturio.search.kernels.rng import below, unit


@njit(cache=True)
def split_span(begins: Any, room: Any, size: Any, time: Any) -> Any:
    """Return the index of the span that begins at *time*, splitting one if needed, and the size."""
    index = np.searchsorted(begins[:size], time)
    if index < size and begins[index] == time:
        return index, size
    # The first span never begins after *time* (`drop_past`), so there is one to split; the new
    # span has as many free nodes as the one it was part of.
    for i in range(size, index, -1):
        begins[i], room[i] = begins[i - 1], room[i - 1]
    begins[index], room[index] = time, room[index - 1]
    return index, size + 1


@njit(cache=True)
def drop_past(begins: Any, room: Any, size: Any, now: Any) -> Any:
    """Remove the spans before *now*; return the number left, of which the first begins at *now*."""
    index, size = split_span(begins, room, size, now)
    for i in range(index, size):
        begins[i - index], room[i - index] = begins[i], room[i]
    return size - index


@njit(cache=True)
def reserve_nodes(begins: Any, room: Any, size: Any, need: Any, lasts: Any) -> Any:
    """Reserve *need* nodes for as long as a task *lasts*, as early as possible.

    Return the start, and the number of spans.
    """
    # Only the beginnings of spans are candidates, because nodes become free at no other time. In
    # the last span all nodes are free, so the search always ends.
    first, index = 0, 0
    while index < size and (index == first or begins[index] < begins[first] + lasts):
        if room[index] < need:
            first = index + 1
        index += 1
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
    """The number of predecessors of each task."""
    first: Any
    """Where the successors of a task begin in *child* and *delay*, as in ``Adjacency``."""
    child: Any
    delay: Any
    order: Any
    """The tasks in the order of submission."""
    rank: Any
    """The position of each task in that order."""


class QueueBuffers(NamedTuple):
    """Buffers of a simulation, reused for every row of a batch."""

    waits: Any
    ready: Any
    """When each task is released."""
    queue: Any
    """Ranks of the released tasks, ascending."""
    times: Any
    """With *codes*, a heap of events: code t means that task t ends, t + tasks that its data
    arrive."""
    codes: Any
    freed: Any
    begins: Any
    """With *room*, the spans of free nodes (CONSERVATIVE only)."""
    room: Any


@njit(cache=True)
def queue_buffers(tasks: Any) -> Any:
    """Return buffers for a workflow of so many *tasks*."""
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
    """Insert a task into the queue by rank; usually it goes to the end."""
    position = tail
    while position > head and queue[position - 1] > rank:
        queue[position] = queue[position - 1]
        position -= 1
    queue[position] = rank


@njit(cache=True)
def reservation(codes: Any, size: Any, need: Any, free: Any, counts: Any, end: Any) -> Any:
    """Return when *need* nodes will be free if nothing else starts, and the spare nodes then."""
    # Codes from the number of tasks on mean arrivals of data, which hold no nodes.
    running = codes[:size]
    running = running[running < len(end)]
    running = running[np.argsort(end[running], kind="mergesort")]
    index = 0
    while free < need:
        free += counts[running[index]]
        index += 1
    when = end[running[index - 1]]
    # Tasks that end at the same moment leave spare nodes beside the reservation.
    while index < len(running) and end[running[index]] == when:
        free += counts[running[index]]
        index += 1
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
    """Start tasks that do not delay the first one of the queue, which waits (EASY).

    Return the number of free nodes, the size of the event heap, and the end of the queue.
    """
    # The first task holds a reservation; others may start only if they end before it or fit beside
    # it.
    need = counts[order[queue[head]]]
    when, extra = reservation(codes, size, need, free, counts, end)
    queue_end = head + 1
    for index in range(head + 1, tail):
        task = order[queue[index]]
        ends_in_time = now + seconds[task] <= when
        if counts[task] <= free and (ends_in_time or counts[task] <= extra):
            free -= counts[task]
            # It still runs when the first task starts, so it uses up spare nodes.
            if not ends_in_time:
                extra -= counts[task]
            start[task], end[task] = now, now + seconds[task]
            push(times, codes, size, end[task], task)
            size += 1
        else:
            queue[queue_end] = queue[index]
            queue_end += 1
    return free, size, queue_end


@njit(cache=True)
def submit_all(order: Any, waiting: Any, waits: Any, ready: Any, queue: Any) -> Any:
    """Submit all tasks; return the end of the queue of those without predecessors."""
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
    """Store in *freed* the tasks that only waited for *task*; return their number."""
    count = 0
    for edge in range(graph.first[task], graph.first[task + 1]):
        child = graph.child[edge]
        waits[child] -= 1
        ready[child] = max(ready[child], now + graph.delay[edge])
        if waits[child] == 0:
            freed[count] = child
            count += 1
    return count


@njit(cache=True)
def play_queue(
    kind: Any, nodes: Any, graph: Any, counts: Any, seconds: Any, on: Any, start: Any, end: Any
) -> Any:
    """Simulate the queue: fill *start* and *end*, and return the makespan."""
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
            # FIFO waits for this task; EASY looks behind it, in `backfill`.
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
            # The arrival of data releases one task; the end of a task replaces this below.
            freed[0], count = code - tasks, 1
            if code < tasks:
                free += counts[code]
                makespan = now
                count = release_children(graph, code, now, on.waits, ready, freed)
            for task in freed[:count]:
                # Its data are still being transferred: they arrive as an event of their own.
                if ready[task] > now:
                    push(times, codes, size, ready[task], task + tasks)
                    size += 1
                else:
                    enqueue(queue, head, tail, rank[task])
                    tail += 1


@njit(cache=True)
def play_queues(
    kind: Any, nodes: Any, graph: Any, table: Any, row: Any, counts: Any, figures: Any
) -> None:
    """Fill *figures* for each row of *counts*: all seconds, the makespan, all node seconds."""
    tasks = len(row)
    buffers, start, end = queue_buffers(tasks), np.empty(tasks), np.empty(tasks)
    seconds = np.empty(tasks)
    for i in range(len(counts)):
        total, cost = 0.0, 0.0
        for task in range(tasks):
            seconds[task] = table[row[task], counts[i, task]]
            total += seconds[task]
            cost += seconds[task] * counts[i, task]
        figures[i, 0] = total
        figures[i, 1] = play_queue(kind, nodes, graph, counts[i], seconds, buffers, start, end)
        figures[i, 2] = cost


@njit(cache=True)
def assign_nodes(
    sequence: Any, nodes: Any, counts: Any, first: Any, start: Any, end: Any, node: Any
) -> None:
    """Assign free nodes to each task of *sequence*, which is sorted by start.

    Adjacent nodes with the lowest numbers if there are enough; otherwise the lowest free ones. A
    task of zero length takes no nodes from others.
    """
    # When each node becomes free: tasks are visited by start, so one value per node suffices.
    until = np.full(nodes, -np.inf)
    for task in sequence:
        count, now, lasts = counts[task], start[task], end[task] > start[task]
        index, run = 0, 0
        while index < nodes and run < count:
            run = run + 1 if until[index] <= now or not lasts else 0
            index += 1
        index = index - run if run == count else 0
        slot = first[task]
        while slot < first[task + 1]:
            if until[index] <= now or not lasts:
                node[slot] = index
                until[index] = end[task] if lasts else until[index]
                slot += 1
            index += 1


@njit(cache=True)
def bottom_levels(graph: Any, topological: Any, seconds: Any, below: Any) -> Any:
    """Fill *below* with the longest path from each task to an exit, and return the longest."""
    longest = 0.0
    for i in range(len(topological) - 1, -1, -1):
        task = topological[i]
        longest_behind = 0.0
        for edge in range(graph.first[task], graph.first[task + 1]):
            longest_behind = max(longest_behind, graph.delay[edge] + below[graph.child[edge]])
        below[task] = seconds[task] + longest_behind
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
    """Return the task on the critical path that gains most from more nodes, or -1 (CPA).

    The gain is the decrease of time per node. *following* has, by row and number of nodes, the next
    number that is faster, or 0.
    """
    task, best, best_gain = -1, -1, -np.inf
    for i in topological:
        if graph.waits[i] == 0 and (task < 0 or below[i] > below[task]):
            task = i
    while task >= 0:
        next_count = following[row[task], counts[task]]
        if next_count:
            gain = seconds[task] / counts[task] - table[row[task], next_count] / next_count
            if gain > best_gain:
                best, best_gain = task, gain
        longest, task_after = -1.0, -1
        for edge in range(graph.first[task], graph.first[task + 1]):
            child = graph.child[edge]
            if graph.delay[edge] + below[child] > longest:
                longest, task_after = graph.delay[edge] + below[child], child
        task = task_after
    return best


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
    """Return numbers of nodes grown from *counts* on the critical path (CPA).

    With a *stride* of 0, stop when the area (node seconds / nodes) reaches the length of the
    critical path. Otherwise continue while the area is shorter than the best plan, which is sought
    after every *stride* steps with tasks submitted by bottom level.
    """
    tasks = len(row)
    seconds, below = np.empty(tasks), np.empty(tasks)
    buffers, start, end = queue_buffers(tasks), np.empty(tasks), np.empty(tasks)
    order, rank = np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    best, grown, area, step = counts.copy(), counts.copy(), 0.0, 0
    for task in range(tasks):
        seconds[task] = table[row[task], grown[task]]
        area += seconds[task] * grown[task]
    best_makespan = np.inf
    while True:
        longest = bottom_levels(graph, topological, seconds, below)
        task = best_candidate(graph, topological, table, row, grown, seconds, following, below)
        if stride and (task < 0 or step % stride == 0):
            order[:] = topological[np.argsort(-below[topological], kind="mergesort")]
            for place in range(tasks):
                rank[order[place]] = place
            queue = QueueGraph(graph.waits, graph.first, graph.child, graph.delay, order, rank)
            makespan = play_queue(kind, nodes, queue, grown, seconds, buffers, start, end)
            if makespan < best_makespan:
                best_makespan = makespan
                best[:] = grown
        # The tolerance absorbs rounding errors of the area, which is updated step by step.
        if task < 0 or area / nodes >= (best_makespan if stride else longest) * (1 - TIE_TOLERANCE):
            return best if stride else grown
        area -= seconds[task] * grown[task]
        grown[task] = following[row[task], grown[task]]
        seconds[task] = table[row[task], grown[task]]
        area += seconds[task] * grown[task]
        step += 1


HOT_START, WARM_START, COLD_END = 0.1, 0.003, 1e-5
"""Temperatures as shares of the fitness; rounds alternate between hot and warm starts."""
ROUNDS = 8


@njit(cache=True)
def weighted_figures(weights: Any, total: Any, makespan: Any, cost: Any) -> Any:
    """Return the weighted terms of the fitness: seconds, makespan, node seconds, busy nodes."""
    busy = cost / makespan if makespan > 0 else cost
    return (weights[0] * total, weights[1] * makespan, weights[2] * cost, weights[3] * busy)


@njit(cache=True)
def nearby_count(choices: Any, count: Any, state: Any) -> Any:
    """Return a random number of nodes out of *choices*, usually at most two steps from *count*."""
    # One in five steps may go anywhere, so that the search does not stick to nearby numbers.
    if unit(state) < 0.2:
        return choices[below(state, len(choices))]
    index = np.searchsorted(choices, count) + below(state, 5) - 2
    return choices[min(max(index, 0), len(choices) - 1)]


@njit(cache=True)
def move_in_order(order: Any, rank: Any, place: Any, to: Any) -> None:
    """Move the task at *place* of *order* to position *to*, shifting those between."""
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
    """Return the best numbers of nodes and order of *budget* plays, by simulated annealing.

    A step gives a task another number of nodes, or submits it earlier or later. Each round restarts
    from the best plan; rounds that start warm search nearby and alternate with hot ones.
    """
    tasks = len(row)
    buffers, start, end = queue_buffers(tasks), np.empty(tasks), np.empty(tasks)
    order, rank, seconds = graph.order.copy(), graph.rank.copy(), np.empty(tasks)
    queue = QueueGraph(graph.waits, graph.first, graph.child, graph.delay, order, rank)
    best, best_counts, best_order = np.inf, counts.copy(), order.copy()
    current, temperature, cooling, total, cost = np.inf, 0.0, 1.0, 0.0, 0.0
    length = max(1, budget // ROUNDS)
    for step in range(budget):
        # Each round restarts from the best plan, and recomputes sums that drift by rounding.
        if step % length == 0:
            counts[:], order[:] = best_counts, best_order
            total, cost = 0.0, 0.0
            for task in range(tasks):
                rank[order[task]] = task
                seconds[task] = table[row[task], counts[task]]
                total += seconds[task]
                cost += seconds[task] * counts[task]
            makespan = play_queue(kind, nodes, queue, counts, seconds, buffers, start, end)
            terms = weighted_figures(weights, total, makespan, cost)
            current = best = terms[0] + terms[1] + terms[2] + terms[3]
            temperature = HOT_START if step // length % 2 else WARM_START
            cooling = (COLD_END / temperature) ** (1.0 / length)
            temperature *= abs(terms[0]) + abs(terms[1]) + abs(terms[2]) + abs(terms[3])
        # Temperatures are relative to the fitness, so that problems of any size cool alike.
        temperature *= cooling
        task = below(state, tasks)
        before, place = counts[task], rank[task]
        new_count, to = before, place
        if unit(state) < 0.5:
            to = below(state, tasks)
            move_in_order(order, rank, place, to)
        else:
            new_count = nearby_count(choices[row[task], : sizes[row[task]]], before, state)
        lasts = table[row[task], new_count]
        added_time, added_cost = lasts - seconds[task], lasts * new_count - seconds[task] * before
        counts[task], seconds[task] = new_count, lasts
        makespan = play_queue(kind, nodes, queue, counts, seconds, buffers, start, end)
        terms = weighted_figures(weights, total + added_time, makespan, cost + added_cost)
        fitness = terms[0] + terms[1] + terms[2] + terms[3]
        if fitness <= current or unit(state) < math.exp((current - fitness) / temperature):
            current, total, cost = fitness, total + added_time, cost + added_cost
            if current < best:
                best, best_counts[:], best_order[:] = current, counts, order
        else:
            counts[task], seconds[task] = before, table[row[task], before]
            move_in_order(order, rank, to, place)
    return best_counts, best_order
