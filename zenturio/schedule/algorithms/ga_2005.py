"""The genetic algorithm that ZENTURIO scheduled workflows with in 2005."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.evaluate import evaluate, topological_orders
from zenturio.schedule.listing import mean_delays, mean_times, upward_ranks
from zenturio.schedule.metrics import METRICS, MetricCalculator, metric
from zenturio.schedule.plan import Plan
from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Floats, Indices
from zenturio.search.settings import setting

if TYPE_CHECKING:
    from zenturio.schedule.kernels.generations import GeneCoding
    from zenturio.search.kernels.generation import Rules

Ints = NDArray[np.int64]
Losses = Callable[[Ints], Floats]
"""What each row of genes is worth: the lower the better."""


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
    const: float = setting(1.0, "Const of the fitness Const - T, in worst plans seen", low=1)


@dataclass(frozen=True)
class _SearchResult:
    """Of a search: the best genes, the losses of the best ever, first and last, and how it went."""

    genes: Ints
    best: float
    first: float
    last: float
    visited: int
    generations: int
    settled: int


class Ga2005:
    """The genetic algorithm of Prodan and Fahringer, as it was: to compare with, not to use.

    A gene is an abstract machine: a group of tasks that run together, mostly one. Its alleles are
    the processors that can run them. Individuals begin by chance; remainder stochastic sampling
    with replacement, single point crossover, mutation, linear fitness scaling of Const - T (Const:
    the worst that was seen, if nothing else is said), elitism, steady state. Tasks of a processor
    run in the order of the longest way to an end. With any metric as objective.
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
        """Notes: points visited, generations, and in which of them the best was found first.

        The best of the last generation, which without elitism may not be the best of all; and the
        improvement in %, from the best of the first generation to that of the last, as defined in
        section 6. A child that equals a parent is no new point.
        """
        rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
        order = topological_orders(problem, -rank)
        if not problem.tasks:
            return evaluate(problem, order, order, "ga-2005")
        chosen = self._settings
        coding = _coding(problem, order)
        chance = np.random.default_rng(self._seed)
        genes = chance.integers(coding.sizes, size=(chosen.population, len(coding.sizes)))
        if chosen.objective == "makespan":
            found = self._shortest(coding, genes)
        else:
            found = self._search(
                coding, genes, _loss_function(problem, coding, order, chosen.objective)
            )
        notes = {
            "objective": chosen.objective,
            "visited": found.visited,
            "generations": found.generations,
            "settled": found.settled,
            "last": abs(found.last),
            "improvement": 100 * (found.first - found.last) / abs(found.last or 1.0),
        }
        where = _decoded_processors(coding, order, found.genes[None])[0]
        return evaluate(problem, where, order, "ga-2005", notes)

    @property
    def _patience(self) -> int:
        chosen = self._settings
        return max(1, round(chosen.generations * chosen.steady / 100))

    def _rules(self) -> Rules:
        from zenturio.search.kernels.generation import Rules  # noqa: PLC0415 - loads Numba
        from zenturio.search.kernels.selection import REMAINDER  # noqa: PLC0415
        from zenturio.search.kernels.variation import RANDOM, SINGLE  # noqa: PLC0415

        chosen = self._settings
        return Rules(
            selection=REMAINDER,
            crossover=SINGLE,
            mutation=RANDOM,
            rounds=1,
            elite=int(chosen.elitist),
            share=0.5,
            crossover_rate=chosen.crossover,
            mutation_rate=chosen.mutation,
            reach=1.0,
            scaling=chosen.scaling,
        )

    def _shortest(self, coding: GeneCoding, genes: Ints) -> _SearchResult:
        """The search for the shortest plan, compiled as a whole."""
        from zenturio.schedule.kernels.generations import EvolutionLimits, evolve_2005  # noqa: PLC0415
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        chosen = self._settings
        course = EvolutionLimits(chosen.generations, self._patience, chosen.const)
        return _SearchResult(*evolve_2005(coding, genes, self._rules(), course, stream(self._seed)))

    def _search(self, coding: GeneCoding, genes: Ints, losses: Losses) -> _SearchResult:
        """The same for any other objective."""
        from zenturio.schedule.kernels.generations import zero_fitness_loss  # noqa: PLC0415
        from zenturio.search.kernels.generation import breed  # noqa: PLC0415
        from zenturio.search.kernels.rng import stream  # noqa: PLC0415

        chosen, rules, state = self._settings, self._rules(), stream(self._seed)
        unordered = np.zeros(genes.shape[1], np.bool_)
        kept, best, first, worst, last = genes[0], np.inf, np.inf, -np.inf, 0
        visited = len(genes)
        for generation in range(chosen.generations):
            found = losses(genes)
            at = int(np.argmin(found))
            if found[at] < best:
                best, last, kept = float(found[at]), generation, genes[at]
            first = best if generation == 0 else first
            if generation - last >= self._patience:
                break
            worst = max(worst, float(found[found < np.inf].max(initial=-np.inf)))
            children, parents = np.empty_like(genes), np.zeros((len(genes), 2), np.int64)
            zero = zero_fitness_loss(worst, chosen.const)
            breed(genes, found, zero, coding.sizes, unordered, rules, state, children, parents)
            known = (children[:, None] == genes[parents]).all(axis=2).any(axis=1)
            visited += int((~known).sum()) if generation + 1 < chosen.generations else 0
            genes = children
        return _SearchResult(
            kept, best, first, float(found.min()), visited, generation + 1, last + 1
        )


def _coding(problem: Problem, order: Indices) -> GeneCoding:
    """A gene for each group of tasks, with a value for each processor that can run them."""
    from zenturio.schedule.kernels.generations import GeneCoding  # noqa: PLC0415

    groups = np.unique(problem.group)
    fits = np.isfinite(problem.pace)[problem.row[groups]]
    before, place = problem.before, np.empty(problem.tasks, np.uint32)
    place[order] = np.arange(problem.tasks)
    counts = np.diff(before.start)[order]
    start = np.concatenate([[0], np.cumsum(counts)])
    edges = np.arange(start[-1]) + np.repeat(before.start[order] - start[:-1], counts)
    return GeneCoding(
        gene=np.searchsorted(groups, problem.group[order]).astype(np.uint32),
        allele=np.argsort(~fits, axis=1, kind="stable").astype(np.uint32),
        sizes=fits.sum(axis=1),
        work=problem.work[order],
        row=problem.row[order].astype(np.uint32),
        pace=np.ascontiguousarray(problem.pace),
        start=start.astype(np.uint64),
        parent=place[before.task[edges]],
        data=problem.workflow.data[before.edge[edges]],
        node=problem.node.astype(np.uint32),
        site=problem.site.astype(np.uint32),
        latency=problem.latency.ravel(),
        slowness=problem.slowness.ravel(),
        sites=np.uint32(len(problem.latency)),
    )


def _decoded_processors(coding: GeneCoding, order: Indices, genes: Ints) -> NDArray[np.uint32]:
    """The processor of each task, for each row of genes."""
    found = np.empty((len(genes), len(order)), np.uint32)
    found[:, order] = coding.allele[coding.gene, genes[:, coding.gene]]
    return found


def _loss_function(problem: Problem, coding: GeneCoding, order: Indices, objective: str) -> Losses:
    gauge = MetricCalculator(problem)
    return lambda genes: gauge.losses(objective, _decoded_processors(coding, order, genes), order)
