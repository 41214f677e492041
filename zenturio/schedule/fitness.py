"""What is good about the ways to mold a workflow: the fitness functions of Jaros and Jaros (2022).

All are to be minimised.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Literal

from zenturio.schedule.cluster import QueueOutcomes
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.workflow import Floats

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
