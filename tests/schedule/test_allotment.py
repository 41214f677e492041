"""Moldable plans with cores in place of nodes."""

import pytest

from zenturio.errors import InputError
from zenturio.schedule.algorithm import make, make_workflow_planner
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import Platform, PlatformMachine, RuntimeCurve
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.moldable.cluster_queue import allotted_plan

CURVE = RuntimeCurve((1, 2, 4), (40.0, 21.0, 12.0))
HOSTS = Platform("hosts", (PlatformMachine("one", 1.0, 4), PlatformMachine("two", 1.0, 2)))


def flow(*tasks):
    return Workflow.of("w", tasks)


@pytest.mark.parametrize("name", ["cpa", "moldable-global", "moldable-local", "moldable-static"])
def test_a_task_gets_cores_of_one_host_and_the_time_of_its_curve(name):
    tasks = [WorkflowTask("a", curve=CURVE), WorkflowTask("b", curve=CURVE), WorkflowTask("c", 9.0)]
    plan = check(allotted_plan(make(name), flow(*tasks), HOSTS, name))
    times = dict(zip(CURVE.nodes, CURVE.seconds, strict=True))
    a, b, c = plan.problem.workflow.tasks
    assert [task.work for task in (a, b)] == [
        pytest.approx(times.get(task.cores, task.work)) for task in (a, b)
    ]
    assert all(task.curve is None for task in (a, b, c))
    assert (c.cores, c.work) == (1, 9.0)
    assert plan.algorithm == name
    assert plan.notes["cores"] == [a.cores, b.cores, c.cores]


def test_a_curve_ends_at_the_widest_host():
    wide = RuntimeCurve((1, 64), (640.0, 10.0))
    plan = allotted_plan(make("moldable-local"), flow(WorkflowTask("a", curve=wide)), HOSTS, "x")
    assert plan.problem.workflow.task(0).cores == 4
    # 640 s on one node and 10 s on 64: linear scaling.
    assert plan.makespan == pytest.approx(160.0)


def test_what_no_host_is_wide_enough_for_is_refused():
    task = WorkflowTask("a", curve=RuntimeCurve((8, 16), (20.0, 10.0)))
    with pytest.raises(InputError, match="'a' needs 8 cores; the widest host has 4"):
        allotted_plan(make("cpa"), flow(task), HOSTS, "cpa")


def test_algorithms_that_choose_among_workflows_run_none():
    assert make_workflow_planner("cpa").kind == "moldable"
    with pytest.raises(InputError, match="srpt is online"):
        make_workflow_planner("srpt")
