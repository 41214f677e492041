"""What is good about the ways to mold a workflow: the fitness functions of Jaros and Jaros (2022).

All are to be minimised.
"""

from __future__ import annotations

from typing import Literal

from zenturio.schedule.cluster import Outcomes
from zenturio.schedule.moldable import MoldableProblem
from zenturio.schedule.workflow import Floats

Formula = Literal["idle", "printed"]


def local(found: Outcomes) -> Floats:
    """The seconds of all tasks, as if none met another (Equation 2)."""
    return found.total


def on_demand(found: Outcomes, problem: MoldableProblem, alpha: float) -> Floats:
    """*alpha* of the makespan, and the rest of the cost of the nodes that tasks use (Equation 5).

    Both as a share of what all tasks take on one node, one after the other. The paper adds the
    times along the critical path "including queuing times": that is the makespan.
    """
    alone = problem.alone or 1.0
    return alpha * found.makespan / alone + (1 - alpha) * found.cost / alone


def static(
    found: Outcomes, problem: MoldableProblem, alpha: float, formula: Formula = "idle"
) -> Floats:
    """*alpha* of the makespan, and the rest of what idles of a cluster paid for as a whole.

    Idle is the share (c_max - c) / c_max of all node seconds, and c_max what the paper says that
    is paid for: the size of the allocation times the makespan. As *printed*, c_max is the size
    times the seconds of all tasks on one node (Equations 6 and 8). That does not depend on the
    plan; so the formula rewards whatever costs much, long tasks on many nodes among it.
    """
    alone = problem.alone or 1.0
    paid = problem.nodes * (found.makespan if formula == "idle" else alone)
    paid = paid + (paid == 0)
    return alpha * found.makespan / alone + (1 - alpha) * (paid - found.cost) / paid
