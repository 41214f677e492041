"""The genetic algorithm that ZENTURIO scheduled workflows with in 2005."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.evaluate import evaluate, makespans, numbers, orders_by
from zenturio.schedule.listing import mean_delays, mean_times, upward_ranks
from zenturio.schedule.metrics import METRICS, Gauge, metric
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Floats
from zenturio.search.ga import Ga, GaSettings
from zenturio.search.objective import Goals
from zenturio.search.search import Task
from zenturio.search.settings import setting
from zenturio.space import Space

Losses = Callable[[NDArray[np.uint32]], Floats]
"""What each row of processors, one for each task, is worth: the lower the better."""


@dataclass(frozen=True)
class Ga2005Settings:
    """As section 6 of the paper has them."""

    objective: str = setting("makespan", f"what is made best: {', '.join(METRICS)}")
    population: int = setting(150, "population size", low=2)
    crossover: float = setting(0.9, "crossover probability", low=0, high=1)
    mutation: float = setting(0.001, "mutation probability of a gene", low=0, high=1)
    generations: int = setting(500, "maximum generation", low=1)
    steady: float = setting(
        20.0, "steady state: ends after so many % of them without improvement", low=0, high=100
    )
    scaling: float = setting(2.0, "fitness scaling factor; 1: off", low=1)
    elitist: bool = setting(True, "whether the best individual lives on")


@dataclass
class _Course:
    """What is told of a search: individuals, generations, the best of the first and of all."""

    visited: int = 0
    generations: int = 0
    first: float = np.inf
    best: float = np.inf
    genes: NDArray[np.int64] | None = None


class Ga2005:
    """The genetic algorithm of Prodan and Fahringer, as it was: to compare with, not to use.

    A gene is an abstract machine: a group of tasks that run together, mostly one. Its alleles are
    the processors that can run them. Individuals begin by chance; remainder stochastic sampling
    with replacement, single point crossover, mutation, linear fitness scaling of Const - T (Const:
    the worst that was seen), elitism, steady state. Tasks of a processor run in the order of the
    longest way to an end. With any metric as objective.
    Mostly worse than heft, for it knows nothing of workflows; ga is the one to use.
    Cost: population x generations x edges.
    R. Prodan, T. Fahringer: Dynamic scheduling of scientific workflow applications on the Grid: a
    case study. ACM SAC 2005, sections 4.1 and 6.
    """

    kind: ClassVar[Kind] = "static"
    Settings: ClassVar[type[Ga2005Settings]] = Ga2005Settings

    def __init__(self, settings: Ga2005Settings | None = None, seed: int = 0) -> None:
        self._settings = settings or Ga2005Settings()
        self._seed = seed
        metric(self._settings.objective)

    def plan(self, problem: Problem) -> Plan:
        """Notes: visited points, generations, and the improvement in % of the first best."""
        rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
        order = orders_by(problem, -rank)
        if not problem.tasks:
            return evaluate(problem, order, order, "ga-2005")
        groups = np.unique(problem.group)
        tables = _alleles(problem, groups)
        where = np.searchsorted(groups, problem.group)
        losses = self._losses(problem, order)

        def rows(genes: NDArray[np.int64]) -> NDArray[np.uint32]:
            columns = [table[genes[:, at]] for at, table in enumerate(tables)]
            found: NDArray[np.uint32] = np.stack(columns, axis=1)[:, where]
            return found

        found = self._search([len(table) for table in tables], lambda genes: losses(rows(genes)))
        assert found.genes is not None
        better = abs(found.first - found.best)
        notes = {
            "objective": self._settings.objective,
            "visited": found.visited,
            "generations": found.generations,
            "improvement": 100 * better / abs(found.best) if found.best else 0.0,
        }
        return evaluate(problem, rows(found.genes[None])[0], order, "ga-2005", notes)

    def _losses(self, problem: Problem, order: Any) -> Losses:
        objective = self._settings.objective
        if objective == "makespan":
            given = numbers(problem)
            return lambda rows: makespans(given, rows, order)
        gauge = Gauge(problem)
        return lambda rows: gauge.losses(objective, rows, order)

    def _search(self, sizes: list[int], losses: Callable[[Any], Floats]) -> _Course:
        """The generations of the search room's engine, each evaluated as a whole."""
        chosen = self._settings
        sets: dict[str, Any] = {f"m{at}": range(size) for at, size in enumerate(sizes)}
        rules = GaSettings(
            population=chosen.population,
            generations=chosen.generations,
            selection="remainder",
            crossover="single",
            crossover_rate=chosen.crossover,
            mutation="random",
            mutation_rate=chosen.mutation,
            scaling=chosen.scaling,
            elite=int(chosen.elitist),
            steady=chosen.steady,
        )
        walk = Ga(Task(Space(**sets), Goals(), self._seed), rules).walk()
        course, genes = _Course(), next(walk)
        while True:
            found = losses(genes)
            best = int(np.argmin(found))
            if found[best] < course.best or course.genes is None:
                course.best, course.genes = float(found[best]), genes[best].copy()
            if not course.generations:
                course.first = course.best
            course.generations += 1
            course.visited += len(genes)
            try:
                genes = walk.send(found[:, None])
            except StopIteration:
                return course


def _alleles(problem: Problem, groups: NDArray[Any]) -> list[NDArray[np.uint32]]:
    """Where each group can run."""
    tables = [np.flatnonzero(row).astype(np.uint32) for row in np.isfinite(problem.pace)]
    return [tables[row] for row in problem.row[groups]]
