"""One plan in many futures: how its makespan spreads when machines are disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zenturio.schedule.evaluate import problem_arrays
from zenturio.schedule.perturb import Perturbation, combined_load
from zenturio.schedule.plan import Plan
from zenturio.schedule.platform import LoadStep
from zenturio.schedule.policy import task_sequence
from zenturio.schedule.problem import Problem
from zenturio.schedule.workflow import Floats

if TYPE_CHECKING:
    from zenturio.schedule.kernels.loaded import LoadArrays


def perturbed_makespans(plan: Plan, how: Perturbation, seeds: range) -> Floats:
    """The makespan of *plan* in the disturbances of each seed: those that `disturbed` plays."""
    found = np.empty(len(seeds))
    for i, seed in enumerate(seeds):
        until = max(plan.makespan, 1.0)
        while True:
            found[i] = float(replay_under_load(plan, how, seed, until).end.max(initial=0.0))
            if found[i] <= until or not np.isfinite(found[i]):
                break
            until *= 2
    return found


def replay_under_load(
    plan: Plan, how: Perturbation | None = None, seed: int = 0, until: float = 0.0
) -> Plan:
    """*plan* as it would be carried out under the loads of its machines, and disturbances."""
    from zenturio.schedule.kernels.loaded import play_loaded  # noqa: PLC0415 - loads Numba

    problem = plan.problem
    start, end = np.empty(problem.tasks), np.empty(problem.tasks)
    play_loaded(
        problem_arrays(problem),
        _load_arrays(problem, how, seed, until, set(problem.node[plan.processor].tolist())),
        plan.processor.astype(np.uint32),
        np.array(task_sequence(plan), np.uint32),
        np.empty(problem.processors),
        start,
        end,
    )
    return Plan(problem, plan.algorithm, plan.processor, start, end)


def _load_arrays(
    problem: Problem, how: Perturbation | None, seed: int, until: float, used: set[int]
) -> LoadArrays:
    """What befalls the machines that are *used*; others need no chance drawn for them."""
    from zenturio.schedule.kernels.loaded import LoadArrays  # noqa: PLC0415

    times, shares = [np.empty(0)], [np.empty(0)]
    for number, machine in enumerate(problem.platform.machines):
        steps = machine.load
        if how is not None and number in used:
            drawn = how.steps(seed, number, until)
            if not steps:
                times.append(drawn[0])
                shares.append(drawn[1])
                continue
            steps = combined_load(steps, tuple(map(LoadStep, drawn[0].tolist(), drawn[1].tolist())))
        times.append(np.array([step.time for step in steps]))
        shares.append(np.array([step.share for step in steps]))
    start = np.cumsum([len(each) for each in times]).astype(np.uint64)
    return LoadArrays(start, np.concatenate(times), np.concatenate(shares))
