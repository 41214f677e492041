"""Placing tasks on machines that several tasks share.

The use of each machine is a step function of time: a linked list of steps, each with what is used
from its time until the next. New tasks mostly come late, so searches begin at the last step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

NONE = -1


class CapacityArrays(NamedTuple):
    """The resources of a problem."""

    active: bool
    """Whether there are any; otherwise the arrays are empty."""
    need: Any
    capacity: Any
    boot: Any
    overlap: bool


class Timeline(NamedTuple):
    """The steps of all machines; -1 means none. The first step of machine m is number m."""

    time: Any
    used: Any
    after: Any
    before: Any
    last: Any
    """The last step of each machine."""
    count: Any
    """The number of steps, in an array of one element."""


@njit(cache=True)
def empty_timeline(capacities: Any, tasks: Any) -> Any:
    """Return a timeline with room for *tasks* tasks, and none if there are no capacities."""
    machines = len(capacities.capacity)
    size = machines + 2 * tasks if capacities.active else 0
    kinds = capacities.capacity.shape[1]
    line = Timeline(
        np.empty(size),
        np.empty((size, kinds)),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(machines, np.int64),
        np.zeros(1, np.int64),
    )
    clear_timeline(line)
    return line


@njit(cache=True)
def clear_timeline(line: Any) -> None:
    """Remove all tasks."""
    machines = len(line.last)
    for machine in range(machines):
        line.time[machine] = -np.inf
        line.used[machine] = 0.0
        line.after[machine] = line.before[machine] = NONE
        line.last[machine] = machine
    line.count[0] = machines


@njit(cache=True)
def step_at(line: Any, machine: Any, time: Any) -> Any:
    """Return the last step of *machine* at or before *time*."""
    step = line.last[machine]
    while line.time[step] > time:
        step = line.before[step]
    return step


@njit(cache=True)
def earliest_fit(
    line: Any, capacities: Any, task: Any, machine: Any, ready: Any, length: Any
) -> Any:
    """Return when *task* fits on *machine* for *length* seconds, from *ready* on."""
    need, limit = capacities.need[task], capacities.capacity[machine]
    begin, step = ready, step_at(line, machine, ready)
    while step != NONE:
        following = line.after[step]
        has_room = True
        for kind in range(len(need)):
            if line.used[step, kind] + need[kind] > limit[kind]:
                has_room = False
        if not has_room:
            if following == NONE:  # it would not fit on the empty machine
                return np.inf
            begin = max(ready, line.time[following])
        elif following == NONE or line.time[following] >= begin + length:
            return begin
        step = following
    return begin


@njit(cache=True)
def split_step(line: Any, machine: Any, time: Any) -> Any:
    """Return the step of *machine* that begins at *time*, which is added if there is none."""
    step = step_at(line, machine, time)
    if line.time[step] == time:
        return step
    new, following = line.count[0], line.after[step]
    line.count[0] += 1
    line.time[new] = time
    line.used[new] = line.used[step]
    line.before[new], line.after[new] = step, following
    line.after[step] = new
    if following == NONE:
        line.last[machine] = new
    else:
        line.before[following] = new
    return new


@njit(cache=True)
def occupy(line: Any, capacities: Any, task: Any, machine: Any, begin: Any, end: Any) -> None:
    """Add the needs of *task* from *begin* to *end*."""
    step, stop = split_step(line, machine, begin), split_step(line, machine, end)
    while step != stop:
        for kind in range(line.used.shape[1]):
            line.used[step, kind] += capacities.need[task, kind]
        step = line.after[step]


@njit(cache=True)
def inputs_at(numbers: Any, task: Any, machine: Any, place: Any, end: Any) -> Any:
    """Return when the predecessors of *task* have ended, when their data are on *machine*, and how
    long the longest of the transfers takes.
    """
    ended, arrived, longest = 0.0, 0.0, 0.0
    for edge in range(numbers.start[task], numbers.start[task + np.uint64(1)]):
        parent = numbers.parent[edge]
        origin, transfer = place[parent], 0.0
        if numbers.node[origin] != numbers.node[machine]:
            origin_site, target_site = numbers.site[origin], numbers.site[machine]
            transfer = numbers.latency[origin_site, target_site]
            transfer += numbers.data[edge] * numbers.slowness[origin_site, target_site]
        ended = max(ended, end[parent])
        arrived = max(arrived, end[parent] + transfer)
        longest = max(longest, transfer)
    return ended, arrived, longest


@njit(cache=True)
def time_on(
    numbers: Any, capacities: Any, line: Any, task: Any, machine: Any, place: Any, end: Any,
    latest: Any,
) -> Any:  # fmt: skip
    """Return start and end of *task* on *machine* after the tasks placed there.

    If it cannot end before *latest*, the times may be too early.
    """
    work = numbers.work[task] * numbers.pace[numbers.row[task], machine]
    ended, ready, longest = inputs_at(numbers, task, machine, place, end)
    length = work
    # A task without work holds nothing, so its inputs need no room.
    if not capacities.overlap and work > 0.0:
        ready, length = ended, work + longest
    ready = max(ready, capacities.boot[machine])
    if work > 0.0 and ready + length < latest:
        ready = earliest_fit(line, capacities, task, machine, ready, length)
    return ready, ready + length


@njit(cache=True)
def place_by_capacity(
    numbers: Any, capacities: Any, line: Any, order: Any, group: Any, home: Any, ahead: Any,
    start: Any, end: Any, place: Any,
) -> Any:  # fmt: skip
    """Fill *start*, *end* and *place*, and return the makespan.

    Each task of *order* starts as early as it has room: on the machine that *home* has for its
    group, or where its end plus the entry of *ahead* is least. Ties go to the lower machine.
    """
    makespan = 0.0
    clear_timeline(line)
    for i in range(len(order)):
        task = order[i]
        machine: Any = np.int64(home[group[task]])
        if machine == NONE:
            best = np.inf
            for candidate in range(len(numbers.node)):
                if not np.isfinite(numbers.pace[numbers.row[task], candidate]):
                    continue
                extra = ahead[task, candidate] if len(ahead) else 0.0
                _, finish = time_on(
                    numbers, capacities, line, task, candidate, place, end, best - extra
                )
                if finish + extra < best or machine == NONE:
                    best, machine = finish + extra, np.int64(candidate)
            home[group[task]] = machine
        begin, finish = time_on(numbers, capacities, line, task, machine, place, end, np.inf)
        # An infinite end means that the task cannot run there.
        if numbers.work[task] > 0.0 and begin < finish < np.inf:
            occupy(line, capacities, task, machine, begin, finish)
        place[task], start[task], end[task] = machine, begin, finish
        makespan = max(makespan, finish)
    return makespan


@njit(cache=True)
def all_by_capacity(
    numbers: Any, capacities: Any, processors: Any, orders: Any, starts: Any, ends: Any
) -> None:
    """Fill a row of *starts* and *ends* for each row of *processors* and its order."""
    tasks = len(numbers.work)
    line, itself = empty_timeline(capacities, tasks), np.arange(tasks)
    home, place, ahead = np.empty(tasks, np.int64), np.empty(tasks, np.uint32), np.empty((0, 0))
    for i in range(len(processors)):
        home[:] = processors[i]
        order = orders[i if len(orders) > 1 else 0]
        place_by_capacity(
            numbers, capacities, line, order, itself, home, ahead, starts[i], ends[i], place
        )


MIN_MIN, MAX_MIN = 0, 1


@njit(cache=True)
def update_ends(
    numbers: Any, capacities: Any, line: Any, task: Any, first: Any, stop: Any, place: Any,
    end: Any, ends: Any,
) -> None:  # fmt: skip
    """Fill *ends* with the end of *task* on the machines from *first* up to *stop*."""
    for machine in range(first, stop):
        ends[machine] = np.inf
        if np.isfinite(numbers.pace[numbers.row[task], machine]):
            _, ends[machine] = time_on(numbers, capacities, line, task, machine, place, end, np.inf)


@njit(cache=True)
def choice_and_merit(ends: Any, home: Any, rule: Any) -> Any:
    """Return the machine of a ready task, and its merit: the highest is placed next."""
    machine, second = home, np.inf
    if home == NONE:
        machine = np.argmin(ends)
        for other in range(len(ends)):
            if other != machine:
                second = min(second, ends[other])
    if rule == MIN_MIN:
        return machine, -ends[machine]
    if rule == MAX_MIN:
        return machine, ends[machine]
    return machine, second - ends[machine]


@njit(cache=True)
def batch_by_capacity(
    numbers: Any, capacities: Any, group: Any, waits: Any, first: Any, child: Any, rule: Any,
    start: Any, end: Any, place: Any,
) -> None:  # fmt: skip
    """Place, of all ready tasks, the best by *rule* next; ties go to the lower task number.

    As ``batch_mode``: earliest end first, latest earliest end first, or the greatest loss if the
    best machine were another's.
    """
    tasks, machines = len(waits), len(numbers.node)
    line, home, missing = empty_timeline(capacities, tasks), np.full(tasks, NONE), waits.copy()
    ready, count = np.empty(tasks, np.int64), 0
    ends = np.empty((tasks, machines))
    fresh = np.zeros(tasks, np.bool_)
    changed = 0
    for task in range(tasks):
        if missing[task] == 0:
            ready[count] = task
            count += 1
    while count > 0:
        chosen, best, best_machine = 0, -np.inf, 0
        for i in range(count):
            task = ready[i]
            # Only on the machine that was used last, ends may have become later.
            first_machine, stop = (changed, changed + 1) if fresh[task] else (0, machines)
            update_ends(
                numbers, capacities, line, task, first_machine, stop, place, end, ends[task]
            )
            fresh[task] = True
            target, value = choice_and_merit(ends[task], home[group[task]], rule)
            if value > best or i == 0 or (value == best and task < ready[chosen]):
                chosen, best, best_machine = i, value, target
        task, count = ready[chosen], count - 1
        ready[chosen] = ready[count]
        begin, finish = time_on(numbers, capacities, line, task, best_machine, place, end, np.inf)
        if numbers.work[task] > 0.0 and begin < finish:
            occupy(line, capacities, task, best_machine, begin, finish)
        place[task], start[task], end[task] = best_machine, begin, finish
        home[group[task]] = changed = best_machine
        for edge in range(first[task], first[task + 1]):
            missing[child[edge]] -= 1
            if missing[child[edge]] == 0:
                ready[count] = child[edge]
                count += 1
