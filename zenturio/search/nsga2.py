"""NSGA-II (Deb, Pratap, Agarwal and Meyarivan 2002): a Pareto front of several goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zenturio.search.factors import Ints
from zenturio.search.search import Task
from zenturio.search.settings import setting
from zenturio.search.walker import Reals, Walk, Walker

FEWEST, MOST = 20, 100


@dataclass(frozen=True)
class Nsga2Settings:
    population: int | None = setting(
        None, "individuals in a generation; auto: 100, fewer for small budgets", low=4
    )
    generations: int = setting(500, "generations at the most", low=1)
    crossover_rate: float = setting(0.9, "chance that two parents exchange genes", low=0, high=1)
    mutation_rate: float | None = setting(
        None, "chance that a gene mutates; auto: one gene of each child", low=0, high=1
    )
    reach: float = setting(0.1, "typical step of a mutation, as a share of the set", low=0, high=1)


class Nsga2(Walker):
    """A front of points that no other is better than in every goal (NSGA-II): for several goals."""

    Settings: ClassVar[type[Nsga2Settings]] = Nsga2Settings
    several = True

    def __init__(self, task: Task, settings: Nsga2Settings) -> None:
        super().__init__(task, settings)
        self._settings = settings

    @property
    def population(self) -> int:
        """How many individuals a generation has; at least ten of them fit into the budget."""
        if self._settings.population is not None:
            return self._settings.population
        budget = self.task.budget
        return MOST if budget is None else min(max(budget // 10, FEWEST), MOST)

    def first(self) -> Ints:
        """The first generation."""
        return self.genome.drawn(self.rng, self.population)

    def walk(self) -> Walk:
        size = self.population
        genes = self.first()
        losses = yield genes
        for _ in range(self._settings.generations - 1):
            ranks = ranked(losses)
            children = self.genome.repaired(self._children(genes, ranks, crowding(losses, ranks)))
            both = np.concatenate([genes, children])
            worth = np.concatenate([losses, (yield children)])
            both, first = np.unique(both, axis=0, return_index=True)
            worth = worth[first]
            ranks = ranked(worth)
            order = np.lexsort((-crowding(worth, ranks), ranks))[:size]
            genes, losses = both[order], worth[order]

    def _children(self, genes: Ints, ranks: Ints, room: Reals) -> Ints:
        """As many children as the population has, of parents that won a tournament of two."""
        size, rng = self.population, self.rng
        rivals = rng.integers(len(genes), size=(2, 2 * size))
        first, second = rivals
        wins = (ranks[first] < ranks[second]) | (
            (ranks[first] == ranks[second]) & (room[first] >= room[second])
        )
        parents = genes[np.where(wins, first, second)]
        fathers, mothers = parents[:size], parents[size:]
        crossed = rng.random((size, 1)) < self._settings.crossover_rate
        swapped = crossed & (rng.random(fathers.shape) < 0.5)
        return self._mutated(np.where(swapped, mothers, fathers))

    def _mutated(self, genes: Ints) -> Ints:
        """*genes*, of which some take a step, or another value if they are not ordered."""
        rng, sizes = self.rng, self.genome.sizes
        rate = self._settings.mutation_rate
        chance = 1 / max(self.genome.length, 1) if rate is None else rate
        hit = rng.random(genes.shape) < chance
        steps = 1 + np.abs(rng.normal(size=genes.shape)) * self._settings.reach * (sizes - 1)
        steps = np.floor(steps).astype(np.int64) * rng.choice([-1, 1], genes.shape)
        anything = rng.integers(sizes, size=genes.shape)
        values = np.where(self.genome.ordered, np.clip(genes + steps, 0, sizes - 1), anything)
        return np.where(hit, values, genes)


def ranked(losses: Reals) -> Ints:
    """The number of each row's front: 0 for those that no other covers, 1 for the next, ..."""
    no_worse = np.logical_and.reduce([goal[:, None] <= goal for goal in losses.T])
    better: Any = no_worse & ~no_worse.T
    covered = better.sum(axis=0)
    ranks = np.full(len(losses), -1, dtype=np.int64)
    rank = 0
    while (front := np.flatnonzero(covered == 0)).size:
        ranks[front] = rank
        covered -= better[front].sum(axis=0)
        covered[front] = -1
        rank += 1
    return ranks


def crowding(losses: Reals, ranks: Ints) -> Reals:
    """How much room each row has on its front: the more, the lonelier; the ends have all."""
    room = np.zeros(len(losses))
    for rank in range(int(ranks.max()) + 1):
        front = np.flatnonzero(ranks == rank)
        for goal in losses[front].T:
            order = front[np.argsort(goal, kind="stable")]
            values = np.sort(goal)
            room[order[[0, -1]]] = np.inf
            if len(order) < 3 or np.isinf(values[-1]) or values[0] == values[-1]:
                continue
            width = values[-1] - values[0]
            room[order[1:-1]] += (values[2:] - values[:-2]) / width
    return room
