"""A cluster of identical nodes that plays a queue of tasks: from numbers of nodes to times.

Tasks are submitted in a given order, each held until all that it waits for has ended. Of those
that are not held, the queue's discipline says which start: FIFO, the first ones, until one does
not fit, which is the Tetrisator of Jaros and Jaros; EASY, also others that do not delay the first
(Lifka 1995); conservative: each at the earliest time that delays none which came before it
(Mu'alem and Feitelson 2001).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.heap import pop, push
from zenturio.schedule.kernels.spans import drop_past, reserve_nodes

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
