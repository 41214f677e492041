"""NSGA-II (Deb, Pratap, Agarwal and Meyarivan 2002): Pareto fronts of several objectives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zenturio.search.engine import SearchProblem
from zenturio.search.gene_encoding import Ints
from zenturio.search.generator_engine import GeneratorEngine, Reals, SearchGenerator
from zenturio.settings.schema import setting

FEWEST, MOST = 20, 100


@dataclass(frozen=True)
class Nsga2Settings:
    population: int | None = setting(
        None, "individuals in a generation; auto: 100, fewer for small budgets", low=4
    )
    generations: int = setting(500, "largest number of generations", low=1)
    crossover_rate: float = setting(0.9, "chance that two parents exchange genes", low=0, high=1)
    mutation_rate: float | None = setting(
        None, "chance that a gene mutates; auto: one gene of each child", low=0, high=1
    )
    reach: float = setting(0.1, "typical step of a mutation, as a share of the set", low=0, high=1)


class Nsga2(GeneratorEngine):
    """A Pareto front of several objectives (NSGA-II)."""

    Settings: ClassVar[type[Nsga2Settings]] = Nsga2Settings
    multi_objective = True

    def __init__(self, problem: SearchProblem, settings: Nsga2Settings) -> None:
        super().__init__(problem, settings)
        self._settings = settings

    @property
    def population(self) -> int:
        """Individuals in a generation; the budget holds at least ten generations."""
        if self._settings.population is not None:
            return self._settings.population
        budget = self.problem.budget
        return MOST if budget is None else min(max(budget // 10, FEWEST), MOST)

    def first(self) -> Ints:
        """Return the first generation."""
        return self.genome.draw(self.rng, self.population)

    def walk(self) -> SearchGenerator:
        size = self.population
        genes = self.first()
        losses = yield genes
        for _ in range(self._settings.generations - 1):
            ranks = front_ranks(losses)
            children = self.genome.repair(
                self._children(genes, ranks, crowding_distance(losses, ranks))
            )
            both = np.concatenate([genes, children])
            union_losses = np.concatenate([losses, (yield children)])
            # Copies of a row would crowd the front, and diversity would end.
            both, first = np.unique(both, axis=0, return_index=True)
            union_losses = union_losses[first]
            ranks = front_ranks(union_losses)
            order = np.lexsort((-crowding_distance(union_losses, ranks), ranks))[:size]
            genes, losses = both[order], union_losses[order]

    def _children(self, genes: Ints, ranks: Ints, distance: Reals) -> Ints:
        """Return one child for each individual; parents win binary tournaments."""
        size, rng = self.population, self.rng
        rivals = rng.integers(len(genes), size=(2, 2 * size))
        first, second = rivals
        wins = (ranks[first] < ranks[second]) | (
            (ranks[first] == ranks[second]) & (distance[first] >= distance[second])
        )
        parents = genes[np.where(wins, first, second)]
        fathers, mothers = parents[:size], parents[size:]
        crossed = rng.random((size, 1)) < self._settings.crossover_rate
        swapped = crossed & (rng.random(fathers.shape) < 0.5)
        return self._mutated(np.where(swapped, mothers, fathers))

    def _mutated(self, genes: Ints) -> Ints:
        """Mutate some genes: by a step if they are ordered, else to any other value."""
        rng, sizes = self.rng, self.genome.sizes
        rate = self._settings.mutation_rate
        chance = 1 / max(self.genome.length, 1) if rate is None else rate
        hit = rng.random(genes.shape) < chance
        steps = 1 + np.abs(rng.normal(size=genes.shape)) * self._settings.reach * (sizes - 1)
        steps = np.floor(steps).astype(np.int64) * rng.choice([-1, 1], genes.shape)
        anything = rng.integers(sizes, size=genes.shape)
        values = np.where(self.genome.ordered, np.clip(genes + steps, 0, sizes - 1), anything)
        return np.where(hit, values, genes)


def front_ranks(losses: Reals) -> Ints:
    """Return the rank of each row: 0 on the Pareto front, 1 on the front of the rest, ...

    Fast non-dominated sorting, section III.A of the paper.
    """
    no_worse = np.logical_and.reduce([objective[:, None] <= objective for objective in losses.T])
    better: Any = no_worse & ~no_worse.T
    covered = better.sum(axis=0)
    ranks = np.full(len(losses), -1, dtype=np.int64)
    rank = 0
    while (front := np.flatnonzero(covered == 0)).size:
        ranks[front] = rank
        covered -= better[front].sum(axis=0)
        # Never 0 again, so that later fronts do not contain it.
        covered[front] = -1
        rank += 1
    return ranks


def crowding_distance(losses: Reals, ranks: Ints) -> Reals:
    """Return each row's crowding distance on its front (section III.B); infinite at its ends."""
    distance = np.zeros(len(losses))
    for rank in range(int(ranks.max()) + 1):
        front = np.flatnonzero(ranks == rank)
        for objective in losses[front].T:
            order = front[np.argsort(objective, kind="stable")]
            values = np.sort(objective)
            distance[order[[0, -1]]] = np.inf
            # Failed trials have infinite losses, for which there is no width.
            if len(order) < 3 or np.isinf(values[-1]) or values[0] == values[-1]:
                continue
            width = values[-1] - values[0]
            distance[order[1:-1]] += (values[2:] - values[:-2]) / width
    return distance
