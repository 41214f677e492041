"""HEFT, and the gaps that it fills."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import examples, naive_listing
from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.list_scheduling import (
    list_schedule,
    mean_delays,
    mean_times,
    upward_ranks,
)

RANKS = [108.0, 77.0, 80.0, 80.0, 69.0, 190 / 3, 128 / 3, 107 / 3, 133 / 3, 44 / 3]


def planned(problem):
    return check(make("heft").plan(problem))


def test_the_worked_example_has_the_ranks_and_the_plan_that_are_printed():
    problem = examples.topcuoglu()
    ranks = upward_ranks(problem, mean_times(problem), mean_delays(problem))
    assert ranks == pytest.approx(RANKS, abs=0.001)
    plan = planned(problem)
    assert plan.makespan == 80
    assert (plan.processor + 1).tolist() == [3, 1, 3, 2, 3, 2, 3, 1, 2, 2]
    assert plan.start.tolist() == [0, 27, 9, 18, 28, 26, 38, 57, 56, 73]


def test_a_later_task_fills_a_gap_that_is_long_enough():
    flow = Workflow.of(
        "gap",
        [
            WorkflowTask("a", times=(1, 9)),
            WorkflowTask("b", times=(9, 1)),
            WorkflowTask("c", times=(9, 50)),
            WorkflowTask("d", 3),
        ],
        [("a", "b", 0.0), ("b", "c", 0.0)],
    )
    problem = Problem.of(flow, identical(2))
    plan = check(list_schedule(problem, "by hand", np.arange(4, dtype=np.int32)))
    assert plan.start.tolist() == [0, 1, 2, 2]
    assert planned(Problem.of(flow, identical(2))).makespan == 11


@settings(
    max_examples=settings.default.max_examples * 300 // 100, deadline=None
)  # the first example compiles
@given(naive_listing.problems())
def test_ranks_are_the_longest_ways_by_mean_times_and_mean_delays(problem):
    ranks = upward_ranks(problem, mean_times(problem), mean_delays(problem))
    expected = [naive_listing.upward(problem, task) for task in range(problem.tasks)]
    assert ranks == pytest.approx(expected)


@settings(max_examples=settings.default.max_examples * 300 // 100, deadline=None)
@given(naive_listing.problems(), st.data())
def test_tasks_are_put_as_one_would_by_hand(problem, data):
    order = data.draw(topological(problem))
    home = [-1] * problem.tasks
    for group in set(problem.group.tolist()):
        possible = naive_listing.fits(problem, group)
        home[group] = data.draw(st.sampled_from([-1, -1, *possible]))
    ahead = None
    if data.draw(st.booleans()):
        shape = problem.tasks, problem.processors
        ahead = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 5, shape) * 1.0
    plan = check(list_schedule(problem, "by hand", np.array(order), np.array(home), ahead))
    place, start, end = naive_listing.put(problem, order, home, ahead)
    tasks = range(problem.tasks)
    assert plan.processor.tolist() == [place[t] for t in tasks]
    assert plan.start.tolist() == [start[t] for t in tasks]
    assert plan.end.tolist() == [end[t] for t in tasks]


@settings(max_examples=settings.default.max_examples * 30 // 100, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 3))
def test_hundreds_of_gaps_are_searched_as_one_would_by_hand(seed, processors, edges):
    rng = np.random.default_rng(seed)
    count = 150
    tasks = [WorkflowTask(f"t{i}", float(rng.choice([0, 1, 2, 3, 30]))) for i in range(count)]
    ends = {tuple(sorted(rng.choice(count, 2, replace=False).tolist())) for _ in range(40 * edges)}
    flow = Workflow.of("random", tasks, [(f"t{a}", f"t{b}") for a, b in sorted(ends)])
    problem = Problem.of(flow, identical(processors))
    plan = check(list_schedule(problem, "by hand", problem.order))
    place, start, _ = naive_listing.put(problem, problem.order)
    assert plan.processor.tolist() == [place[t] for t in range(count)]
    assert plan.start.tolist() == [start[t] for t in range(count)]


@settings(max_examples=settings.default.max_examples * 60 // 100, deadline=None)
@given(naive_listing.problems())
def test_a_plan_is_the_same_every_time(problem):
    one, other = planned(problem), planned(problem)
    assert one.start.tolist() == other.start.tolist()
    assert one.processor.tolist() == other.processor.tolist()


def test_tasks_that_share_a_machine_go_where_all_of_them_can_run():
    tasks = [
        WorkflowTask("a", times=(1, 5, float("inf")), machine="here"),
        WorkflowTask("b", times=(float("inf"), 5, 1), machine="here"),
    ]
    plan = planned(Problem.of(Workflow.of("two", tasks), identical(3)))
    assert plan.processor.tolist() == [1, 1]
    apart = [
        WorkflowTask("a", times=(1, float("inf")), machine="here"),
        WorkflowTask("b", times=(float("inf"), 1), machine="here"),
    ]
    with pytest.raises(InputError, match="no machine can run all of a, b"):
        Problem.of(Workflow.of("two", apart), identical(2))


def test_a_task_is_never_put_where_it_cannot_run():
    problem = Problem.of(
        Workflow.of("one", [WorkflowTask("a", times=(1, float("inf")))]), identical(2)
    )
    with pytest.raises(InputError, match="where it cannot run"):
        list_schedule(problem, "by hand", problem.order, np.array([1]))


@st.composite
def topological(draw, problem):
    """The tasks in any order in which they could run."""
    done = []
    while len(done) < problem.tasks:
        ready = [
            task
            for task in range(problem.tasks)
            if task not in done and all(other in done for other in problem.before.of(task))
        ]
        done.append(draw(st.sampled_from(ready)))
    return done
