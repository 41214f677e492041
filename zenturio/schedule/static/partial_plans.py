"""Plans of some of the tasks, extended task by task: where they run, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Floats

Ints = NDArray[np.int64]
GOALS_OF_PARTIAL_PLANS = ("makespan", "cost", "energy")


class PartialPlans:
    """Plans of the tasks so far, a row for each: where they run, and what that costs."""

    def __init__(self, problem: Problem, names: list[str]) -> None:
        self._problem = problem
        self._names = [n for n in names if n in GOALS_OF_PARTIAL_PLANS] or ["makespan"]
        machines = problem.platform.machines
        facts = [
            (m.cost, m.price, m.billing, m.boot, m.power_idle, m.power_busy, m.cores)
            for m in machines
        ]
        self._facts = np.array(facts, np.float64)
        self._cores = np.ones(problem.tasks)
        for task, description in problem.workflow.more.items():
            self._cores[task] = description.cores
        self.places = np.full((1, problem.tasks), -1, np.int64)
        self._ends = np.zeros((1, problem.tasks))
        self._free = np.zeros((1, problem.processors))
        self._on = np.full((1, len(machines)), np.inf)
        """When each machine is switched on, and off."""
        self._off = np.zeros((1, len(machines)))
        self._work_cost = np.zeros(1)
        self._work_energy = np.zeros(1)

    @property
    def cost(self) -> float:
        """The cost of the first plan."""
        on = np.where(np.isfinite(self._on), self._on, 0.0)
        seconds = np.where(np.isfinite(self._on), self._off - on, 0.0)
        periods = _started_periods(seconds, self._facts[:, 2], np.isfinite(self._on))
        return float(self._work_cost[0] + (periods @ self._facts[:, 1])[0])

    def extensions(self, task: int) -> Extension:
        """Return each plan with *task* on each processor that can run it."""
        problem = self._problem
        pace = problem.pace[problem.row[task]]
        possible = np.flatnonzero(np.isfinite(pace))
        rows = np.repeat(np.arange(len(self.places)), len(possible))
        processors = np.tile(possible, len(self.places))
        head = int(problem.group[task])
        if head != task and (self.places[:, head] >= 0).all():  # the group is placed already
            keep = processors == self.places[rows, head]
            rows, processors = rows[keep], processors[keep]
        begin = np.maximum(self._free[rows, processors], self._arrivals(task, rows, processors))
        length = problem.work[task] * pace[processors]
        machines = problem.node[processors]
        begin = np.maximum(begin, self._facts[machines, 3])
        return Extension(rows, processors, machines, begin, begin + length)

    def _arrivals(self, task: int, rows: Ints, processors: Ints) -> Floats:
        problem, before = self._problem, self._problem.before
        arrival = np.zeros(len(rows))
        for position in range(before.start[task], before.start[task + 1]):
            parent = int(before.task[position])
            data = float(problem.workflow.data[before.edge[position]])
            origin = self.places[rows, parent]
            one, other = problem.site[origin], problem.site[processors]
            delay = problem.latency[one, other] + data * problem.slowness[one, other]
            delay[problem.node[origin] == problem.node[processors]] = 0.0
            arrival = np.maximum(arrival, self._ends[rows, parent] + delay)
        return arrival

    def losses(self, task: int, grown: Extension) -> Floats:
        """Return the goals of the plans with *task*, a column for each."""
        on, off = self._on[grown.rows], self._off[grown.rows]
        index = np.arange(len(grown.rows))
        booted = grown.begin - self._facts[grown.machines, 3]
        on[index, grown.machines] = np.minimum(on[index, grown.machines], np.maximum(booted, 0.0))
        off[index, grown.machines] = np.maximum(off[index, grown.machines], grown.end)
        seconds = np.where(np.isfinite(on), off - np.where(np.isfinite(on), on, 0.0), 0.0)
        periods = _started_periods(seconds, self._facts[:, 2], np.isfinite(on))
        core_seconds = (grown.end - grown.begin) * self._cores[task]
        facts = self._facts[grown.machines]
        grown.cost = self._work_cost[grown.rows] + core_seconds * facts[:, 0]
        share = core_seconds / facts[:, 6] * (facts[:, 5] - facts[:, 4])
        grown.energy = self._work_energy[grown.rows] + share
        values = {
            "makespan": np.maximum(self._ends[grown.rows].max(axis=1), grown.end),
            "cost": grown.cost + periods @ self._facts[:, 1],
            "energy": grown.energy + seconds @ self._facts[:, 4],
        }
        return np.stack([values[name] for name in self._names], axis=1)

    def keep(self, task: int, grown: Extension, chosen: Ints) -> None:
        """Go on with the *chosen* rows of *grown*, whose losses were computed."""
        rows, processors = grown.rows[chosen], grown.processors[chosen]
        machines, index = grown.machines[chosen], np.arange(len(chosen))
        begin, end = grown.begin[chosen], grown.end[chosen]
        self.places, self._ends, self._free = self.places[rows], self._ends[rows], self._free[rows]
        self._on, self._off = self._on[rows], self._off[rows]
        self.places[index, task], self._ends[index, task] = processors, end
        self._free[index, processors] = np.maximum(self._free[index, processors], end)
        booted = np.maximum(begin - self._facts[machines, 3], 0.0)
        self._on[index, machines] = np.minimum(self._on[index, machines], booted)
        self._off[index, machines] = np.maximum(self._off[index, machines], end)
        self._work_cost, self._work_energy = grown.cost[chosen], grown.energy[chosen]


@dataclass
class Extension:
    """Partial plans with one more task: of which plan, where, and when."""

    rows: Ints
    processors: Ints
    machines: Any
    begin: Floats
    end: Floats
    cost: Any = None
    energy: Any = None


def _started_periods(seconds: Floats, billing: Floats, is_used: NDArray[np.bool_]) -> Floats:
    periods: Floats = np.maximum(np.ceil(seconds / billing - 1e-9), is_used)
    return periods
