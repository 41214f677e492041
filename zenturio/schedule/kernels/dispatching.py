"""Workflows played task by task: each is sent when all before it have ended, not earlier.

As in `grid`: its data leave when it is sent, and a processor runs what it was sent in this order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.list_scheduling import NONE, data_arrivals, fill_arrivals
from zenturio.schedule.kernels.plan_times import pop, push

SOONEST, QUICKEST, MASTERS, PRIORITIES = range(4)


class DispatchProblem(NamedTuple):
    """A workflow, and what a policy knows of it."""

    numbers: Any
    waits: Any
    first: Any
    child: Any
    group: Any
    level: Any
    kind: Any
    """Of each task, which row of *fits* says where it can run."""
    fits: Any


class DispatchState(NamedTuple):
    """What is going on."""

    free: Any
    """When each processor has run all that was sent to it."""
    sent: Any
    """How many tasks were sent to it and have not ended."""
    idle: Any
    """For each kind, how many processors that could run it have nothing to do."""
    home: Any
    done: Any
    rank: Any
    """Of each task, lowered with each end that makes it more urgent."""


@njit(cache=True)
def dispatch(flow: Any, rule: Any, start: Any, end: Any, place: Any) -> None:
    """Fills *start*, *end* and *place* by *rule*."""
    tasks, processors = len(flow.waits), len(flow.numbers.node)
    left, ready, count = flow.waits.copy(), np.empty(tasks, np.int64), 0
    scene = DispatchState(
        np.zeros(processors),
        np.zeros(processors, np.int64),
        flow.fits.sum(axis=1),
        np.full(tasks, NONE, np.int64),
        np.zeros(tasks, np.bool_),
        np.zeros(tasks, np.int64),
    )
    times, codes, size, now = np.empty(tasks), np.empty(tasks, np.int64), 0, 0.0
    arrivals, leave = data_arrivals(flow.numbers), np.zeros(tasks)
    seen, stack = np.zeros(tasks, np.int64), np.empty(tasks, np.int64)
    for task in range(tasks):
        if left[task] == 0:
            ready[count] = task
            count += 1
    while True:
        while True:
            at = next_ready(flow, scene, ready, count, rule)
            if at == NONE:
                break
            task, count = ready[at], count - 1
            ready[at] = ready[count]
            send_task(flow, scene, task, rule, now, arrivals, leave, start, end, place)
            push(times, codes, size, end[task], task)
            size += 1
        if size == 0:
            return
        now, batch = times[0], size
        while size > 0 and times[0] == now:
            task = pop(times, codes, size)
            size -= 1
            scene.done[task] = True
            task_ended(flow, scene, np.int64(place[task]))
            codes[size] = task  # what has ended stands behind the heap
        for i in range(size, batch):
            if rule == PRIORITIES:
                raise_ancestors(flow, scene, codes[i], seen, stack)
            for edge in range(flow.first[codes[i]], flow.first[codes[i] + 1]):
                child = np.int64(flow.child[edge])
                left[child] -= 1
                if left[child] == 0:
                    ready[count] = child
                    count += 1


@njit(cache=True)
def next_ready(flow: Any, scene: Any, ready: Any, count: Any, rule: Any) -> Any:
    """Which of the ready tasks is sent next; -1, if none can be."""
    found = NONE
    for i in range(count):
        task = ready[i]
        bound = scene.home[flow.group[task]] != NONE
        if not (rule < MASTERS or bound or scene.idle[flow.kind[task]] > 0):
            continue
        if found == NONE or comes_before(flow, scene, task, ready[found], rule):
            found = i
    return found


@njit(cache=True)
def comes_before(flow: Any, scene: Any, one: Any, other: Any, rule: Any) -> Any:
    """Whether *one* stands before *other*: by layer, then by rank, then by number."""
    if rule >= MASTERS and flow.level[one] != flow.level[other]:
        return flow.level[one] < flow.level[other]
    if scene.rank[one] != scene.rank[other]:
        return scene.rank[one] < scene.rank[other]
    return one < other


@njit(cache=True)
def send_task(
    flow: Any, scene: Any, task: Any, rule: Any, now: Any, arrivals: Any, leave: Any,
    start: Any, end: Any, place: Any,
) -> None:  # fmt: skip
    """Sends *task* to its place, and tells when it starts and ends there."""
    numbers = flow.numbers
    for edge in range(numbers.start[task], numbers.start[task + 1]):
        leave[numbers.parent[edge]] = now
    fill_arrivals(numbers, task, place, leave, arrivals)
    work, pace = numbers.work[task], numbers.pace[numbers.row[task]]
    where, group = scene.home[flow.group[task]], flow.group[task]
    if where == NONE:
        best = np.inf
        for other in range(len(scene.free)):
            if rule >= MASTERS:
                fits = flow.fits[flow.kind[task], other] and scene.sent[other] == 0
                value = 0.0 if fits else np.inf
            else:
                value = work * pace[other]
                if rule == SOONEST:
                    value += max(scene.free[other], now, arrivals.ready[other])
            if value < best:
                best, where = value, other
    begin = max(scene.free[where], now, arrivals.ready[where])
    place[task], start[task], end[task] = where, begin, begin + work * pace[where]
    scene.home[group], scene.free[where] = where, end[task]
    scene.sent[where] += 1
    if scene.sent[where] == 1:
        for kind in range(len(flow.fits)):
            scene.idle[kind] -= flow.fits[kind, where]


@njit(cache=True)
def task_ended(flow: Any, scene: Any, where: Any) -> None:
    """A task on *where* has ended."""
    scene.sent[where] -= 1
    if scene.sent[where] == 0:
        for kind in range(len(flow.fits)):
            scene.idle[kind] += flow.fits[kind, where]


@njit(cache=True)
def raise_ancestors(flow: Any, scene: Any, task: Any, seen: Any, stack: Any) -> None:
    """Makes all that the children of *task* wait for more urgent by one; what is done is done."""
    size, numbers = 0, flow.numbers
    for edge in range(flow.first[task], flow.first[task + 1]):
        size = push_parents(
            numbers, scene.done, np.int64(flow.child[edge]), task + 1, seen, stack, size
        )
    while size > 0:
        size -= 1
        other = stack[size]
        scene.rank[other] -= 1
        size = push_parents(numbers, scene.done, other, task + 1, seen, stack, size)


@njit(cache=True)
def push_parents(
    numbers: Any, done: Any, task: Any, mark: Any, seen: Any, stack: Any, size: Any
) -> Any:
    """Puts the parents of *task* that are not done or marked onto *stack*."""
    for edge in range(numbers.start[task], numbers.start[task + 1]):
        parent = np.int64(numbers.parent[edge])
        if not done[parent] and seen[parent] != mark:
            seen[parent] = mark
            stack[size] = parent
            size += 1
    return size
