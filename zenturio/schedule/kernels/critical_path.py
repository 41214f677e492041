"""Plans that grow or change by the critical path: where a task may stand in its queue, and where
it ends first.

Each processor has a queue. A task that is in none takes its mean time, and its data their mean
delay. Times are recomputed after every change: a change of one queue moves tasks of all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

NONE = -1
TIE_TOLERANCE = 1e-9
"""What part of the whole time is no time."""


class PathProblem(NamedTuple):
    """A problem, its edges both ways and by number, and means for what is not decided."""

    numbers: Any
    start: Any
    """Where those that wait for a task begin in *child* and *down*."""
    child: Any
    down: Any
    """The number of each of these edges, and in *up* of those to the parents."""
    up: Any
    data: Any
    mean: Any
    """The mean delay of each edge."""
    time: Any


class ProcessorQueues(NamedTuple):
    """Who stands where: -1 for nobody; and how long tasks and edges take there."""

    place: Any
    prior: Any
    """The task before each in its queue."""
    next: Any
    first: Any
    last: Any
    span: Any
    lag: Any


class FinishTimes(NamedTuple):
    """The absolute earliest and latest finish times, and room to find them."""

    early: Any
    late: Any
    order: Any
    left: Any


@njit(cache=True)
def empty_times(tasks: Any) -> Any:
    return FinishTimes(
        np.zeros(tasks), np.zeros(tasks), np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    )


@njit(cache=True)
def empty_queues(net: Any) -> Any:
    """Queues in which nobody stands."""
    tasks, processors = len(net.time), len(net.numbers.node)
    return ProcessorQueues(
        np.full(tasks, NONE, np.int64),
        np.full(tasks, NONE, np.int64),
        np.full(tasks, NONE, np.int64),
        np.full(processors, NONE, np.int64),
        np.full(processors, NONE, np.int64),
        net.time.copy(),
        net.mean.copy(),
    )


@njit(cache=True)
def task_seconds(net: Any, task: Any, place: Any) -> Any:
    """The time of *task* on *place*."""
    if place == NONE:
        return net.time[task]
    return net.numbers.work[task] * net.numbers.pace[net.numbers.row[task], place]


@njit(cache=True)
def edge_delay(net: Any, here: Any, there: Any, edge: Any) -> Any:
    """How long the data of *edge* take from one processor to the other."""
    if min(here, there) == NONE:
        return net.mean[edge]
    numbers = net.numbers
    if numbers.node[here] == numbers.node[there]:
        return 0.0
    one, other = numbers.site[here], numbers.site[there]
    return numbers.latency[one, other] + net.data[edge] * numbers.slowness[one, other]


@njit(cache=True)
def data_arrival(net: Any, queues: Any, times: Any, task: Any, place: Any, but: Any) -> Any:
    """When the data of *task* are on *place*, without those of the task *but*."""
    found = 0.0
    for edge in range(net.numbers.start[task], net.numbers.start[task + 1]):
        parent = np.int64(net.numbers.parent[edge])
        if parent != but:
            moved = edge_delay(net, queues.place[parent], place, net.up[edge])
            found = max(found, times.early[parent] + moved)
    return found


@njit(cache=True)
def latest_finish(
    net: Any, queues: Any, times: Any, task: Any, place: Any, behind: Any, whole: Any, printed: Any
) -> Any:
    """ALFT: when *task* on *place*, before *behind*, must have ended, so that *whole* is kept.

    The soonest of what those that wait for it allow, as the paper's words have it; its printed
    formula takes the latest.
    """
    found, any_waits = whole, False
    if behind != NONE:
        found = times.late[behind] - queues.span[behind]
        any_waits = True
    for edge in range(net.start[task], net.start[task + 1]):
        child = np.int64(net.child[edge])
        moved = edge_delay(net, place, queues.place[child], net.down[edge])
        bound = times.late[child] - queues.span[child] - moved
        found = max(found, bound) if printed and any_waits else min(found, bound)
        any_waits = True
    return found


@njit(cache=True)
def update_times(net: Any, queues: Any, times: Any, whole: Any, printed: Any) -> Any:
    """Fills *times*, and returns the length of the critical path.

    The latest times keep *whole*; if that is 0, the length.
    """
    numbers = net.numbers
    found = earliest_finish_times(
        numbers.start, numbers.parent, net.up, net.start, net.child,
        queues.prior, queues.next, queues.span, queues.lag,
        times.early, times.order, times.left,
    )  # fmt: skip
    latest_finish_times(
        net.start, net.child, net.down, queues.next, queues.span, queues.lag,
        times.late, times.order, whole if whole > 0.0 else found, printed,
    )  # fmt: skip
    return found


@njit(cache=True)
def earliest_finish_times(
    start: Any, parent: Any, up: Any, begin: Any, child: Any, prior: Any, behind: Any,
    span: Any, lag: Any, early: Any, order: Any, left: Any,
) -> Any:  # fmt: skip
    """Fills *early* and *order*. Bare arrays: one in a tuple is counted whenever it is touched."""
    tasks, done, known, found = len(early), 0, 0, 0.0
    for task in range(tasks):
        left[task] = np.int64(start[task + 1] - start[task]) + (prior[task] != NONE)
        if left[task] == 0:
            order[known] = task
            known += 1
    while done < known:
        task = order[done]
        done += 1
        ready = 0.0 if prior[task] == NONE else early[prior[task]]
        for edge in range(start[task], start[task + 1]):
            ready = max(ready, early[parent[edge]] + lag[up[edge]])
        early[task] = ready + span[task]
        found = max(found, early[task])
        other = behind[task]
        if other != NONE:
            left[other] -= 1
            if left[other] == 0:
                order[known] = other
                known += 1
        for edge in range(begin[task], begin[task + 1]):
            other = np.int64(child[edge])
            left[other] -= 1
            if left[other] == 0:
                order[known] = other
                known += 1
    return found


@njit(cache=True)
def latest_finish_times(
    start: Any, child: Any, down: Any, behind: Any, span: Any, lag: Any,
    late: Any, order: Any, whole: Any, printed: Any,
) -> None:  # fmt: skip
    """Fills *late*, against the *order* of times; the same as `deadline` for each task."""
    for i in range(len(order) - 1, -1, -1):
        task = order[i]
        limit, other, any_waits = whole, behind[task], False
        if other != NONE:
            limit, any_waits = late[other] - span[other], True
        for edge in range(start[task], start[task + 1]):
            other = np.int64(child[edge])
            bound = late[other] - span[other] - lag[down[edge]]
            limit = max(limit, bound) if printed and any_waits else min(limit, bound)
            any_waits = True
        late[task] = limit


@njit(cache=True)
def mark_relatives(net: Any, queues: Any, times: Any, task: Any, marks: Any) -> None:
    """Marks what must run before *task* with -1, what must run after it with 1, all else with 0.

    Once in the order of times, once against it; *task* stands in no queue.
    """
    marks[:] = 0
    marks[task] = 1
    spread_marks(net.numbers.start, net.numbers.parent, queues.prior, times.order, marks, 1)
    marks[task] = -1
    spread_marks(net.start, net.child, queues.next, times.order[::-1], marks, -1)


@njit(cache=True)
def spread_marks(start: Any, other: Any, queued: Any, order: Any, marks: Any, sign: Any) -> None:
    """Marks what comes after what is marked with *sign*."""
    for i in range(len(order)):
        task = order[i]
        after = queued[task] != NONE and marks[queued[task]] == sign
        for edge in range(start[task], start[task + 1]):
            after = after or marks[other[edge]] == sign
        if after:
            marks[task] = sign


@njit(cache=True)
def update_seconds(net: Any, queues: Any, task: Any) -> None:
    """How long *task* and its edges take, where it is now."""
    place = queues.place[task]
    queues.span[task] = task_seconds(net, task, place)
    for edge in range(net.numbers.start[task], net.numbers.start[task + 1]):
        here, number = queues.place[net.numbers.parent[edge]], net.up[edge]
        queues.lag[number] = edge_delay(net, here, place, number)
    for edge in range(net.start[task], net.start[task + 1]):
        there, number = queues.place[net.child[edge]], net.down[edge]
        queues.lag[number] = edge_delay(net, place, there, number)


@njit(cache=True)
def enqueue_task(net: Any, queues: Any, task: Any, place: Any, prior: Any, behind: Any) -> None:
    """Puts *task* between two others of a queue."""
    queues.place[task], queues.prior[task], queues.next[task] = place, prior, behind
    if prior == NONE:
        queues.first[place] = task
    else:
        queues.next[prior] = task
    if behind == NONE:
        queues.last[place] = task
    else:
        queues.prior[behind] = task
    update_seconds(net, queues, task)


@njit(cache=True)
def dequeue_task(net: Any, queues: Any, task: Any) -> None:
    """Takes *task* out of its queue."""
    place, prior, behind = queues.place[task], queues.prior[task], queues.next[task]
    if prior == NONE:
        queues.first[place] = behind
    else:
        queues.next[prior] = behind
    if behind == NONE:
        queues.last[place] = prior
    else:
        queues.prior[behind] = prior
    queues.place[task] = queues.prior[task] = queues.next[task] = NONE
    update_seconds(net, queues, task)


@njit(cache=True)
def find_slot(
    net: Any, queues: Any, times: Any, marks: Any, task: Any, place: Any, whole: Any, printed: Any
) -> Any:
    """The first slot of *place* that keeps *whole*: if any, after whom, and when *task* ends.

    If none does: the last slot in which it can stand at all.
    """
    ready, time = (
        data_arrival(net, queues, times, task, place, NONE),
        task_seconds(net, task, place),
    )
    prior, behind, least = NONE, queues.first[place], NONE
    while behind != NONE:
        if marks[behind] == -1:
            least = behind
        behind = queues.next[behind]
    prior = least
    while True:
        behind = queues.first[place] if prior == NONE else queues.next[prior]
        free = 0.0 if prior == NONE else times.early[prior]
        limit = latest_finish(net, queues, times, task, place, behind, whole, printed)
        from_here = free if printed else max(free, ready)
        if limit - from_here >= time - TIE_TOLERANCE * whole:
            return True, prior, max(free, ready) + time
        if behind == NONE or marks[behind] == 1:
            return False, prior, max(free, ready) + time
        prior = behind


@njit(cache=True)
def most_urgent(times: Any, level: Any, done: Any, whole: Any) -> Any:
    """The task with the least time to spare; then of the first level, then that ends first."""
    found, best = NONE, np.inf
    for task in range(len(done)):
        if not done[task]:
            spare = times.late[task] - times.early[task]
            if spare <= TIE_TOLERANCE * whole:
                spare = 0.0
            better = found == NONE or spare < best
            if not better and spare == best:
                better = level[task] < level[found] or (
                    level[task] == level[found] and times.early[task] < times.early[found]
                )
            if better:
                found, best = task, spare
    return found


@njit(cache=True)
def improve_round(net: Any, queues: Any, times: Any, level: Any, bound: Any, printed: Any) -> Any:
    """Moves each task once, the most urgent first, to where it ends first; returns the length.

    Tasks that are *bound* to share a machine stay on theirs.
    """
    tasks, processors = len(level), len(queues.first)
    done, marks = np.zeros(tasks, np.bool_), np.zeros(tasks, np.int8)
    for _ in range(tasks):
        whole = update_times(net, queues, times, 0.0, printed)
        task = most_urgent(times, level, done, whole)
        done[task] = True
        home, prior, behind = queues.place[task], queues.prior[task], queues.next[task]
        dequeue_task(net, queues, task)
        update_times(net, queues, times, whole, printed)
        mark_relatives(net, queues, times, task, marks)
        best = np.inf
        for place in range(processors):
            if place != home and (bound[task] or not np.isfinite(task_seconds(net, task, place))):
                continue
            fits, before, end = find_slot(net, queues, times, marks, task, place, whole, printed)
            if fits and end < best - TIE_TOLERANCE * whole:
                best, home, prior = end, place, before
                behind = queues.first[place] if before == NONE else queues.next[before]
        enqueue_task(net, queues, task, home, prior, behind)
    return update_times(net, queues, times, 0.0, printed)


@njit(cache=True)
def critical_child(net: Any, queues: Any, times: Any, task: Any) -> Any:
    """The child in no queue with the least time to spare; -1, if there is none."""
    found: Any = NONE
    best = np.inf
    for edge in range(net.start[task], net.start[task + 1]):
        child = np.int64(net.child[edge])
        spare = times.late[child] - times.early[child]
        if queues.place[child] == NONE and spare < best:
            found, best = child, spare
    return found


@njit(cache=True)
def place_by_urgency(net: Any, queues: Any, times: Any, group: Any, home: Any) -> Any:
    """Puts each task into a queue, the most urgent first; returns the length.

    It goes where it and its critical child, if that followed there, would start first; into a slot
    that keeps the length of the critical path, where there is one.
    """
    tasks, processors = len(group), len(queues.first)
    done, marks = np.zeros(tasks, np.bool_), np.zeros(tasks, np.int8)
    level = np.zeros(tasks, np.int64)
    for _ in range(tasks):
        whole = update_times(net, queues, times, 0.0, False)
        task = most_urgent(times, level, done, whole)
        done[task] = True
        child = critical_child(net, queues, times, task)
        mark_relatives(net, queues, times, task, marks)
        best, found, after, kept = np.inf, NONE, NONE, False
        for place in range(processors):
            time = task_seconds(net, task, place)
            elsewhere = home[group[task]] != NONE and home[group[task]] != place
            if elsewhere or not np.isfinite(time):
                continue
            fits, prior, end = find_slot(net, queues, times, marks, task, place, whole, False)
            sum_of_starts = end - time
            if child != NONE:
                sum_of_starts += max(end, data_arrival(net, queues, times, child, place, task))
            better = fits and not kept
            if better or (fits == kept and sum_of_starts < best - TIE_TOLERANCE * whole):
                best, found, after, kept = sum_of_starts, place, prior, fits
        behind = queues.first[found] if after == NONE else queues.next[after]
        enqueue_task(net, queues, task, found, after, behind)
        home[group[task]] = found
    return update_times(net, queues, times, 0.0, False)
