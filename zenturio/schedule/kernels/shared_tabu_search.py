"""Tabu search where tasks share machines: critical tasks move into the best window of any machine.

Two tasks of one machine are in order if one has ended when the other starts; tasks that overlap
are not. Whatever keeps this order has room, because tasks that pairwise overlap have a moment in
common. A task that was taken out may therefore run beside all tasks of a window, a span of time in
which it has room, after those that end before the window, and before those that start after it. So,
as with sequences, what is longest either passes the task, or was there without it. The decoder then
starts each task as early as it has room, which may only shorten the plan.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.capacities import inputs_at, place_by_capacity
from zenturio.schedule.kernels.tabu_search import (
    AFTER,
    BEFORE,
    FREE,
    NEVER,
    NONE,
    PATIENCE,
    TENURE,
    WIDTH,
    allow_moves,
    inputs_ready,
    task_seconds,
)
from zenturio.search.kernels.rng import below


class SharedCase(NamedTuple):
    """A problem with shared machines, as the search takes it."""

    forth: Any
    """Its ``ProblemArrays``; ``moves`` is false where transfers are part of the tasks that wait."""
    back: Any
    """Those of the problem with all edges reversed."""
    capacities: Any
    """Its ``CapacityArrays``."""
    fits: Any
    """Where ``pace`` is finite."""
    rank: Any
    """The position of each task in a topological order."""
    itself: Any
    """The number of each task: the decoder takes groups, and here each task has its machine."""
    bound: Any
    """Whether a task must stay on its machine."""


class SharedPlan(NamedTuple):
    """A plan on shared machines, with the order of its tasks on each."""

    place: Any
    start: Any
    end: Any
    length: Any
    by_start: Any
    """All tasks by their starts, each after its predecessors."""
    by_end: Any
    first: Any
    """Where the tasks of each machine begin in *starting* and *ending*; one more for the end."""
    starting: Any
    """The tasks that hold room on each machine, by their starts."""
    ending: Any
    """The same tasks by their ends."""
    line: Any
    """A ``Timeline`` for the decoder."""


class WithoutTask(NamedTuple):
    """A plan without one task."""

    start: Any
    end: Any
    tail: Any
    """Seconds from the start of each task to the end of all that waits for it."""
    mark: Any
    """AFTER for tasks that must come after the removed one, BEFORE for those before it."""
    reach: Any
    """Of each machine, the last end (or the longest tail) of the tasks that were passed."""
    passed: Any
    """How many tasks of each machine were passed."""
    follows: Any
    """Whether one of them carries the mark."""
    tail_from: Any
    """The longest tail of the tasks of a machine from each one on, by their starts."""
    before_from: Any
    """Whether one of those must come before the removed task."""


@njit(cache=True, nogil=True)
def without_task(tasks: Any, machines: Any) -> Any:
    """Return room for a plan without one task."""
    return WithoutTask(
        np.zeros(tasks), np.zeros(tasks), np.zeros(tasks), np.zeros(tasks, np.int8),
        np.zeros(machines), np.zeros(machines, np.int64), np.zeros(machines, np.bool_),
        np.zeros(tasks), np.zeros(tasks, np.bool_),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def copy_shared(source: Any, target: Any) -> None:
    """Copy what tells the plan: places and times."""
    target.place[:] = source.place
    target.start[:] = source.start
    target.end[:] = source.end


@njit(cache=True, nogil=True)
def decode_shared(case: Any, plan: Any) -> Any:
    """Start each task as early as it has room, in the order of starts; return the makespan."""
    sort_by_times(plan.by_start, plan.start, plan.end, case.rank)
    place = plan.place.astype(np.int32)
    makespan = place_by_capacity(
        case.forth, case.capacities, plan.line, plan.by_start, case.itself, place, np.empty((0, 0)),
        plan.start, plan.end, plan.place,
    )  # fmt: skip
    for task in range(len(place)):
        plan.length[task] = task_seconds(case.forth, task, plan.place[task])
        if not case.capacities.overlap and case.forth.work[task] > 0.0:
            plan.length[task] = plan.end[task] - plan.start[task]
    sort_by_times(plan.by_start, plan.start, plan.end, case.rank)
    sort_by_times(plan.by_end, plan.end, plan.start, case.rank)
    fill_lanes(plan)
    return makespan


@njit(cache=True, nogil=True)
def sort_by_times(order: Any, times: Any, ties: Any, rank: Any) -> None:
    """Sort *order* by time, then by *ties*, then by *rank* (by insertion: it is nearly sorted)."""
    for i in range(1, len(order)):
        task, j = order[i], i
        while j > 0:
            other = order[j - 1]
            if times[other] < times[task] or (
                times[other] == times[task]
                and (
                    ties[other] < ties[task]
                    or (ties[other] == ties[task] and rank[other] < rank[task])
                )
            ):
                break
            order[j] = other
            j -= 1
        order[j] = task


@njit(cache=True, nogil=True)
def fill_lanes(plan: Any) -> None:
    """Fill the tasks of each machine, by starts and by ends."""
    plan.first[:] = 0
    for task in range(len(plan.place)):
        if plan.end[task] > plan.start[task]:
            plan.first[plan.place[task] + 1] += 1
    for machine in range(1, len(plan.first)):
        plan.first[machine] += plan.first[machine - 1]
    starts, ends = plan.first.copy(), plan.first.copy()
    for i in range(len(plan.by_start)):
        task = plan.by_start[i]
        if plan.end[task] > plan.start[task]:
            plan.starting[starts[plan.place[task]]] = task
            starts[plan.place[task]] += 1
        task = plan.by_end[i]
        if plan.end[task] > plan.start[task]:
            plan.ending[ends[plan.place[task]]] = task
            ends[plan.place[task]] += 1


@njit(cache=True, nogil=True)
def ends_without(case: Any, plan: Any, task: Any, without: Any) -> Any:
    """Fill ends and marks of all tasks but *task*, and return the last end."""
    end, mark, reach, passed = without.end, without.mark, without.reach, without.passed
    last = 0.0
    end[task], mark[task] = 0.0, AFTER
    reach[:] = case.capacities.boot
    passed[:] = 0
    without.follows[:] = False
    for i in range(len(plan.by_start)):
        other = plan.by_start[i]
        if other == task:
            continue
        machine, follows = plan.place[other], False
        for edge in range(case.forth.start[other], case.forth.start[other + 1]):
            if mark[case.forth.parent[edge]] == AFTER:
                follows = True
        begin = inputs_ready(case.forth, plan.place, end, other, machine, np.int64(task))
        begin = max(begin, case.capacities.boot[machine])
        if plan.end[other] > plan.start[other]:
            pass_ended(plan, without, machine, plan.start[other], task)
            begin = max(begin, reach[machine])
            follows = follows or without.follows[machine]
        mark[other] = AFTER if follows else FREE
        without.start[other], end[other] = begin, begin + plan.length[other]
        last = max(last, end[other])
    return last


@njit(cache=True, nogil=True)
def pass_ended(plan: Any, without: Any, machine: Any, time: Any, task: Any) -> None:
    """Pass all tasks of *machine* that end by *time*, but for *task*."""
    at = plan.first[machine] + without.passed[machine]
    while at < plan.first[machine + 1] and plan.end[plan.ending[at]] <= time:
        earlier = plan.ending[at]
        if earlier != task:
            without.reach[machine] = max(without.reach[machine], without.end[earlier])
            if without.mark[earlier] == AFTER:
                without.follows[machine] = True
        at += 1
    without.passed[machine] = at - plan.first[machine]


@njit(cache=True, nogil=True)
def tails_without(case: Any, plan: Any, task: Any, without: Any) -> None:
    """Fill the tails of all tasks but *task*, and the marks of what must come before it."""
    tail, mark, reach, passed = without.tail, without.mark, without.reach, without.passed
    tail[task], mark[task] = 0.0, BEFORE
    reach[:] = 0.0
    passed[:] = 0
    without.follows[:] = False
    for i in range(len(plan.by_end) - 1, -1, -1):
        other = plan.by_end[i]
        if other == task:
            continue
        machine, precedes = plan.place[other], False
        for edge in range(case.back.start[other], case.back.start[other + 1]):
            if mark[case.back.parent[edge]] == BEFORE:
                precedes = True
        longest = inputs_ready(case.back, plan.place, tail, other, machine, np.int64(task))
        if plan.end[other] > plan.start[other]:
            at = plan.first[machine + 1] - 1 - passed[machine]
            while at >= plan.first[machine] and plan.start[plan.starting[at]] >= plan.end[other]:
                later = plan.starting[at]
                if later != task:
                    reach[machine] = max(reach[machine], tail[later])
                    if mark[later] == BEFORE:
                        without.follows[machine] = True
                at -= 1
            passed[machine] = plan.first[machine + 1] - 1 - at
            longest = max(longest, reach[machine])
            precedes = precedes or without.follows[machine]
        if precedes:
            mark[other] = BEFORE
        tail[other] = longest + plan.length[other]


@njit(cache=True, nogil=True)
def remove_shared(case: Any, plan: Any, task: Any, without: Any) -> Any:
    """Fill *without* with the times of *plan* without *task*, and return the makespan of that."""
    makespan = ends_without(case, plan, task, without)
    tails_without(case, plan, task, without)
    for machine in range(len(plan.first) - 1):
        tail, precedes = 0.0, False
        for at in range(plan.first[machine + 1] - 1, plan.first[machine] - 1, -1):
            other = plan.starting[at]
            if other != task:
                tail = max(tail, without.tail[other])
                precedes = precedes or without.mark[other] == BEFORE
            without.tail_from[at], without.before_from[at] = tail, precedes
    return makespan


@njit(cache=True, nogil=True)
def tail_behind(case: Any, plan: Any, task: Any, without: Any, machine: Any) -> Any:
    """Return the longest tail of the successors of *task*, if it runs on *machine*."""
    if case.capacities.overlap:
        return inputs_ready(case.back, plan.place, without.tail, task, machine, np.int64(NONE))
    # Successors hold their machines while their inputs arrive: the task decides how long.
    longest, home = 0.0, plan.place[task]
    plan.place[task] = machine
    for edge in range(case.back.start[task], case.back.start[task + 1]):
        child = case.back.parent[edge]
        seconds = without.tail[child]
        if case.forth.work[child] > 0.0:
            _, _, staging = inputs_at(case.forth, child, plan.place[child], plan.place, without.end)
            alone = task_seconds(case.forth, np.int64(child), plan.place[child])
            seconds += alone + staging - plan.length[child]
        longest = max(longest, seconds)
    plan.place[task] = home
    return longest


@njit(cache=True, nogil=True, inline="always")
def has_room(need: Any, task: Any, limit: Any, machine: Any, used: Any) -> Any:
    """Return whether *task* fits on *machine* beside tasks that use *used*."""
    has_all = True
    for kind in range(len(used)):
        if used[kind] + need[task, kind] > limit[machine, kind]:
            has_all = False
    return has_all


@njit(cache=True, nogil=True, inline="always")
def add_need(need: Any, task: Any, times: Any, used: Any) -> None:
    """Add what *task* needs, so many *times*, to *used*."""
    for kind in range(len(used)):
        used[kind] += times * need[task, kind]


@njit(cache=True, nogil=True)
def ready_on(case: Any, plan: Any, task: Any, without: Any, machine: Any) -> Any:
    """Return when *task* can begin on *machine* at the earliest, and how long it takes there."""
    ended, arrived, staging = inputs_at(
        case.forth, np.uint32(task), machine, plan.place, without.end
    )
    seconds, ready = task_seconds(case.forth, task, machine), arrived
    if not case.capacities.overlap and seconds > 0.0:
        ready, seconds = ended, seconds + staging
    return max(ready, case.capacities.boot[machine]), seconds


@njit(cache=True, nogil=True)
def next_moment(plan: Any, at_start: Any, at_end: Any, stop: Any) -> Any:
    """Return when the next task of a machine starts or ends; infinite if none does."""
    time = np.inf
    if at_end < stop:
        time = plan.end[plan.ending[at_end]]
    if at_start < stop:
        time = min(time, plan.start[plan.starting[at_start]])
    return time


@njit(cache=True, nogil=True)
def best_window(case: Any, plan: Any, task: Any, without: Any, machine: Any) -> Any:
    """Return the longest path through *task* in its best window of *machine*, its start there, and
    the end of the window: what starts from then on must wait for the task.

    The window in which it is already does not count. Infinite, if there is no other.
    """
    ready, seconds = ready_on(case, plan, task, without, machine)
    behind = tail_behind(case, plan, task, without, machine)
    is_home = plan.place[task] == machine
    if case.forth.work[task] <= 0.0:
        return (np.inf if is_home else ready + seconds + behind), ready, np.inf
    best, best_begin, best_close = np.inf, 0.0, np.inf
    need, limit = case.capacities.need, case.capacities.capacity
    used = np.zeros(need.shape[1])
    at_start, at_end, stop = plan.first[machine], plan.first[machine], plan.first[machine + 1]
    opened, reach, reach_opened = -np.inf, 0.0, 0.0
    is_open, is_late = True, False
    while is_open or not is_late:
        time = next_moment(plan, at_start, at_end, stop)
        # At the moment itself, what ends has ended, and what starts has not started.
        while at_end < stop and plan.end[plan.ending[at_end]] <= time:
            other = plan.ending[at_end]
            if other != task:
                add_need(need, other, -1.0, used)
                reach = max(reach, without.end[other])
                # No window may begin after a task that waits for this one.
                is_late = is_late or without.mark[other] == AFTER
            at_end += 1
        if not is_open and not is_late and has_room(need, task, limit, machine, used):
            is_open, opened, reach_opened = True, time, reach
        next_start = at_start
        while at_start < stop and plan.start[plan.starting[at_start]] <= time:
            other = plan.starting[at_start]
            if other != task:
                add_need(need, other, 1.0, used)
            at_start += 1
        if is_open and (time == np.inf or not has_room(need, task, limit, machine, used)):
            is_open, tail, precedes = False, behind, False
            if next_start < stop:
                tail = max(tail, without.tail_from[next_start])
                precedes = without.before_from[next_start]
            begin = max(ready, reach_opened)
            is_same = is_home and opened <= plan.start[task] and plan.end[task] <= time
            if not precedes and not is_same and begin + seconds + tail < best:
                best, best_begin, best_close = begin + seconds + tail, begin, time
        is_late = is_late or time == np.inf
    return best, best_begin, best_close


@njit(cache=True, nogil=True)
def move_shared(
    case: Any, plan: Any, task: Any, machine: Any, begin: Any, close: Any, without: Any
) -> Any:  # fmt: skip
    """Move *task* to *begin* on *machine*, before what starts from *close* on; decode the plan.

    Return the makespan.
    """
    end, mark, reach, passed = without.end, without.mark, without.reach, without.passed
    ends_without(case, plan, task, without)
    plan.place[task] = machine
    if case.forth.work[task] > 0.0:
        _, _, staging = inputs_at(case.forth, np.uint32(task), machine, plan.place, end)
        plan.length[task] = task_seconds(case.forth, task, machine)
        if not case.capacities.overlap:
            plan.length[task] += staging
    without.start[task], end[task], mark[task] = begin, begin + plan.length[task], AFTER
    reach[:] = case.capacities.boot
    passed[:] = 0
    without.follows[:] = False
    # What comes after the task is timed anew, what does not keeps its times.
    for i in range(len(plan.by_start)):
        other = plan.by_start[i]
        if other == task:
            continue
        home = plan.place[other]
        holds = plan.end[other] > plan.start[other]
        follows = home == machine and holds and plan.start[other] >= close
        for edge in range(case.forth.start[other], case.forth.start[other + 1]):
            if mark[case.forth.parent[edge]] == AFTER:
                follows = True
        ready = inputs_ready(case.forth, plan.place, end, other, home, np.int64(NONE))
        ready = max(ready, case.capacities.boot[home])
        if holds:
            pass_ended(plan, without, home, plan.start[other], task)
            ready = max(ready, reach[home])
            follows = follows or without.follows[home]
            if home == machine and plan.start[other] >= close:
                ready = max(ready, end[task])
        if follows:
            mark[other] = AFTER
            without.start[other], end[other] = ready, ready + plan.length[other]
    # Only now, because the old times tell which tasks are in order.
    plan.start[:] = without.start
    plan.end[:] = end
    return decode_shared(case, plan)


@njit(cache=True, nogil=True)
def critical_shared(case: Any, plan: Any, makespan: Any, path: Any, state: Any) -> Any:
    """Fill *path* with a random critical path, from its end, and return its length."""
    forth, ties, count = case.forth, 0, 0
    current = np.int64(NONE)
    for task in range(len(plan.end)):
        if plan.end[task] == makespan:
            ties += 1
            if below(state, ties) == 0:
                current = np.int64(task)
    while current != NONE and count < len(path):
        path[count] = current
        count += 1
        begin, machine = plan.start[current], plan.place[current]
        cause, ties = np.int64(NONE), 0
        # Of several causes one is drawn, each as likely as the others (reservoir sampling).
        for at in range(plan.first[machine], plan.first[machine + 1]):
            if plan.end[plan.ending[at]] == begin:
                ties += 1
                if below(state, ties) == 0:
                    cause = np.int64(plan.ending[at])
        for edge in range(forth.start[current], forth.start[current + 1]):
            parent = np.int64(forth.parent[edge])
            arrival, origin = plan.end[parent], plan.place[parent]
            if forth.moves and forth.node[origin] != forth.node[machine]:
                origin_site, site = forth.site[origin], forth.site[machine]
                arrival += forth.latency[origin_site, site]
                arrival += forth.data[edge] * forth.slowness[origin_site, site]
            if arrival == begin:
                ties += 1
                if below(state, ties) == 0:
                    cause = parent
        current = cause
    return count


@njit(cache=True, nogil=True)
def best_shared_move(
    case: Any, plan: Any, without: Any, path: Any, count: Any, allowed: Any, shortest: Any,
    state: Any,
) -> Any:  # fmt: skip
    """Return a task of the *path*, a machine, a start and the end of the window: the best of them.

    As ``best_move`` does for sequences. A task of -1 means that there is no move.
    """
    value, length, begin, close = np.inf, np.inf, 0.0, np.inf
    chosen, chosen_machine, ties, now = np.int64(NONE), np.int64(NONE), 0, allowed[-1, 0]
    for i in range(min(count, WIDTH)):
        drawn = i + below(state, count - i)
        task = path[drawn]
        path[drawn] = path[i]
        path[i] = task
        makespan_without = remove_shared(case, plan, task, without)
        if makespan_without > value:
            continue
        for machine in range(len(plan.first) - 1):
            if allowed[task, machine] == NEVER:
                continue
            through, start, end_of_window = best_window(case, plan, task, without, machine)
            longest = max(through, makespan_without)
            if longest == np.inf or (allowed[task, machine] > now and longest >= shortest):
                continue
            if longest < value or (longest == value and through < length):
                ties = 1
            elif longest == value and through == length:
                ties += 1
            else:
                continue
            if ties == 1 or below(state, ties) == 0:
                value, length, begin, close = longest, through, start, end_of_window
                chosen, chosen_machine = task, np.int64(machine)
    return chosen, chosen_machine, begin, close


@njit(cache=True, nogil=True)
def shake_shared(case: Any, plan: Any, without: Any, moves: Any, state: Any) -> Any:
    """Move *moves* random tasks into the best window of a random machine; return the makespan."""
    makespan = decode_shared(case, plan)
    for _ in range(moves):
        task = np.int64(below(state, len(plan.place)))
        machine = np.int64(plan.place[task])
        if not case.bound[task]:
            machine = np.int64(below(state, len(plan.first) - 1))
        if case.fits[case.forth.row[task], machine]:
            remove_shared(case, plan, task, without)
            through, begin, close = best_window(case, plan, task, without, machine)
            if through < np.inf:
                makespan = move_shared(case, plan, task, machine, begin, close, without)
    return makespan


@njit(cache=True, nogil=True)
def search_windows(case: Any, current: Any, best: Any, limit: Any, goal: Any, state: Any) -> Any:
    """Improve *current* by at most *limit* moves; fill *best* with the best plan seen.

    Return the makespan of *best* and the number of moves, as ``search_insertions`` does.
    """
    tasks, machines = len(current.place), len(current.first) - 1
    without = without_task(tasks, machines)
    path, allowed = np.empty(tasks, np.int64), np.zeros((tasks + 1, machines), np.int64)
    makespan = decode_shared(case, current)
    copy_shared(current, best)
    shortest, local, moves, last = makespan, makespan, 0, 0
    allow_moves(case, case.bound, current, allowed)
    while moves < limit and shortest > goal:
        moves += 1
        allowed[-1, 0] = moves
        count = critical_shared(case, current, makespan, path, state)
        task, machine, begin, close = best_shared_move(
            case, current, without, path, count, allowed, shortest, state
        )
        if task != NONE:
            tenure = moves + TENURE + below(state, count + machines)
            allowed[task, current.place[task]] = tenure
            allowed[task, machine] = tenure
            makespan = move_shared(case, current, task, machine, begin, close, without)
        if makespan < local:
            local, last = makespan, moves
        if makespan < shortest:
            shortest = makespan
            copy_shared(current, best)
        elif task == NONE or moves - last >= PATIENCE:
            copy_shared(best, current)
            makespan = shake_shared(
                case, current, without, 2 + below(state, 3 + tasks // 10), state
            )
            allow_moves(case, case.bound, current, allowed)
            local, last = makespan, moves
    return shortest, moves
