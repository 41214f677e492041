"""Kernels of lower bounds of the makespan.

Machines that are alike count as one kind. Data are free between tasks of one machine only, so each
of a task's predecessors either runs on the task's own machine, where all such predecessors share
its capacity, or pays a transfer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from zenturio.schedule.kernels.list_scheduling import NONE

ROUNDING = 1 + 1e-9
"""A time counts as too late only beyond this factor: sums of times are rounded."""
MAX_ROUNDS = 8
"""How often deductions are repeated that follow from each other."""
MAX_STEPS = 32
"""Steps until the earliest start of a task is settled; fewer give a lower one."""
MAX_THRESHOLDS = 48
"""Times that are tried for the begin of a span that is too full."""


class MachineKinds(NamedTuple):
    """A problem by kinds of machine: those of one kind are alike in all that matters here."""

    work: Any
    row: Any
    pace: Any
    """Seconds for a unit of work, for each row and kind of machine; infinite if it cannot run."""
    machines: Any
    """The number of machines of each kind."""
    site: Any
    latency: Any
    slowness: Any
    need: Any
    """What each task needs of each resource while it runs."""
    share: Any
    """The reciprocal of what a machine of each kind has of each resource; 0 if unlimited."""
    boot: Any
    weight: Any
    """For each resource and kind of machine, what a unit of the resource is worth there."""


class TaskAdjacency(NamedTuple):
    """The edges in one direction: those towards task t are ``start[t]`` to ``start[t + 1]``."""

    order: Any
    start: Any
    task: Any
    data: Any
    latency: Any
    slowness: Any
    floor: Any
    """Times that are known already, for each task."""
    boot: Any


@njit(cache=True)
def time_on_kind(case: Any, task: Any, kind: Any) -> Any:
    """Return the seconds of *task* on a machine of *kind*; infinite if it cannot run there."""
    pace = case.pace[case.row[task], kind]
    return case.work[task] * pace if np.isfinite(pace) else np.inf


@njit(cache=True)
def fill_earliest(case: Any, links: Any, cluster: Any, possible: Any, earliest: Any) -> None:
    """Fill *earliest*: for each task and kind of machine the least time before the task begins.

    Tasks of a cluster share a machine; *possible* says for each cluster which kinds it may have.
    """
    kinds, sites = len(case.machines), len(case.latency)
    # Of each task, when its end on the best machine of each site is, and on the best of another
    # kind.
    first, second = np.full((len(cluster), sites), np.inf), np.full((len(cluster), sites), np.inf)
    first_kind = np.full((len(cluster), sites), NONE, np.int64)
    most = 0
    for task in range(len(cluster)):
        most = max(most, links.start[task + 1] - links.start[task])
    remote, local, release = np.empty(most), np.empty(most), np.empty(most)
    for task in links.order:
        begin, stop = links.start[task], links.start[task + 1]
        for kind in range(kinds):
            earliest[task, kind] = np.inf
            if not possible[cluster[task], kind]:
                continue
            for edge in range(begin, stop):
                other, i = links.task[edge], edge - begin
                release[i] = earliest[other, kind]
                local[i] = release[i] + time_on_kind(case, other, kind)
                remote[i] = np.inf
                if cluster[other] == cluster[task]:
                    continue
                for site in range(sites):
                    end = first[other, site]
                    # The only machine of its kind is the task's own.
                    if first_kind[other, site] == kind and case.machines[kind] == 1:
                        end = second[other, site]
                    transfer = links.latency[site, case.site[kind]]
                    transfer += links.data[edge] * links.slowness[site, case.site[kind]]
                    remote[i] = min(remote[i], end + transfer)
            known = max(links.floor[task], links.boot[kind])
            earliest[task, kind] = gathered(
                case, links.task[begin:stop], kind, known, remote, local, release
            )
        for kind in range(kinds):
            site, end = case.site[kind], earliest[task, kind] + time_on_kind(case, task, kind)
            if end < first[task, site]:
                second[task, site] = first[task, site]
                first[task, site], first_kind[task, site] = end, kind
            else:
                second[task, site] = min(second[task, site], end)


@njit(cache=True)
def gathered(
    case: Any, tasks: Any, kind: Any, known: Any, remote: Any, local: Any, release: Any
) -> Any:
    """Return the least time from *known* on by which the data of *tasks* can be on one machine.

    Data that arrive later from elsewhere (*remote*) must be made there (*local*), one task beside
    the other as far as the machine has room.
    """
    time, near = known, 0
    for i in range(len(tasks)):
        time = max(time, min(remote[i], local[i]))
    if time == np.inf:
        return time
    for i in range(len(tasks)):
        near += remote[i] > time
    if near < 2:
        return time
    order = falling(release[: len(tasks)])
    for _ in range(MAX_STEPS):
        joint, next_arrival = 0.0, np.inf
        for resource in range(case.need.shape[1]):
            share, used = case.share[kind, resource], 0.0
            for i in order:
                if remote[i] > time:
                    used += (local[i] - release[i]) * case.need[tasks[i], resource]
                    joint = max(joint, release[i] + used * share)
                    next_arrival = min(next_arrival, remote[i])
        if joint <= time:
            break
        time = min(joint, next_arrival)
    return time


@njit(cache=True)
def fill_bounds_of_tasks(
    case: Any, forth: Any, back: Any, cluster: Any, possible: Any, heads: Any, tails: Any
) -> Any:
    """Fill the least times before and after each task, and return the longest way through any."""
    fill_earliest(case, forth, cluster, possible, heads)
    fill_earliest(case, back, cluster, possible, tails)
    longest = 0.0
    for task in range(len(cluster)):
        shortest = np.inf
        for kind in range(len(case.machines)):
            through = heads[task, kind] + time_on_kind(case, task, kind) + tails[task, kind]
            shortest = min(shortest, through)
        longest = max(longest, shortest)
    return longest


@njit(cache=True)
def is_refuted(
    case: Any, forth: Any, back: Any, group: Any, fits: Any, makespan: Any, heads: Any, tails: Any
) -> Any:
    """Return whether no plan is as short as *makespan*, as far as simple deductions show.

    A transfer that would make a plan too long puts two tasks on one machine: they join one cluster.
    What a cluster does on a machine of some kind must have room between its heads and tails, and
    all work on all machines.
    """
    late = makespan * ROUNDING
    cluster, possible = group.copy(), fits.copy()
    for _ in range(MAX_ROUNDS):
        fill_earliest(case, forth, cluster, possible, heads)
        fill_earliest(case, back, cluster, possible, tails)
        is_changed = remove_slow_kinds(case, cluster, possible, heads, tails, late)
        if lacks_kind(cluster, possible):
            return True
        if join_clusters(case, forth, cluster, possible, heads, tails, late):
            is_changed = True
        if remove_full_kinds(case, cluster, possible, heads, tails, late):
            is_changed = True
        if lacks_kind(cluster, possible) or is_overfull(
            case, cluster, possible, heads, tails, late
        ):
            return True
        if not is_changed:
            return False
    return False


@njit(cache=True)
def lacks_kind(cluster: Any, possible: Any) -> Any:
    """Return whether some task has no kind of machine left."""
    for task in range(len(cluster)):
        if not possible[cluster[task]].any():
            return True
    return False


@njit(cache=True)
def remove_slow_kinds(
    case: Any, cluster: Any, possible: Any, heads: Any, tails: Any, late: Any
) -> Any:
    """Remove kinds of machine on which a task would end too late; return if there are any."""
    is_changed = False
    for task in range(len(cluster)):
        for kind in range(len(case.machines)):
            through = heads[task, kind] + time_on_kind(case, task, kind) + tails[task, kind]
            if possible[cluster[task], kind] and through > late:
                possible[cluster[task], kind] = False
                is_changed = True
    return is_changed


@njit(cache=True)
def join_clusters(
    case: Any, links: Any, cluster: Any, possible: Any, heads: Any, tails: Any, late: Any
) -> Any:
    """Join the clusters of tasks that must share a machine; return whether there are any."""
    is_changed = False
    for task in range(len(cluster)):
        for edge in range(links.start[task], links.start[task + 1]):
            gone, kept = cluster[links.task[edge]], cluster[task]
            if gone == kept or not must_share(
                case, links, edge, task, possible, cluster, heads, tails, late
            ):
                continue
            is_changed = True
            possible[kept] &= possible[gone]
            for i in range(len(cluster)):
                if cluster[i] == gone:
                    cluster[i] = kept
    return is_changed


@njit(cache=True)
def must_share(
    case: Any, links: Any, edge: Any, task: Any, possible: Any, cluster: Any, heads: Any,
    tails: Any, late: Any,
) -> Any:  # fmt: skip
    """Return whether a transfer over *edge* to *task* makes every plan too long."""
    other = links.task[edge]
    for target in range(len(case.machines)):
        after = time_on_kind(case, task, target) + tails[task, target]
        if not possible[cluster[task], target] or heads[task, target] + after > late:
            continue
        for source in range(len(case.machines)):
            if not possible[cluster[other], source]:
                continue
            if source == target and case.machines[source] == 1:
                continue
            a, b = case.site[source], case.site[target]
            arrival = heads[other, source] + time_on_kind(case, other, source)
            arrival += links.latency[a, b] + links.data[edge] * links.slowness[a, b]
            if arrival + after <= late:
                return False
    return True


@njit(cache=True)
def falling(keys: Any) -> Any:
    """Return the indices of *keys*, the largest key first (Shell sort: quick to compile)."""
    order, step = np.arange(len(keys)), 1
    while step < len(keys) // 3:
        step = 3 * step + 1
    while step > 0:
        for i in range(step, len(keys)):
            moved, j = order[i], i
            while j >= step and keys[order[j - step]] < keys[moved]:
                order[j] = order[j - step]
                j -= step
            order[j] = moved
        step //= 3
    return order


@njit(cache=True)
def remove_full_kinds(
    case: Any, cluster: Any, possible: Any, heads: Any, tails: Any, late: Any
) -> Any:
    """Remove kinds of machine that have no room for a whole cluster; return if there are any."""
    is_changed, members = False, falling(cluster)
    begin = 0
    for stop in range(1, len(members) + 1):
        number = cluster[members[begin]]
        if stop < len(members) and cluster[members[stop]] == number:
            continue
        for kind in range(len(case.machines)):
            if (
                stop - begin > 1
                and possible[number, kind]
                and is_too_full(case, members[begin:stop], kind, heads, tails, late)
            ):
                possible[number, kind] = False
                is_changed = True
        begin = stop
    return is_changed


@njit(cache=True)
def is_too_full(case: Any, members: Any, kind: Any, heads: Any, tails: Any, late: Any) -> Any:
    """Return whether a machine of *kind* cannot run all *members* between their heads and tails."""
    count = len(members)
    head, tail, time = np.empty(count), np.empty(count), np.empty(count)
    for i in range(count):
        head[i], tail[i] = heads[members[i], kind], tails[members[i], kind]
        time[i] = time_on_kind(case, members[i], kind)
    by_head, by_tail = falling(head), falling(tail)
    for j in range(0, count, max(1, count // MAX_THRESHOLDS)):
        threshold = head[by_head[j]]
        for resource in range(case.need.shape[1]):
            used = 0.0
            for i in by_tail:
                if head[i] >= threshold:
                    used += time[i] * case.need[members[i], resource]
                    if threshold + used * case.share[kind, resource] + tail[i] > late:
                        return True
    return False


@njit(cache=True)
def is_overfull(case: Any, cluster: Any, possible: Any, heads: Any, tails: Any, late: Any) -> Any:
    """Return whether all machines cannot do, in some span, the work of the tasks that lie in it.

    Work is weighed by kind of machine: whatever the weights, it counts at least with its least.
    """
    tasks = len(cluster)
    head, tail = np.empty(tasks), np.empty(tasks)
    for task in range(tasks):
        head[task], tail[task] = heads[task].min(), tails[task].min()
    by_head, by_tail = falling(-head), falling(-tail)
    step = max(1, tasks // MAX_THRESHOLDS)
    begins, ends = head[by_head[::step]], tail[by_tail[::step]]
    row, column = np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    for i in range(tasks):
        row[by_head[i]] = column[by_tail[i]] = i // step
    for resource in range(case.need.shape[1]):
        if case.share[:, resource].min() > 0.0:
            work = np.zeros((len(begins), len(ends)))
            for task in range(tasks):
                least = least_work(case, task, resource, possible[cluster[task]])
                work[row[task], column[task]] += least
            if exceeds_room(case, work, resource, begins, ends, late):
                return True
    return False


@njit(cache=True)
def least_work(case: Any, task: Any, resource: Any, possible: Any) -> Any:
    """Return the least weighed work of *task* on any kind of machine that is *possible*."""
    least = np.inf
    for kind in range(len(case.machines)):
        if possible[kind]:
            seconds = case.weight[resource, kind] * time_on_kind(case, task, kind)
            least = min(least, seconds * case.need[task, resource])
    return least


@njit(cache=True)
def exceeds_room(case: Any, work: Any, resource: Any, begins: Any, ends: Any, late: Any) -> Any:
    """Return whether the work of some span is more than machines offer; *work* becomes sums."""
    for i in range(len(begins) - 1, -1, -1):
        beside = 0.0
        for j in range(len(ends) - 1, -1, -1):
            beside += work[i, j]
            work[i, j] = beside
            if i + 1 < len(begins):
                work[i, j] += work[i + 1, j]
            room = 0.0
            for kind in range(len(case.machines)):
                span = late - ends[j] - max(begins[i], case.boot[kind])
                offer = case.weight[resource, kind] / case.share[kind, resource]
                room += max(span, 0.0) * offer * case.machines[kind]
            if work[i, j] > room * ROUNDING:
                return True
    return False


MAX_SETS = 64
"""Subsets of a task's neighbours that are tried."""


@njit(cache=True)
def interval_excess(first: Any, last: Any, length: Any, begins: Any, processors: Any) -> Any:
    """Return how far the work of some interval exceeds what the processors can do in it.

    Fernandez and Bussell (1973). *first* and *last* are the earliest and latest starts in a plan as
    long as the critical path. For an interval that starts at one of *begins*, a task contributes
    the part of its *length* that lies inside however far it is shifted. That part is zero up to
    some end of the interval and then grows up to another; so intervals need to end only at the
    latter.
    """
    count, worst = len(length), 0.0
    rises, stops = np.empty(count), np.empty(count)
    for begin in begins:
        used = 0
        for task in range(count):
            overlap = min(length[task], first[task] + length[task] - begin)
            # A task counts with the least part that must lie inside, however far it is shifted.
            if overlap > 0.0:
                rises[used] = max(last[task], begin)
                stops[used] = rises[used] + overlap
                used += 1
        rise_times, stop_times = np.sort(rises[:used]), np.sort(stops[:used])
        # Both ends are sorted, so the overlap with all intervals is found in one sweep.
        rising_count, sum_up, sum_down = 0, 0.0, 0.0
        for stopped in range(used):
            end = stop_times[stopped]
            while rising_count < used and rise_times[rising_count] < end:
                sum_up += rise_times[rising_count]
                rising_count += 1
            rising = rising_count - stopped
            overlap = rising * end - sum_up + sum_down
            worst = max(worst, overlap / processors - (end - begin))
            sum_down += end
    return worst


@njit(cache=True)
def equal_task_times(pace: Any, count: Any) -> Any:
    """Return the shortest times in which the processors do 1 to *count* tasks of work 1."""
    # Greedy choice is optimal, because the tasks are equal.
    times, ends = np.empty(count), pace.copy()
    for i in range(count):
        place = np.argmin(ends)
        times[i] = ends[place]
        ends[place] += pace[place]
    return times


@njit(cache=True)
def joint_time(tasks: Any, work: Any, fastest: Any, unit: Any, processors: Any) -> Any:
    """Return the least time of *tasks* that start together and wait for nothing."""
    longest, total = 0.0, 0.0
    for task in tasks:
        longest = max(longest, fastest[task])
        total += fastest[task]
    falling = np.sort(work[tasks])[::-1]
    # i + 1 tasks have at least the work falling[i], so they take at least as long as i + 1 equal
    # tasks of this work.
    for i in range(len(falling)):
        longest = max(longest, falling[i] * unit[i])
    return max(longest, total / processors)


@njit(cache=True)
def earliest_starts(
    order: Any, start: Any, parent_of: Any, work: Any, fastest: Any, unit: Any, processors: Any
) -> Any:
    """Return the least time from the start to each task of *order*.

    Of the predecessors of a task, the k with the longest paths start no earlier than the shortest
    of these paths and run together; the best k is taken. If there are many, only some k are tried.
    """
    starts = np.zeros(len(order))
    for task in order:
        parents = parent_of[start[task] : start[task + np.uint64(1)]]
        count = len(parents)
        keys = np.empty(count)
        for i in range(count):
            keys[i] = starts[parents[i]]
        order_of_keys, sorted_parents = falling(keys), np.empty_like(parents)
        for i in range(count):
            sorted_parents[i] = parents[order_of_keys[i]]
        step = max(1, count // MAX_SETS)
        for used in range(1, count + 1):
            if used == count or used % step == 0:
                joint = joint_time(sorted_parents[:used], work, fastest, unit, processors)
                starts[task] = max(starts[task], starts[sorted_parents[used - 1]] + joint)
            else:
                alone = starts[sorted_parents[used - 1]] + fastest[sorted_parents[used - 1]]
                starts[task] = max(starts[task], alone)
    return starts
