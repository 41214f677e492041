"""Fronts of plans for several goals: MOHEFT, and an evolutionary search that begins with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.evaluation import evaluate, topological_orders
from zenturio.schedule.model.metrics import METRICS, MetricCalculator, metric
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Floats, Indices
from zenturio.schedule.static.list_scheduling import (
    heft,
    mean_delays,
    mean_times,
    upward_ranks,
)
from zenturio.schedule.static.metric_search import PlacementGroups
from zenturio.settings.schema import setting

Ints = NDArray[np.int64]
_GOALS_OF_PARTIAL_PLANS = ("makespan", "cost", "energy")


def nondominated(losses: Floats) -> NDArray[np.bool_]:
    """Return which rows of *losses* no other row dominates; of equal rows, only the first."""
    best = np.ones(len(losses), bool)
    if losses.shape[1] == 2:
        # Sorted by the first goal, each row has to beat all before it by the second.
        order = np.lexsort((losses[:, 1], losses[:, 0]))
        least = np.minimum.accumulate(losses[order, 1])
        best[order[1:]] = losses[order[1:], 1] < least[:-1]
        return best
    for i, row in enumerate(losses):
        no_worse = (losses <= row).all(axis=1)
        equal = (losses == row).all(axis=1)
        dominators = no_worse & ~equal
        best[i] = not dominators.any() and not equal[:i].any()
    return best


def selected(losses: Floats, count: int) -> Ints:
    """Return the indices of the best *count* rows: front by front, the least crowded first."""
    left = np.arange(len(losses))
    chosen: list[int] = []
    while len(left) and len(chosen) < count:
        front = left[nondominated(losses[left])]
        # Copies of a row come last: they add nothing.
        spread = front[np.argsort(-_crowding(losses[front]), kind="stable")]
        chosen += spread[: count - len(chosen)].tolist()
        left = np.setdiff1d(left, front)
    return np.array(chosen, np.int64)


def _crowding(losses: Floats) -> Floats:
    """Return the distance of each row to its neighbours on the front; the ends are infinite."""
    distance = np.zeros(len(losses))
    for column in losses.T:
        order = np.argsort(column, kind="stable")
        span = column[order[-1]] - column[order[0]]
        distance[order[[0, -1]]] = np.inf
        if span > 0 and len(order) > 2:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / span
    return distance


@dataclass(frozen=True)
class MoheftSettings:
    objectives: str = setting("makespan+cost", f"two or more, joined by +: {', '.join(METRICS)}")
    width: int = setting(20, "plans that are kept after each task", low=2)
    generations: int = setting(
        150, "generations of the evolutionary search; 0: MOHEFT alone", low=0
    )
    population: int = setting(60, "plans in its population", low=4)
    deadline: float | None = setting(None, "the best by the second objective until then", low=0)
    budget: float | None = setting(None, "the shortest plan that costs no more", low=0)


class Moheft:
    """Find plans that are best for several goals: a front by MOHEFT, then by evolution.

    MOHEFT extends some partial plans, task by task, by each processor, and keeps those that are not
    dominated and least crowded. An evolutionary search of placements (NSGA-II) goes on from there.
    The notes have the front. Returned is its shortest plan; with a deadline or a budget the best
    that keeps it. For clouds, where time has a price. Not for thousands of tasks. Cost: tasks x
    width x processors, then population x generations x edges. J. Durillo, R. Prodan:
    Multi-objective workflow scheduling in Amazon EC2. Cluster Computing 17(2), 2014.
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[MoheftSettings]] = MoheftSettings

    def __init__(self, settings: MoheftSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or MoheftSettings()
        self._seed = seed
        self._names = self._settings.objectives.split("+")
        for name in self._names:
            metric(name)
        if len(set(self._names)) < max(len(self._names), 2):
            raise InputError(
                f"objectives={self._settings.objectives}: two or more", hint="makespan+cost"
            )

    def plan(self, problem: Problem) -> Plan:
        plans, losses = self.front(problem)
        signs = _signs(self._names)
        front = [dict(zip(self._names, (row * signs).tolist(), strict=True)) for row in losses]
        chosen = plans[self._choice(losses)]
        return Plan(problem, "moheft", chosen.processor, chosen.start, chosen.end, {"front": front})

    def front(self, problem: Problem) -> tuple[list[Plan], Floats]:
        """Return the plans of the front, by the first objective, and their losses."""
        rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
        order = topological_orders(problem, -rank)
        if not problem.tasks:
            return [evaluate(problem, order, order, "moheft")], np.zeros((1, len(self._names)))
        gauge, groups = MetricCalculator(problem), PlacementGroups(problem)
        rng = np.random.default_rng(self._seed)
        placements = self._first(problem, order, groups, rng)
        losses = self._losses(gauge, groups, placements, order)
        for _ in range(self._settings.generations):
            parents = rng.integers(len(placements), size=(2, self._settings.population))
            children = groups.children(placements, parents, rng)
            placements = np.concatenate([placements, children])
            child_losses = self._losses(gauge, groups, children, order)
            losses = np.concatenate([losses, child_losses])
            survivors = selected(losses, self._settings.population)
            placements, losses = placements[survivors], losses[survivors]
        best = np.flatnonzero(nondominated(losses))
        best = best[np.lexsort(losses[best].T[::-1])]
        plans = [evaluate(problem, placements[i][groups.of_task], order, "moheft") for i in best]
        return plans, losses[best]

    def _first(
        self, problem: Problem, order: Indices, groups: PlacementGroups, rng: np.random.Generator
    ) -> Ints:
        """Return the placements of MOHEFT, of HEFT, and the cheapest one."""
        partial = _PartialPlans(problem, self._names, self._settings.width)
        for task in order.tolist():
            partial.extend(task)
        rows = [*partial.places[:, groups.first], heft(problem).processor[groups.first]]
        rows.append(groups.cheapest())
        if self._settings.generations:
            rows += list(groups.random(max(self._settings.population - len(rows), 0), rng))
        return np.array(rows, np.int64)

    def _losses(
        self, gauge: MetricCalculator, groups: PlacementGroups, placements: Ints, order: Indices
    ) -> Floats:
        values = gauge.all(placements[:, groups.of_task], order)
        losses = np.stack([values[name] for name in self._names], axis=1) * _signs(self._names)
        return np.where(np.isfinite(losses), losses, np.inf)

    def _choice(self, losses: Floats) -> int:
        """Return the plan of the front that keeps the deadline or the budget best."""
        settings, names = self._settings, self._names
        allowed = np.ones(len(losses), bool)
        for limit, name in ((settings.deadline, "makespan"), (settings.budget, "cost")):
            if limit is None:
                continue
            if name not in names:
                raise InputError(f"a limit of {name} needs it as an objective")
            column = losses[:, names.index(name)]
            allowed &= column <= limit * (1 + 1e-12)
            if not allowed.any():
                raise InputError(
                    f"no plan was found with {name} {limit:g}",
                    hint=f"the least {name} on the front is {column.min():g}",
                )
        ranked = np.flatnonzero(allowed)
        # A deadline leaves time to save money; otherwise the first objective counts.
        goal = 1 if settings.deadline is not None and names[0] == "makespan" else 0
        return int(ranked[np.argmin(losses[ranked, goal])])


def _signs(names: list[str]) -> Floats:
    return np.array([1.0 if metric(name).direction == "minimize" else -1.0 for name in names])


class _PartialPlans:
    """Plans of the tasks so far, a row for each: where they run, and what that costs."""

    def __init__(self, problem: Problem, names: list[str], width: int) -> None:
        self._problem = problem
        self._width = width
        self._names = [n for n in names if n in _GOALS_OF_PARTIAL_PLANS] or ["makespan"]
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

    def extend(self, task: int) -> None:
        """Add *task* to each plan on each processor, and keep the best of all these plans."""
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
        grown = _Extension(rows, processors, machines, begin, begin + length)
        losses = self._losses(task, grown)
        self._keep(task, grown, selected(losses, self._width))

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

    def _losses(self, task: int, grown: _Extension) -> Floats:
        """Return the goals of the plans with *task*."""
        on, off = self._on[grown.rows], self._off[grown.rows]
        index = np.arange(len(grown.rows))
        booted = grown.begin - self._facts[grown.machines, 3]
        on[index, grown.machines] = np.minimum(on[index, grown.machines], np.maximum(booted, 0.0))
        off[index, grown.machines] = np.maximum(off[index, grown.machines], grown.end)
        seconds = np.where(np.isfinite(on), off - np.where(np.isfinite(on), on, 0.0), 0.0)
        periods = np.maximum(np.ceil(seconds / self._facts[:, 2] - 1e-9), np.isfinite(on))
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

    def _keep(self, task: int, grown: _Extension, chosen: Ints) -> None:
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
class _Extension:
    """Partial plans with one more task: of which plan, where, and when."""

    rows: Ints
    processors: Ints
    machines: Any
    begin: Floats
    end: Floats
    cost: Any = None
    energy: Any = None
