"""Critical path and area: the heuristic for moldable tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.model.metrics import MoldablePlan
from zenturio.schedule.model.problem import MoldableProblem
from zenturio.schedule.model.workflow import Floats
from zenturio.schedule.moldable.allocation_search import (
    MAKESPAN,
    TOTAL_TIME,
    EvolutionSettings,
    Formula,
    GuidedSettings,
    anneal_allocations,
    best_start,
    evolve_allocations,
    generations_to_best,
    grow_allocations,
    guided_plan,
    on_demand,
    pareto_front,
    simple_allocations,
    static_allocation,
    submitted_by_rank,
)
from zenturio.schedule.moldable.cluster_queue import (
    ClusterQueue,
    Counts,
    Discipline,
    QueueOutcomes,
)
from zenturio.search.nsga2 import Nsga2Settings
from zenturio.search.settings import setting


@dataclass(frozen=True)
class CpaSettings:
    queue: Discipline = setting("fifo", "how the cluster chooses what starts")
    until: Literal["best", "balance"] = setting(
        "best", "as long as plans may become better; balance: as published"
    )
    polish: int | None = setting(
        None, "plays that improve the result; auto: some tenths of a second", low=0
    )


class Cpa:
    """More nodes for the critical path while it outweighs the area, then the longest way first.

    For short makespans at once, and the one to try first. Not where cost counts: moldable-global
    weighs it. Cost: tasks x nodes steps, each as long as a walk over the workflow: a second for a
    thousand tasks, half a minute for ten thousand; as published a third of that.
    A. Radulescu, A. van Gemund: A low-cost approach towards mixed task and data parallel
    scheduling. ICPP 2001. As published: until=balance polish=0. By default it goes on beyond the
    balance, takes the best plan on the way, or one that gives all tasks the same number of nodes
    if that is better, and anneals it.
    """

    kind: ClassVar[Kind] = "moldable"
    Settings = CpaSettings

    def __init__(self, settings: CpaSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or CpaSettings()
        self._seed = seed

    def plan(self, problem: MoldableProblem) -> MoldablePlan:
        cluster = ClusterQueue(problem, self._settings.queue)
        tried = [grow_allocations(cluster, self._settings.until)]
        if self._settings.until == "best":
            tried += simple_allocations(problem)
        cluster, counts, _ = best_start(cluster, MAKESPAN, tried)
        cluster, counts = anneal_allocations(
            cluster, MAKESPAN, counts, self._seed, self._settings.polish
        )
        return cluster.plan(counts, "cpa")


@dataclass(frozen=True)
class MoldableFrontSettings:
    alpha: float = setting(
        0.5, "which plan of the front is taken: 1 the shortest, 0 the cheapest", low=0, high=1
    )
    against: Literal["cost", "idle"] = setting("cost", "what is weighed against the makespan")
    queue: Discipline = setting("fifo", "how the cluster chooses what starts")
    population: int = setting(100, "individuals in a generation", low=4)
    generations: int = setting(300, "generations, the first one included", low=1)


class MoldableFront:
    """All plans that are worth a look, from the shortest to the cheapest, in one run (NSGA-II).

    To see what a weight would choose from, before it is set; the plan is the one that alpha
    chooses, the notes list all. Not for the very best at one end: cpa and moldable-global look
    longer there. Cost: generations x population plays of the queue.
    K. Deb, A. Pratap, S. Agarwal, T. Meyarivan: A fast and elitist multiobjective genetic
    algorithm: NSGA-II. IEEE TEC 6(2), 2002.
    """

    kind: ClassVar[Kind] = "moldable"
    Settings = MoldableFrontSettings

    def __init__(self, settings: MoldableFrontSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or MoldableFrontSettings()
        self._seed = seed

    def plan(self, problem: MoldableProblem) -> MoldablePlan:
        """The plan of the front that is nearest to its ends, weighed by alpha."""
        cluster, counts, worth = self._search(problem)
        span = np.maximum(np.ptp(worth, axis=0), np.finfo(float).tiny)
        near = (worth - worth.min(axis=0)) / span @ [self._settings.alpha, 1 - self._settings.alpha]
        names = ("makespan", "idle" if self._settings.against == "idle" else "node_seconds")
        notes: dict[str, Any] = {
            "front": [dict(zip(names, row, strict=True)) for row in worth.tolist()]
        }
        return cluster.plan(counts[near.argmin()], "moldable-front", notes)

    def front(self, problem: MoldableProblem) -> tuple[MoldablePlan, ...]:
        """All of them, the shortest first."""
        cluster, counts, _ = self._search(problem)
        return tuple(cluster.plan(row, "moldable-front") for row in counts)

    def _search(self, problem: MoldableProblem) -> tuple[ClusterQueue, Counts, Floats]:
        def aims(found: QueueOutcomes) -> Floats:
            length = found.makespan + (found.makespan == 0)
            idle = 1 - found.cost / (problem.nodes * length)
            return np.stack([found.makespan, idle if against == "idle" else found.cost], axis=1)

        against = self._settings.against
        cluster = ClusterQueue(problem, self._settings.queue)
        first = grow_allocations(cluster)
        cluster = submitted_by_rank(cluster, first)
        seeds = [first, problem.fastest, problem.fewest, *simple_allocations(problem)]
        rules = Nsga2Settings(self._settings.population, self._settings.generations)
        return cluster, *pareto_front(cluster, aims, rules, self._seed, seeds)


class MoldableGlobal:
    """A short makespan and few node seconds, weighed by alpha: for a cluster shared with others.

    For on-demand allocation, where only what tasks use is paid for. With alpha=1 the makespan
    alone counts, with alpha=0 the cost. Not to learn what there is to choose from:
    moldable-front finds that in one run. Cost: generations x population plays of the queue, each
    of microseconds. As published: seeded=false polish=0.
    M. Jaros, J. Jaros: Performance-cost optimization of moldable scientific workflows. JSSPP 2021,
    Equation 5.
    """

    kind: ClassVar[Kind] = "moldable"
    Settings = GuidedSettings

    def __init__(self, settings: GuidedSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or GuidedSettings()
        self._seed = seed

    def plan(self, problem: MoldableProblem) -> MoldablePlan:
        fitness = on_demand(problem, self._settings.alpha)
        cluster = ClusterQueue(problem, self._settings.queue)
        return guided_plan(cluster, fitness, self._settings, self._seed, "moldable-global")


@dataclass(frozen=True)
class MoldableLocalSettings(EvolutionSettings):
    exact: bool = setting(True, "read the best numbers off the tables; false: search by GA")


class MoldableLocal:
    """The nodes on which each task is fastest, whatever the others do: for clusters with room.

    For small tasks on a cluster of hundreds of nodes, where few wait for each other. Not where
    tasks compete: each takes all nodes that make it a little faster, and the next ones wait.
    Cost: none; as the paper does it, a genetic search whose optimum the tables tell at once.
    M. Jaros, J. Jaros: Performance-cost optimization of moldable scientific workflows. JSSPP 2021,
    Equation 2.
    """

    kind: ClassVar[Kind] = "moldable"
    Settings = MoldableLocalSettings

    def __init__(self, settings: MoldableLocalSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or MoldableLocalSettings()
        self._seed = seed

    def plan(self, problem: MoldableProblem) -> MoldablePlan:
        cluster = ClusterQueue(problem, self._settings.queue)
        if self._settings.exact:
            return cluster.plan(problem.fastest, "moldable-local")
        counts, history = evolve_allocations(cluster, TOTAL_TIME, self._settings, self._seed)
        notes = {
            "generations": len(history),
            "settled": generations_to_best(history),
            "fitness": history[-1],
        }
        return cluster.plan(counts, "moldable-local", notes)


@dataclass(frozen=True)
class MoldableStaticSettings(GuidedSettings):
    formula: Formula = setting(
        "idle", "what is paid for in vain; printed: Equation 8 to the letter"
    )


class MoldableStatic:
    """A short makespan and few idle nodes, weighed by alpha: for a cluster of one's own.

    For static allocation, where the whole cluster is paid for until the last task ends. Not for
    an alpha near 0: a task that wastes many nodes is not idle. Cost: as moldable-global.
    M. Jaros, J. Jaros: Performance-cost optimization of moldable scientific workflows. JSSPP 2021,
    Equation 8; by default with the cost of its text, for as printed it rewards costly plans.
    """

    kind: ClassVar[Kind] = "moldable"
    Settings = MoldableStaticSettings

    def __init__(self, settings: MoldableStaticSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or MoldableStaticSettings()
        self._seed = seed

    def plan(self, problem: MoldableProblem) -> MoldablePlan:
        fitness = static_allocation(problem, self._settings.alpha, self._settings.formula)
        cluster = ClusterQueue(problem, self._settings.queue)
        return guided_plan(cluster, fitness, self._settings, self._seed, "moldable-static")
