"""
What every algorithm that plans a workflow promises, as tests: a plug-in's tests inherit them.

::

    class TestMine(AlgorithmContract):
        def algorithm(self, seed: int) -> Algorithm:
            return Mine(MySettings(), seed)
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

from zenturio.schedule.algorithm import Algorithm
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask


def problems() -> Iterator[Problem]:
    """Yield a chain, a fork that joins, independent tasks, and graphs of several layers."""
    names = "abcdef"
    chain = list(pairwise(names))
    fork = [("a", name) for name in names[1:-1]] + [(name, "f") for name in names[1:-1]]
    for edges in (chain, fork, []):
        yield Problem.of(_workflow(names, edges, 1), identical(2))
    for seed in range(6):
        chance = random.Random(seed)  # noqa: S311 - no secret
        tasks = [f"t{number}" for number in range(chance.randrange(1, 15))]
        pairs = [(one, two) for at, one in enumerate(tasks) for two in tasks[at + 1 :]]
        edges = [pair for pair in pairs if chance.random() < 0.25]
        machines = tuple(PlatformMachine(f"m{n}", speed=1 + n) for n in range(1 + seed % 4))
        yield Problem.of(_workflow(tasks, edges, seed), Platform("contract", machines))


def _workflow(names: str | list[str], edges: list[tuple[str, str]], seed: int) -> Workflow:
    chance = random.Random(seed)  # noqa: S311 - no secret
    tasks = [WorkflowTask(name, work=chance.randrange(1, 20)) for name in names]
    return Workflow.of("contract", tasks, edges)


class AlgorithmContract:
    """Say how the algorithm is made."""

    def algorithm(self, seed: int) -> Algorithm:
        """Return the algorithm, whose choices by chance are those of *seed*."""
        raise NotImplementedError

    def test_a_plan_can_be_carried_out(self) -> None:
        for problem in problems():
            plan = check(self.algorithm(0).plan(problem))  # each task once, after those before it
            assert len(plan.start) == len(problem.workflow)
            assert plan.makespan > 0

    def test_the_same_seed_makes_the_same_plan(self) -> None:
        for problem in problems():
            one, other = (self.algorithm(5).plan(problem) for _ in range(2))
            assert one.start.tolist() == other.start.tolist()
            assert one.processor.tolist() == other.processor.tolist()

    def test_an_algorithm_may_plan_several_workflows(self) -> None:
        algorithm = self.algorithm(1)
        for problem in problems():
            check(algorithm.plan(problem))

    def test_a_workflow_without_tasks_takes_no_time(self) -> None:
        nothing = Problem.of(Workflow.of("none", []), identical(2))
        assert check(self.algorithm(0).plan(nothing)).makespan == 0
