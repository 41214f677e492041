"""Problems and plans of moldable tasks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from schedule import naive_cluster
from zenturio.errors import InputError
from zenturio.schedule.model.metrics import metrics
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.plan import faults as faults_of
from zenturio.schedule.model.platform import (
    NetworkLink,
    Platform,
    PlatformMachine,
    RuntimeCurve,
    identical,
)
from zenturio.schedule.model.problem import MoldableProblem, has_moldable_tasks
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.moldable.cluster_queue import ClusterQueue

CURVE = RuntimeCurve((1, 2, 4), (8.0, 5.0, 6.0))
FLOW = Workflow.of(
    "two",
    [WorkflowTask("a", curve=CURVE), WorkflowTask("b", 3.0, cores=2), WorkflowTask("c", 0.0)],
    [("a", "b", 4.0)],
)


def problem(platform=None):
    return MoldableProblem.of(FLOW, platform or identical(4))


def plan(**changes):
    """Task a on nodes 0 and 1 from 0 to 5, then b on 2 and 3 to 8, and c on 0 at 0; with *changes*."""
    found = ClusterQueue(problem()).plan(np.array([2, 2, 1]), "hand")
    given = {
        "start": np.array([0.0, 5.0, 0.0]),
        "end": np.array([5.0, 8.0, 0.0]),
        "first": np.array([0, 2, 4, 5]),
        "node": np.array([0, 1, 2, 3, 0], np.int32),
    }
    return replace(found, **(given | changes))


def test_a_task_takes_what_its_curve_says_for_its_number_of_nodes():
    found = problem()
    assert [found.time(0, n) for n in (1, 2, 4)] == [8, 5, 6]
    assert 5 < found.time(0, 3) < 6  # between what was measured
    assert found.time(0, 0) == found.time(0, 5) == found.time(0, 99) == np.inf
    assert [found.time(1, n) for n in (1, 2, 3)] == [np.inf, 3, np.inf]
    assert found.fastest.tolist() == [2, 2, 1]
    assert found.fewest.tolist() == [1, 2, 1]
    assert [each.tolist() for each in found.possible] == [[1, 2, 3, 4], [2], [1]]
    assert [each.tolist() for each in found.lean] == [[1, 2], [2], [1]]
    assert found.alone == 8 + 3 * 2


def test_fast_nodes_take_less_and_slow_links_delay():
    machines = tuple(PlatformMachine(f"n{i}", speed=2.0) for i in range(4))
    slow = Platform("slow", machines, default=NetworkLink("", "", bandwidth=8.0, latency=1.0))
    found = problem(slow)
    assert (found.time(0, 1), found.time(1, 2)) == (4, 1.5)
    assert found.delay.tolist() == [1.5]


def test_a_node_of_several_cores_runs_a_task_of_as_many():
    machines = tuple(PlatformMachine(f"n{i}", cores=2) for i in range(2))
    found = problem(Platform("wide", machines))
    assert found.time(1, 1) == 3
    assert found.possible[found.row[0]].tolist() == [1, 2]


def test_tasks_of_the_same_curve_share_a_row():
    tasks = [WorkflowTask(f"t{i}", curve=CURVE) for i in range(3)]
    found = MoldableProblem.of(Workflow.of("same", tasks), identical(2))
    assert found.row.tolist() == [0, 0, 0]
    assert found.seconds.tolist() == [[np.inf, 8, 5]]


def test_file_transfers_become_delays():
    tasks = [
        WorkflowTask("a", curve=CURVE),
        WorkflowTask("move", 6.0, kind="transfer"),
        WorkflowTask("b", curve=CURVE),
    ]
    flow = Workflow.of("moved", tasks, [("a", "move"), ("move", "b")])
    machines = (PlatformMachine("x"), PlatformMachine("y"))
    found = MoldableProblem.of(
        flow, Platform("p", machines, default=NetworkLink("", "", bandwidth=2.0))
    )
    assert (found.tasks, found.delay.tolist()) == (2, [3.0])


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (WorkflowTask("a", 1, cores=9), "'a' needs at least 9 nodes; the cluster has 4"),
        (
            WorkflowTask("a", curve=RuntimeCurve((5,), (1.0,))),
            "'a' needs at least 5 nodes; the cluster has 4",
        ),
        (WorkflowTask("a", 1, machine="m"), "'a' is bound to the abstract machine 'm'"),
        (WorkflowTask("a", times=(1, 2, 3, 4)), "'a' has times for 4 different machines"),
        (WorkflowTask("a", 1, tag="gpu"), "it needs the tag 'gpu'"),
    ],
)
def test_what_no_such_cluster_can_run_is_refused(task, said):
    with pytest.raises(InputError) as caught:
        MoldableProblem.of(Workflow.of("one", [task]), identical(4))
    assert said in str(caught.value)


def test_machines_that_differ_are_no_cluster():
    machines = (PlatformMachine("fast", 2.0), PlatformMachine("slow", memory=1e9))
    with pytest.raises(InputError, match="'fast' and 'slow' differ in speed and memory") as caught:
        problem(Platform("mixed", machines))
    assert "identical:64" in str(caught.value)


def test_a_workflow_is_moldable_where_a_task_has_a_curve():
    assert has_moldable_tasks(FLOW.tasks)
    assert not has_moldable_tasks([WorkflowTask("a", 1.0)])


def test_a_plan_tells_its_figures():
    found = check(plan())
    assert (found.makespan, found.cost, found.paid) == (8, 16, 32)
    assert found.idle == 0.5
    assert metrics(found) == {
        "makespan": 8, "speedup": 14 / 8, "efficiency": 14 / 32, "cost": 0, "idle": 0.5,
        "processors": 4, "sequential": 14, "node_seconds": 16, "paid_seconds": 32, "unused": 0.5,
    }  # fmt: skip


def test_nodes_are_charged_at_their_price():
    dear = tuple(PlatformMachine(f"n{i}", cost=i) for i in range(4))
    found = ClusterQueue(problem(Platform("dear", dear))).plan(np.array([2, 2, 1]))
    assert found.nodes(1).tolist() == [0, 1]
    assert metrics(found)["cost"] == 5 * (0 + 1) + 3 * (0 + 1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"start": np.array([0.0, 4.0, 0.0]), "end": np.array([5.0, 7.0, 0.0])},
         "b starts at 4, before a and its data are there, at 5"),
        ({"start": np.array([-1.0, 5.0, 0.0]), "end": np.array([4.0, 8.0, 0.0])},
         "a starts at -1.0 and ends at 4.0"),
        ({"end": np.array([5.0, np.inf, 0.0])}, "b starts at 5.0 and ends at inf"),
        ({"end": np.array([5.0, np.nan, 0.0])}, "b starts at 5.0 and ends at nan"),
        ({"end": np.array([4.5, 8.0, 0.0])}, "a lasts 4.5 s on 2 nodes, not 5"),
        ({"node": np.array([0, 0, 2, 3, 0], np.int32)}, "a has a node twice, or one that is not"),
        ({"node": np.array([0, 4, 2, 3, 0], np.int32)}, "a has a node twice, or one that is not"),
        ({"first": np.array([0, 2, 3, 5])}, "b cannot run on 1 nodes"),
        ({"first": np.array([0, 2, 4])}, "2 of 3 tasks are planned"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_plan_is_told(changes, said):
    assert said in next(iter(faults_of(plan(**changes))))


def test_two_tasks_on_one_node_are_told():
    tasks = [WorkflowTask(name, 4.0, cores=2) for name in ("a", "b")]
    both = MoldableProblem.of(Workflow.of("both", tasks), identical(3))
    found = replace(
        ClusterQueue(both).plan(both.fewest),
        start=np.array([0.0, 3.0]), end=np.array([4.0, 7.0]),
        node=np.array([0, 1, 1, 2], np.int32),
    )  # fmt: skip
    assert list(faults_of(found)) == ["a and b overlap on p2"]


@settings(max_examples=settings.default.max_examples * 60 // 100, deadline=None)
@given(naive_cluster.problems())
def test_no_number_of_nodes_is_faster_than_the_fastest_or_possible_below_the_fewest(problem):
    for task in range(problem.tasks):
        times = problem.seconds[problem.row[task]]
        possible = problem.possible[problem.row[task]]
        assert problem.time(task, problem.fastest[task]) == times.min()
        assert problem.fewest[task] == possible[0] == np.flatnonzero(np.isfinite(times))[0]
        lean = problem.lean[problem.row[task]].tolist()
        assert lean == [n for n in possible if times[n] < times[:n].min()]
