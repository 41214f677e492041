"""DCP and xDCP: plans that grow or change along the critical path.

Sources: Kwok and Ahmad (TPDS 1996) and Ma and Buyya (SBAC-PAD 2005). Each processor has a queue. A
task in no queue takes its mean time, and its data their mean delay. All times are recomputed after
each change, since a change of one queue moves tasks of all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

NONE = -1
TIE_TOLERANCE = 1e-9
"""Differences below this share of the makespan count as zero."""


class PathProblem(NamedTuple):
    """A problem with its edges in both directions and by number, and mean values."""

    numbers: Any
    start: Any
    """Where the successors of a task begin in *child* and *down*."""
    child: Any
    down: Any
    """The number of each edge to a successor; *up* has those to predecessors."""
    up: Any
    data: Any
    mean: Any
    """The mean delay of each edge."""
    time: Any


class ProcessorQueues(NamedTuple):
    """Doubly linked queues of tasks (-1: none), and the present times of tasks and edges."""

    place: Any
    prior: Any
    """The task before each one in its queue."""
    next: Any
    first: Any
    last: Any
    span: Any
    lag: Any


class FinishTimes(NamedTuple):
    """The absolute earliest and latest finish times (AEFT, ALFT), and buffers to compute them."""

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
    """Return queues without tasks."""
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
    """Return the time of *task* on *place*; its mean time if *place* is -1."""
    if place == NONE:
        return net.time[task]
    return net.numbers.work[task] * net.numbers.pace[net.numbers.row[task], place]


@njit(cache=True)
def edge_delay(net: Any, origin: Any, target: Any, edge: Any) -> Any:
    """Return the delay of *edge* between two processors; its mean if one is undecided."""
    if min(origin, target) == NONE:
        return net.mean[edge]
    numbers = net.numbers
    if numbers.node[origin] == numbers.node[target]:
        return 0.0
    origin_site, target_site = numbers.site[origin], numbers.site[target]
    return (
        numbers.latency[origin_site, target_site]
        + net.data[edge] * numbers.slowness[origin_site, target_site]
    )


@njit(cache=True)
def data_arrival(net: Any, queues: Any, times: Any, task: Any, place: Any, excluded: Any) -> Any:
    """Return when the data of *task* arrive on *place*, ignoring those of the task *excluded*."""
    arrival = 0.0
    for edge in range(net.numbers.start[task], net.numbers.start[task + 1]):
        parent = np.int64(net.numbers.parent[edge])
        if parent != excluded:
            delay = edge_delay(net, queues.place[parent], place, net.up[edge])
            arrival = max(arrival, times.early[parent] + delay)
    return arrival


@njit(cache=True)
def latest_finish(
    net: Any,
    queues: Any,
    times: Any,
    task: Any,
    place: Any,
    behind: Any,
    makespan: Any,
    printed: Any,
) -> Any:
    """Return the latest finish (ALFT) of *task* on *place* before *behind* that keeps *makespan*.

    The minimum over its successors, as the paper's text says; its printed formula takes the
    maximum.
    """
    limit, has_successor = makespan, False
    if behind != NONE:
        limit = times.late[behind] - queues.span[behind]
        has_successor = True
    for edge in range(net.start[task], net.start[task + 1]):
        child = np.int64(net.child[edge])
        delay = edge_delay(net, place, queues.place[child], net.down[edge])
        bound = times.late[child] - queues.span[child] - delay
        limit = max(limit, bound) if printed and has_successor else min(limit, bound)
        has_successor = True
    return limit


@njit(cache=True)
def update_times(net: Any, queues: Any, times: Any, makespan: Any, printed: Any) -> Any:
    """Fill *times*, and return the length of the critical path.

    The latest times keep *makespan*, or the length if *makespan* is 0.
    """
    numbers = net.numbers
    length = earliest_finish_times(
        numbers.start, numbers.parent, net.up, net.start, net.child,
        queues.prior, queues.next, queues.span, queues.lag,
        times.early, times.order, times.left,
    )  # fmt: skip
    latest_finish_times(
        net.start, net.child, net.down, queues.next, queues.span, queues.lag,
        times.late, times.order, makespan if makespan > 0.0 else length, printed,
    )  # fmt: skip
    return length


@njit(cache=True)
def earliest_finish_times(
    start: Any, parent: Any, up: Any, begin: Any, child: Any, prior: Any, behind: Any,
    span: Any, lag: Any, early: Any, order: Any, missing: Any,
) -> Any:  # fmt: skip
    """Fill *early* and *order*. Bare arrays, because arrays in tuples are slow to access."""
    # Kahn's algorithm over two kinds of edges: those of the workflow, and one from each task to
    # the next in its queue.
    tasks, done, reached, length = len(early), 0, 0, 0.0
    for task in range(tasks):
        missing[task] = np.int64(start[task + 1] - start[task]) + (prior[task] != NONE)
        if missing[task] == 0:
            order[reached] = task
            reached += 1
    while done < reached:
        task = order[done]
        done += 1
        ready = 0.0 if prior[task] == NONE else early[prior[task]]
        for edge in range(start[task], start[task + 1]):
            ready = max(ready, early[parent[edge]] + lag[up[edge]])
        early[task] = ready + span[task]
        length = max(length, early[task])
        successor = behind[task]
        if successor != NONE:
            missing[successor] -= 1
            if missing[successor] == 0:
                order[reached] = successor
                reached += 1
        for edge in range(begin[task], begin[task + 1]):
            successor = np.int64(child[edge])
            missing[successor] -= 1
            if missing[successor] == 0:
                order[reached] = successor
                reached += 1
    return length


@njit(cache=True)
def latest_finish_times(
    start: Any, child: Any, down: Any, behind: Any, span: Any, lag: Any,
    late: Any, order: Any, makespan: Any, printed: Any,
) -> None:  # fmt: skip
    """Fill *late*, in reverse *order*; equals `latest_finish` for each task."""
    for i in range(len(order) - 1, -1, -1):
        task = order[i]
        # The reverse order visits successors first, so their latest times are final.
        limit, successor, has_successor = makespan, behind[task], False
        if successor != NONE:
            limit, has_successor = late[successor] - span[successor], True
        for edge in range(start[task], start[task + 1]):
            successor = np.int64(child[edge])
            bound = late[successor] - span[successor] - lag[down[edge]]
            limit = max(limit, bound) if printed and has_successor else min(limit, bound)
            has_successor = True
        late[task] = limit


@njit(cache=True)
def mark_relatives(net: Any, queues: Any, times: Any, task: Any, marks: Any) -> None:
    """Mark what must run before *task* with -1, what must run after it with 1, all else with 0.

    Two passes over the order of times suffice; *task* is in no queue.
    """
    # Ancestors are marked from the last to the first, descendants from the first to the last.
    marks[:] = 0
    marks[task] = 1
    spread_marks(net.numbers.start, net.numbers.parent, queues.prior, times.order, marks, 1)
    marks[task] = -1
    spread_marks(net.start, net.child, queues.next, times.order[::-1], marks, -1)


@njit(cache=True)
def spread_marks(
    start: Any, neighbour: Any, queued: Any, order: Any, marks: Any, sign: Any
) -> None:
    """Mark the tasks that come after those marked with *sign*."""
    for i in range(len(order)):
        task = order[i]
        is_after = queued[task] != NONE and marks[queued[task]] == sign
        for edge in range(start[task], start[task + 1]):
            is_after = is_after or marks[neighbour[edge]] == sign
        if is_after:
            marks[task] = sign


@njit(cache=True)
def update_seconds(net: Any, queues: Any, task: Any) -> None:
    """Update the times of *task* and its edges for its present processor."""
    place = queues.place[task]
    queues.span[task] = task_seconds(net, task, place)
    for edge in range(net.numbers.start[task], net.numbers.start[task + 1]):
        origin, number = queues.place[net.numbers.parent[edge]], net.up[edge]
        queues.lag[number] = edge_delay(net, origin, place, number)
    for edge in range(net.start[task], net.start[task + 1]):
        target, number = queues.place[net.child[edge]], net.down[edge]
        queues.lag[number] = edge_delay(net, place, target, number)


@njit(cache=True)
def enqueue_task(net: Any, queues: Any, task: Any, place: Any, prior: Any, behind: Any) -> None:
    """Insert *task* between two others of a queue."""
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
    """Remove *task* from its queue."""
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
    net: Any,
    queues: Any,
    times: Any,
    marks: Any,
    task: Any,
    place: Any,
    makespan: Any,
    printed: Any,
) -> Any:
    """Return whether *place* has a slot that keeps *makespan*, the task before it, and the end.

    If there is none, the last slot that precedence allows.
    """
    ready, time = (
        data_arrival(net, queues, times, task, place, NONE),
        task_seconds(net, task, place),
    )
    prior, behind, last_ancestor = NONE, queues.first[place], NONE
    # The task must come after the last of its ancestors in this queue.
    while behind != NONE:
        if marks[behind] == -1:
            last_ancestor = behind
        behind = queues.next[behind]
    prior = last_ancestor
    while True:
        behind = queues.first[place] if prior == NONE else queues.next[prior]
        queue_free = 0.0 if prior == NONE else times.early[prior]
        limit = latest_finish(net, queues, times, task, place, behind, makespan, printed)
        # The condition as it is printed ignores when the data arrive.
        earliest = queue_free if printed else max(queue_free, ready)
        if limit - earliest >= time - TIE_TOLERANCE * makespan:
            return True, prior, max(queue_free, ready) + time
        # Behind a descendant there is no slot that precedence allows.
        if behind == NONE or marks[behind] == 1:
            return False, prior, max(queue_free, ready) + time
        prior = behind


@njit(cache=True)
def most_urgent(times: Any, level: Any, done: Any, makespan: Any) -> Any:
    """Return the task with the least slack; on ties by level, then by earliest finish."""
    urgent, best = NONE, np.inf
    for task in range(len(done)):
        if not done[task]:
            slack = times.late[task] - times.early[task]
            # Sums in another order differ by rounding, which must not decide who is critical.
            if slack <= TIE_TOLERANCE * makespan:
                slack = 0.0
            is_better = urgent == NONE or slack < best
            if not is_better and slack == best:
                is_better = level[task] < level[urgent] or (
                    level[task] == level[urgent] and times.early[task] < times.early[urgent]
                )
            if is_better:
                urgent, best = task, slack
    return urgent


@njit(cache=True)
def improve_round(net: Any, queues: Any, times: Any, level: Any, bound: Any, printed: Any) -> Any:
    """Move each task once, the most urgent first, where it finishes first; return the length.

    Tasks that are *bound* to share a machine stay on theirs.
    """
    tasks, processors = len(level), len(queues.first)
    done, marks = np.zeros(tasks, np.bool_), np.zeros(tasks, np.int8)
    for _ in range(tasks):
        makespan = update_times(net, queues, times, 0.0, printed)
        task = most_urgent(times, level, done, makespan)
        done[task] = True
        home, prior, behind = queues.place[task], queues.prior[task], queues.next[task]
        # Times without the task show which slots its removal opens.
        dequeue_task(net, queues, task)
        update_times(net, queues, times, makespan, printed)
        mark_relatives(net, queues, times, task, marks)
        best = np.inf
        for place in range(processors):
            if place != home and (bound[task] or not np.isfinite(task_seconds(net, task, place))):
                continue
            fits, previous, end = find_slot(
                net, queues, times, marks, task, place, makespan, printed
            )
            if fits and end < best - TIE_TOLERANCE * makespan:
                best, home, prior = end, place, previous
                behind = queues.first[place] if previous == NONE else queues.next[previous]
        enqueue_task(net, queues, task, home, prior, behind)
    return update_times(net, queues, times, 0.0, printed)


@njit(cache=True)
def critical_child(net: Any, queues: Any, times: Any, task: Any) -> Any:
    """Return the unplaced child with the least slack, or -1."""
    critical: Any = NONE
    best = np.inf
    for edge in range(net.start[task], net.start[task + 1]):
        child = np.int64(net.child[edge])
        slack = times.late[child] - times.early[child]
        if queues.place[child] == NONE and slack < best:
            critical, best = child, slack
    return critical


@njit(cache=True)
def place_by_urgency(net: Any, queues: Any, times: Any, group: Any, home: Any) -> Any:
    """Place all tasks, the most urgent first, and return the length.

    A task goes where it and its critical child, if that followed there, would start first,
    preferably into a slot that keeps the critical path.
    """
    tasks, processors = len(group), len(queues.first)
    done, marks = np.zeros(tasks, np.bool_), np.zeros(tasks, np.int8)
    level = np.zeros(tasks, np.int64)
    for _ in range(tasks):
        makespan = update_times(net, queues, times, 0.0, False)
        task = most_urgent(times, level, done, makespan)
        done[task] = True
        child = critical_child(net, queues, times, task)
        mark_relatives(net, queues, times, task, marks)
        best, target, after, keeps_length = np.inf, NONE, NONE, False
        for place in range(processors):
            time = task_seconds(net, task, place)
            excluded = home[group[task]] != NONE and home[group[task]] != place
            if excluded or not np.isfinite(time):
                continue
            fits, prior, end = find_slot(net, queues, times, marks, task, place, makespan, False)
            sum_of_starts = end - time
            if child != NONE:
                sum_of_starts += max(end, data_arrival(net, queues, times, child, place, task))
            # A slot that does not lengthen the critical path wins over any that does.
            is_better = fits and not keeps_length
            if is_better or (
                fits == keeps_length and sum_of_starts < best - TIE_TOLERANCE * makespan
            ):
                best, target, after, keeps_length = sum_of_starts, place, prior, fits
        behind = queues.first[target] if after == NONE else queues.next[after]
        enqueue_task(net, queues, task, target, after, behind)
        home[group[task]] = target
    return update_times(net, queues, times, 0.0, False)
