"""Simulated annealing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.algorithms.heft import Heft
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


@dataclass(frozen=True)
class AnnealingSchedulerSettings:
    evaluations: int | None = setting(
        None, "plans that are tried; auto: as many as fit into about a second", low=1
    )
    hot: float = setting(
        0.01, "first temperature, as a share of HEFT's makespan", low=1e-12, high=10
    )
    cold: float = setting(0.0005, "the last one", low=1e-12, high=10)


class AnnealingScheduler:
    """The plan of HEFT, changed again and again, and ever less often for the worse (annealing).

    Most changes move a task that makes the plan long: to another processor, by chance or to
    where it ends first, or to another place in the order. It is never worse than HEFT, and ends
    when no plan can be better (notes: bound) or after so many evaluations.
    To compare with: ga takes the same moves, and is mostly better for the same effort.
    Cost: evaluations x (edges + tasks x their like on a processor that end later).
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[AnnealingSchedulerSettings]] = AnnealingSchedulerSettings

    def __init__(self, settings: AnnealingSchedulerSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or AnnealingSchedulerSettings()
        self._seed = seed

    def plan(self, problem: Problem) -> Plan:
        from zenturio.schedule.kernels.annealing import anneal  # noqa: PLC0415 - loads Numba
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        chosen, bound = self._settings, lower_bound(problem)
        limit, case = (
            chosen.evaluations or default_evaluations(problem),
            decoding_problem_of(problem),
        )
        (order,) = ranked_orders(problem, 1, np.random.default_rng(self._seed))
        genes = np.full(problem.tasks, FREE, np.int32)
        first = decoded_plan(problem, case, "heft", order, genes, {}).makespan
        if (given := Heft().plan(problem)).makespan < first:  # it parts ties otherwise
            order, genes = start_order(given), given.processor[problem.group].astype(np.int32)
            first = decoded_plan(problem, case, "heft", order, genes, {}).makespan
        scale = first or 1.0
        makespan, count, last = anneal(
            case,
            order,
            genes,
            chosen.hot * scale,
            chosen.cold * scale,
            limit,
            bound,
            stream(self._seed),
        )
        notes = {
            "evaluations": int(count),
            "found": int(last),
            "first": first,
            "bound": bound,
            "gap": gap(float(makespan), bound),
            "ended": "bound" if makespan <= bound else "evaluations",
        }
        return decoded_plan(problem, case, "anneal", order, genes, notes)
