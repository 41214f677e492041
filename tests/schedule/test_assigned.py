"""Workflows whose tasks say where they run."""

import pytest
from hypothesis import given, settings

from schedule import naive
from zenturio.errors import InputError
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.list_scheduling import (
    plan_as_assigned,
    processor_names,
    ranks_as_placed,
)


def test_a_task_runs_on_the_processor_that_it_names():
    flow = Workflow.of(
        "f", [WorkflowTask("a", 1, machine="wide/1"), WorkflowTask("b", 2, machine="slim")]
    )
    problem = Problem.of(
        flow, Platform("p", (PlatformMachine("slim"), PlatformMachine("wide", cores=2)))
    )
    plan = check(plan_as_assigned(problem))
    assert processor_names(problem) == ["slim", "wide/0", "wide/1"]
    assert [plan.machine(task) for task in (0, 1)] == ["wide/1", "slim"]


def test_the_most_urgent_task_of_a_processor_is_first():
    tasks = [
        WorkflowTask("low", 1, machine="p1"),
        WorkflowTask("high", 1, machine="p1"),
        WorkflowTask("end", 5, machine="p2"),
    ]
    plan = plan_as_assigned(Problem.of(Workflow.of("f", tasks, [("high", "end")]), identical(2)))
    assert plan.start.tolist() == [1, 0, 1]


@settings(deadline=None)
@given(naive.planned())
def test_urgency_is_the_longest_path_from_the_start_of_a_task(drawn):
    problem, processor, _ = drawn

    def way(task):
        ahead = [
            problem.transfer(size, processor[a], processor[b]) + way(b)
            for a, b, size in zip(
                problem.workflow.sources,
                problem.workflow.targets,
                problem.workflow.data,
                strict=True,
            )
            if a == task
        ]
        return problem.time(task, processor[task]) + max(ahead, default=0)

    assert ranks_as_placed(problem, processor).tolist() == pytest.approx(
        [way(t) for t in range(problem.tasks)]
    )


@pytest.mark.parametrize(("machine", "hint"), [("", "--algorithm NAME"), ("p3", "p1, p2")])
def test_a_task_that_names_no_processor_is_shown(machine, hint):
    problem = Problem.of(Workflow.of("f", [WorkflowTask("a", 1, machine=machine)]), identical(2))
    with pytest.raises(InputError, match=f"(?s)task 'a' is not assigned.*{hint}"):
        plan_as_assigned(problem)
