"""List algorithms written for reading: no gap is remembered, everything is asked of the plan."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st

from schedule import naive
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask


def arrival(problem, task, where, place, end):
    """When all data of *task* are on *where*."""
    ready = 0.0
    for parent, edge in zip(problem.before.of(task), edges_of(problem, task), strict=True):
        data = problem.workflow.data[edge]
        ready = max(ready, end[parent] + problem.transfer(data, place[parent], where))
    return ready


def edges_of(problem, task):
    before = problem.before
    return before.edge[before.start[task] : before.start[task + 1]]


def first_gap(problem, task, where, place, start, end):
    """The first start on *where* at which *task* is in nobody's way."""
    ready, length = arrival(problem, task, where, place, end), problem.time(task, where)
    busy = sorted((start[t], end[t]) for t in place if place[t] == where)
    free = 0.0
    for begin, stop in busy:
        if begin > free and begin - free >= length and max(free, ready) + length <= begin:
            return max(free, ready)
        free = stop
    return max(free, ready)


def fits(problem, task):
    return [
        p for p in range(problem.processors) if math.isfinite(problem.pace[problem.row[task], p])
    ]


def put(problem, order, home=None, ahead=None):
    """Each task of *order* where its end, and what is *ahead*, are least."""
    place, start, end = {}, {}, {}
    home = dict(enumerate([-1] * problem.tasks if home is None else home))
    for task in order:
        task = int(task)
        group = int(problem.group[task])
        found = {}
        for where in fits(problem, task) if home[group] < 0 else [home[group]]:
            begin = first_gap(problem, task, where, place, start, end)
            more = 0.0 if ahead is None else ahead[task][where]
            stop = begin + problem.time(task, where)
            found[where] = (stop + more, where, begin, stop)
        _, where, begin, stop = min(found.values())
        place[task], start[task], end[task] = where, begin, stop
        home[group] = where
    return place, start, end


def mean_time(problem, task):
    times = [problem.time(task, where) for where in fits(problem, task)]
    return sum(times) / len(times)


def mean_delay(problem, data):
    """Over all pairs of processors of two machines, exactly."""
    pairs = [
        Fraction(problem.transfer(data, a, b))
        for a in range(problem.processors)
        for b in range(problem.processors)
        if problem.node[a] != problem.node[b]
    ]
    return float(sum(pairs) / len(pairs)) if pairs else 0.0


def upward(problem, task):
    longest = 0.0
    flow = problem.workflow
    for a, b, data in zip(flow.sources, flow.targets, flow.data, strict=True):
        if a == task:
            longest = max(longest, mean_delay(problem, data) + upward(problem, int(b)))
    return mean_time(problem, task) + longest


@st.composite
def problems(draw, tasks=(1, 9), machines=(1, 4)):
    """Problems in which some tasks share a machine, and some cannot run everywhere.

    All times are sums of powers of two, which are the same in whatever order they are added.
    """
    flow, platform = draw(naive.flows(tasks)), draw(naive.platforms(machines))
    machines = [replace(each, speed=min(each.speed, 2.0)) for each in platform.machines]
    platform = replace(platform, machines=tuple(machines))
    first = draw(st.integers(0, len(platform) - 1))  # every task can run on it

    def changed(task):
        shared = draw(st.sampled_from(["", "", "", "one", "other"]))
        times = st.sampled_from([1.0, 2.0, 3.0, 5.0, math.inf])
        if not draw(st.booleans()):
            return WorkflowTask(task.name, task.work, machine=shared)
        own = [draw(times if i != first else st.just(2.0)) for i in range(len(platform))]
        return WorkflowTask(task.name, times=tuple(own), machine=shared)

    made = [changed(task) for task in flow.tasks]
    return Problem.of(Workflow.of("drawn", made, list(flow.edges)), platform)


def pick(problem, rule):
    """Of all ready tasks the one that *rule* says, where it ends first behind what is there."""
    place, start, end, home = {}, {}, {}, {}
    free = [0.0] * problem.processors
    while len(place) < problem.tasks:
        offers = []
        for task in range(problem.tasks):
            if task in place or any(other not in place for other in problem.before.of(task)):
                continue
            group = problem.group[task]
            ends = []
            for where in [home[group]] if group in home else fits(problem, task):
                begin = max(free[where], arrival(problem, task, where, place, end))
                ends.append((begin + problem.time(task, where), where, begin))
            ends.sort()
            later = ends[1][0] if len(ends) > 1 else math.inf
            merit = {"min-min": -ends[0][0], "max-min": ends[0][0], "sufferage": later - ends[0][0]}
            offers.append((-merit[rule], task, ends[0]))
        _, task, (stop, where, begin) = min(offers)
        place[task], start[task], end[task] = where, begin, stop
        free[where], home[problem.group[task]] = stop, where
    return place, start, end


def optimistic(problem, task, where):
    """How long what follows *task* takes at best, if that runs on *where*."""
    flow, longest = problem.workflow, 0.0
    for a, b, data in zip(flow.sources, flow.targets, flow.data, strict=True):
        if a == task:
            near = [problem.node[p] == problem.node[where] for p in range(problem.processors)]
            costs = [
                optimistic(problem, b, p)
                + problem.time(b, p)
                + (0.0 if near[p] else mean_delay(problem, data))
                for p in fits(problem, b)
            ]
            longest = max(longest, min(costs))
    return longest


def through(problem, task):
    """The longest way through *task*."""
    flow, longest = problem.workflow, 0.0
    for a, b, data in zip(flow.sources, flow.targets, flow.data, strict=True):
        if b == task:
            before = through(problem, a) - upward(problem, a) + mean_time(problem, a)
            longest = max(longest, before + mean_delay(problem, data))
    return longest + upward(problem, task)
