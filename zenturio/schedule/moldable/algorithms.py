"""Algorithms for moldable workflows: CPA, and the genetic algorithms of Jaros and Jaros."""

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
    PlanFigures,
)
from zenturio.search.nsga2 import Nsga2Settings
from zenturio.settings.schema import setting


@dataclass(frozen=True)
class CpaSettings:
    queue: Discipline = setting("fifo", "queue discipline of the cluster")
    until: Literal["best", "balance"] = setting(
        "best", "when to stop adding nodes: best: when plans cannot improve; balance: as published"
    )
    polish: int | None = setting(
        None, "number of queue simulations that improve the result; auto: about 0.3 s", low=0
    )


class Cpa:
    """Add nodes on the critical path while it outweighs the area, then submit by rank (CPA).

    Good for short makespans, and quick: try this one first. Not good where cost matters:
    moldable-global weighs it. Cost: tasks x nodes steps, each a walk over the workflow: a second
    for a thousand tasks, half a minute for ten thousand; as published, a third of that. A.
    Radulescu, A. van Gemund: A low-cost approach towards mixed task and data parallel scheduling.
    ICPP 2001. As published: until=balance polish=0. By default it continues beyond the balance and
    takes the best plan found, or a better one that gives all tasks the same number of nodes. It
    then improves this plan by simulated annealing.
    """

    kind: ClassVar[Kind] = "moldable"
    Settings = CpaSettings

    def __init__(self, settings: CpaSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or CpaSettings()
        self._seed = seed

    def plan(self, problem: MoldableProblem) -> MoldablePlan:
        cluster = ClusterQueue(problem, self._settings.queue)
        allocations = [grow_allocations(cluster, self._settings.until)]
        if self._settings.until == "best":
            # Growth sees one critical path at a time; for many alike, equal numbers may be better.
            allocations += simple_allocations(problem)
        cluster, counts, _ = best_start(cluster, MAKESPAN, allocations)
        cluster, counts = anneal_allocations(
            cluster, MAKESPAN, counts, self._seed, self._settings.polish
        )
        return cluster.plan(counts, "cpa")


@dataclass(frozen=True)
class MoldableFrontSettings:
    alpha: float = setting(
        0.5, "which plan of the front to return: 1 the shortest, 0 the cheapest", low=0, high=1
    )
    against: Literal["cost", "idle"] = setting("cost", "the objective besides the makespan")
    queue: Discipline = setting("fifo", "queue discipline of the cluster")
    population: int = setting(100, "individuals in a generation", low=4)
    generations: int = setting(300, "generations, the first one included", low=1)


class MoldableFront:
    """Find all non-dominated plans, from the shortest to the cheapest, in one run (NSGA-II).

    Good for seeing the trade-off before you choose a weight. It returns the plan that alpha
    selects, and the notes list all plans. Not good for the very best plan by one objective: cpa and
    moldable-global search longer for it. Cost: generations x population simulations of the queue.
    K. Deb, A. Pratap, S. Agarwal, T. Meyarivan: A fast and elitist multiobjective genetic
    algorithm: NSGA-II. IEEE TEC 6(2), 2002.
    """

    kind: ClassVar[Kind] = "moldable"
    Settings = MoldableFrontSettings

    def __init__(self, settings: MoldableFrontSettings | None = None, seed: int = 0) -> None:
        self._settings = settings or MoldableFrontSettings()
        self._seed = seed

    def plan(self, problem: MoldableProblem) -> MoldablePlan:
        """Return the plan of the front that is nearest to its ends, weighted by alpha."""
        cluster, counts, objectives = self._search(problem)
        # A front of one plan has no span.
        span = np.maximum(np.ptp(objectives, axis=0), np.finfo(float).tiny)
        distance = (
            (objectives - objectives.min(axis=0))
            / span
            @ [self._settings.alpha, 1 - self._settings.alpha]
        )
        names = ("makespan", "idle" if self._settings.against == "idle" else "node_seconds")
        notes: dict[str, Any] = {
            "front": [dict(zip(names, row, strict=True)) for row in objectives.tolist()]
        }
        return cluster.plan(counts[distance.argmin()], "moldable-front", notes)

    def front(self, problem: MoldableProblem) -> tuple[MoldablePlan, ...]:
        """Return all plans of the front, the shortest first."""
        cluster, counts, _ = self._search(problem)
        return tuple(cluster.plan(row, "moldable-front") for row in counts)

    def _search(self, problem: MoldableProblem) -> tuple[ClusterQueue, Counts, Floats]:
        def objectives(outcomes: PlanFigures) -> Floats:
            # A workflow without work takes no time, and idles for none.
            length = outcomes.makespan + (outcomes.makespan == 0)
            idle = 1 - outcomes.cost / (problem.nodes * length)
            return np.stack(
                [outcomes.makespan, idle if against == "idle" else outcomes.cost], axis=1
            )

        against = self._settings.against
        cluster = ClusterQueue(problem, self._settings.queue)
        grown = grow_allocations(cluster)
        # One order for the whole front: with an order for each plan, the search would sort in each
        # play.
        cluster = submitted_by_rank(cluster, grown)
        seeds = [grown, problem.fastest, problem.fewest, *simple_allocations(problem)]
        rules = Nsga2Settings(self._settings.population, self._settings.generations)
        return cluster, *pareto_front(cluster, objectives, rules, self._seed, seeds)


class MoldableGlobal:
    """Minimise makespan and used node seconds, weighted by alpha, for a shared cluster.

    Good for on-demand allocation, where only the nodes in use are paid for. With alpha=1 only the
    makespan counts, with alpha=0 only the cost. To see the trade-off first, use moldable-front.
    Cost: generations x population simulations of the queue, each of microseconds. As published:
    seeded=false polish=0. M. Jaros, J. Jaros: Performance-cost optimization of moldable scientific
    workflows. JSSPP 2021, Equation 5.
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
    exact: bool = setting(True, "read the best numbers off the tables; false: search with a GA")


class MoldableLocal:
    """Give each task the number of nodes on which it is fastest, regardless of the others.

    Good for small tasks on a cluster of hundreds of nodes, where few tasks wait. Not good if tasks
    compete: each task takes all nodes that make it slightly faster, and later tasks wait. Cost:
    none; the paper uses a genetic search whose optimum can be read off the tables. M. Jaros, J.
    Jaros: Performance-cost optimization of moldable scientific workflows. JSSPP 2021, Equation 2.
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
    formula: Formula = setting("idle", "what counts as waste; printed: Equation 8 to the letter")


class MoldableStatic:
    """Minimise makespan and idle nodes, weighted by alpha, for a dedicated cluster.

    Good for static allocation, where the whole cluster is paid for until the last task ends. Not
    good for an alpha near 0: a task that wastes many nodes is not idle. Cost: as moldable-global.
    M. Jaros, J. Jaros: Performance-cost optimization of moldable scientific workflows. JSSPP 2021,
    Equation 8; by default with the cost as the text defines it, because the printed formula rewards
    costly plans.
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
