"""Critical path and area: the heuristic for moldable tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.cluster import ClusterQueue, Discipline
from zenturio.schedule.fitness import MAKESPAN
from zenturio.schedule.growing import (
    anneal_allocations,
    best_start,
    grow_allocations,
    simple_allocations,
)
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.molded import MoldablePlan
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
