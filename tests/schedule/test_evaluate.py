"""From who runs what, in which order, to when."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import naive
from zenturio.errors import InputError
from zenturio.schedule.model.evaluation import (
    evaluate,
    makespans,
    problem_arrays,
    topological_orders,
)
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

CHAIN = Workflow.of(
    "chain",
    [WorkflowTask("a", 1), WorkflowTask("b", 2), WorkflowTask("c", 3)],
    [("a", "b"), ("b", "c")],
)


@settings(deadline=None)  # the first example compiles
@given(naive.planned())
def test_a_task_starts_when_its_processor_is_free_and_its_data_are_there(drawn):
    problem, processor, order = drawn
    plan = check(evaluate(problem, processor, order))
    start, end = naive.times(problem, processor, order)
    assert plan.start.tolist() == start
    assert plan.end.tolist() == end


@settings(max_examples=settings.default.max_examples * 40 // 100, deadline=None)
@given(naive.problems(), st.data())
def test_a_population_has_the_makespans_that_its_plans_have_alone(problem, data):
    rows = st.lists(
        st.integers(0, problem.processors - 1), min_size=problem.tasks, max_size=problem.tasks
    )
    ranks = data.draw(st.lists(st.permutations(range(problem.tasks)), min_size=1, max_size=4))
    orders = topological_orders(problem, ranks)
    processors = np.array([data.draw(rows) for _ in orders])
    found = makespans(problem_arrays(problem), processors, orders)
    alone = [evaluate(problem, *each).makespan for each in zip(processors, orders, strict=True)]
    assert found.tolist() == alone
    common = makespans(problem_arrays(problem), processors, orders[0])
    assert common.tolist() == [evaluate(problem, each, orders[0]).makespan for each in processors]


@settings(deadline=None)
@given(naive.problems(), st.data())
def test_of_the_ready_tasks_the_one_of_the_lowest_rank_is_first(problem, data):
    ranks = st.lists(
        st.sampled_from([-1.5, 0, 0.5, 2, 3]), min_size=problem.tasks, max_size=problem.tasks
    )
    rank = data.draw(ranks)
    assert topological_orders(problem, rank).tolist() == naive.order_by(problem, rank)
    assert topological_orders(problem, [rank, rank]).tolist() == [naive.order_by(problem, rank)] * 2


def test_what_cannot_run_takes_for_ever_even_if_it_has_no_work():
    flow = Workflow.of("f", [WorkflowTask("a", 0.0), WorkflowTask("b", 1.0)], [("a", "b")])
    problem = naive.tagged(Problem.of(flow, identical(2)), 0)
    assert makespans(problem_arrays(problem), [[0, 1], [1, 0]], [0, 1]).tolist() == [1.0, np.inf]


def test_an_order_that_is_none_takes_for_ever_or_is_refused():
    problem = Problem.of(CHAIN, identical(1))
    assert makespans(problem_arrays(problem), [0, 0, 0], [[0, 2, 1]]).tolist() == [np.inf]
    with pytest.raises(InputError, match="c comes too early"):
        evaluate(problem, [0, 0, 0], [0, 2, 1])
    with pytest.raises(InputError, match="each after what it waits for"):
        evaluate(problem, [0, 0, 0], [0, 0, 1])


@pytest.mark.parametrize(
    ("processors", "orders", "diagnostic"),
    [
        ([0, 0], [0, 1, 2], "processors: 3 whole numbers"),
        ([0, 0, 1], [0, 1, 2], "from 0 to 0"),
        ([0, 0, -1], [0, 1, 2], "from 0 to 0"),
        ([0.0, 0.0, 0.0], [0, 1, 2], "whole numbers"),
        ([0, 0, 0], [0, 1, 3], "from 0 to 2"),
        ([[0, 0, 0]] * 3, [[0, 1, 2]] * 2, "2 orders for 3 plans"),
    ],
)
def test_numbers_that_are_none_of_its_tasks_and_processors_are_refused(
    processors, orders, diagnostic
):
    with pytest.raises(InputError, match=diagnostic):
        makespans(problem_arrays(Problem.of(CHAIN, identical(1))), processors, orders)


def test_ranks_are_numbers_one_for_each_task_of_a_workflow_without_loops():
    with pytest.raises(InputError, match="3 tasks"):
        topological_orders(Problem.of(CHAIN, identical(1)), [1, 2])
    with pytest.raises(InputError, match="NaN"):
        topological_orders(Problem.of(CHAIN, identical(1)), [1, 2, np.nan])
    loop = Workflow.of("loop", [WorkflowTask("a"), WorkflowTask("b")], [("a", "b"), ("b", "a")])
    with pytest.raises(InputError, match="has a loop"):
        topological_orders(Problem.of(loop, identical(1)), [1, 2])
