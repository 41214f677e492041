"""DCP and xDCP written for reading: queues are lists, and all is found anew by recursion."""

from __future__ import annotations

import math
from functools import cache

from schedule.naive_listing import edges_of, fits, mean_delay, mean_time
from zenturio.schedule.static.batch_mode import shuffle_placement

NOISE = 1e-9


class Table:
    """Tasks in queues, and what follows for their times."""

    def __init__(self, problem, queues, printed=False):
        self.problem, self.queues, self.printed = problem, queues, printed
        self.tasks = range(problem.tasks)
        self.place = {task: where for where, queue in enumerate(queues) for task in queue}
        self.early, self.late = cache(self._early), cache(self._late)
        self.whole = 0.0
        self.whole = max(map(self.early, self.tasks), default=0.0)

    def span(self, task, where=None):
        where = self.place.get(task) if where is None else where
        return mean_time(self.problem, task) if where is None else self.problem.time(task, where)

    def lag(self, edge, here, there):
        data = float(self.problem.workflow.data[edge])
        if here is None or there is None:
            return mean_delay(self.problem, data)
        return self.problem.transfer(data, here, there)

    def parents(self, task):
        edges = edges_of(self.problem, task)
        return [(int(self.problem.workflow.sources[edge]), edge) for edge in edges]

    def children(self, task):
        flow = self.problem.workflow
        return [(int(flow.targets[e]), e) for e in range(len(flow.data)) if flow.sources[e] == task]

    def beside(self, task, step):
        """The task before (-1) or after (1) it in its queue."""
        if task not in self.place:
            return None
        queue = self.queues[self.place[task]]
        at = queue.index(task) + step
        return queue[at] if 0 <= at < len(queue) else None

    def arrival(self, task, where, but=None):
        return max(
            (
                self.early(p) + self.lag(e, self.place.get(p), where)
                for p, e in self.parents(task)
                if p != but
            ),
            default=0.0,
        )

    def _early(self, task):
        prior = self.beside(task, -1)
        ready = max(
            self.arrival(task, self.place.get(task)), 0.0 if prior is None else self.early(prior)
        )
        return ready + self.span(task)

    def _late(self, task):
        return self.deadline(task, self.place.get(task), self.beside(task, 1))

    def deadline(self, task, where, behind):
        bounds = [
            self.late(c) - self.span(c) - self.lag(e, where, self.place.get(c))
            for c, e in self.children(task)
        ]
        if behind is not None:
            bounds.append(self.late(behind) - self.span(behind))
        if not bounds:
            return self.whole
        return max(bounds) if self.printed else min([self.whole, *bounds])

    def after(self, task):
        """All that must run after *task*."""
        found, ahead = set(), [task]
        while ahead:
            one = ahead.pop()
            behind = self.beside(one, 1)
            for other in [c for c, _ in self.children(one)] + ([] if behind is None else [behind]):
                if other not in found:
                    found.add(other)
                    ahead.append(other)
        return found

    def slot(self, task, where):
        """Whether a slot keeps the whole, its place in the queue, and when the task ends there."""
        queue, span = self.queues[where], self.span(task, where)
        ready, later = self.arrival(task, where), self.after(task)
        first = max(
            (i + 1 for i, other in enumerate(queue) if task in self.after(other)), default=0
        )
        last = min((i for i, other in enumerate(queue) if other in later), default=len(queue))
        for at in range(first, last + 1):
            free = self.early(queue[at - 1]) if at else 0.0
            behind = queue[at] if at < len(queue) else None
            room = self.deadline(task, where, behind) - (free if self.printed else max(free, ready))
            if room >= span - NOISE * self.whole:
                return True, at, max(free, ready) + span
        return False, last, max(self.early(queue[last - 1]) if last else 0.0, ready) + span

    def urgent(self, left, level):
        def key(task):
            spare = self.late(task) - self.early(task)
            return (
                0.0 if spare <= NOISE * self.whole else spare,
                level[task],
                self.early(task),
                task,
            )

        return min(left, key=key)

    def starts(self):
        return [self.early(task) - self.span(task) for task in self.tasks]


def dcp(problem):
    queues = [[] for _ in range(problem.processors)]
    left, home = list(range(problem.tasks)), {}
    while left:
        table = Table(problem, queues)
        task = table.urgent(left, [0] * problem.tasks)
        left.remove(task)
        free = [c for c, _ in table.children(task) if c in left]
        child = min(free, key=lambda c: table.late(c) - table.early(c)) if free else None
        best = None
        group = problem.group[task]
        for where in [home[group]] if group in home else fits(problem, task):
            kept, at, end = table.slot(task, where)
            total = end - table.span(task, where)
            if child is not None:
                total += max(end, table.arrival(child, where, but=task))
            if (
                best is None
                or (kept and not best[0])
                or (kept == best[0] and total < best[1] - NOISE * table.whole)
            ):
                best = kept, total, where, at
        queues[best[2]].insert(best[3], task)
        home[group] = best[2]
    table = Table(problem, queues)
    return [table.place[task] for task in table.tasks], table.starts()


def xdcp(problem, printed):
    queues = [[] for _ in range(problem.processors)]
    for task in problem.order.tolist():
        queues[int(shuffle_placement(problem)[task])].append(task)
    lengths = [Table(problem, queues, printed).whole]
    while len(lengths) < 2 or lengths[-1] < 0.95 * lengths[-2]:
        lengths.append(_round(problem, queues, printed))
    table = Table(problem, queues)
    return [table.place[task] for task in table.tasks], table.starts(), lengths


def _round(problem, queues, printed):
    left = list(range(problem.tasks))
    while left:
        table = Table(problem, queues, printed)
        task = table.urgent(left, problem.workflow.level)
        left.remove(task)
        home = table.place[task]
        best = math.inf, home, queues[home].index(task)
        queues[home].remove(task)
        without = Table(problem, queues, printed)
        without.whole = table.whole
        without.late = cache(without._late)
        alone = sum(problem.group == problem.group[task]) == 1
        for where in fits(problem, task) if alone else [home]:
            kept, at, end = without.slot(task, where)
            if kept and end < best[0] - NOISE * table.whole:
                best = end, where, at
        queues[best[1]].insert(best[2], task)
    return Table(problem, queues, printed).whole
