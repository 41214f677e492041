"""What the kernels compute, written for reading; and problems drawn at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask


def times(problem, processor, order):
    """Starts and ends, where each processor runs its tasks in *order*."""
    free = [0.0] * problem.processors
    start, end = {}, {}
    edges = list(
        zip(problem.workflow.sources, problem.workflow.targets, problem.workflow.data, strict=True)
    )
    for task in order:
        begin = free[processor[task]]
        for source, target, data in edges:
            if target == task:
                moved = problem.transfer(data, processor[source], processor[task])
                begin = max(begin, end[source] + moved)
        start[task], end[task] = begin, begin + problem.time(task, processor[task])
        free[processor[task]] = end[task]
    count = range(problem.tasks)
    return [start[i] for i in count], [end[i] for i in count]


def order_by(problem, rank):
    """Of the ready tasks, always that of the lowest rank."""
    done = []
    while len(done) < problem.tasks:
        ready = [
            task
            for task in range(problem.tasks)
            if task not in done and all(other in done for other in problem.before.of(task))
        ]
        done.append(min(ready, key=lambda task: (rank[task], task)))
    return done


def platforms(machines=(1, 4), same=False):
    """A few machines at up to three sites, with cores and links of all kinds."""

    @st.composite
    def draw(draw):
        count = draw(st.integers(*machines))
        speed = st.just(1.0) if same else st.sampled_from([0.5, 1.0, 2.0, 4.0])
        made = tuple(
            PlatformMachine(
                f"m{i}",
                draw(speed),
                cores=draw(st.integers(1, 2)),
                site=draw(st.sampled_from(["", "a", "b"])),
                cost=draw(st.sampled_from([0.0, 0.25, 2.0])),
            )
            for i in range(count)
        )
        default = NetworkLink(
            "",
            "",
            draw(st.sampled_from([0.5, 8.0, float("inf")])),
            draw(st.sampled_from([0.0, 0.5])),
        )
        return Platform("drawn", made, default=default)

    return draw()


@st.composite
def flows(draw, tasks=(1, 8)):
    """Tasks in some order, and any edges from an earlier to a later one of them."""
    count = draw(st.integers(*tasks))
    work = st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0])
    named = draw(st.permutations(range(count)))
    edges = [
        (f"t{named[a]}", f"t{named[b]}", draw(st.sampled_from([0.0, 1.0, 4.0])))
        for b in range(count)
        for a in range(b)
        if draw(st.integers(0, 2)) == 0
    ]
    return Workflow.of("drawn", [WorkflowTask(f"t{i}", draw(work)) for i in range(count)], edges)


@st.composite
def problems(draw, tasks=(1, 8), machines=(1, 4)):
    return Problem.of(draw(flows(tasks)), draw(platforms(machines)))


@st.composite
def planned(draw, tasks=(1, 8), machines=(1, 4)):
    """A problem, a processor for each task, and an order."""
    problem = draw(problems(tasks, machines))
    where = st.integers(0, problem.processors - 1)
    processor = draw(st.lists(where, min_size=problem.tasks, max_size=problem.tasks))
    rank = draw(st.permutations(range(problem.tasks)))
    return problem, np.array(processor), np.array(order_by(problem, rank))


def tagged(problem, task, tag="gpu"):
    """*problem*, whose first machine alone can run *task*."""
    flow, platform = problem.workflow, problem.platform
    tasks = [replace(each, tag=tag) if i == task else each for i, each in enumerate(flow.tasks)]
    first = replace(platform.machines[0], tags=frozenset({tag}))
    changed = replace(platform, machines=(first, *platform.machines[1:]))
    return Problem.of(Workflow.of(flow.name, tasks, list(flow.edges)), changed)
