"""The genetic algorithm to use: seeded, memetic, anytime."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar

import numpy as np

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.algorithms.cpop import Cpop
from zenturio.schedule.algorithms.heft import Heft
from zenturio.schedule.algorithms.min_min import MaxMin, MinMin, Sufferage
from zenturio.schedule.algorithms.peft import Peft
from zenturio.schedule.bounds import gap, lower_bound
from zenturio.schedule.cases import (
    FREE,
    decoded_plan,
    decoding_problem_of,
    default_evaluations,
    ranked_orders,
    start_order,
)
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.search.settings import setting

_UNLIMITED = 1 << 62
_TASKS_PER_SLICE = 1_000_000
"""Tasks placed between two looks at the clock, and at the keyboard."""
_MAX_SEEDED_TASKS = 2000
"""Tasks up to which plans of slower heuristics are among the first."""
_HEURISTICS = (Heft, Cpop, Peft, MinMin, MaxMin, Sufferage)


@dataclass(frozen=True)
class GeneticSchedulerSettings:
    evaluations: int | None = setting(
        None, "plans that are tried; auto: as many as fit into about a second", low=1
    )
    seconds: float | None = setting(
        None, "how long it may take; with it no two runs need be equal", low=0
    )
    population: int = setting(40, "plans that are kept", low=2)
    mutation: float = setting(0.5, "chance of each further move in a child", low=0, high=0.9)
    tries: int = setting(20, "moves of critical tasks without use that end an improvement", low=0)


class GeneticScheduler:
    """A genetic algorithm that begins with the list heuristics and improves every plan: the best.

    Evolves the order of tasks as well as where they run. A child has its tasks moved as late and
    then as early as they may be, and its critical tasks moved elsewhere, before it is judged. It
    is never worse than HEFT; it ends when no plan can be better (notes: bound), or after so many
    evaluations, and the same seed makes the same plan.
    For every workflow whose plan is worth a second. Not for a million tasks: take heft.
    Cost: evaluations x (edges + tasks x their like on a processor that end later).
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[GeneticSchedulerSettings]] = GeneticSchedulerSettings

    def __init__(self, settings: GeneticSchedulerSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or GeneticSchedulerSettings()
        self._seed = seed

    def plan(self, problem: Problem) -> Plan:
        from zenturio.schedule.kernels.memetic import evolve_plans, improve_all  # noqa: PLC0415 - loads Numba
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        chosen, began = self._settings, monotonic()
        limit = chosen.evaluations or (
            _UNLIMITED if chosen.seconds else default_evaluations(problem)
        )
        case, bound, state = decoding_problem_of(problem), lower_bound(problem), stream(self._seed)
        orders, genes = self._first(problem, limit)
        if case.loose:
            genes[:] = FREE
        marks = np.empty((len(orders), 2))
        count = improve_all(case, orders, genes, marks, chosen.tries, bound, state)
        first, last, born = marks[:, 0].min(), 0, 0
        slices = max(1, _TASKS_PER_SLICE // max(problem.tasks, 1))
        while (ended := self._ended(marks, bound, count, limit, began)) is None:
            stop = min(limit, count + slices)
            count, found, children = evolve_plans(
                case, orders, genes, marks, chosen.tries, chosen.mutation, bound, state, count, stop
            )
            last, born = found or last, born + children
        best = np.lexsort((marks[:, 1], marks[:, 0]))[0]
        makespan = float(marks[best, 0])
        notes = {
            "evaluations": int(count),
            "children": born,
            "found": int(last),
            "first": float(first),
            "bound": bound,
            "gap": gap(makespan, bound),
            "ended": ended,
        }
        return decoded_plan(problem, case, "ga", orders[best], genes[best], notes)

    def _ended(self, marks: Any, bound: float, count: int, limit: int, began: float) -> str | None:
        if marks[:, 0].min() <= bound:
            return "bound"
        seconds = self._settings.seconds
        if seconds and monotonic() - began >= seconds:
            return "seconds"
        return "evaluations" if count >= limit else None

    def _first(self, problem: Problem, limit: int) -> tuple[Any, Any]:
        """Orders and genes of the first plans: HEFT's, of other heuristics, by changed ranks.

        A twentieth of the evaluations may be theirs, but HEFT's is always there.
        """
        count = min(self._settings.population, max(2, limit // 200))
        rng = np.random.default_rng(self._seed)
        others = _heuristic_plans(problem)[: count - 1]
        orders = ranked_orders(problem, count, rng)
        genes = np.full((count, problem.tasks), FREE, np.int32)
        for at, plan in enumerate(others, 1):
            orders[-at], genes[-at] = start_order(plan), plan.processor[problem.group]
        return orders, genes


def _heuristic_plans(problem: Problem) -> list[Plan]:
    """The plans of heuristics, as far as they are quick."""
    some: tuple[Any, ...] = _HEURISTICS if problem.tasks <= _MAX_SEEDED_TASKS else _HEURISTICS[:1]
    return [each().plan(problem) for each in some]
