"""What the kernels that search for plans do, written for reading."""

from __future__ import annotations

from schedule import naive_listing
from zenturio.schedule.static.genetic import FREE


def links(problem):
    """For each task what it waits for, with the bytes that it gets."""
    flow = problem.workflow
    found = [[] for _ in range(problem.tasks)]
    for a, b, data in zip(
        flow.sources.tolist(), flow.targets.tolist(), flow.data.tolist(), strict=True
    ):
        found[b].append((a, data))
    return found


def arrives(problem, data, end, here, there):
    """When data of a task that ends on *here* are on *there*; added in the order of the kernel."""
    if problem.node[here] == problem.node[there]:
        return end
    a, b = problem.site[here], problem.site[there]
    return end + problem.latency[a, b] + data * problem.slowness[a, b]


def common(problem, group):
    """The processors on which all tasks of *group* can run."""
    members = [task for task in range(problem.tasks) if problem.group[task] == group]
    fits = [set(naive_listing.fits(problem, task)) for task in members]
    return sorted(set.intersection(*fits))


def decode(problem, order, genes, ways):
    """Place, start and end of each task, put into the first gap that fits, in *order*."""
    place, start, end, home = {}, {}, {}, {}

    def begin_of(task, where):
        ready, length = 0.0, problem.time(task, where)
        for parent, data in ways[task]:
            ready = max(ready, arrives(problem, data, end[parent], place[parent], where))
        if not length:
            return ready
        taken = sorted((start[t], end[t]) for t in place if place[t] == where and end[t] > start[t])
        for begin, stop in taken:
            if ready + length <= begin:
                return ready
            ready = max(ready, stop)
        return ready

    for task in map(int, order):
        group = int(problem.group[task])
        if group not in home:
            home[group] = int(genes[group])
        if home[group] == FREE:
            ends = [
                (begin_of(task, where) + problem.time(task, where), where)
                for where in common(problem, group)
            ]
            home[group] = min(ends)[1]
        where = home[group]
        begin = begin_of(task, where)
        place[task], start[task], end[task] = where, begin, begin + problem.time(task, where)
    return place, start, end


def crowding(first, last, length, begins, processors):
    """By how much the work in some interval is too much: every pair of ends is tried."""
    worst = 0.0
    for begin in begins:
        ends = {max(b, begin) + p for b, p in zip(last, length, strict=True)}
        ends |= {
            max(b, begin) + max(0, a + p - begin)
            for a, b, p in zip(first, last, length, strict=True)
        }
        for end in ends:
            inside = sum(
                max(0, min(p, a + p - begin, end - b, end - begin))
                for a, b, p in zip(first, last, length, strict=True)
            )
            worst = max(worst, inside / processors - (end - begin))
    return worst


def shortest(problem):
    """The makespan of the best plan, by trying every order and every place: for a few tasks."""
    ways = links(problem)
    best = float("inf")

    def go(order, place):
        nonlocal best
        if len(order) == problem.tasks:
            _, _, end = decode(problem, order, place, ways)
            best = min(best, max(end.values(), default=0.0))
            return
        for task in range(problem.tasks):
            if task in order or any(parent not in order for parent, _ in ways[task]):
                continue
            group = int(problem.group[task])
            for where in [place[group]] if group in place else common(problem, group):
                go([*order, task], {**place, group: where})

    go([], {})
    return best
