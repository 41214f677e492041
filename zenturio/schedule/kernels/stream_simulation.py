"""Simulation of a stream of workflows that share undisturbed machines, under one policy.

The compiled twin of `online.policies.SharingPolicy`; a test plays both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio import priority_rules as by
from zenturio.schedule.kernels.plan_times import pop, push

NONE = -1
BASIC, G_HEFT, AGING, AGING_EXP, FCFS, SRPT, FOFT = range(7)

_aging = njit(cache=True)(by.aging)
_aging_exp = njit(cache=True)(by.aging_exp)
_fcfs = njit(cache=True)(by.fcfs)
_srpt = njit(cache=True)(by.srpt)
_foft = njit(cache=True)(by.foft)


class WorkflowTaskArrays(NamedTuple):
    """The workflows and their tasks, apart from their times on processors."""

    arrival: Any
    alone: Any
    first: Any
    """Where the positions of each workflow's tasks begin."""
    sequence: Any
    """The task at each position; those of a workflow are sorted by rank."""
    place: Any
    owner: Any
    rank: Any
    mean: Any
    group: Any
    waits: Any
    start: Any
    child: Any


class SharingState(NamedTuple):
    """The state of the simulation."""

    waits: Any
    """The number of unfinished predecessors of each task."""
    ready: Any
    """For each workflow, a heap of the positions of its ready tasks, from ``first`` on."""
    keys: Any
    count: Any
    """The number of ready tasks of each workflow."""
    remaining: Any
    head: Any
    """All tasks of a workflow before this position have ended."""
    open: Any
    """The number of its unfinished tasks."""
    out: Any
    """Whether a workflow has had its turn in this round."""
    ahead: Any
    """How long each workflow would still take by itself (FOFT)."""
    free: Any
    """When each processor will have run all tasks sent to it."""
    busy: Any
    """The number of unfinished tasks sent to each processor."""
    home: Any
    """The processor of each group."""
    ended: Any
    times: Any
    codes: Any
    """With *times*, the heap of ends."""
    aside: Any
    """Ready tasks that fit no idle processor."""


class FinishForecast(NamedTuple):
    """How a workflow would continue if it had all machines from now on."""

    end: Any
    where: Any
    free: Any
    home: Any


@njit(cache=True)
def sharing_state(tasks: Any, processors: Any) -> Any:
    count, flows = len(tasks.sequence), len(tasks.arrival)
    return SharingState(
        tasks.waits.copy(),
        np.empty(count, np.int64),
        np.empty(count),
        np.zeros(flows, np.int64),
        np.zeros(flows),
        tasks.first[:-1].copy(),
        tasks.first[1:] - tasks.first[:-1],
        np.zeros(flows, np.bool_),
        np.empty(flows),
        np.zeros(processors),
        np.zeros(processors, np.int64),
        np.full(count, NONE, np.int64),
        np.zeros(count, np.bool_),
        np.empty(count),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )


@njit(cache=True)
def share_machines(
    numbers: Any, tasks: Any, policy: Any, turns: Any, start: Any, end: Any, where: Any
) -> None:
    """Fill *start*, *end* and *where* for all arriving workflows under *policy*.

    With *turns*, each workflow sends one task before any sends another.
    """
    flows, unfinished = len(tasks.arrival), len(tasks.sequence)
    now = sharing_state(tasks, len(numbers.node))
    guess = FinishForecast(end.copy(), where.copy(), now.free.copy(), now.home.copy())
    active = np.empty(flows, np.int64)
    count, arrived, running = 0, 0, 0
    while unfinished > 0:
        time = now.times[0] if running > 0 else np.inf
        if arrived < flows:
            time = min(time, tasks.arrival[arrived])
        while running > 0 and now.times[0] == time:
            task = pop(now.times, now.codes, running)
            running -= 1
            unfinished -= 1
            complete_task(tasks, now, task, where[task])
        while arrived < flows and tasks.arrival[arrived] == time:
            submit_workflow(tasks, now, arrived)
            active[count] = arrived
            count += 1
            arrived += 1
        # Workflows are numbered by arrival: *active* stays sorted, so that ties go to the first.
        count = drop_finished(active, count, now.open)
        # All events of one moment are applied before anything is sent, as in the simulator.
        running = send_ready(
            numbers, tasks, policy, turns, now, guess, active[:count], time, running,
            start, end, where,
        )  # fmt: skip


@njit(cache=True)
def drop_finished(active: Any, count: Any, unfinished: Any) -> Any:
    """Remove finished workflows from *active*, and return their number."""
    count_active = 0
    for i in range(count):
        # A finished workflow is written, too, but the next one takes its place.
        active[count_active] = active[i]
        count_active += unfinished[active[i]] > 0
    return count_active


@njit(cache=True)
def submit_workflow(tasks: Any, now: Any, flow: Any) -> None:
    for at in range(tasks.first[flow], tasks.first[flow + 1]):
        task = tasks.sequence[at]
        now.remaining[flow] += tasks.mean[task]
        if now.waits[task] == 0:
            add_ready(tasks, now, task)


@njit(cache=True)
def add_ready(tasks: Any, now: Any, task: Any) -> None:
    """Add *task* to the heap of its workflow's ready tasks."""
    flow, position = tasks.owner[task], tasks.place[task]
    low, high = tasks.first[flow], tasks.first[flow + 1]
    push(now.keys[low:high], now.ready[low:high], now.count[flow], np.float64(position), position)
    now.count[flow] += 1


@njit(cache=True)
def pop_ready(tasks: Any, now: Any, flow: Any) -> Any:
    """Remove and return the first ready task of *flow*."""
    low, high = tasks.first[flow], tasks.first[flow + 1]
    position = pop(now.keys[low:high], now.ready[low:high], now.count[flow])
    now.count[flow] -= 1
    return tasks.sequence[position]


@njit(cache=True)
def complete_task(tasks: Any, now: Any, task: Any, place: Any) -> None:
    """Update the state after *task* has ended on *place*."""
    flow = tasks.owner[task]
    now.ended[task] = True
    now.busy[place] -= 1
    now.open[flow] -= 1
    now.remaining[flow] -= tasks.mean[task]
    for edge in range(tasks.start[task], tasks.start[task + 1]):
        child = tasks.child[edge]
        now.waits[child] -= 1
        if now.waits[child] == 0:
            add_ready(tasks, now, child)


@njit(cache=True)
def send_ready(
    numbers: Any, tasks: Any, policy: Any, turns: Any, now: Any, guess: Any, active: Any,
    time: Any, running: Any, start: Any, end: Any, where: Any,
) -> Any:  # fmt: skip
    """Send what can be sent at *time*, and return the number of running tasks."""
    processors = len(numbers.node)
    # BASIC queues tasks at busy processors, so to it none is ever occupied.
    idle = processors if policy == BASIC else np.sum(now.busy == 0)
    if idle == 0:
        return running
    for flow in active:
        now.out[flow] = False
        if policy == FOFT and now.count[flow] > 0:
            now.ahead[flow] = forecast_finish(numbers, tasks, now, guess, flow, time, where) - time
    sent, set_aside = 0, 0
    while idle > 0:
        flow = next_workflow(tasks, policy, now, active, time)
        if flow == NONE:
            if not turns or sent == 0:
                break
            # A new round begins when every workflow had its turn, unless the last sent nothing.
            sent = 0
            for other_flow in active:
                now.out[other_flow] = False
            continue
        task = pop_ready(tasks, now, flow)
        place, begin = earliest_idle(numbers, tasks, policy, now, guess, task, time)
        if place == NONE:
            # It fits no idle processor; behind it may be one that does.
            now.aside[set_aside] = task
            set_aside += 1
            continue
        now.out[flow] = turns
        now.home[tasks.group[task]] = place
        now.free[place] = begin + numbers.work[task] * numbers.pace[numbers.row[task], place]
        now.busy[place] += 1
        start[task], end[task], where[task] = begin, now.free[place], place
        guess.end[task], guess.where[task] = end[task], place
        push(now.times, now.codes, running, end[task], task)
        running += 1
        sent += 1
        idle -= policy != BASIC
    for i in range(set_aside):
        add_ready(tasks, now, now.aside[i])
    return running


@njit(cache=True)
def next_workflow(tasks: Any, policy: Any, now: Any, active: Any, time: Any) -> Any:
    """Return the workflow with the highest priority; on ties, the one that arrived first."""
    best_flow, best = NONE, -np.inf
    for flow in active:
        if now.count[flow] > 0 and not now.out[flow]:
            task = tasks.sequence[now.ready[tasks.first[flow]]]
            value = workflow_priority(tasks, policy, now, flow, task, time)
            if best_flow == NONE or value > best:
                best_flow, best = flow, value
    return best_flow


@njit(cache=True)
def workflow_priority(tasks: Any, policy: Any, now: Any, flow: Any, task: Any, time: Any) -> Any:
    """Return the priority of *task*, the first ready task of *flow*."""
    age, alone = time - tasks.arrival[flow], tasks.alone[flow]
    if policy == G_HEFT:
        return tasks.rank[task]
    if policy == AGING:
        return _aging(tasks.rank[task], age, alone)
    if policy == AGING_EXP:
        return _aging_exp(tasks.rank[task], age, alone)
    if policy == SRPT:
        return _srpt(now.remaining[flow])
    if policy == FOFT:
        return _foft(age, now.ahead[flow], alone)
    return _fcfs(tasks.arrival[flow])


@njit(cache=True)
def earliest_idle(
    numbers: Any, tasks: Any, policy: Any, now: Any, guess: Any, task: Any, time: Any
) -> Any:
    """Return the idle processor on which *task* finishes first (-1: none), and its start."""
    guess.free[:] = now.free
    if policy != BASIC:
        guess.free[now.busy > 0] = np.inf
    return soonest(numbers, guess, now.home[tasks.group[task]], task, time)


@njit(cache=True)
def soonest(numbers: Any, guess: Any, home: Any, task: Any, time: Any) -> Any:
    """Return where *task*, sent at *time* or later, finishes first, and when it starts there."""
    best_place, best_end, start = NONE, np.inf, time
    pace, work, free = numbers.pace[numbers.row[task]], numbers.work[task], guess.free
    ready = inputs_ready(numbers, guess, task, time)
    places = range(len(pace)) if home == NONE else range(home, home + 1)
    for place in places:
        begin, length = max(free[place], ready), work * pace[place]
        # Written with `not`: a task that cannot run there lasts inf, or NaN if it has no work.
        if not begin + length < best_end:
            continue
        if numbers.moves:
            begin = max(begin, inputs_arrival(numbers, guess, task, place, time))
        if begin + length < best_end:
            best_place, best_end, start = place, begin + length, begin
    return best_place, start


@njit(cache=True)
def inputs_ready(numbers: Any, guess: Any, task: Any, time: Any) -> Any:
    """Return when all predecessors of *task* have ended, at *time* at the earliest."""
    ready, ends = time, guess.end
    for edge in range(numbers.start[task], numbers.start[task + 1]):
        ready = max(ready, ends[numbers.parent[edge]])
    return ready


@njit(cache=True)
def inputs_arrival(numbers: Any, guess: Any, task: Any, place: Any, time: Any) -> Any:
    """Return when the data of *task*, sent at *time*, arrive on *place*."""
    begin = time
    for edge in range(numbers.start[task], numbers.start[task + 1]):
        parent = numbers.parent[edge]
        ready, origin = max(guess.end[parent], time), guess.where[parent]
        if numbers.node[origin] != numbers.node[place]:
            origin_site, target_site = numbers.site[origin], numbers.site[place]
            ready += numbers.latency[origin_site, target_site]
            ready += numbers.data[edge] * numbers.slowness[origin_site, target_site]
        begin = max(begin, ready)
    return begin


@njit(cache=True)
def forecast_finish(
    numbers: Any, tasks: Any, now: Any, guess: Any, flow: Any, time: Any, where: Any
) -> Any:
    """Return when *flow* would end if only its remaining tasks were sent from now on."""
    last = tasks.first[flow + 1]
    while now.ended[tasks.sequence[now.head[flow]]]:
        now.head[flow] += 1
    for position in range(now.head[flow], last):
        group = tasks.group[tasks.sequence[position]]
        guess.home[group] = now.home[group]
    guess.free[:] = now.free
    latest = time
    for position in range(now.head[flow], last):
        task = tasks.sequence[position]
        # Tasks that were sent keep their times; only the others are guessed.
        if where[task] == NONE:
            group = tasks.group[task]
            place, begin = soonest(numbers, guess, guess.home[group], task, time)
            finish = begin + numbers.work[task] * numbers.pace[numbers.row[task], place]
            guess.end[task], guess.where[task], guess.home[group] = finish, place, place
            guess.free[place] = finish
        latest = max(latest, guess.end[task])
    return latest
