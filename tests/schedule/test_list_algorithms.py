"""CPOP, PEFT, Min-Min, Max-Min, Sufferage, and those that look at no time."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import examples, naive, naive_listing
from zenturio.schedule.algorithm import make
from zenturio.schedule.generators.generator import generate
from zenturio.schedule.kernels import list_scheduling as list_scheduling_kernels
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static import list_scheduling
from zenturio.schedule.static.batch_mode import shuffle_placement
from zenturio.schedule.static.list_scheduling import (
    critical_path,
    downward_ranks,
    mean_delays,
    mean_times,
    optimistic_costs,
    upward_ranks,
)

NAMES = [
    "cpop",
    "heft",
    "max-min",
    "min-min",
    "peft",
    "random",
    "round-robin",
    "shuffle",
    "sufferage",
]


def planned(name, problem, seed=0):
    return check(make(name, seed=seed).plan(problem))


@settings(
    max_examples=settings.default.max_examples * 60 // 100, deadline=None
)  # the first example compiles
@given(naive_listing.problems(), st.sampled_from(NAMES))
def test_a_plan_can_be_carried_out_and_is_the_same_every_time(problem, name):
    one, other = planned(name, problem), planned(name, problem)
    assert one.algorithm == name
    assert one.start.tolist() == other.start.tolist()
    assert one.processor.tolist() == other.processor.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_without_tasks_takes_no_time(name):
    assert planned(name, Problem.of(Workflow.of("none", []), identical(2))).makespan == 0


def test_the_critical_path_of_the_worked_example_is_on_one_processor():
    plan = planned("cpop", examples.topcuoglu())
    assert plan.makespan == 86
    assert plan.notes == {"critical path": ["n1", "n2", "n9", "n10"]}
    assert plan.processor[[0, 1, 8, 9]].tolist() == [1, 1, 1, 1]


def test_what_cannot_run_with_the_critical_path_goes_elsewhere():
    tasks = [
        WorkflowTask("a", times=(5, 9)),
        WorkflowTask("b", times=(math.inf, 5)),
        WorkflowTask("c", times=(5, 9)),
    ]
    flow = Workflow.of("path", tasks, [("a", "b"), ("b", "c")])
    plan = planned("cpop", Problem.of(flow, identical(2)))
    assert plan.processor.tolist() == [1, 1, 1]
    tasks[0] = WorkflowTask("a", times=(5, math.inf))
    plan = planned("cpop", Problem.of(Workflow.of("path", tasks, flow.edges), identical(2)))
    assert plan.processor.tolist() == [0, 1, 0]


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(naive_listing.problems((1, 7)))
def test_the_critical_path_is_the_longest_way_through_the_workflow(problem):
    times, delays = mean_times(problem), mean_delays(problem)
    upward = upward_ranks(problem, times, delays)
    through = upward + downward_ranks(problem, times, delays)
    ways = [naive_listing.through(problem, task) for task in range(problem.tasks)]
    assert through == pytest.approx(ways)
    path = critical_path(problem, upward, delays)
    assert not len(problem.before.of(path[0]))
    way = sum(times[path]) + sum(_delay(problem, delays, *pair) for pair in pairwise(path))
    assert way == pytest.approx(max(ways))
    assert through[path] == pytest.approx([max(ways)] * len(path))


def _delay(problem, delays, a, b):
    edges = zip(problem.workflow.sources, problem.workflow.targets, delays, strict=True)
    return max(delay for source, target, delay in edges if (source, target) == (a, b))


def test_the_look_ahead_has_the_table_and_the_plans_that_are_printed():
    problem = examples.arabnejad()
    table = optimistic_costs(problem)
    assert table[:6].tolist() == [
        [64, 68, 86], [42, 39, 42], [27, 41, 43], [42, 39, 50], [28, 37, 28], [42, 39, 44]
    ]  # fmt: skip
    assert planned("peft", problem).makespan == 122
    assert planned("heft", problem).makespan == 133


@settings(max_examples=settings.default.max_examples * 150 // 100, deadline=None)
@given(naive_listing.problems((1, 7)))
def test_the_table_has_what_follows_at_its_best(problem):
    table = optimistic_costs(problem)
    for task in range(problem.tasks):
        for where in range(problem.processors):
            expected = naive_listing.optimistic(problem, task, where)
            assert table[task, where] == pytest.approx(expected)


@settings(max_examples=settings.default.max_examples * 200 // 100, deadline=None)
@given(naive_listing.problems(), st.sampled_from(["min-min", "max-min", "sufferage"]))
def test_the_next_task_is_the_one_that_the_rule_says(problem, rule):
    plan = planned(rule, problem)
    place, start, end = naive_listing.pick(problem, rule)
    tasks = range(problem.tasks)
    assert plan.processor.tolist() == [place[t] for t in tasks]
    assert plan.start.tolist() == [start[t] for t in tasks]
    assert plan.end.tolist() == [end[t] for t in tasks]


def test_short_tasks_come_first_or_last_or_where_they_lose_least():
    tasks = [
        WorkflowTask("long", times=(8, 9)),
        WorkflowTask("short", times=(1, 2)),
        WorkflowTask("bound", times=(3, 20)),
    ]
    problem = Problem.of(Workflow.of("bag", tasks), identical(2))
    assert planned("min-min", problem).start.tolist() == [0, 0, 1]
    assert planned("max-min", problem).start.tolist() == [0, 0, 8]
    assert planned("sufferage", problem).start.tolist() == [0, 3, 0]


def test_layers_are_dealt_to_the_processors_that_can_run_them():
    tasks = [WorkflowTask(f"{layer}{i}", 1, tag=layer) for layer in "ab" for i in range(5)]
    machines = [PlatformMachine(f"m{i}", tags=frozenset("a" if i < 2 else "b")) for i in range(5)]
    edges = [(f"a{i}", f"b{i}") for i in range(5)]
    problem = Problem.of(Workflow.of("layers", tasks, edges), Platform("p", tuple(machines)))
    assert shuffle_placement(problem).tolist() == [0, 1, 0, 1, 0, 2, 3, 4, 2, 3]


def test_dealing_goes_on_from_layer_to_layer_or_begins_anew():
    tasks = [WorkflowTask(f"{layer}{i}", 1) for layer in "ab" for i in range(4)]
    edges = [(f"a{i}", f"b{i}") for i in range(4)]
    problem = Problem.of(Workflow.of("layers", tasks, edges), identical(3))
    assert planned("shuffle", problem).processor.tolist() == [0, 1, 2, 0] * 2
    assert planned("round-robin", problem).processor.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]


@settings(max_examples=settings.default.max_examples * 40 // 100, deadline=None)
@given(naive.problems(tasks=(5, 8), machines=(3, 4)))
def test_chance_differs_by_seed_and_by_nothing_else(problem):
    plans = [planned("random", problem, seed).processor.tolist() for seed in (1, 1, 2, 3, 4, 5)]
    assert plans[0] == plans[1]
    assert len(set(map(tuple, plans))) > 1


def test_chance_uses_all_processors_that_a_task_can_run_on():
    tasks = [WorkflowTask(f"t{i}", times=(1, math.inf, 1)) for i in range(200)]
    places = planned("random", Problem.of(Workflow.of("bag", tasks), identical(3))).processor
    assert np.bincount(places, minlength=3)[1] == 0
    assert 70 < np.count_nonzero(places == 0) < 130


@pytest.fixture
def widths(monkeypatch):
    """On how many processors tasks were placed, each time."""
    counts = []

    def counted(numbers, *arguments):
        counts.append(len(numbers.node))
        place_in_gaps(numbers, *arguments)

    place_in_gaps = list_scheduling_kernels.place_in_gaps
    monkeypatch.setattr(list_scheduling_kernels, "place_in_gaps", counted)
    return counts


MANY = Platform("many", tuple(
    PlatformMachine(f"m{at}", (1.0, 2.0, 1.0)[at % 3], site="ab"[at % 2], network=1e3)
    for at in range(40)
))  # fmt: skip


@pytest.mark.parametrize("name", ["heft", "cpop"])
@pytest.mark.parametrize("tasks", [40, 7])
def test_equal_machines_that_stay_idle_change_no_plan(name, tasks, widths, monkeypatch):
    for seed in range(4):
        flow = generate("layered", {"tasks": tasks}, seed).workflow
        problem = Problem.of(flow, MANY)
        widths.clear()
        expected = planned(name, problem, seed)
        assert widths == [len(MANY)]
        with monkeypatch.context() as patch:
            patch.setattr(list_scheduling, "FEWEST_MACHINES", 1)
            patch.setattr(list_scheduling, "MACHINES_FACTOR", 2)
            plan = planned(name, problem, seed)
        assert len(widths) > 2 or widths[1] < len(MANY)
        assert np.array_equal(plan.processor, expected.processor)
        assert np.array_equal(plan.start, expected.start)


def test_a_plan_on_many_machines_costs_what_it_uses(widths):
    flow = generate("layered", {"tasks": 300}, 0).workflow
    assert planned("heft", Problem.of(flow, identical(100_000))).makespan > 0
    assert widths == [list_scheduling.FEWEST_MACHINES]
