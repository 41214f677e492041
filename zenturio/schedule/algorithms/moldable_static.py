"""All moldable tasks together, where one pays for the whole cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zenturio.schedule.algorithm import Kind
from zenturio.schedule.cluster import ClusterQueue
from zenturio.schedule.fitness import Formula, static_allocation
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.molded import MoldablePlan
from zenturio.schedule.molding import GuidedSettings, guided_plan
from zenturio.search.settings import setting


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
