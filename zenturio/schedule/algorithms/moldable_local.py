"""Each moldable task for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.cluster import ClusterQueue
from zenturio.schedule.fitness import TOTAL_TIME
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.molded import MoldablePlan
from zenturio.schedule.molding import EvolutionSettings, evolve_allocations, generations_to_best
from zenturio.search.settings import setting


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
