"""
What every algorithm promises that shares machines among workflows as they arrive.

::

    class TestMine(OnlineContract):
        def algorithm(self, seed: int) -> OnlineAlgorithm:
            return Mine(MySettings(), seed)
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import Platform, PlatformMachine, identical
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.online.policies import OnlineSimulation
from zenturio.schedule.online.stream import StreamResult, WorkflowStream, WorkflowSubmission
from zenturio.schedule.simulate.simulator import Perturbation
from zenturio.testing.policies import PERTURBATION


class OnlineAlgorithm(Protocol):
    """Made of its settings and a seed."""

    def play(
        self, online: OnlineSimulation, disturbance: Perturbation | None = None, seed: int = 0
    ) -> StreamResult: ...


def streams() -> Iterator[OnlineSimulation]:
    """One workflow, several that arrive together, and some that arrive one after the other."""
    mixed = Platform("contract", (PlatformMachine("slow"), PlatformMachine("fast", speed=3)))
    for seed, (count, gap) in enumerate(((1, 0), (4, 0), (5, 7), (6, 30))):
        chance = random.Random(seed)  # noqa: S311 - no secret
        submissions = [
            WorkflowSubmission(_workflow(chance), gap * number) for number in range(count)
        ]
        for platform in (identical(2), mixed):
            yield OnlineSimulation(WorkflowStream.of("contract", submissions), platform)


def _workflow(chance: random.Random) -> Workflow:
    tasks = [WorkflowTask(f"t{number}", work=chance.randrange(1, 20)) for number in range(5)]
    pairs = [(one, two) for at, one in enumerate(tasks) for two in tasks[at + 1 :]]
    edges = [(one.name, two.name) for one, two in pairs if chance.random() < 0.3]
    return Workflow.of("contract", tasks, edges)


class OnlineContract:
    """Say how the algorithm is made."""

    def algorithm(self, seed: int) -> OnlineAlgorithm:
        """Return the algorithm, whose choices by chance are those of *seed*."""
        raise NotImplementedError

    def test_every_workflow_ends_and_none_begins_before_it_arrives(self) -> None:
        for online in streams():
            played = self.algorithm(0).play(online)
            check(played.plan)  # each task once, after those before it
            assert played.left == []
            assert (played.plan.start >= online.stream.arrivals[online.stream.owner]).all()

    def test_every_workflow_ends_although_machines_slow_down_and_fail(self) -> None:
        for seed, online in enumerate(streams()):
            played = self.algorithm(0).play(online, PERTURBATION, seed)
            assert played.left == []
            assert (played.plan.start >= online.stream.arrivals[online.stream.owner]).all()

    def test_the_same_seed_makes_the_same_decisions(self) -> None:
        for online in streams():
            one, other = (self.algorithm(5).play(online, PERTURBATION, 7) for _ in range(2))
            assert one.plan.start.tolist() == other.plan.start.tolist()
            assert one.plan.processor.tolist() == other.plan.processor.tolist()

    def test_an_algorithm_may_play_several_streams(self) -> None:
        algorithm = self.algorithm(1)
        for online in streams():
            one, other = algorithm.play(online), self.algorithm(1).play(online)
            assert one.plan.start.tolist() == other.plan.start.tolist()

    def test_what_begins_before_a_workflow_arrives_does_not_depend_on_it(self) -> None:
        for online in streams():
            *earlier, last = online.stream.submissions
            if not earlier or last.arrival == 0:
                continue
            before = OnlineSimulation(WorkflowStream.of("before", earlier), online.platform)
            whole = self.algorithm(0).play(online).plan.start[: before.problem.tasks]
            part = self.algorithm(0).play(before).plan.start
            begun = part < last.arrival
            assert np.array_equal(whole < last.arrival, begun)
            assert np.array_equal(whole[begun], part[begun])
