"""Searches for the number of nodes of each task: heuristics, annealing and genetic algorithms.

The fitness functions are those of Jaros and Jaros (2022); all are minimised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from zenturio.schedule.model.metrics import MoldablePlan
from zenturio.schedule.model.problem import MoldableProblem
from zenturio.schedule.model.workflow import Floats
from zenturio.schedule.moldable.cluster_queue import (
    ClusterQueue,
    Counts,
    Discipline,
    PlanFigures,
)
from zenturio.search.engine import SearchProblem
from zenturio.search.ga import Crossover, Ga, GaSettings, Selection
from zenturio.search.generator_engine import SearchGenerator
from zenturio.search.nsga2 import Nsga2, Nsga2Settings
from zenturio.search.objective import Directions
from zenturio.settings.schema import setting
from zenturio.space import Space


@dataclass(frozen=True, eq=False)
class NodeChoices:
    """The allowed numbers of nodes of each task, encoded as rows of genes."""

    problem: MoldableProblem
    kind: Literal["possible", "lean"] = "possible"

    @cached_property
    def counts(self) -> tuple[Counts, ...]:
        """The allowed numbers of nodes, by row of the problem's ``seconds``."""
        return self.problem.possible if self.kind == "possible" else self.problem.lean

    @cached_property
    def space(self) -> Space:
        sets = [counts.tolist() for counts in self.counts]
        return Space(**{f"t{i}": sets[row] for i, row in enumerate(self.problem.row)})

    @cached_property
    def table(self) -> Counts:
        """The allowed numbers of nodes as a rectangular table, padded with zeros."""
        table = np.zeros((len(self.counts), max(map(len, self.counts), default=1)), np.int64)
        for counts, row in zip(self.counts, table, strict=True):
            row[: len(counts)] = counts
        return table

    @cached_property
    def sizes(self) -> Counts:
        return np.array([len(counts) for counts in self.counts], np.int64)

    def of(self, genes: Counts) -> Counts:
        """Return the numbers of nodes that rows of *genes* encode."""
        counts: Counts = self.table[self.problem.row, genes]
        return counts

    def genes(self, counts: Counts) -> Counts:
        """Return the genes of the nearest allowed numbers not above *counts*, or the smallest."""
        indices = [
            max(np.searchsorted(self.counts[row], count, side="right") - 1, 0)
            for row, count in zip(self.problem.row, counts, strict=True)
        ]
        return np.array(indices, np.int64)


Formula = Literal["idle", "printed"]


@dataclass(frozen=True)
class Fitness:
    """Weights of the figures of a plan, and a constant."""

    total: float = 0.0
    """Weight of the seconds of all tasks."""
    makespan: float = 0.0
    cost: float = 0.0
    """Weight of the node seconds of all tasks."""
    busy: float = 0.0
    """Weight of the mean number of busy nodes."""
    always: float = 0.0
    """A constant added to the fitness of every plan."""

    def __call__(self, outcomes: PlanFigures) -> Floats:
        length = outcomes.makespan + (outcomes.makespan == 0)
        fitness: Floats = (
            self.total * outcomes.total
            + self.makespan * outcomes.makespan
            + self.cost * outcomes.cost
            + self.busy * outcomes.cost / length
            + self.always
        )
        return fitness

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights as the kernels take them."""
        return astuple(self)


MAKESPAN = Fitness(makespan=1.0)
TOTAL_TIME = Fitness(total=1.0)
"""The seconds of all tasks, as if they did not compete for nodes (Equation 2)."""


def on_demand(problem: MoldableProblem, alpha: float) -> Fitness:
    """Return *alpha* times the makespan plus 1 - *alpha* times the cost of used nodes (Equation 5).

    Both are relative to the seconds of all tasks on one node. The paper adds the times along the
    critical path "including queuing times", which is the makespan.
    """
    alone = problem.alone or 1.0
    return Fitness(makespan=alpha / alone, cost=(1 - alpha) / alone)


def static_allocation(problem: MoldableProblem, alpha: float, formula: Formula = "idle") -> Fitness:
    """Return *alpha* times the makespan plus 1 - *alpha* times the idle share of the cluster.

    The idle share is (c_max - c) / c_max of the node seconds that are paid for, c_max being the
    number of nodes times the makespan, as the paper's text says. With *formula* "printed", c_max is
    the number of nodes times the seconds of all tasks on one node (Equations 6 and 8). That does
    not depend on the plan, so it rewards whatever costs much, such as long tasks on many nodes.
    """
    alone = problem.alone or 1.0
    weight = 1 - alpha
    if formula == "idle":
        return Fitness(makespan=alpha / alone, busy=-weight / problem.nodes, always=weight)
    return Fitness(makespan=alpha / alone, cost=-weight / (alone * problem.nodes), always=weight)


_MAX_TASKS_PLAYED, _MAX_PLAYS = 5_000_000, 50_000
"""With _MAX_PLAYS, the default limit of tasks started and of queues played."""


def grow_allocations(cluster: ClusterQueue, until: Literal["best", "balance"] = "best") -> Counts:
    """Return the numbers of nodes of CPA: grown on the critical path, from the fewest.

    Stop when the area is as long as the critical path, as published ("balance"), or when that can
    no longer improve the plan, and return the best plan on the way ("best").
    """
    from zenturio.schedule.kernels.cluster_queue import grow_nodes  # noqa: PLC0415 - needs Numba

    problem = cluster.problem
    following = np.zeros(problem.seconds.shape, np.int64)
    for row, counts in zip(following, problem.lean, strict=True):
        row[counts[:-1]] = counts[1:]
    # Playing the queue after each step would dominate the time: about 100 samples suffice.
    stride = max(1, problem.tasks // 100) if until == "best" else 0
    grown: Counts = grow_nodes(
        cluster.kind, problem.nodes, cluster.graph, problem.order.astype(np.int64),
        problem.seconds, problem.row, problem.fewest.astype(np.int64), following, stride,
    )  # fmt: skip
    return grown


def submitted_by_rank(cluster: ClusterQueue, counts: Counts) -> ClusterQueue:
    """Return *cluster* with the tasks of longest remaining path submitted first."""
    from zenturio.schedule.kernels.cluster_queue import bottom_levels  # noqa: PLC0415 - needs Numba

    problem = cluster.problem
    order, remaining_path = problem.order.astype(np.int64), np.empty(problem.tasks)
    bottom_levels(cluster.graph, order, problem.times(counts), remaining_path)
    return replace(cluster, order=order[np.argsort(-remaining_path[order], kind="stable")])


def simple_allocations(problem: MoldableProblem) -> list[Counts]:
    """Return simple numbers of nodes to start from.

    The same number for all tasks, or more nodes for a task as long as its time shrinks by a share
    of the increase.
    """
    # Powers of two and those between them: steps of a third to a half.
    evens = sorted({1 << k for k in range(13)} | {3 << k for k in range(12)})
    choices = NodeChoices(problem, "lean")
    max_nodes = int(problem.fastest.max(initial=1))
    limits = [limit for limit in evens if limit < max_nodes] + [max_nodes]
    allocations: list[Counts] = [
        choices.of(choices.genes(np.full(problem.tasks, k))) for k in limits
    ]
    possible = np.isfinite(problem.seconds)
    # In logarithms: more nodes pay if time falls by a share of what nodes rise.
    time = np.log(
        problem.seconds, out=np.full(possible.shape, np.inf), where=possible & (problem.seconds > 0)
    )
    time[problem.seconds == 0] = 0
    nodes = np.log(np.maximum(np.arange(possible.shape[1]), 1))
    return allocations + [
        (time + share * nodes).argmin(axis=1)[problem.row] for share in (0.05, 0.1, 0.2, 0.4)
    ]


def best_start(
    cluster: ClusterQueue, fitness: Fitness, allocations: Sequence[Counts]
) -> tuple[ClusterQueue, Counts, float]:
    """Return the best of *allocations*, with its fitness and the queue sorted by remaining path."""
    candidates = []
    for counts in allocations:
        queue = submitted_by_rank(cluster, counts)
        candidates.append((queue, counts, float(fitness(queue.outcomes(counts[None]))[0])))
    return min(candidates, key=lambda candidate: candidate[2])


def anneal_allocations(
    cluster: ClusterQueue, fitness: Fitness, counts: Counts, seed: int, budget: int | None = None
) -> tuple[ClusterQueue, Counts]:
    """Improve *counts* and the order of submission by annealing; never worsen the fitness.

    *budget* is the number of plays of the queue; by default some tenths of a second's worth.
    """
    from zenturio.schedule.kernels.cluster_queue import anneal_queue  # noqa: PLC0415 - needs Numba
    from zenturio.search.kernels.rng import stream  # noqa: PLC0415

    problem = cluster.problem
    choices = NodeChoices(problem)
    if budget is None:
        budget = min(_MAX_TASKS_PLAYED // max(problem.tasks, 1), _MAX_PLAYS)
    if not problem.tasks or not budget:
        return cluster, counts
    best_counts, order = anneal_queue(
        cluster.kind, problem.nodes, cluster.graph, problem.seconds, problem.row, choices.table,
        choices.sizes, fitness.weights, budget, counts.astype(np.int64), stream(seed),
    )  # fmt: skip
    return replace(cluster, order=order), best_counts


Objectives = Callable[[PlanFigures], Floats]
"""Two figures for each outcome, both to be minimised."""


@dataclass(frozen=True)
class EvolutionSettings:
    """Settings of the cluster and the genetic algorithm; defaults as the paper recommends."""

    queue: Discipline = setting("fifo", "queue discipline of the cluster")
    population: int | None = setting(
        None,
        "individuals in a generation; auto: 25 to 150, growing with the number of tasks",
        low=2,
    )
    generations: int = setting(500, "generations, the first one included", low=1)
    selection: Selection = setting("steady", "how parents are chosen by their fitness")
    crossover: Crossover = setting("uniform", "how two parents exchange genes")
    crossover_rate: float = setting(0.7, "chance that two parents exchange genes", low=0, high=1)
    mutation_rate: float = setting(0.01, "chance that a gene mutates", low=0, high=1)
    elite: float = setting(5.0, "best % that survive unchanged", low=0, high=100)

    def ga(self, tasks: int) -> GaSettings:
        """Return the settings of the genetic engine for so many *tasks*."""
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
    """Adds what the paper leaves out: seeds from heuristics, and annealing."""

    alpha: float = setting(0.5, "weight of the makespan; the rest is that of cost", low=0, high=1)
    seeded: bool = setting(True, "start from the results of heuristics such as CPA")
    polish: int | None = setting(
        None, "number of queue simulations that improve the result; auto: about 0.3 s", low=0
    )


def _default_population(tasks: int) -> int:
    """Return the population size of Table 1 of the paper."""
    return next((size for limit, size in ((8, 25), (16, 50), (63, 100)) if tasks <= limit), 150)


class _SeededGa(Ga):
    """The genetic engine, with some given rows in its first generation."""

    seeds: Sequence[Counts] = ()

    def first(self) -> Any:
        return _with_seeds(super().first(), self.seeds)


class _SeededNsga2(Nsga2):
    """NSGA-II, with some given rows in its first generation."""

    seeds: Sequence[Counts] = ()

    def first(self) -> Any:
        return _with_seeds(super().first(), self.seeds)


def _with_seeds(genes: Any, seeds: Sequence[Counts]) -> Any:
    """Return *genes* with its first rows replaced by *seeds*, as far as they fit."""
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
    """Return the best numbers of nodes of a genetic search, and the best fitness by generation."""
    choices = NodeChoices(cluster.problem)
    search = _SeededGa(SearchProblem(choices.space, seed=seed), settings.ga(cluster.problem.tasks))
    search.seeds = [choices.genes(counts) for counts in seeds]
    best, history = np.inf, []
    best_counts: Counts = cluster.problem.fewest
    for genes, losses in scored_generations(
        search.walk(), lambda genes: fitness(cluster.outcomes(choices.of(genes)))
    ):
        index = int(losses.argmin())
        if losses[index] < best:
            best, best_counts = float(losses[index]), choices.of(genes[index])
        history.append(best)
    return best_counts, history


def generations_to_best(history: Sequence[float]) -> int:
    """Return how many generations it took to the best fitness."""
    return history.index(history[-1]) + 1


def scored_generations(
    walk: SearchGenerator, score: Callable[[Any], Floats]
) -> Iterator[tuple[Any, Floats]]:
    """Yield all generations of a *walk*, each with its losses from *score*."""
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
    objectives: Objectives,
    settings: Nsga2Settings,
    seed: int,
    seeds: Sequence[Counts],
) -> tuple[Counts, Floats]:
    """Return the non-dominated numbers of nodes found, and their two objectives.

    Sorted by the first objective; of equal ones, one is kept.
    """
    choices = NodeChoices(cluster.problem, "lean")
    search = _SeededNsga2(
        SearchProblem(choices.space, Directions(["minimize", "minimize"]), seed), settings
    )
    search.seeds = [choices.genes(counts) for counts in seeds]
    rows = np.empty((0, cluster.problem.tasks), np.int64)
    values = np.empty((0, 2))
    for genes, losses in scored_generations(
        search.walk(), lambda genes: objectives(cluster.outcomes(choices.of(genes)))
    ):
        rows, values = np.concatenate([rows, genes]), np.concatenate([values, losses])
        # Sorted by the first objective, a point is dominated unless its second is a new minimum.
        order = np.lexsort(values.T[::-1])
        running_minimum = np.minimum.accumulate(values[order, 1])
        front = order[np.append(True, running_minimum[1:] < running_minimum[:-1])]
        rows, values = rows[front], values[front]
    return choices.of(rows), values


def guided_plan(
    cluster: ClusterQueue, fitness: Fitness, settings: GuidedSettings, seed: int, name: str
) -> MoldablePlan:
    """Return the plan of a genetic search, seeded and annealed as set.

    With seeds, tasks are submitted in the order of the best seed; without, breadth-first as in the
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
