"""Lower bounds are below every plan, and as high as can be where that is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import naive, naive_listing, naive_placing
from zenturio.schedule.kernels.dispatching import equal_task_times, interval_excess
from zenturio.schedule.model.metrics import LowerBounds, gap, lower_bound, lower_bounds
from zenturio.schedule.model.platform import Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

ROUNDING = 1 + 1e-12


@settings(
    max_examples=settings.default.max_examples * 60 // 100, deadline=None
)  # the first example compiles
@given(naive_listing.problems((1, 4), (1, 3)))
def test_no_plan_is_shorter_than_a_bound(problem):
    assert lower_bound(problem) <= naive_placing.shortest(problem) * ROUNDING


@settings(max_examples=settings.default.max_examples * 60 // 100, deadline=None)
@given(naive.flows((1, 5)), st.integers(1, 3))
def test_nor_on_processors_that_are_all_alike(flow, count):
    problem = Problem.of(flow, identical(count))
    assert lower_bound(problem) <= naive_placing.shortest(problem) * ROUNDING


times = st.integers(0, 12)
tasks = st.lists(st.tuples(times, times, st.integers(1, 9)), min_size=1, max_size=7)


@settings(max_examples=settings.default.max_examples * 200 // 100, deadline=None)
@given(tasks, st.integers(1, 4))
def test_what_must_lie_in_an_interval_is_what_its_twin_says(drawn, processors):
    first, slack, length = (np.array(each, float) for each in zip(*drawn, strict=True))
    last = first + slack
    begins = np.unique(np.concatenate([first, last]))
    wanted = naive_placing.crowding(first, last, length, begins, processors)
    assert interval_excess(first, last, length, begins, processors) == pytest.approx(wanted)


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(st.lists(st.sampled_from([0.5, 1.0, 1.5, 4.0]), min_size=1, max_size=4), st.integers(0, 9))
def test_multiples_are_the_ends_of_equal_tasks(pace, count):
    every = sorted(each * times for each in pace for times in range(1, count + 1))
    assert equal_task_times(np.array(pace), count).tolist() == every[:count]


def test_each_bound_has_a_problem_that_it_is_for():
    def bounds(works, edges, platform):
        made = [WorkflowTask(str(i), work) for i, work in enumerate(works)]
        return lower_bounds(Problem.of(Workflow.of("made", made, edges), platform))

    chain = bounds([3, 4], [("0", "1")], identical(2))
    assert chain.best == chain.critical == 7
    even = bounds([1.25] * 9, [], identical(3))
    assert even.load == 3.75
    uneven = bounds([3, 3, 3], [], identical(2))
    assert (uneven.load, uneven.level) == (5, 6)
    fork = [("0", "1"), ("0", "2"), ("0", "3"), ("0", "4"), ("1", "5")]
    found = bounds([4, 3, 3, 3, 3, 4], fork, identical(2))
    assert found == LowerBounds(critical=11, load=10, crowded=12, level=11)
    fast = Platform("two", (PlatformMachine("slow"), PlatformMachine("fast", 3.0)))
    assert bounds([8], [], fast).best == pytest.approx(8 / 3)
    assert bounds([2, 2, 2, 2], [], fast).load == pytest.approx(2)


def test_no_tasks_take_no_time():
    problem = Problem.of(Workflow.of("none", []), identical(2))
    assert lower_bound(problem) == 0
    assert gap(0.0, 0.0) == 0
    assert gap(3.0, 2.0) == 0.5
