"""Plans that cannot be carried out are refused, each with its fault."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import naive
from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.model.plan import Plan, check, faults
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import MAX_SECONDS, Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

TASKS = [
    WorkflowTask("a", 4),
    WorkflowTask("b", 2, tag="gpu"),
    WorkflowTask("c", 1, machine="M"),
    WorkflowTask("d", 1, machine="M"),
]
FLOW = Workflow.of("f", TASKS, [("a", "b", 10.0)])
MACHINES = (
    PlatformMachine("one", site="x"),
    PlatformMachine("two", 2.0, site="y", tags=frozenset({"gpu"})),
)
PROBLEM = Problem.of(FLOW, Platform("p", MACHINES, default=NetworkLink("", "", 10.0, 1.0)))
GOOD = ([0, 1, 0, 0], [0, 6, 4, 5], [4, 7, 5, 6])


def plan(processor=GOOD[0], start=GOOD[1], end=GOOD[2]):
    return Plan(
        PROBLEM, "by hand", np.array(processor), np.array(start, float), np.array(end, float)
    )


def test_a_good_plan_has_no_fault():
    assert not list(faults(plan()))


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"start": [0, 5, 4, 5], "end": [4, 6, 5, 6]}, "b starts at 5, before a and its data"),
        ({"start": [0, 6, 3, 5], "end": [4, 7, 4, 6]}, "a and c overlap on one"),
        ({"start": [0, 6, 4, 4], "end": [4, 7, 5, 5]}, "c and d overlap on one"),
        ({"end": [4, 8, 5, 6]}, "b lasts 2 s on two, where it takes 1"),
        ({"end": [3, 7, 5, 6]}, "a lasts 3 s on one, where it takes 4"),
        ({"processor": [0, 1, 0, 1], "end": [4, 7, 5, 5.5], "start": [0, 6, 4, 5]}, "must share"),
        ({"processor": [0, 0, 0, 0], "end": [4, 8, 5, 6]}, "b lasts 2 s on one, where it takes in"),
        ({"start": [-1, 6, 4, 5], "end": [3, 7, 5, 6]}, "a starts before the beginning"),
        ({"start": [0, 6, np.nan, 5]}, "c starts at nan and ends at 5.0"),
        ({"end": [4, 7, 5, np.inf]}, "d starts at 5.0 and ends at inf"),
        ({"processor": [0, 1, 0, -1]}, "d runs on processor -1 of 2"),
        ({"processor": [0, 2, 0, 0]}, "b runs on processor 2 of 2"),
        ({"end": [4, 7, 5]}, "3 of 4 tasks are planned"),
    ],
)
def test_a_wrong_plan_is_told_what_is_wrong(wrong, fault):
    found = plan(**wrong)
    assert any(fault in each for each in faults(found)), list(faults(found))
    with pytest.raises(InputError, match="not a plan"):
        check(found)


@settings(deadline=None, max_examples=settings.default.max_examples)
@given(naive.problems(tasks=(2, 8)), st.data())
def test_a_task_that_begins_a_little_too_early_is_found(problem, data):
    found = make("heft").plan(problem)
    moved = data.draw(st.integers(0, problem.tasks - 1))
    if found.start[moved] > 0:
        share = data.draw(st.sampled_from([1e-6, 0.01, 1.0]))
        step = share * found.start[moved]
        earlier = np.arange(problem.tasks) == moved
        start, end = found.start - step * earlier, found.end - step * earlier
        wrong = Plan(problem, "heft", found.processor, start, end)
        alone = found.end[moved] == found.start[moved]  # its processor may be idle all the time
        assert list(faults(wrong)) or alone or _idle_before(problem, found, moved, step)


def _idle_before(problem, plan, task, step):
    """Whether *plan* made *task* wait for nothing in the last *step* seconds before it."""
    begin = plan.start[task] - step + 1e-9
    ready = [
        plan.end[a] + problem.transfer(float(data), plan.processor[a], plan.processor[task])
        for a, b, data in zip(
            problem.workflow.sources, problem.workflow.targets, problem.workflow.data, strict=True
        )
        if b == task
    ]
    busy = [
        plan.end[other]
        for other in range(problem.tasks)
        if plan.processor[other] == plan.processor[task]
        and plan.start[other] < plan.start[task]
        and plan.end[other] > plan.start[other]
    ]
    return max([*ready, *busy], default=0.0) <= begin


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_faults_are_found_whatever_the_unit_of_time(scale):
    flow = Workflow.of("f", [WorkflowTask("a", scale), WorkflowTask("b", scale)], [("a", "b")])
    problem = Problem.of(flow, Platform("p", (PlatformMachine("m"), PlatformMachine("n"))))
    where = np.array([0, 0], np.int32)
    early = Plan(problem, "x", where, np.array([0, 0.5]) * scale, np.array([1, 1.5]) * scale)
    assert len(list(faults(early))) == 2


def test_times_that_no_number_could_hold_are_refused_with_the_reason():
    long = Workflow.of("long", [WorkflowTask("a", MAX_SECONDS), WorkflowTask("b", MAX_SECONDS)])
    with pytest.raises(InputError, match="the work of long on p may take more than 1e"):
        Problem.of(long, Platform("p", MACHINES))
    far = Workflow.of("far", [WorkflowTask("a", 1), WorkflowTask("b", 1)], [("a", "b", 1e300)])
    with pytest.raises(InputError, match="the transfers of far on p may take more than"):
        Problem.of(far, Platform("p", MACHINES, default=NetworkLink("", "", 1e-300)))
