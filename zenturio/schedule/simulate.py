"""Plays a workflow on a platform that changes, by a plan or by a policy.

Nothing here is left to chance: the same problem, policy, loads and repeats give the same trace.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from zenturio.schedule import loops
from zenturio.schedule.grid import Grid
from zenturio.schedule.loops import Repeats
from zenturio.schedule.plan import Plan
from zenturio.schedule.policy import Follow, Policy
from zenturio.schedule.problem import Problem
from zenturio.schedule.rounds import Rounds
from zenturio.schedule.trace import Trace


def simulate(
    problem: Problem,
    what: Plan | Policy,
    *,
    arrivals: ArrayLike | None = None,
    forward: ArrayLike | None = None,
    repeats: Repeats | None = None,
    algorithm: str = "",
) -> Trace:
    """What happens when *what* is played on the machines of *problem* under their loads.

    *arrivals* has for each task when it becomes known. Loops are run as *repeats* has it; but with
    *forward*, which has for each edge whether it is waited for, the policy plays them itself: it
    calls `Grid.again`.
    """
    policy = Follow(what) if isinstance(what, Plan) else what
    name = algorithm or (what.algorithm if isinstance(what, Plan) else type(what).__name__.lower())
    found = loops.loops(problem.workflow) if forward is None else ()
    waited = loops.forward(problem.workflow, found) if found else forward
    grid = Grid(problem, arrivals, waited)
    rounds = Rounds(grid, found, repeats or Repeats())
    for events in grid.moments():
        policy.react(grid, [*events, *rounds.turn()])
    once = loops.straight(problem, found)
    left = tuple(grid.left())
    return Trace(once, name, tuple(grid.runs), tuple(grid.events), left, grid.notes)
