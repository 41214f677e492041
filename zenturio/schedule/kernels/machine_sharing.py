"""Many workflows on machines that nothing disturbs: who runs what, and when, as they arrive."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio import priorities as by
from zenturio.schedule.kernels.plan_times import pop, push

NONE = -1
BASIC, G_HEFT, AGING, AGING_EXP, FCFS, SRPT, FOFT = range(7)

_aging = njit(cache=True)(by.aging)
_aging_exp = njit(cache=True)(by.aging_exp)
_fcfs = njit(cache=True)(by.fcfs)
_srpt = njit(cache=True)(by.srpt)
_foft = njit(cache=True)(by.foft)


class SharedTasks(NamedTuple):
    """What is known of the workflows and their tasks, beside what they take where."""

    arrival: Any
    alone: Any
    first: Any
    """The places of a workflow's tasks begin here, and end where the next one's begin."""
    sequence: Any
    """At each place a task: those of a workflow by their rank."""
    place: Any
    owner: Any
    rank: Any
    mean: Any
    group: Any
    waits: Any
    start: Any
    child: Any


class SharingState(NamedTuple):
    """What is the case at one moment."""

    waits: Any
    """For how many others each task waits."""
    ready: Any
    """For each workflow a heap of the places of its ready tasks, from ``first`` on."""
    keys: Any
    count: Any
    """How many tasks of each workflow are ready."""
    remaining: Any
    head: Any
    """Up to this place all tasks of a workflow have ended."""
    open: Any
    """Its tasks that have not ended."""
    out: Any
    """Whether the turn of a workflow is over."""
    ahead: Any
    """How long each workflow would still take, if all were for it."""
    free: Any
    """When each processor will have run what it was sent."""
    busy: Any
    """How many tasks it was sent that have not ended."""
    home: Any
    """The processor of each group."""
    ended: Any
    times: Any
    codes: Any
    """The heap of ends."""
    aside: Any
    """Ready tasks that no idle processor suits."""


class FinishForecast(NamedTuple):
    """How a workflow would go on, if all were for it from now on."""

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
    """Fills *start*, *end* and *where*: all of what arrives, in the order of *policy*.

    With *turns*, each workflow sends one task before any of them sends another.
    """
    flows, left = len(tasks.arrival), len(tasks.sequence)
    now = sharing_state(tasks, len(numbers.node))
    guess = FinishForecast(end.copy(), where.copy(), now.free.copy(), now.home.copy())
    active = np.empty(flows, np.int64)
    count, came, running = 0, 0, 0
    while left > 0:
        time = now.times[0] if running > 0 else np.inf
        if came < flows:
            time = min(time, tasks.arrival[came])
        while running > 0 and now.times[0] == time:
            task = pop(now.times, now.codes, running)
            running -= 1
            left -= 1
            complete_task(tasks, now, task, where[task])
        while came < flows and tasks.arrival[came] == time:
            submit_workflow(tasks, now, came)
            active[count] = came
            count += 1
            came += 1
        count = drop_finished(active, count, now.open)
        running = send_ready(
            numbers, tasks, policy, turns, now, guess, active[:count], time, running,
            start, end, where,
        )  # fmt: skip


@njit(cache=True)
def drop_finished(active: Any, count: Any, left: Any) -> Any:
    """Forgets workflows that have ended; returns how many there are."""
    kept = 0
    for i in range(count):
        active[kept] = active[i]
        kept += left[active[i]] > 0
    return kept


@njit(cache=True)
def submit_workflow(tasks: Any, now: Any, flow: Any) -> None:
    for at in range(tasks.first[flow], tasks.first[flow + 1]):
        task = tasks.sequence[at]
        now.remaining[flow] += tasks.mean[task]
        if now.waits[task] == 0:
            add_ready(tasks, now, task)


@njit(cache=True)
def add_ready(tasks: Any, now: Any, task: Any) -> None:
    """*task* is ready."""
    flow, at = tasks.owner[task], tasks.place[task]
    low, high = tasks.first[flow], tasks.first[flow + 1]
    push(now.keys[low:high], now.ready[low:high], now.count[flow], np.float64(at), at)
    now.count[flow] += 1


@njit(cache=True)
def pop_ready(tasks: Any, now: Any, flow: Any) -> Any:
    """Takes the best ready task of *flow*."""
    low, high = tasks.first[flow], tasks.first[flow + 1]
    at = pop(now.keys[low:high], now.ready[low:high], now.count[flow])
    now.count[flow] -= 1
    return tasks.sequence[at]


@njit(cache=True)
def complete_task(tasks: Any, now: Any, task: Any, place: Any) -> None:
    """*task* has ended."""
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
    """Sends what can be sent at *time*; returns how many tasks have been sent and not ended."""
    processors = len(numbers.node)
    idle = processors if policy == BASIC else np.sum(now.busy == 0)
    if idle == 0:
        return running
    for flow in active:
        now.out[flow] = False
        if policy == FOFT and now.count[flow] > 0:
            now.ahead[flow] = forecast_finish(numbers, tasks, now, guess, flow, time, where) - time
    sent, passed = 0, 0
    while idle > 0:
        flow = next_workflow(tasks, policy, now, active, time)
        if flow == NONE:
            if not turns or sent == 0:
                break
            sent = 0
            for each in active:
                now.out[each] = False
            continue
        task = pop_ready(tasks, now, flow)
        place, begin = earliest_idle(numbers, tasks, policy, now, guess, task, time)
        if place == NONE:
            now.aside[passed] = task
            passed += 1
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
    for i in range(passed):
        add_ready(tasks, now, now.aside[i])
    return running


@njit(cache=True)
def next_workflow(tasks: Any, policy: Any, now: Any, active: Any, time: Any) -> Any:
    """The workflow whose turn it is; of equal ones that which came first."""
    found, best = NONE, -np.inf
    for flow in active:
        if now.count[flow] > 0 and not now.out[flow]:
            task = tasks.sequence[now.ready[tasks.first[flow]]]
            value = workflow_priority(tasks, policy, now, flow, task, time)
            if found == NONE or value > best:
                found, best = flow, value
    return found


@njit(cache=True)
def workflow_priority(tasks: Any, policy: Any, now: Any, flow: Any, task: Any, time: Any) -> Any:
    """The priority of *task*, the best ready one of *flow*."""
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
    """On which idle processor *task* ends first, if any suits it, and from when on."""
    guess.free[:] = now.free
    if policy != BASIC:
        guess.free[now.busy > 0] = np.inf
    return soonest(numbers, guess, now.home[tasks.group[task]], task, time)


@njit(cache=True)
def soonest(numbers: Any, guess: Any, home: Any, task: Any, time: Any) -> Any:
    """Where *task*, sent at *time* or later, ends first, and when it begins there."""
    found, least, start = NONE, np.inf, time
    pace, work, free = numbers.pace[numbers.row[task]], numbers.work[task], guess.free
    ready = inputs_ready(numbers, guess, task, time)
    places = range(len(pace)) if home == NONE else range(home, home + 1)
    for place in places:
        begin, length = max(free[place], ready), work * pace[place]
        if not begin + length < least:
            continue
        if numbers.moves:
            begin = max(begin, inputs_arrival(numbers, guess, task, place, time))
        if begin + length < least:
            found, least, start = place, begin + length, begin
    return found, start


@njit(cache=True)
def inputs_ready(numbers: Any, guess: Any, task: Any, time: Any) -> Any:
    """When, from *time* on, all that *task* waits for has ended."""
    found, ends = time, guess.end
    for edge in range(numbers.start[task], numbers.start[task + 1]):
        found = max(found, ends[numbers.parent[edge]])
    return found


@njit(cache=True)
def inputs_arrival(numbers: Any, guess: Any, task: Any, place: Any, time: Any) -> Any:
    """When the data of *task*, sent at *time*, are at *place*."""
    begin = time
    for edge in range(numbers.start[task], numbers.start[task + 1]):
        parent = numbers.parent[edge]
        ready, other = max(guess.end[parent], time), guess.where[parent]
        if numbers.node[other] != numbers.node[place]:
            here, there = numbers.site[other], numbers.site[place]
            ready += numbers.latency[here, there]
            ready += numbers.data[edge] * numbers.slowness[here, there]
        begin = max(begin, ready)
    return begin


@njit(cache=True)
def forecast_finish(
    numbers: Any, tasks: Any, now: Any, guess: Any, flow: Any, time: Any, where: Any
) -> Any:
    """When *flow* would end, if all that it has left were sent from now on, and nothing else."""
    last = tasks.first[flow + 1]
    while now.ended[tasks.sequence[now.head[flow]]]:
        now.head[flow] += 1
    for at in range(now.head[flow], last):
        group = tasks.group[tasks.sequence[at]]
        guess.home[group] = now.home[group]
    guess.free[:] = now.free
    latest = time
    for at in range(now.head[flow], last):
        task = tasks.sequence[at]
        if where[task] == NONE:
            group = tasks.group[task]
            place, begin = soonest(numbers, guess, guess.home[group], task, time)
            ended = begin + numbers.work[task] * numbers.pace[numbers.row[task], place]
            guess.end[task], guess.where[task], guess.home[group] = ended, place, place
            guess.free[place] = ended
        latest = max(latest, guess.end[task])
    return latest
