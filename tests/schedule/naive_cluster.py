"""A cluster, as slow and plain as can be; and small workflows of moldable tasks."""

import numpy as np
from hypothesis import strategies as st

from zenturio.schedule.model.platform import (
    NetworkLink,
    Platform,
    PlatformMachine,
    RuntimeCurve,
    identical,
)
from zenturio.schedule.model.problem import MoldableProblem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

SECONDS = st.integers(1, 6).map(float) | st.floats(0.1, 9)


@st.composite
def curves(draw, nodes):
    counts = draw(st.sets(st.integers(1, nodes), min_size=1))
    return RuntimeCurve(tuple(sorted(counts)), tuple(draw(SECONDS) for _ in counts))


@st.composite
def tasks(draw, nodes, name):
    if draw(st.integers(0, 3)):
        return WorkflowTask(name, curve=draw(curves(nodes)))
    return WorkflowTask(name, draw(st.just(0.0) | SECONDS), cores=draw(st.integers(1, nodes)))


@st.composite
def problems(draw, most=8):
    """A few tasks on a few nodes, with data that take their time, or none."""
    nodes, count = draw(st.integers(1, 6)), draw(st.integers(1, most))
    names = [f"t{i}" for i in draw(st.permutations(range(count)))]
    pairs = [(a, b) for b in range(count) for a in range(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=10)) if pairs else []
    edges = [(names[a], names[b], draw(st.sampled_from([0.0, 1.0, 2.5]))) for a, b in chosen]
    flow = Workflow.of("drawn", [draw(tasks(nodes, f"t{i}")) for i in range(count)], edges)
    machines = tuple(PlatformMachine(f"n{i}") for i in range(nodes))
    link = draw(
        st.sampled_from([NetworkLink("", ""), NetworkLink("", "", bandwidth=1.0, latency=0.5)])
    )
    return MoldableProblem.of(flow, Platform("drawn", machines, default=link))


@st.composite
def queues(draw):
    """Many short and long rigid tasks that wait for nothing."""
    nodes = draw(st.integers(3, 8))
    sizes = st.integers(1, nodes)
    drawn = draw(st.lists(st.tuples(st.integers(0, 6), sizes), min_size=4, max_size=12))
    jobs = [
        WorkflowTask(f"t{i}", float(work), cores=cores) for i, (work, cores) in enumerate(drawn)
    ]
    return MoldableProblem.of(Workflow.of("queue", jobs), identical(nodes))


@st.composite
def molded(draw):
    """A problem, a number of nodes for each of its tasks, and an order of submission."""
    problem = draw(problems() | queues())
    counts = [draw(st.sampled_from(problem.possible[row].tolist())) for row in problem.row]
    order = draw(st.none() | st.permutations(range(problem.tasks)))
    return problem, np.array(counts), None if order is None else np.array(order)


def times(problem, counts, discipline="fifo", order=None):
    """When each task starts and ends: moment by moment, looking at everything again."""
    flow = problem.workflow
    order = problem.order if order is None else order
    now, day = 0.0, Day(problem, counts)
    while len(day.ended) < problem.tasks:
        day.ended |= {task for task in day.end if day.end[task] <= now}
        ready = {}
        for task in range(problem.tasks):
            edges = [e for e, child in enumerate(flow.targets) if child == task]
            if task not in day.start and all(flow.sources[e] in day.ended for e in edges):
                data = [day.end[flow.sources[e]] + problem.delay[e] for e in edges]
                ready[task] = max(data, default=0.0)
        held = [task for task in ready if ready[task] > now]
        queue = [int(task) for task in order if task in ready and ready[task] <= now]
        getattr(day, discipline)(queue, now)
        later = [day.end[task] for task in day.end if task not in day.ended]
        now = min(later + [ready[task] for task in held], default=now)
    return [[times[t] for t in range(problem.tasks)] for times in (day.start, day.end)]


class Day:
    """What has happened on the cluster."""

    def __init__(self, problem, counts):
        self.nodes, self.counts = problem.nodes, counts
        self.lasts = [problem.time(task, counts[task]) for task in range(problem.tasks)]
        self.start, self.end, self.ended = {}, {}, set()

    def begin(self, task, when):
        self.start[task], self.end[task] = when, when + self.lasts[task]

    @property
    def running(self):
        return [task for task in self.start if task not in self.ended]

    def free(self, until=None):
        """How many nodes are free now, or once all has ended that ends until then."""
        left = [task for task in self.running if until is None or self.end[task] > until]
        return self.nodes - sum(self.counts[task] for task in left)

    def fifo(self, queue, now):
        while queue and self.counts[queue[0]] <= self.free():
            self.begin(queue.pop(0), now)

    def easy(self, queue, now):
        self.fifo(queue, now)
        if not queue:
            return
        need = self.counts[queue[0]]
        when = min(self.end[t] for t in self.running if self.free(self.end[t]) >= need)
        for task in queue[1:]:
            if self.counts[task] <= self.free():
                self.begin(task, now)
                if self.end[task] > when and self.free(when) < need:
                    del self.start[task], self.end[task]

    def conservative(self, queue, now):
        for task in queue:
            for when in sorted({now} | {end for end in self.end.values() if end > now}):
                stop = when + self.lasts[task]
                moments = [when] + [s for s in self.start.values() if when < s < stop]
                if max(map(self.used, moments)) + self.counts[task] <= self.nodes:
                    break
            self.begin(task, when)

    def used(self, moment):
        return sum(self.counts[t] for t in self.start if self.start[t] <= moment < self.end[t])
