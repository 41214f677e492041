"""Numbers of nodes as rows of genes, and back."""

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
    QueueOutcomes,
)
from zenturio.search.engine import SearchProblem
from zenturio.search.ga import Crossover, Ga, GaSettings, Selection
from zenturio.search.generator_engine import SearchGenerator
from zenturio.search.nsga2 import Nsga2, Nsga2Settings
from zenturio.search.objective import Directions
from zenturio.search.settings import setting
from zenturio.space import Space


@dataclass(frozen=True, eq=False)
class NodeChoices:
    """For each task the numbers of nodes that it may get, and rows of genes that choose them."""

    problem: MoldableProblem
    kind: Literal["possible", "lean"] = "possible"

    @cached_property
    def counts(self) -> tuple[Counts, ...]:
        """By row of the problem's ``seconds``."""
        return self.problem.possible if self.kind == "possible" else self.problem.lean

    @cached_property
    def space(self) -> Space:
        sets = [counts.tolist() for counts in self.counts]
        return Space(**{f"t{i}": sets[row] for i, row in enumerate(self.problem.row)})

    @cached_property
    def table(self) -> Counts:
        """The same, one row as long as the other."""
        found = np.zeros((len(self.counts), max(map(len, self.counts), default=1)), np.int64)
        for counts, into in zip(self.counts, found, strict=True):
            into[: len(counts)] = counts
        return found

    @cached_property
    def sizes(self) -> Counts:
        return np.array([len(counts) for counts in self.counts], np.int64)

    def of(self, genes: Counts) -> Counts:
        """The numbers of nodes that rows of *genes* stand for."""
        found: Counts = self.table[self.problem.row, genes]
        return found

    def genes(self, counts: Counts) -> Counts:
        """The genes of the nearest numbers of nodes not above *counts*, or the smallest."""
        found = [
            max(np.searchsorted(self.counts[row], count, side="right") - 1, 0)
            for row, count in zip(self.problem.row, counts, strict=True)
        ]
        return np.array(found, np.int64)


Formula = Literal["idle", "printed"]


@dataclass(frozen=True)
class Fitness:
    """The weights of what comes of a plan, and something that all plans have."""

    total: float = 0.0
    """Weight of the seconds of all tasks."""
    makespan: float = 0.0
    cost: float = 0.0
    """Weight of the node seconds of all tasks."""
    busy: float = 0.0
    """Weight of how many nodes these are, from the beginning to the end."""
    always: float = 0.0

    def __call__(self, found: QueueOutcomes) -> Floats:
        length = found.makespan + (found.makespan == 0)
        worth: Floats = (
            self.total * found.total
            + self.makespan * found.makespan
            + self.cost * found.cost
            + self.busy * found.cost / length
            + self.always
        )
        return worth

    @property
    def weights(self) -> tuple[float, ...]:
        """As the kernels want them."""
        return astuple(self)


MAKESPAN = Fitness(makespan=1.0)
TOTAL_TIME = Fitness(total=1.0)
"""The seconds of all tasks, as if none met another (Equation 2)."""


def on_demand(problem: MoldableProblem, alpha: float) -> Fitness:
    """*alpha* of the makespan, and the rest of the cost of the nodes that tasks use (Equation 5).

    Both as a share of what all tasks take on one node, one after the other. The paper adds the
    times along the critical path "including queuing times": that is the makespan.
    """
    alone = problem.alone or 1.0
    return Fitness(makespan=alpha / alone, cost=(1 - alpha) / alone)


def static_allocation(problem: MoldableProblem, alpha: float, formula: Formula = "idle") -> Fitness:
    """*alpha* of the makespan, and the rest of what idles of a cluster paid for as a whole.

    Idle is the share (c_max - c) / c_max of all node seconds, and c_max what the paper says that
    is paid for: the size of the allocation times the makespan. As *printed*, c_max is the size
    times the seconds of all tasks on one node (Equations 6 and 8). That does not depend on the
    plan; so the formula rewards whatever costs much, long tasks on many nodes among it.
    """
    alone = problem.alone or 1.0
    rest = 1 - alpha
    if formula == "idle":
        return Fitness(makespan=alpha / alone, busy=-rest / problem.nodes, always=rest)
    return Fitness(makespan=alpha / alone, cost=-rest / (alone * problem.nodes), always=rest)


_MAX_TASKS_PLAYED, _MAX_PLAYS = 5_000_000, 50_000
"""To improve a plan so many tasks are started, and queues played, unless something else is said."""


def grow_allocations(cluster: ClusterQueue, until: Literal["best", "balance"] = "best") -> Counts:
    """The numbers of nodes of CPA: grown on the critical path, from the fewest.

    Until the area is as long as the critical path, as published; or as long as that can still
    make a better plan, of which the *best* is taken.
    """
    from zenturio.schedule.kernels.cluster_queue import grow_nodes  # noqa: PLC0415 - needs Numba

    problem = cluster.problem
    following = np.zeros(problem.seconds.shape, np.int64)
    for row, counts in zip(following, problem.lean, strict=True):
        row[counts[:-1]] = counts[1:]
    stride = max(1, problem.tasks // 100) if until == "best" else 0
    found: Counts = grow_nodes(
        cluster.kind, problem.nodes, cluster.graph, problem.order.astype(np.int64),
        problem.seconds, problem.row, problem.fewest.astype(np.int64), following, stride,
    )  # fmt: skip
    return found


def submitted_by_rank(cluster: ClusterQueue, counts: Counts) -> ClusterQueue:
    """*cluster*, to which tasks with the longest way to an end are submitted first."""
    from zenturio.schedule.kernels.cluster_queue import bottom_levels  # noqa: PLC0415 - needs Numba

    problem = cluster.problem
    order, below = problem.order.astype(np.int64), np.empty(problem.tasks)
    bottom_levels(cluster.graph, order, problem.times(counts), below)
    return replace(cluster, order=order[np.argsort(-below[order], kind="stable")])


def simple_allocations(problem: MoldableProblem) -> list[Counts]:
    """Numbers of nodes to begin with: as many for all tasks, or as many as they make good use of.

    All tasks get one, two, ... nodes, as far as they become faster by them; or each gets more as
    long as a share of the nodes' number is saved in time.
    """
    evens = sorted({1 << k for k in range(13)} | {3 << k for k in range(12)})
    choices = NodeChoices(problem, "lean")
    most = int(problem.fastest.max(initial=1))
    upto = [even for even in evens if even < most] + [most]
    found: list[Counts] = [choices.of(choices.genes(np.full(problem.tasks, k))) for k in upto]
    known = np.isfinite(problem.seconds)
    time = np.log(
        problem.seconds, out=np.full(known.shape, np.inf), where=known & (problem.seconds > 0)
    )
    time[problem.seconds == 0] = 0
    nodes = np.log(np.maximum(np.arange(known.shape[1]), 1))
    return found + [
        (time + share * nodes).argmin(axis=1)[problem.row] for share in (0.05, 0.1, 0.2, 0.4)
    ]


def best_start(
    cluster: ClusterQueue, fitness: Fitness, guessed: Sequence[Counts]
) -> tuple[ClusterQueue, Counts, float]:
    """The best of what was *guessed*, where the longest ways are submitted first."""
    found = []
    for counts in guessed:
        by = submitted_by_rank(cluster, counts)
        found.append((by, counts, float(fitness(by.outcomes(counts[None]))[0])))
    return min(found, key=lambda each: each[2])


def anneal_allocations(
    cluster: ClusterQueue, fitness: Fitness, counts: Counts, seed: int, budget: int | None = None
) -> tuple[ClusterQueue, Counts]:
    """*counts* changed step by step, and the order of submission too; never to a worse fitness.

    After *budget* plays of the queue; None: as many as take some tenths of a second.
    """
    from zenturio.schedule.kernels.cluster_queue import anneal_queue  # noqa: PLC0415 - needs Numba
    from zenturio.search.kernels.rng import stream  # noqa: PLC0415

    problem = cluster.problem
    choices = NodeChoices(problem)
    if budget is None:
        budget = min(_MAX_TASKS_PLAYED // max(problem.tasks, 1), _MAX_PLAYS)
    if not problem.tasks or not budget:
        return cluster, counts
    found, order = anneal_queue(
        cluster.kind, problem.nodes, cluster.graph, problem.seconds, problem.row, choices.table,
        choices.sizes, fitness.weights, budget, counts.astype(np.int64), stream(seed),
    )  # fmt: skip
    return replace(cluster, order=order), found


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
