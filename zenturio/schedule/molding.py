"""How many nodes each task gets: searches that the algorithms for moldable workflows share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from zenturio.schedule.cluster import Cluster, Counts, Discipline
from zenturio.schedule.fitness import Fitness
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.molded import MoldablePlan
from zenturio.schedule.workflow import Floats
from zenturio.search.ga import Crossover, Ga, GaSettings, Selection
from zenturio.search.search import Task
from zenturio.search.settings import setting
from zenturio.search.walker import Walk
from zenturio.space import Space

PLAYED = 5_000_000
"""So many tasks are started to improve a plan, unless something else is said."""


POLISH: tuple[None, str] = (None, "plays that improve the result; auto: some tenths of a second")


@dataclass(frozen=True)
class Evolution:
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
        size = self.population or _population(tasks)
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
class Guided(Evolution):
    """The same with what the paper leaves out."""

    alpha: float = setting(0.5, "weight of the makespan; the rest is that of cost", low=0, high=1)
    seeded: bool = setting(True, "begin with what heuristics find, CPA among them")
    polish: int | None = setting(POLISH[0], POLISH[1], low=0)


def _population(tasks: int) -> int:
    """As in Table 1 of the paper."""
    return next((size for most, size in ((8, 25), (16, 50), (63, 100)) if tasks <= most), 150)


@dataclass(frozen=True, eq=False)
class Choices:
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


class _Seeded(Ga):
    """The genetic search that begins with some rows, and others by chance."""

    def __init__(self, task: Task, settings: GaSettings, seeds: Sequence[Counts]) -> None:
        super().__init__(task, settings)
        self._seeds = seeds

    def first(self) -> Any:
        genes = super().first()
        for row, seed in zip(genes, self._seeds, strict=False):
            row[:] = seed
        return genes


def evolved(
    cluster: Cluster,
    fitness: Fitness,
    settings: Evolution,
    seed: int,
    seeds: Sequence[Counts] = (),
) -> tuple[Counts, list[float]]:
    """The best numbers of nodes that a genetic search finds; the best fitness by generation."""
    choices = Choices(cluster.problem)
    rows = [choices.genes(counts) for counts in seeds]
    search = _Seeded(Task(choices.space, seed=seed), settings.ga(cluster.problem.tasks), rows)
    best, history = np.inf, []
    found: Counts = cluster.problem.fewest
    for genes, losses in walked(
        search.walk(), lambda genes: fitness(cluster.outcomes(choices.of(genes)))
    ):
        at = int(losses.argmin())
        if losses[at] < best:
            best, found = float(losses[at]), choices.of(genes[at])
        history.append(best)
    return found, history


def walked(walk: Walk, score: Callable[[Any], Floats]) -> Iterator[tuple[Any, Floats]]:
    """All generations of a *walk*, each with what it is worth: a row, or several figures each."""
    genes = next(walk)
    while True:
        losses = score(genes)
        yield genes, losses
        try:
            genes = walk.send(losses.reshape(len(genes), -1))
        except StopIteration:
            return


def tempered(
    cluster: Cluster, fitness: Fitness, counts: Counts, seed: int, budget: int | None = None
) -> tuple[Cluster, Counts]:
    """*counts* changed step by step, and the order of submission too; never to a worse fitness.

    After *budget* plays of the queue; None: as many as take some tenths of a second.
    """
    from zenturio.schedule.kernels.tempering import temper  # noqa: PLC0415 - needs Numba
    from zenturio.search.kernels.chance import stream  # noqa: PLC0415

    problem = cluster.problem
    choices = Choices(problem)
    if budget is None:
        budget = PLAYED // max(problem.tasks, 1)
    if not problem.tasks or not budget:
        return cluster, counts
    found, order = temper(
        cluster.kind, problem.nodes, cluster.graph, problem.seconds, problem.row, choices.table,
        choices.sizes, fitness.weights, budget, True, counts.astype(np.int64), stream(seed),
    )  # fmt: skip
    return replace(cluster, order=order), found


def grown(cluster: Cluster, until: Literal["best", "balance"] = "best") -> Counts:
    """The numbers of nodes of CPA: grown on the critical path, from the fewest.

    Until the area is as long as the critical path, as published; or as long as that can still
    make a better plan, of which the *best* is taken.
    """
    from zenturio.schedule.kernels.growing import grow  # noqa: PLC0415 - needs Numba

    problem = cluster.problem
    following = np.zeros(problem.seconds.shape, np.int64)
    for row, counts in zip(following, problem.lean, strict=True):
        row[counts[:-1]] = counts[1:]
    stride = max(1, problem.tasks // 100) if until == "best" else 0
    found: Counts = grow(
        cluster.kind, problem.nodes, cluster.graph, problem.order.astype(np.int64),
        problem.seconds, problem.row, problem.fewest.astype(np.int64), following, stride,
    )  # fmt: skip
    return found


def by_way(cluster: Cluster, counts: Counts) -> Cluster:
    """*cluster*, to which tasks with the longest way to an end are submitted first."""
    from zenturio.schedule.kernels.growing import levels  # noqa: PLC0415 - needs Numba

    problem = cluster.problem
    order, below = problem.order.astype(np.int64), np.empty(problem.tasks)
    levels(cluster.graph, order, problem.times(counts), below)
    return replace(cluster, order=order[np.argsort(-below[order], kind="stable")])


def guesses(problem: MoldableProblem) -> list[Counts]:
    """Numbers of nodes to begin with: as many for all tasks, or as many as they make good use of.

    All tasks get one, two, ... nodes, as far as they become faster by them; or each gets more as
    long as a share of the nodes' number is saved in time.
    """
    evens = sorted({1 << k for k in range(13)} | {3 << k for k in range(12)})
    choices = Choices(problem, "lean")
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


def outset(
    cluster: Cluster, fitness: Fitness, guessed: Sequence[Counts]
) -> tuple[Cluster, Counts, float]:
    """The best of what was *guessed*, where the longest ways are submitted first."""
    found = []
    for counts in guessed:
        by = by_way(cluster, counts)
        found.append((by, counts, float(fitness(by.outcomes(counts[None]))[0])))
    return min(found, key=lambda each: each[2])


def guided(
    cluster: Cluster, fitness: Fitness, settings: Guided, seed: int, name: str
) -> MoldablePlan:
    """The plan that a genetic search finds, with what is set beside it.

    With seeds, tasks are submitted as for the best of these; without, breadth first as in the
    paper.
    """
    seeds: list[Counts] = []
    if settings.seeded:
        seeds = [grown(cluster), *guesses(cluster.problem)]
        cluster, first, _ = outset(cluster, fitness, seeds)
        seeds.insert(0, first)
    counts, history = evolved(cluster, fitness, settings, seed, seeds)
    cluster, counts = tempered(cluster, fitness, counts, seed, settings.polish)
    best = float(fitness(cluster.outcomes(counts[None]))[0])
    return cluster.plan(counts, name, {"generations": len(history), "fitness": best})
