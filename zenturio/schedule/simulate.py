"""Plays a workflow on a platform that changes, by a plan or by a policy.

Nothing here is left to chance: the same problem, policy and loads give the same trace.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from zenturio.schedule.grid import Grid
from zenturio.schedule.plan import Plan
from zenturio.schedule.policy import Follow, Policy
from zenturio.schedule.problem import Problem
from zenturio.schedule.trace import Trace


def simulate(
    problem: Problem,
    what: Plan | Policy,
    *,
    arrivals: ArrayLike | None = None,
    forward: ArrayLike | None = None,
    algorithm: str = "",
) -> Trace:
    """What happens when *what* is played on the machines of *problem* under their loads.

    *arrivals* has for each task when it becomes known. *forward* has for each edge whether it is
    waited for: not those that close a loop; a policy that plays loops calls `Grid.again`.
    """
    policy = Follow(what) if isinstance(what, Plan) else what
    name = algorithm or (what.algorithm if isinstance(what, Plan) else type(what).__name__.lower())
    grid = Grid(problem, arrivals, forward)
    grid.play(policy)
    return Trace(problem, name, tuple(grid.runs), tuple(grid.events), tuple(grid.left()))
