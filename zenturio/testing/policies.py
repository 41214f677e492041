"""
What every policy that decides while a workflow runs promises (just-in-time and dynamic algorithms).

::

    class TestMine(PolicyContract):
        def policy(self, seed: int) -> Policy:
            return Mine(MySettings(), seed)
"""

from __future__ import annotations

from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow
from zenturio.schedule.simulate.machine_state import Policy
from zenturio.schedule.simulate.simulator import Perturbation, simulate, simulate_perturbed
from zenturio.schedule.simulate.trace import ExecutionTrace
from zenturio.testing.algorithms import problems

PERTURBATION = Perturbation((5.0, 30.0), (2.0, 10.0), (0.2, 0.8), failing=0.2)
"""Machines slow down, and one time in five fail; all of them come back."""


class PolicyContract:
    """Say how the policy is made."""

    def policy(self, seed: int) -> Policy:
        """Return the policy, whose choices by chance are those of *seed*."""
        raise NotImplementedError

    def test_every_task_runs_once_if_nothing_disturbs(self) -> None:
        for problem in problems():
            trace = simulate(problem, self.policy(0))
            check(trace.plan)  # each task once, after those before it
            assert trace.left == ()
            assert sum(run.kind == "ended" for run in trace.runs) == len(problem.workflow)

    def test_every_task_ends_although_machines_slow_down_and_fail(self) -> None:
        for seed, problem in enumerate(problems()):
            trace = simulate_perturbed(problem, self.policy(0), PERTURBATION, seed)
            assert trace.left == ()
            ended = sorted(run.task for run in trace.good)
            assert ended == list(range(len(problem.workflow)))

    def test_the_same_seed_makes_the_same_decisions(self) -> None:
        for problem in problems():
            one, other = (
                simulate_perturbed(problem, self.policy(5), PERTURBATION, seed=7) for _ in range(2)
            )
            assert _decisions(one) == _decisions(other)

    def test_a_policy_may_play_several_workflows(self) -> None:
        policy = self.policy(1)
        for problem in problems():
            alone = simulate(problem, self.policy(1))
            assert _decisions(simulate(problem, policy)) == _decisions(alone)

    def test_a_workflow_without_tasks_takes_no_time(self) -> None:
        nothing = Problem.of(Workflow.of("none", []), identical(2))
        assert simulate(nothing, self.policy(0)).makespan == 0


def _decisions(trace: ExecutionTrace) -> list[tuple[int, int, float]]:
    return [(run.task, run.processor, run.start) for run in trace.runs]
