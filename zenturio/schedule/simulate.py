"""Plays a workflow on a platform that changes, by a plan or by a policy.

Nothing here is left to chance: the same problem, policy, loads and repeats give the same trace.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from zenturio.schedule import loops
from zenturio.schedule.grid import MachineState
from zenturio.schedule.loops import LoopIterations
from zenturio.schedule.plan import Plan
from zenturio.schedule.policy import FollowPlan, Policy
from zenturio.schedule.problem import Problem
from zenturio.schedule.rounds import LoopController
from zenturio.schedule.trace import ExecutionTrace


def simulate(
    problem: Problem,
    what: Plan | Policy,
    *,
    arrivals: ArrayLike | None = None,
    forward: ArrayLike | None = None,
    repeats: LoopIterations | None = None,
    algorithm: str = "",
) -> ExecutionTrace:
    """What happens when *what* is played on the machines of *problem* under their loads.

    *arrivals* has for each task when it becomes known. Loops are run as *repeats* has it; but with
    *forward*, which has for each edge whether it is waited for, the policy plays them itself: it
    calls `Grid.again`.
    """
    policy = FollowPlan(what) if isinstance(what, Plan) else what
    name = algorithm or (what.algorithm if isinstance(what, Plan) else type(what).__name__.lower())
    found = loops.find_loops(problem.workflow) if forward is None else ()
    waited = loops.forward_edges(problem.workflow, found) if found else forward
    grid = MachineState(problem, arrivals, waited)
    rounds = LoopController(grid, found, repeats or LoopIterations())
    for events in grid.moments():
        policy.react(grid, [*events, *rounds.turn()])
    once = loops.single_iteration_problem(problem, found)
    left = tuple(grid.left())
    return ExecutionTrace(once, name, tuple(grid.runs), tuple(grid.events), left, grid.notes)
