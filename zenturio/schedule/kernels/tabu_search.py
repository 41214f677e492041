"""Tabu search over the sequences of tasks on processors: critical tasks move into the best gap.

A plan is a sequence of tasks for each processor; each task starts as soon as its data are there
and the task before it has ended. A move takes a task of a critical path out of its sequence and
inserts it into any sequence. All insertions of a task are compared exactly, with one pass forwards
and one backwards over the plan without it: what is longest either passes the task, or was there
without it (M. Mastrolilli, L. M. Gambardella: Effective neighbourhood functions for the flexible
job shop problem. Journal of Scheduling 3(1), 2000; here with transfers).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.search.kernels.rng import below

NONE = -1


class Sequences(NamedTuple):
    """A plan as sequences, with its times."""

    place: Any
    """The processor of each task."""
    above: Any
    """The task before each one on its processor, or -1."""
    below: Any
    """The task after each one on its processor, or -1."""
    first: Any
    """The first task of each processor, or -1."""
    last: Any
    order: Any
    """A topological order of edges and sequences."""
    position: Any
    """The index of each task in *order*."""
    start: Any
    end: Any
    tail: Any
    """Seconds from the start of each task to the end of all that waits for it."""


class Removal(NamedTuple):
    """The plan without one task."""

    end: Any
    tail: Any
    mark: Any
    """AFTER for tasks that must come after the removed one, BEFORE for those before it."""


FREE, AFTER, BEFORE = 0, 1, 2


@njit(cache=True, nogil=True)
def empty_sequences(tasks: Any, processors: Any) -> Any:
    """Return sequences without tasks."""
    return Sequences(
        np.zeros(tasks, np.int64),
        np.full(tasks, NONE, np.int64),
        np.full(tasks, NONE, np.int64),
        np.full(processors, NONE, np.int64),
        np.full(processors, NONE, np.int64),
        np.zeros(tasks, np.int64),
        np.zeros(tasks, np.int64),
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(tasks),
    )


@njit(cache=True, nogil=True)
def copy_sequences(source: Any, target: Any) -> None:
    """Copy all arrays of *source* into *target*."""
    target.place[:] = source.place
    target.above[:] = source.above
    target.below[:] = source.below
    target.first[:] = source.first
    target.last[:] = source.last
    target.order[:] = source.order
    target.position[:] = source.position
    target.start[:] = source.start
    target.end[:] = source.end
    target.tail[:] = source.tail


@njit(cache=True, nogil=True)
def fill_sequences(numbers: Any, plan: Any, place: Any, order: Any) -> None:
    """Fill *plan* with the tasks of *order* one after the other on their processors.

    A task without work is in no sequence: it is in nobody's way.
    """
    plan.place[:] = place
    plan.above[:] = NONE
    plan.below[:] = NONE
    plan.first[:] = NONE
    plan.last[:] = NONE
    for i in range(len(order)):
        task = np.int64(order[i])
        if numbers.work[task] > 0.0:
            insert_before(plan, task, plan.place[task], np.int64(NONE))


@njit(cache=True, nogil=True)
def insert_before(plan: Any, task: Any, place: Any, behind: Any) -> None:
    """Insert *task* before *behind* on *place*, or last if that is -1."""
    ahead = plan.last[place] if behind == NONE else plan.above[behind]
    plan.place[task] = place
    plan.above[task] = ahead
    plan.below[task] = behind
    if ahead == NONE:
        plan.first[place] = task
    else:
        plan.below[ahead] = task
    if behind == NONE:
        plan.last[place] = task
    else:
        plan.above[behind] = task


@njit(cache=True, nogil=True)
def take_out(plan: Any, task: Any) -> None:
    """Remove *task* from its sequence."""
    ahead, behind, place = plan.above[task], plan.below[task], plan.place[task]
    if ahead == NONE:
        plan.first[place] = behind
    else:
        plan.below[ahead] = behind
    if behind == NONE:
        plan.last[place] = ahead
    else:
        plan.above[behind] = ahead


@njit(cache=True, nogil=True, inline="always")
def task_seconds(numbers: Any, task: Any, place: Any) -> Any:
    return numbers.work[task] * numbers.pace[numbers.row[task], place]


@njit(cache=True, nogil=True, inline="always")
def inputs_ready(numbers: Any, place: Any, end: Any, task: Any, target: Any, without: Any) -> Any:
    """Return when the data of *task* are on *target*, but for those of *without*."""
    ready = 0.0
    node, site = numbers.node[target], numbers.site[target]
    for edge in range(numbers.start[task], numbers.start[task + 1]):
        parent = np.int64(numbers.parent[edge])
        if parent == without:
            continue
        arrival, origin = end[parent], place[parent]
        if numbers.moves and numbers.node[origin] != node:
            origin_site = numbers.site[origin]
            arrival += numbers.latency[origin_site, site]
            arrival += numbers.data[edge] * numbers.slowness[origin_site, site]
        ready = max(ready, arrival)
    return ready


@njit(cache=True, nogil=True)
def sort_sequences(case: Any, plan: Any) -> Any:
    """Fill the topological order of *plan*; return whether there is one."""
    forth, back = case.forth, case.back
    tasks = len(plan.order)
    # Kahn's algorithm over both kinds of arcs: edges, and neighbours in a sequence.
    missing = np.empty(tasks, np.int64)
    count = 0
    for task in range(tasks):
        missing[task] = np.int64(forth.start[task + 1] - forth.start[task])
        missing[task] += plan.above[task] != NONE
        if missing[task] == 0:
            plan.order[count] = task
            count += 1
    done = 0
    while done < count:
        task = plan.order[done]
        plan.position[task] = done
        done += 1
        for edge in range(back.start[task], back.start[task + 1]):
            child = np.int64(back.parent[edge])
            missing[child] -= 1
            if missing[child] == 0:
                plan.order[count] = child
                count += 1
        child = plan.below[task]
        if child != NONE:
            missing[child] -= 1
            if missing[child] == 0:
                plan.order[count] = child
                count += 1
    # Fewer were reached if the sequences contradict the edges: a cycle.
    return count == tasks


@njit(cache=True, nogil=True)
def time_sequences(case: Any, plan: Any) -> Any:
    """Fill the times of *plan*, whose order is a topological one, and return its makespan."""
    forth, back, makespan = case.forth, case.back, 0.0
    # Forwards: a task starts when its data are there and the task before it has ended.
    for i in range(len(plan.order)):
        task = plan.order[i]
        place, ahead = plan.place[task], plan.above[task]
        begin = inputs_ready(forth, plan.place, plan.end, task, place, NONE)
        if ahead != NONE:
            begin = max(begin, plan.end[ahead])
        plan.start[task] = begin
        plan.end[task] = begin + task_seconds(forth, task, place)
        makespan = max(makespan, plan.end[task])
    # Backwards: a tail has the task in it, so start + tail is the longest path through it.
    for i in range(len(plan.order) - 1, -1, -1):
        task = plan.order[i]
        place, behind = plan.place[task], plan.below[task]
        tail_behind = inputs_ready(back, plan.place, plan.tail, task, place, NONE)
        if behind != NONE:
            tail_behind = max(tail_behind, plan.tail[behind])
        plan.tail[task] = tail_behind + task_seconds(forth, task, place)
    return makespan


@njit(cache=True, nogil=True)
def remove_task(case: Any, plan: Any, task: Any, without: Any) -> Any:
    """Fill *without* with the times of *plan* without *task*, and return the makespan of that."""
    # What stands before the task in the order ends when it did: only the rest is timed anew.
    at, end, makespan = plan.position[task], without.end, 0.0
    for i in range(at):
        other = plan.order[i]
        end[other] = plan.end[other]
        without.mark[other] = FREE
        makespan = max(makespan, end[other])
    makespan = max(makespan, ends_without(case.forth, plan, task, without))
    tails_without(case, plan, task, without)
    return makespan


@njit(cache=True, nogil=True)
def ends_without(forth: Any, plan: Any, task: Any, without: Any) -> Any:
    """Fill ends and marks of what comes after *task* in the order; return the last end."""
    end, mark, last = without.end, without.mark, 0.0
    end[task], mark[task] = 0.0, AFTER
    for i in range(plan.position[task] + 1, len(plan.order)):
        other = plan.order[i]
        ahead, follows = plan.above[other], False
        for edge in range(forth.start[other], forth.start[other + 1]):
            if mark[forth.parent[edge]] == AFTER:
                follows = True
        begin = inputs_ready(forth, plan.place, end, other, plan.place[other], task)
        if ahead == task:
            ahead = plan.above[task]
        if ahead != NONE:
            begin = max(begin, end[ahead])
            follows = follows or mark[ahead] == AFTER
        mark[other] = AFTER if follows else FREE
        end[other] = begin + task_seconds(forth, other, plan.place[other])
        last = max(last, end[other])
    return last


@njit(cache=True, nogil=True)
def tails_without(case: Any, plan: Any, task: Any, without: Any) -> None:
    """Fill the tails of all tasks, and the marks of what comes before *task* in the order."""
    back, tail, mark = case.back, without.tail, without.mark
    at = plan.position[task]
    for i in range(at + 1, len(plan.order)):
        other = plan.order[i]
        tail[other] = plan.tail[other]
    tail[task], mark[task] = 0.0, BEFORE
    for i in range(at - 1, -1, -1):
        other = plan.order[i]
        behind, precedes = plan.below[other], False
        for edge in range(back.start[other], back.start[other + 1]):
            if mark[back.parent[edge]] == BEFORE:
                precedes = True
        tail_behind = inputs_ready(back, plan.place, tail, other, plan.place[other], task)
        if behind == task:
            behind = plan.below[task]
        if behind != NONE:
            tail_behind = max(tail_behind, tail[behind])
            precedes = precedes or mark[behind] == BEFORE
        if precedes:
            mark[other] = BEFORE
        tail[other] = tail_behind + task_seconds(case.forth, other, plan.place[other])


@njit(cache=True, nogil=True, inline="always")
def best_insertion(case: Any, plan: Any, task: Any, without: Any, place: Any) -> Any:
    """Return the longest path through *task* in its best gap on *place*, and the task behind it.

    The gap in which it is already does not count. Infinite, if there is no other.
    """
    forth = case.forth
    seconds = task_seconds(forth, task, place)
    ready = inputs_ready(forth, plan.place, without.end, task, place, NONE)
    tail_behind = inputs_ready(case.back, plan.place, without.tail, task, place, NONE)
    best, best_behind = np.inf, np.int64(NONE)
    is_home = plan.place[task] == place
    if forth.work[task] <= 0.0:
        return (np.inf if is_home else ready + tail_behind), best_behind
    # From the last gap back to the one behind the last task that must come before.
    behind, ahead = np.int64(NONE), plan.last[place]
    while True:
        if ahead == task:
            ahead = plan.above[task]
        if (ahead == NONE or without.mark[ahead] != AFTER) and not (
            is_home and behind == plan.below[task] and ahead == plan.above[task]
        ):
            begin = ready if ahead == NONE else max(ready, without.end[ahead])
            tail = tail_behind if behind == NONE else max(tail_behind, without.tail[behind])
            if begin + seconds + tail < best:
                best, best_behind = begin + seconds + tail, behind
        if ahead == NONE or without.mark[ahead] == BEFORE:
            return best, best_behind
        behind, ahead = ahead, plan.above[ahead]


@njit(cache=True, nogil=True)
def critical_path(case: Any, plan: Any, makespan: Any, path: Any, state: Any) -> Any:
    """Fill *path* with a random critical path, from its end, and return its length."""
    forth, ties, count = case.forth, 0, 0
    current = np.int64(NONE)
    for task in range(len(plan.end)):
        if plan.end[task] == makespan:
            ties += 1
            if below(state, ties) == 0:
                current = np.int64(task)
    while current != NONE:
        path[count] = current
        count += 1
        begin, place, ahead = plan.start[current], plan.place[current], plan.above[current]
        cause, ties = np.int64(NONE), 0
        if begin > 0.0:
            if ahead != NONE and plan.end[ahead] == begin:
                cause, ties = ahead, 1
            for edge in range(forth.start[current], forth.start[current + 1]):
                parent = np.int64(forth.parent[edge])
                arrival, origin = plan.end[parent], plan.place[parent]
                if forth.moves and forth.node[origin] != forth.node[place]:
                    origin_site, site = forth.site[origin], forth.site[place]
                    arrival += forth.latency[origin_site, site]
                    arrival += forth.data[edge] * forth.slowness[origin_site, site]
                # Exact: the start was chosen as the greatest of these very sums. Of several causes
                # one is drawn, each as likely as the others (reservoir sampling).
                if arrival == begin:
                    ties += 1
                    if below(state, ties) == 0:
                        cause = parent
        current = cause
    return count


@njit(cache=True, nogil=True)
def move_task(case: Any, plan: Any, task: Any, place: Any, behind: Any) -> None:
    if case.forth.work[task] > 0.0:
        take_out(plan, task)
        insert_before(plan, task, place, behind)
    else:
        plan.place[task] = place


@njit(cache=True, nogil=True)
def shake(case: Any, bound: Any, plan: Any, without: Any, moves: Any, state: Any) -> Any:
    """Move *moves* random tasks into the best gap of a random processor; return the makespan."""
    tasks, processors = len(plan.order), len(plan.first)
    makespan = time_sequences(case, plan)
    for _ in range(moves):
        task = np.int64(below(state, tasks))
        place = plan.place[task]
        if not bound[task]:
            place = np.int64(below(state, processors))
        if not case.fits[case.forth.row[task], place]:
            continue
        remove_task(case, plan, task, without)
        length, behind = best_insertion(case, plan, task, without, place)
        if length < np.inf:
            move_task(case, plan, task, place, behind)
            sort_sequences(case, plan)
            makespan = time_sequences(case, plan)
    return makespan


TENURE = 8
"""For at least so many moves, a task may not return to a processor that it left."""
NEVER = 1 << 62
WIDTH = 6
"""Critical tasks that are compared for a move, drawn at random. All of them would be slower, and
lead more often to the same plans."""
PATIENCE = 1000
"""Moves without improvement after which the search goes on from a changed best plan."""


@njit(cache=True, nogil=True)
def best_move(
    case: Any, plan: Any, without: Any, path: Any, count: Any, allowed: Any, shortest: Any,
    state: Any,
) -> Any:  # fmt: skip
    """Return a task of the *path*, a processor and the task behind: the shortest plan comes of it.

    Draws WIDTH of the *count* tasks. Ties go to the shorter path through the task, then to chance.
    *allowed* tells for each task and processor from which move on it may go there; its last row has
    the number of this move. What is shorter than *shortest* is always allowed. A task of -1 means
    that there is no move.
    """
    value, length = np.inf, np.inf
    chosen, chosen_place, chosen_behind = np.int64(NONE), np.int64(NONE), np.int64(NONE)
    ties, now = 0, allowed[-1, 0]
    for i in range(min(count, WIDTH)):
        drawn = i + below(state, count - i)
        task = path[drawn]
        path[drawn] = path[i]
        path[i] = task
        makespan_without = remove_task(case, plan, task, without)
        # No gap helps if what is left without the task is longer than the best move.
        if makespan_without > value:
            continue
        for place in range(len(plan.first)):
            if allowed[task, place] == NEVER:
                continue
            through, behind = best_insertion(case, plan, task, without, np.int64(place))
            longest = max(through, makespan_without)
            if longest == np.inf or (allowed[task, place] > now and longest >= shortest):
                continue
            if longest < value or (longest == value and through < length):
                ties = 1
            elif longest == value and through == length:
                ties += 1
            else:
                continue
            if ties == 1 or below(state, ties) == 0:
                value, length = longest, through
                chosen, chosen_place, chosen_behind = task, np.int64(place), behind
    return chosen, chosen_place, chosen_behind


@njit(cache=True, nogil=True)
def search_insertions(
    case: Any, bound: Any, current: Any, best: Any, limit: Any, goal: Any, state: Any
) -> Any:
    """Improve *current* by at most *limit* moves; fill *best* with the best plan seen.

    *bound* says which tasks must stay on their processor. Return the makespan of *best* and the
    number of moves. The search ends early when *goal* is reached.
    """
    tasks, processors = len(current.order), len(current.first)
    without = Removal(np.zeros(tasks), np.zeros(tasks), np.zeros(tasks, np.int8))
    path, allowed = np.empty(tasks, np.int64), np.zeros((tasks + 1, processors), np.int64)
    sort_sequences(case, current)
    makespan = time_sequences(case, current)
    copy_sequences(current, best)
    shortest, local, moves, last = makespan, makespan, 0, 0
    allow_moves(case, bound, current, allowed)
    while moves < limit and shortest > goal:
        moves += 1
        allowed[-1, 0] = moves
        count = critical_path(case, current, makespan, path, state)
        task, place, behind = best_move(
            case, current, without, path, count, allowed, shortest, state
        )
        if task != NONE:
            tenure = moves + TENURE + below(state, count + processors)
            allowed[task, current.place[task]] = tenure
            allowed[task, place] = tenure
            move_task(case, current, task, place, behind)
            sort_sequences(case, current)
            makespan = time_sequences(case, current)
        if makespan < local:
            local, last = makespan, moves
        if makespan < shortest:
            shortest = makespan
            copy_sequences(current, best)
        elif task == NONE or moves - last >= PATIENCE:
            copy_sequences(best, current)
            makespan = shake(
                case, bound, current, without, 2 + below(state, 3 + tasks // 10), state
            )
            allow_moves(case, bound, current, allowed)
            local, last = makespan, moves
    return shortest, moves


@njit(cache=True, nogil=True)
def allow_moves(case: Any, bound: Any, plan: Any, allowed: Any) -> None:
    """Fill *allowed* with NEVER where a task cannot run, and with 0 elsewhere."""
    for task in range(len(bound)):
        fits = case.fits[case.forth.row[task]]
        for place in range(allowed.shape[1]):
            can_go = fits[place] and (not bound[task] or place == plan.place[task])
            allowed[task, place] = 0 if can_go else NEVER
