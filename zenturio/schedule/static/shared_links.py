"""Plans for platforms whose transfers share links.

A plan supposes that each transfer has its links to itself. Here plans are played with links that
are shared, and what takes least time then is best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import inf
from time import monotonic

import numpy as np

from zenturio.schedule.model.evaluation import evaluate
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.simulate.simulator import simulate, task_sequence

SLOWER = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
"""By how much transfers are supposed to be slower in the plans that are made to begin with."""
MOST_MOVES = 300
"""Moves that are played without a time limit."""


@dataclass(frozen=True)
class PlayedPlan:
    """A plan, and its makespan when it is played with links that are shared."""

    plan: Plan
    makespan: float


def played(plan: Plan) -> PlayedPlan:
    """Play *plan* without loads: these are not known beforehand."""
    problem = plan.problem
    machines = tuple(replace(machine, load=()) for machine in problem.platform.machines)
    platform = replace(problem.platform, machines=machines)
    trace = simulate(replace(problem, platform=platform), plan)
    return PlayedPlan(plan, trace.makespan)


def plan_for_shared_links(
    problem: Problem,
    planner: Callable[[Problem], Plan],
    plans: Iterable[Plan] = (),
    until: float = inf,
    seed: int = 0,
) -> PlayedPlan:
    """Return the best of *plans*, plans of *planner* for slower links, and what moves make of it.

    Plans for slower links keep tasks together whose data would crowd a link. Then single tasks
    move to other processors; each move is played. Stop at the time *until* of the clock, or after
    `MOST_MOVES`.
    """
    best = min((played(plan) for plan in plans), key=_makespan, default=None)
    for factor in SLOWER:
        if best is not None and monotonic() >= until:
            break
        crowded = replace(
            problem, slowness=problem.slowness * factor, latency=problem.latency * factor
        )
        made = planner(crowded)
        candidate = played(evaluate(problem, made.processor, task_sequence(made), made.algorithm))
        best = candidate if best is None else min(best, candidate, key=_makespan)
    assert best is not None
    return _with_moves(problem, best, until, seed)


def _makespan(candidate: PlayedPlan) -> float:
    return candidate.makespan


def _with_moves(problem: Problem, best: PlayedPlan, until: float, seed: int) -> PlayedPlan:
    """Move groups of tasks at random, as long as the played plan gets no longer."""
    rng = np.random.default_rng(seed)
    fits = np.isfinite(problem.pace)[problem.row]
    groups = np.unique(problem.group)
    moves = 0
    while monotonic() < until and (until < inf or moves < MOST_MOVES):
        moves += 1
        tasks = np.flatnonzero(problem.group == rng.choice(groups))
        possible = np.flatnonzero(fits[tasks].all(axis=0))
        processor = best.plan.processor.copy()
        processor[tasks] = rng.choice(possible)
        if (processor == best.plan.processor).all():
            continue
        order = task_sequence(best.plan)
        moved = played(evaluate(problem, processor, order, best.plan.algorithm))
        best = min(moved, best, key=_makespan)
    return best
