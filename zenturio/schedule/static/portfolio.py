"""The best plan that several algorithms find in a time limit, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import inf
from time import monotonic
from typing import Any, ClassVar

import numpy as np

from zenturio.schedule.algorithm import Kind, make
from zenturio.schedule.model.evaluation import problem_arrays
from zenturio.schedule.model.lower_bounds import gap, lower_bound
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.simulate.network import SharedNetwork
from zenturio.schedule.static.exact import CpSatNeighbourhoods
from zenturio.schedule.static.genetic import (
    GeneticScheduler,
    GeneticSchedulerSettings,
    default_evaluations,
)
from zenturio.schedule.static.list_scheduling import heft
from zenturio.schedule.static.shared_links import plan_for_shared_links
from zenturio.schedule.static.tabu_search import Tabu, can_insert, search_in_threads
from zenturio.settings.schema import setting
from zenturio.system.machine import usable_cores

_LIST_ALGORITHMS = ("cpop", "peft", "min-min", "max-min", "sufferage", "lazy", "dcp", "xdcp")
"""Those beside HEFT, the fastest first."""
_QUADRATIC = {"dcp", "xdcp"}
_MAX_QUADRATIC_TASKS = 500
_MAX_LIST_TASKS = 5000
"""Larger workflows begin with the plan of HEFT only."""
_QUICK_TASKS = 100
"""For so many tasks the list algorithms take milliseconds: none is left out for lack of time."""
_FIRST_SHARE = 0.4
"""Share of the time for the first search, before the solver."""
_EVOLVED_SHARE = 0.5
"""Share of ga in the time for a search without transfers: there most moves change nothing."""
_EVOLVED_SHARE_OF_STAGED = 0.7
"""The same where transfers hold machines: tabu only estimates what a move does."""
_SOLVER_SHARE = 0.7
"""Share of the rest for the solver, before further searches."""
_MIN_SOLVER_SECONDS = 1.5
"""Below this time, loading the solver is not worth it."""
_MAX_SOLVER_TASKS = 2000
_EVALUATIONS_OF_A_MEMBER = 60
"""Evaluations until a plan of the first population has been improved, about."""
_CHECK_SECONDS = 0.05
"""Time that is left unused, so that a search that ends late still keeps the limit."""


@dataclass(frozen=True)
class PortfolioSettings:
    seconds: float | None = setting(
        None, "time limit, as --within sets it; auto: ga, then tabu, and no solver", low=0.1
    )


class Portfolio:
    """Take the best plan of the list algorithms, tabu, ga and CP-SAT, within a time limit.

    With a limit (zen schedule --within 10s), the list algorithms start it, tabu searches on all
    cores improve their plans, and from two seconds on CP-SAT goes on: first with all of a small
    workflow, then with one neighbourhood of the best plan after the other. If no data pass between
    tasks, or if transfers occupy machines, ga runs before tabu. If transfers share links (capacity,
    network), the plans are simulated, and the one with the shortest simulated time is returned
    (notes: played). Without OR-Tools (extra exact), searches restart with other seeds. Never worse
    than a list algorithm (for up to 5000 tasks; dcp and xdcp up to 500; beyond 100 tasks, those for
    which there is time). With a limit, runs may differ. Good for every workflow whose plan is worth
    the time. Not good for a million tasks: use heft. Cost: the time limit; without it that of ga
    and tabu. The parts have their own sources; the neighbourhoods follow P. Shaw: Using constraint
    programming and local search methods to solve vehicle routing problems. CP 1998.
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[PortfolioSettings]] = PortfolioSettings

    def __init__(self, settings: PortfolioSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or PortfolioSettings()
        self._seed = seed

    def plan(self, problem: Problem) -> Plan:
        seconds, began = self._settings.seconds, monotonic()
        is_shared = SharedNetwork.is_needed(problem.platform) and problem.tasks > 0
        part = seconds and seconds * (_PLANNED_SHARE if is_shared else 1.0)
        search = _PlanSearch(problem, part, self._seed)
        search.run()
        best, more = search.best, {}
        if is_shared:
            until = inf if seconds is None else began + seconds - _CHECK_SECONDS
            chosen = plan_for_shared_links(
                problem, make("tabu:moves=200").plan if can_insert(problem) else heft,
                search.plans, until, self._seed,
            )  # fmt: skip
            best, more = chosen.plan, {"played": chosen.makespan}
        notes = {
            "bound": search.bound,
            "gap": gap(best.makespan, search.bound),
            "by": best.algorithm,
            "improved": search.improved,
            **more,
        }
        return replace(best, algorithm="portfolio", notes=notes)


_MAX_ISLANDS = 64
_PLANNED_SHARE = 0.3
"""Share of the time for plans that suppose links of their own, where links are shared."""
_MAX_PLAYED = 12
"""Plans that are played with shared links."""


def _evolved_share(problem: Problem) -> float:
    if not can_insert(problem):
        return 1.0
    if not problem_arrays(problem).moves:
        return _EVOLVED_SHARE
    return _EVOLVED_SHARE_OF_STAGED if problem.staged else 0.0


class _PlanSearch:
    """One search for a plan, with the best one so far."""

    def __init__(self, problem: Problem, seconds: float | None, seed: int) -> None:
        self._deadline = np.inf if seconds is None else monotonic() + seconds - _CHECK_SECONDS
        self._seconds = seconds
        self._problem = problem
        self._seed = seed
        self.improved = ["heft"]
        """The algorithm of each plan that was better than all before it."""
        self._decoding_seconds = 1 / default_evaluations(problem)
        self.best = heft(problem)
        self._plans = [self.best]
        self.bound = min(lower_bound(problem), self.best.makespan)

    @property
    def plans(self) -> list[Plan]:
        """The best plan, and those of some algorithms."""
        return sorted(self._plans, key=lambda plan: plan.makespan)[:_MAX_PLAYED]

    @property
    def _left(self) -> float:
        return self._deadline - monotonic()

    def run(self) -> None:
        for name in _LIST_ALGORITHMS:
            tasks = self._problem.tasks
            is_slow = name in _QUADRATIC and tasks > _MAX_QUADRATIC_TASKS
            has_time = self._left > 0 or tasks <= _QUICK_TASKS
            if not is_slow and tasks <= _MAX_LIST_TASKS and has_time:
                self._add(make(name).plan(self._problem))
        if self._seconds is None:
            self._add(GeneticScheduler(seed=self._seed).plan(self._problem))
            self._add(Tabu(seed=self._seed).plan(self._problem))
            return
        has_solver = (
            find_spec("ortools") is not None
            and self._left > _MIN_SOLVER_SECONDS
            and self._problem.tasks <= _MAX_SOLVER_TASKS
        )
        restart = 0
        while self._left > 0 and not self._is_optimal:
            seconds = self._left * _FIRST_SHARE if has_solver else self._left
            self._improve(seconds, self._seed + restart)
            if has_solver and not self._is_optimal:
                self._solve(self._left * _SOLVER_SHARE)
                has_solver = False
            restart += 1

    def _improve(self, seconds: float, seed: int) -> None:
        """Improve the best plans by ga, if that has a share of the time, and by tabu search."""
        began = monotonic()
        self._evolve(seconds * _evolved_share(self._problem), seed)
        seconds_left = min(seconds - (monotonic() - began), self._left)
        if seconds_left > 0 and can_insert(self._problem) and not self._is_optimal:
            self._add(search_in_threads(self._problem, self._plans, seconds_left, seed))

    @property
    def _is_optimal(self) -> bool:
        return self.best.makespan <= self.bound * (1 + 1e-12)

    def _add(self, plan: Plan) -> None:
        self._plans.append(plan)
        if plan.makespan < self.best.makespan:
            self.best = plan
            self.improved.append(plan.algorithm)

    def _evolve(self, seconds: float, seed: int) -> None:
        """Run the genetic search, with a population that it can improve several times."""
        if seconds <= 0:
            return
        affordable = seconds / (4 * _EVALUATIONS_OF_A_MEMBER * self._decoding_seconds)
        if affordable < 2:
            return
        settings = GeneticSchedulerSettings(
            seconds=seconds,
            population=int(min(max(affordable, 4), 40)),
            islands=min(usable_cores(), _MAX_ISLANDS),
        )
        began = monotonic()
        plan = GeneticScheduler(settings, seed).plan(self._problem)
        evaluations = max(int(plan.notes.get("evaluations", 0)), 1)
        self._decoding_seconds = max((monotonic() - began) / evaluations, 1e-7)
        self._add(plan)

    def _solve(self, seconds: float) -> None:
        neighbourhoods: Any = CpSatNeighbourhoods(self._problem, self._seed)
        until = monotonic() + seconds
        while (seconds_left := until - monotonic()) > 0 and not self._is_optimal:
            plan, bound = neighbourhoods.improved(self.best, seconds_left)
            self.bound = max(self.bound, min(bound, self.best.makespan))
            if plan is not None:
                self._add(plan)
                self.bound = min(self.bound, self.best.makespan)
            if neighbourhoods.is_exhausted:
                return
