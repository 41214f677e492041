"""What there is to choose from between short makespans and low costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.cluster import ClusterQueue, Counts, Discipline, QueueOutcomes
from zenturio.schedule.growing import grow_allocations, simple_allocations, submitted_by_rank
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.molded import MoldablePlan
from zenturio.schedule.molding import pareto_front
from zenturio.schedule.workflow import Floats
from zenturio.search.nsga2 import Nsga2Settings
from zenturio.search.settings import setting


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
