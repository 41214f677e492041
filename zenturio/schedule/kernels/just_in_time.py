"""Kernels of just-in-time dispatching."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.list_scheduling import NONE, data_arrivals, fill_arrivals
from zenturio.schedule.kernels.plan_times import pop, push

SOONEST, QUICKEST, MASTERS, PRIORITIES = range(4)


class DispatchProblem(NamedTuple):
    """A workflow, and what a rule knows of it."""

    numbers: Any
    waits: Any
    first: Any
    child: Any
    group: Any
    level: Any
    kind: Any
    """For each task, the row of *fits* that says where it can run."""
    fits: Any


class DispatchState(NamedTuple):
    """The state of the simulation."""

    free: Any
    """When each processor will have run all tasks sent to it."""
    sent: Any
    """The number of unfinished tasks sent to each processor."""
    idle: Any
    """For each kind, the number of idle processors that can run it."""
    home: Any
    done: Any
    rank: Any
    """Rank of each task; lowered by each end that makes it more urgent."""


@njit(cache=True)
def dispatch(flow: Any, rule: Any, start: Any, end: Any, place: Any) -> None:
    """Fill *start*, *end* and *place* by *rule*."""
    tasks, processors = len(flow.waits), len(flow.numbers.node)
    missing, ready, count = flow.waits.copy(), np.empty(tasks, np.int64), 0
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
    visited, stack = np.zeros(tasks, np.int64), np.empty(tasks, np.int64)
    for task in range(tasks):
        if missing[task] == 0:
            ready[count] = task
            count += 1
    # Everything that can be sent now is sent before time advances to the next end.
    while True:
        while True:
            chosen = next_ready(flow, scene, ready, count, rule)
            if chosen == NONE:
                break
            task, count = ready[chosen], count - 1
            ready[chosen] = ready[count]
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
            codes[size] = task  # ended tasks are kept behind the heap
        # All tasks that end at one moment count before any successor becomes ready.
        for i in range(size, batch):
            if rule == PRIORITIES:
                raise_ancestors(flow, scene, codes[i], visited, stack)
            for edge in range(flow.first[codes[i]], flow.first[codes[i] + 1]):
                child = np.int64(flow.child[edge])
                missing[child] -= 1
                if missing[child] == 0:
                    ready[count] = child
                    count += 1


@njit(cache=True)
def next_ready(flow: Any, scene: Any, ready: Any, count: Any, rule: Any) -> Any:
    """Return the index of the ready task to send next, or -1 if none can be sent."""
    best = NONE
    for i in range(count):
        task = ready[i]
        is_pinned = scene.home[flow.group[task]] != NONE
        # SOONEST and QUICKEST queue tasks at busy processors; the other rules wait for an idle
        # one.
        if not (rule < MASTERS or is_pinned or scene.idle[flow.kind[task]] > 0):
            continue
        if best == NONE or comes_before(flow, scene, task, ready[best], rule):
            best = i
    return best


@njit(cache=True)
def comes_before(flow: Any, scene: Any, one: Any, other: Any, rule: Any) -> Any:
    """Return whether task *one* precedes *other*: by layer, then rank, then number."""
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
    """Send *task* to its processor, and set its start and end."""
    numbers = flow.numbers
    # Just in time: data leave when the task is sent, not when their producer ended.
    for edge in range(numbers.start[task], numbers.start[task + 1]):
        leave[numbers.parent[edge]] = now
    fill_arrivals(numbers, task, place, leave, arrivals)
    work, pace = numbers.work[task], numbers.pace[numbers.row[task]]
    processor, group = scene.home[flow.group[task]], flow.group[task]
    if processor == NONE:
        best = np.inf
        for candidate in range(len(scene.free)):
            if rule >= MASTERS:
                fits = flow.fits[flow.kind[task], candidate] and scene.sent[candidate] == 0
                value = 0.0 if fits else np.inf
            else:
                value = work * pace[candidate]
                if rule == SOONEST:
                    value += max(scene.free[candidate], now, arrivals.ready[candidate])
            if value < best:
                best, processor = value, candidate
    begin = max(scene.free[processor], now, arrivals.ready[processor])
    place[task], start[task], end[task] = processor, begin, begin + work * pace[processor]
    scene.home[group], scene.free[processor] = processor, end[task]
    scene.sent[processor] += 1
    # Only the step from idle to busy counts: rules that use *idle* never send to a busy one, but
    # tasks of one group may queue at their home.
    if scene.sent[processor] == 1:
        for kind in range(len(flow.fits)):
            scene.idle[kind] -= flow.fits[kind, processor]


@njit(cache=True)
def task_ended(flow: Any, scene: Any, where: Any) -> None:
    """Update the state after a task on *where* has ended."""
    scene.sent[where] -= 1
    if scene.sent[where] == 0:
        for kind in range(len(flow.fits)):
            scene.idle[kind] += flow.fits[kind, where]


@njit(cache=True)
def raise_ancestors(flow: Any, scene: Any, task: Any, visited: Any, stack: Any) -> None:
    """Raise the priority of all unfinished ancestors of the children of *task* (pM-S, step 5)."""
    size, numbers = 0, flow.numbers
    for edge in range(flow.first[task], flow.first[task + 1]):
        size = push_parents(
            numbers, scene.done, np.int64(flow.child[edge]), task + 1, visited, stack, size
        )
    while size > 0:
        size -= 1
        ancestor = stack[size]
        scene.rank[ancestor] -= 1
        size = push_parents(numbers, scene.done, ancestor, task + 1, visited, stack, size)


@njit(cache=True)
def push_parents(
    numbers: Any, done: Any, task: Any, mark: Any, visited: Any, stack: Any, size: Any
) -> Any:
    """Push the parents of *task* that are neither done nor marked onto *stack*; return its size."""
    for edge in range(numbers.start[task], numbers.start[task + 1]):
        parent = np.int64(numbers.parent[edge])
        # Each visit has a mark of its own, so *visited* is never cleared.
        if not done[parent] and visited[parent] != mark:
            visited[parent] = mark
            stack[size] = parent
            size += 1
    return size
