"""Fronts of plans for several goals: MOHEFT, and an evolutionary search that begins with it."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.errors import InputError
from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.evaluation import evaluate, topological_orders
from zenturio.schedule.model.metrics import METRICS, MetricCalculator, metric, metrics
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Floats
from zenturio.schedule.static.constrained import budget_plan, cheapest_plan
from zenturio.schedule.static.genetic import start_order
from zenturio.schedule.static.list_scheduling import (
    heft,
    mean_delays,
    mean_times,
    upward_ranks,
)
from zenturio.schedule.static.metric_search import PlacementGroups
from zenturio.schedule.static.partial_plans import Ints, PartialPlans
from zenturio.schedule.static.tabu_search import Tabu, TabuSettings, can_insert
from zenturio.settings.schema import setting

_TABU_MOVES = 2000
"""Moves of the search for the short end of the front."""
_BUDGETS = 5
"""Plans for budgets between the least cost and that of HEFT."""


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
    remaining = np.arange(len(losses))
    chosen: list[int] = []
    while len(remaining) and len(chosen) < count:
        front = remaining[nondominated(losses[remaining])]
        # Copies of a row come last: they add nothing.
        spread = front[np.argsort(-_crowding(losses[front]), kind="stable")]
        chosen += spread[: count - len(chosen)].tolist()
        remaining = np.setdiff1d(remaining, front)
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
    seconds: float | None = setting(
        None, "time limit of the evolution, in place of generations; runs may differ", low=0.1
    )
    deadline: float | None = setting(
        None,
        "return the plan that ends in these seconds and is best by the second objective",
        low=0,
    )
    budget: float | None = setting(
        None, "return the shortest plan that costs no more than this", low=0
    )


class Moheft:
    """Find plans that are best for several goals: a front by MOHEFT, then by evolution.

    MOHEFT keeps several partial plans. For each task, it extends them by each processor, and keeps
    the non-dominated and least crowded plans. An evolutionary search of placements (NSGA-II) then
    improves them. The notes have the front. The algorithm returns the shortest plan of the front,
    or with a deadline or a budget the best plan that keeps it. Good for clouds, where machine time
    has a price. Not good for thousands of tasks. Cost: tasks x width x processors, then population
    x generations x edges. J. Durillo, R. Prodan: Multi-objective workflow scheduling in Amazon EC2.
    Cluster Computing 17(2), 2014.
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
        started = monotonic()
        if not problem.tasks:
            empty = np.zeros(0, np.int32)
            return [evaluate(problem, empty, empty, "moheft")], np.zeros((1, len(self._names)))
        gauge, groups = MetricCalculator(problem), PlacementGroups(problem)
        rng = np.random.default_rng(self._seed)
        orders, placements = self._first(problem, groups, rng)
        losses = self._losses(gauge, groups, placements, orders)
        generation = 0
        while not self._has_ended(generation, started):
            generation += 1
            parents = rng.integers(len(placements), size=(2, self._settings.population))
            children = groups.children(placements, parents, rng)
            # A child has the order of its first parent.
            child_orders = orders[parents[0]]
            losses = np.concatenate([losses, self._losses(gauge, groups, children, child_orders)])
            survivors = selected(losses, self._settings.population)
            losses = losses[survivors]
            placements = np.concatenate([placements, children])[survivors]
            orders = np.concatenate([orders, child_orders])[survivors]
        best = np.flatnonzero(nondominated(losses))
        best = best[np.lexsort(losses[best].T[::-1])]
        plans = [
            evaluate(problem, placements[i][groups.of_task], orders[i], "moheft") for i in best
        ]
        return plans, losses[best]

    def _has_ended(self, generation: int, started: float) -> bool:
        settings = self._settings
        if settings.seconds is not None:
            return monotonic() - started >= settings.seconds
        return generation >= settings.generations

    def _first(
        self, problem: Problem, groups: PlacementGroups, rng: np.random.Generator
    ) -> tuple[Ints, Ints]:
        """Return the first orders and placements: MOHEFT, and plans that are best for one goal."""
        rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
        order = topological_orders(problem, -rank).astype(np.int64)
        partial = PartialPlans(problem, self._names)
        for task in order.tolist():
            grown = partial.extensions(task)
            chosen = selected(partial.losses(task, grown), self._settings.width)
            partial.keep(task, grown, chosen)
        rows = [*partial.places[:, groups.first], groups.cheapest()]
        orders = [order] * len(rows)
        for plan in self._single_goal_plans(problem):
            rows.append(plan.processor[groups.first])
            orders.append(start_order(plan).astype(np.int64))
        missing = self._settings.population - len(rows)
        if missing > 0 and self._evolves:
            rows += list(groups.random(missing, rng))
            orders += [order] * missing
        return np.array(orders, np.int64), np.array(rows, np.int64)

    @property
    def _evolves(self) -> bool:
        return bool(self._settings.generations) or self._settings.seconds is not None

    def _single_goal_plans(self, problem: Problem) -> list[Plan]:
        """Return the plan of HEFT; for an evolution, also a shorter one, and some for budgets."""
        shortest = heft(problem)
        if not self._evolves:
            return [shortest]
        plans = [shortest]
        if can_insert(problem):
            plans.append(Tabu(TabuSettings(moves=_TABU_MOVES), self._seed).plan(problem))
        if "cost" in self._names:
            most, least = metrics(shortest)["cost"], metrics(cheapest_plan(problem))["cost"]
            budgets = np.linspace(least, max(most, least), _BUDGETS)
            plans += [budget_plan(problem, float(budget)) for budget in budgets]
        return plans

    def _losses(
        self, gauge: MetricCalculator, groups: PlacementGroups, placements: Ints, orders: Ints
    ) -> Floats:
        values = gauge.all(placements[:, groups.of_task], orders)
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
