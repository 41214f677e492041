"""How many nodes each task gets: searches that the algorithms for moldable workflows share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenturio.schedule.choices import NodeChoices
from zenturio.schedule.cluster import ClusterQueue, Counts, Discipline, QueueOutcomes
from zenturio.schedule.fitness import Fitness
from zenturio.schedule.growing import (
    anneal_allocations,
    best_start,
    grow_allocations,
    simple_allocations,
)
from zenturio.schedule.molded import MoldablePlan
from zenturio.schedule.workflow import Floats
from zenturio.search.engine import SearchProblem
from zenturio.search.ga import Crossover, Ga, GaSettings, Selection
from zenturio.search.generator_engine import SearchGenerator
from zenturio.search.nsga2 import Nsga2, Nsga2Settings
from zenturio.search.objective import Directions
from zenturio.search.settings import setting

Objectives = Callable[[QueueOutcomes], Floats]
"""Two figures for each outcome, both to be minimised."""


@dataclass(frozen=True)
class EvolutionSettings:
    """How the genetic algorithm goes, and the cluster; by default as the paper recommends."""

    queue: Discipline = setting("fifo", "how the cluster chooses what starts")
    population: int | None = setting(
        None, "individuals in a generation; auto: 25 to 150, the more the more tasks", low=2
    )
    generations: int = setting(500, "generations, the first one included", low=1)
    selection: Selection = setting("steady", "how parents are chosen by their fitness")
    crossover: Crossover = setting("uniform", "how two parents exchange genes")
    crossover_rate: float = setting(0.7, "chance that two parents exchange genes", low=0, high=1)
    mutation_rate: float = setting(0.01, "chance that a gene mutates", low=0, high=1)
    elite: float = setting(5.0, "best % that live on unchanged", low=0, high=100)

    def ga(self, tasks: int) -> GaSettings:
        """The same for the search of so many *tasks*."""
        size = self.population or _default_population(tasks)
        return GaSettings(
            population=size,
            generations=self.generations,
            selection=self.selection,
            crossover=self.crossover,
            crossover_rate=self.crossover_rate,
            mutation_rate=self.mutation_rate,
            scaling=1.0,
            elite=round(size * self.elite / 100),
            steady=100.0,
        )


@dataclass(frozen=True)
class GuidedSettings(EvolutionSettings):
    """The same with what the paper leaves out."""

    alpha: float = setting(0.5, "weight of the makespan; the rest is that of cost", low=0, high=1)
    seeded: bool = setting(True, "begin with what heuristics find, CPA among them")
    polish: int | None = setting(
        None, "plays that improve the result; auto: some tenths of a second", low=0
    )


def _default_population(tasks: int) -> int:
    """As in Table 1 of the paper."""
    return next((size for most, size in ((8, 25), (16, 50), (63, 100)) if tasks <= most), 150)


class _SeededGa(Ga):
    """The genetic search that begins with some rows, and others by chance."""

    seeds: Sequence[Counts] = ()

    def first(self) -> Any:
        return _with_seeds(super().first(), self.seeds)


class _SeededNsga2(Nsga2):
    """The same for the search of a front."""

    seeds: Sequence[Counts] = ()

    def first(self) -> Any:
        return _with_seeds(super().first(), self.seeds)


def _with_seeds(genes: Any, seeds: Sequence[Counts]) -> Any:
    """*genes* that begin with *seeds*, as far as there is room."""
    for row, seed in zip(genes, seeds, strict=False):
        row[:] = seed
    return genes


def evolve_allocations(
    cluster: ClusterQueue,
    fitness: Fitness,
    settings: EvolutionSettings,
    seed: int,
    seeds: Sequence[Counts] = (),
) -> tuple[Counts, list[float]]:
    """The best numbers of nodes that a genetic search finds; the best fitness by generation."""
    choices = NodeChoices(cluster.problem)
    search = _SeededGa(SearchProblem(choices.space, seed=seed), settings.ga(cluster.problem.tasks))
    search.seeds = [choices.genes(counts) for counts in seeds]
    best, history = np.inf, []
    found: Counts = cluster.problem.fewest
    for genes, losses in scored_generations(
        search.walk(), lambda genes: fitness(cluster.outcomes(choices.of(genes)))
    ):
        at = int(losses.argmin())
        if losses[at] < best:
            best, found = float(losses[at]), choices.of(genes[at])
        history.append(best)
    return found, history


def generations_to_best(history: Sequence[float]) -> int:
    """How many generations it took to what was best of all."""
    return history.index(history[-1]) + 1


def scored_generations(
    walk: SearchGenerator, score: Callable[[Any], Floats]
) -> Iterator[tuple[Any, Floats]]:
    """All generations of a *walk*, each with what it is worth: a row, or several figures each."""
    genes = next(walk)
    while True:
        losses = score(genes)
        yield genes, losses
        try:
            genes = walk.send(losses.reshape(len(genes), -1))
        except StopIteration:
            return


def pareto_front(
    cluster: ClusterQueue,
    aims: Objectives,
    settings: Nsga2Settings,
    seed: int,
    seeds: Sequence[Counts],
) -> tuple[Counts, Floats]:
    """All numbers of nodes found that no other is better than in both *aims*; what they come to.

    Sorted by the first aim; of equal ones one.
    """
    choices = NodeChoices(cluster.problem, "lean")
    search = _SeededNsga2(
        SearchProblem(choices.space, Directions(["minimize", "minimize"]), seed), settings
    )
    search.seeds = [choices.genes(counts) for counts in seeds]
    rows = np.empty((0, cluster.problem.tasks), np.int64)
    worth = np.empty((0, 2))
    for genes, losses in scored_generations(
        search.walk(), lambda genes: aims(cluster.outcomes(choices.of(genes)))
    ):
        rows, worth = np.concatenate([rows, genes]), np.concatenate([worth, losses])
        order = np.lexsort(worth.T[::-1])
        least = np.minimum.accumulate(worth[order, 1])
        kept = order[np.append(True, least[1:] < least[:-1])]
        rows, worth = rows[kept], worth[kept]
    return choices.of(rows), worth


def guided_plan(
    cluster: ClusterQueue, fitness: Fitness, settings: GuidedSettings, seed: int, name: str
) -> MoldablePlan:
    """The plan that a genetic search finds, with what is set beside it.

    With seeds, tasks are submitted as for the best of these; without, breadth first as in the
    paper.
    """
    seeds: list[Counts] = []
    if settings.seeded:
        seeds = [grow_allocations(cluster), *simple_allocations(cluster.problem)]
        cluster, first, _ = best_start(cluster, fitness, seeds)
        seeds.insert(0, first)
    counts, history = evolve_allocations(cluster, fitness, settings, seed, seeds)
    cluster, counts = anneal_allocations(cluster, fitness, counts, seed, settings.polish)
    best = float(fitness(cluster.outcomes(counts[None]))[0])
    notes = {"generations": len(history), "settled": generations_to_best(history), "fitness": best}
    return cluster.plan(counts, name, notes)
