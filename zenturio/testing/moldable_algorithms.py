"""
What every algorithm promises that gives moldable tasks their nodes.

::

    class TestMine(MoldableContract):
        def algorithm(self, seed: int) -> MoldableAlgorithm:
            return Mine(MySettings(), seed)
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol

from zenturio.schedule.model.metrics import MoldablePlan
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import RuntimeCurve, identical
from zenturio.schedule.model.problem import MoldableProblem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask


class MoldableAlgorithm(Protocol):
    """Made of its settings and a seed."""

    def plan(self, problem: MoldableProblem) -> MoldablePlan: ...


def moldable_problems() -> Iterator[MoldableProblem]:
    """Tasks that gain by more nodes, some that do not, and rigid ones, on 1 to 8 nodes."""
    for seed, nodes in enumerate((1, 2, 4, 8)):
        chance = random.Random(seed)  # noqa: S311 - no secret
        tasks = [_task(f"t{number}", nodes, chance) for number in range(3 + 2 * seed)]
        names = [task.name for task in tasks]
        pairs = [(one, two) for at, one in enumerate(names) for two in names[at + 1 :]]
        edges = [pair for pair in pairs if chance.random() < 0.2]
        yield MoldableProblem.of(Workflow.of("contract", tasks, edges), identical(nodes))


def _task(name: str, nodes: int, chance: random.Random) -> WorkflowTask:
    if chance.random() < 0.25:
        return WorkflowTask(name, work=chance.randrange(1, 20))
    counts = tuple(count for count in (1, 2, 4, 8) if count <= nodes)
    seconds = tuple(chance.uniform(2, 20) for _ in counts)
    return WorkflowTask(name, curve=RuntimeCurve(counts, seconds))


class MoldableContract:
    """Say how the algorithm is made."""

    def algorithm(self, seed: int) -> MoldableAlgorithm:
        """Return the algorithm, whose choices by chance are those of *seed*."""
        raise NotImplementedError

    def test_a_plan_can_be_carried_out(self) -> None:
        for problem in moldable_problems():
            plan = check(self.algorithm(0).plan(problem))  # no node runs two tasks at a time
            assert plan.makespan > 0
            for task, count in enumerate(plan.counts.tolist()):
                assert count in problem.possible[problem.row[task]]

    def test_the_same_seed_makes_the_same_plan(self) -> None:
        for problem in moldable_problems():
            one, other = (self.algorithm(5).plan(problem) for _ in range(2))
            assert one.start.tolist() == other.start.tolist()
            assert one.node.tolist() == other.node.tolist()

    def test_an_algorithm_may_plan_several_workflows(self) -> None:
        algorithm = self.algorithm(1)
        for problem in moldable_problems():
            check(algorithm.plan(problem))

    def test_a_workflow_without_tasks_takes_no_time(self) -> None:
        nothing = MoldableProblem.of(Workflow.of("none", []), identical(2))
        assert check(self.algorithm(0).plan(nothing)).makespan == 0
