"""All moldable tasks together, where one pays for the nodes that they use."""

from __future__ import annotations

from typing import ClassVar

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.cluster import ClusterQueue
from zenturio.schedule.fitness import on_demand
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.molded import MoldablePlan
from zenturio.schedule.molding import GuidedSettings, guided_plan


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
