"""Planning again and again while a workflow runs on machines that change."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import naive
from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.model.loops import LoopIterations
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import (
    LoadStep,
    NetworkLink,
    Platform,
    PlatformMachine,
    grid_2005,
    identical,
)
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.simulate.simulator import (
    Perturbation,
    simulate,
    simulate_perturbed,
)

ROUGH = Perturbation.read("every=20:200,lasting=50:200,share=0.1:0.5,failing=0.1")


def hybrid(seed=0, **given):
    return make("hybrid", given, seed)


def machines(*loads):
    """As many machines of speed 1, with (time, share) as their loads; data take 1 second."""
    made = (
        PlatformMachine(f"m{i}", site=f"s{i}", load=tuple(LoadStep(*step) for step in steps))
        for i, steps in enumerate(loads)
    )
    return Platform("some", tuple(made), default=NetworkLink("", "", latency=1.0))


def alone(work=10.0):
    return Workflow.of("alone", [WorkflowTask("a", work)])


def runs(trace):
    return [(run.kind, run.processor, round(run.start, 3), round(run.end, 3)) for run in trace.runs]


def noted(trace):
    return trace.notes["schedulings"]


def keeps_the_rules(trace, problem):
    """No processor runs two tasks at once, and none starts before its data are there."""
    for place in range(problem.processors):
        spans = sorted(
            (run.start, run.end)
            for run in trace.runs
            if run.processor == place and problem.time(run.task, place)
        )
        assert all(one[1] <= other[0] + 1e-9 for one, other in pairwise(spans))
    plan, flow = trace.plan, trace.problem.workflow
    for a, b, data in zip(flow.sources, flow.targets, flow.data, strict=True):
        moved = problem.transfer(data, plan.processor[a], plan.processor[b])
        assert plan.start[b] >= plan.end[a] + moved - 1e-9


def test_a_task_that_breaks_its_contract_migrates_as_soon_as_it_does():
    problem = Problem.of(alone(), machines([(2, 0.1)], []))
    trace = simulate(problem, hybrid())
    broken = 2.7 / 0.85  # elapsed = 1.5 * 10 * (0.2 + 0.01 (elapsed - 2))
    assert runs(trace) == [
        ("cancelled", 0, 0, round(broken, 3)), ("ended", 1, round(broken, 3), round(broken + 10, 3))
    ]  # fmt: skip
    assert noted(trace)["migrated"] == [[], [], ["a"], []][: len(noted(trace)["time"])]


def test_a_task_that_does_not_tell_how_far_it_is_has_a_timeout():
    problem = Problem.of(alone(), machines([(2, 0.1)], []))
    trace = simulate(problem, hybrid(progress=False))
    assert runs(trace) == [("cancelled", 0, 0, 15), ("ended", 1, 15, 25)]


def test_a_task_that_keeps_its_contract_stays():
    problem = Problem.of(alone(), machines([(2, 0.7)], []))
    trace = simulate(problem, hybrid())
    assert runs(trace) == [("ended", 0, 0, round(2 + 8 / 0.7, 3))]


def test_a_late_task_stays_where_it_ends_sooner_than_elsewhere_but_not_as_in_the_paper():
    problem = Problem.of(alone(), machines([(9.5, 0.2)], []))
    assert runs(simulate(problem, hybrid(contract=0.1))) == [("ended", 0, 0, 12)]
    assert runs(simulate(problem, hybrid(contract=0.1, adopt="always")))[0][0] == "cancelled"


def test_a_task_that_was_lost_is_sent_elsewhere():
    problem = Problem.of(alone(), machines([(4, 0)], []))
    assert runs(simulate(problem, hybrid())) == [("lost", 0, 0, 4), ("ended", 1, 4, 14)]


def test_a_task_waits_for_its_machine_if_all_have_failed():
    problem = Problem.of(alone(), machines([(4, 0), (6, 1)], [(3, 0)]))
    assert runs(simulate(problem, hybrid())) == [("lost", 0, 0, 4), ("ended", 0, 6, 16)]


def test_what_ran_on_a_machine_is_run_again_when_what_is_bound_to_it_must_go_elsewhere():
    tasks = [
        WorkflowTask("a", 4, machine="M"),
        WorkflowTask("b", 4, machine="M"),
        WorkflowTask("c", 9),
    ]
    flow = Workflow.of("bound", tasks, [("a", "b"), ("c", "b")])
    problem = Problem.of(flow, machines([(5, 0)], [(5, 0)], []))
    trace = simulate(problem, hybrid())
    counts = Counter(run.task for run in trace.good)
    assert counts[0] == 2
    assert counts[1] == 1
    assert trace.plan.processor[0] == trace.plan.processor[1] == 2
    keeps_the_rules(trace, problem)


def test_what_is_bound_to_what_has_run_stays_where_that_ran():
    tasks = [
        WorkflowTask("a", 4, machine="M"),
        WorkflowTask("b", 4, machine="M"),
        WorkflowTask("c", 9),
    ]
    flow = Workflow.of("bound", tasks, [("a", "b"), ("c", "b")])
    trace = simulate(Problem.of(flow, machines([], [(5, 0.5)], [])), hybrid())
    assert trace.plan.processor.tolist() == [1, 1, 0]
    assert len(trace.runs) == 3


def test_tasks_of_a_loop_that_share_a_machine_move_together():
    tasks = [
        WorkflowTask("s", 1),
        WorkflowTask("a", 5, machine="M"),
        WorkflowTask("b", 4, machine="M"),
        WorkflowTask("t", 1),
    ]
    edges = [("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("t", "s")]
    flow = Workflow.of("bound", tasks, edges)
    problem = Problem.of(flow, machines([(8, 0), (9, 1)], []))
    trace = simulate(problem, hybrid(), repeats=LoopIterations(2))
    assert Counter(run.task for run in trace.good) == {0: 2, 1: 3, 2: 2, 3: 2}
    begin = trace.again[0].time
    places = {(run.task, run.start >= begin): run.processor for run in trace.good}
    assert places[2, False] == places[1, False] == 1
    assert places[2, True] == places[1, True]


def test_of_two_late_tasks_the_one_moves_that_gains_by_it():
    flow = Workflow.of("two", [WorkflowTask("a", 10), WorkflowTask("b", 10)])
    problem = Problem.of(flow, machines([(9.5, 0.2)], [(9, 0.01)], [], []))
    trace = simulate(problem, hybrid(contract=0.1, interval=11))
    assert noted(trace)["late"][1] == 2
    assert runs(trace) == [("cancelled", 1, 0, 11), ("ended", 0, 0, 12), ("ended", 2, 11, 21)]


def test_what_waits_is_planned_anew_when_a_machine_gets_slow():
    flow = Workflow.of("two", [WorkflowTask("a", 5), WorkflowTask("b", 10)], [("a", "b")])
    trace = simulate(Problem.of(flow, machines([(4, 0.5)], [])), hybrid(contract=9))
    assert trace.plan.processor.tolist() == [0, 1]
    assert trace.makespan == 6 + 1 + 10


def test_with_an_interval_it_plans_no_more_often():
    problem = Problem.of(alone(), machines([(2, 0.1)], []))
    trace = simulate(problem, hybrid(interval=5))
    assert noted(trace)["time"] == [0, 5, 10, 15]
    assert runs(trace) == [("cancelled", 0, 0, 5), ("ended", 1, 5, 15)]


@settings(deadline=None, max_examples=settings.default.max_examples * 60 // 100)
@given(naive.planned())
def test_where_nothing_changes_it_is_no_worse_than_the_static_plan(drawn):
    problem, _, _ = drawn
    static = make("heft").plan(problem)
    trace = simulate(problem, hybrid())
    assert not trace.left
    check(trace.plan)
    assert trace.makespan <= static.makespan * (1 + 1e-9)
    ends = noted(trace)["end"]
    assert ends[0] == pytest.approx(static.makespan)
    assert all(a >= b - 1e-9 for a, b in pairwise(ends))
    assert ends[-1] == pytest.approx(trace.makespan)
    assert not any(noted(trace)["migrated"])


@settings(deadline=None, max_examples=settings.default.max_examples * 40 // 100)
@given(naive.planned(), st.data(), st.sampled_from(["better", "always"]))
def test_whatever_befalls_machines_all_is_run_by_the_rules(drawn, data, adopt):
    problem, _, _ = drawn
    steps = st.lists(
        st.tuples(st.floats(0, 20), st.sampled_from([0.0, 0.25, 0.5, 2.0])), max_size=4
    )
    loaded = tuple(
        replace(
            each,
            load=(*(LoadStep(*step) for step in sorted(data.draw(steps))), LoadStep(30.0, 1.0)),
        )
        for each in problem.platform.machines
    )
    problem = Problem.of(problem.workflow, replace(problem.platform, machines=loaded))
    trace, again = simulate(problem, hybrid(adopt=adopt)), simulate(problem, hybrid(adopt=adopt))
    assert (trace.runs, trace.events, trace.notes) == (again.runs, again.events, again.notes)
    assert not trace.left
    keeps_the_rules(trace, problem)
    assert {run.task for run in trace.good} == set(range(problem.tasks))
    if not problem.grouped:
        assert max(Counter(run.task for run in trace.good).values()) == 1


@pytest.fixture(scope="module")
def wien2k():
    """A loop, on one of eight machines of the testbed."""
    whole = grid_2005()
    platform = replace(whole, machines=whole.machines[::8])
    flow = instance_of("wien2k:kpoints=8,loop=true,transfers=true").workflow
    return Problem.of(flow, platform)


@pytest.mark.parametrize(
    "given",
    [
        {},
        pytest.param({"adopt": "always"}, marks=pytest.mark.slow),
        pytest.param({"static": "cpop", "interval": 15}, marks=pytest.mark.slow),
    ],
)
def test_each_task_of_a_loop_ends_once_in_each_iteration(wien2k, given):
    policy = hybrid(**given)
    trace = simulate_perturbed(wien2k, policy, ROUGH, 3, repeats=LoopIterations(2))
    counts = Counter(run.task for run in trace.good)
    assert set(counts.values()) == {2}
    assert len(counts) == wien2k.tasks
    starts = [0.0, *(event.time for event in trace.again), trace.makespan]
    assert len(starts) == 3
    for begin, end in pairwise(starts):
        done = {run.task for run in trace.good if begin <= run.start and run.end <= end}
        assert done == set(range(wien2k.tasks))
    keeps_the_rules(trace, wien2k)
    assert (
        trace.runs == simulate_perturbed(wien2k, policy, ROUGH, 3, repeats=LoopIterations(2)).runs
    )


def test_a_loop_of_unknown_length_is_run_until_it_converges(wien2k):
    lengths = set()
    for seed in range(4):
        trace = simulate(wien2k, hybrid(), repeats=LoopIterations(converging=0.4, seed=seed))
        assert not trace.left
        assert noted(trace)["iteration"][-1] == len(trace.again) + 1
        lengths.add(len(trace.again))
    assert len(lengths) > 1


def test_without_disturbance_each_iteration_of_a_loop_takes_as_long_as_was_foreseen(wien2k):
    trace = simulate(wien2k, hybrid(), repeats=LoopIterations(2))
    spans = np.diff([0.0, *(event.time for event in trace.again), trace.makespan])
    assert spans == pytest.approx([noted(trace)["end"][0]] * 2)


def test_in_a_loop_the_whole_workflow_is_planned_but_for_what_runs(wien2k):
    trace = simulate(wien2k, hybrid(), repeats=LoopIterations(1))
    columns = noted(trace)
    before_its_end = columns["time"][:-1]
    running = [sum(run.start < time < run.end for run in trace.good) for time in before_its_end]
    assert max(running) > 5
    planned = [wien2k.tasks - count for count in running]
    assert columns["tasks"] == [*planned, 0]


def test_what_is_left_of_a_workflow_without_loops_takes_ever_less_time():
    problem = Problem.of(instance_of("wien2k:kpoints=12").workflow, grid_2005())
    columns = noted(simulate(problem, hybrid()))
    assert len({len(column) for column in columns.values()}) == 1
    assert columns["tasks"][0] == problem.tasks
    assert columns["tasks"][-1] == 0
    assert all(a >= b - 1e-9 for a, b in pairwise(columns["remaining"]))
    assert columns["end"] == pytest.approx([columns["end"][0]] * len(columns["end"]))


@pytest.mark.slow
def test_migration_halves_the_time_where_machines_become_slow_for_long():
    problem = Problem.of(instance_of("wien2k").workflow, grid_2005())
    how = Perturbation.read("every=20:400,lasting=500:1000,share=0.05:0.3")
    with_it = simulate_perturbed(problem, hybrid(interval=5), how, 1).makespan
    without = simulate_perturbed(problem, hybrid(interval=5, contract=1e9), how, 1).makespan
    assert with_it < without / 2


def test_any_static_algorithm_plans_with_its_settings():
    policy = hybrid(static="random", seed=5)
    assert policy.static.seed == 5
    trace = simulate(Problem.of(alone(), identical(2)), policy)
    assert trace.notes["static"] == "random"


@pytest.mark.parametrize("name", ["hybrid", "fcfs", "moldable-front"])
def test_what_is_not_static_does_not_plan(name):
    with pytest.raises(InputError, match=f"static={name} is"):
        hybrid(static=name)
