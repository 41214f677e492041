"""lazy, M-S, pM-S: what they decide when, and what comes of it."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import examples, naive_listing
from zenturio.schedule.algorithm import make
from zenturio.schedule.generators.generator import generate, instance_of
from zenturio.schedule.model.loops import LoopIterations
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import LoadStep, Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.simulate.simulator import (
    Perturbation,
    simulate,
    simulate_perturbed,
)

RULES = [("lazy", {}), ("lazy", {"by": "time"}), ("m-s", {}), ("pm-s", {})]


def planned(name, problem, **given):
    return check(make(name, given).plan(problem))


def test_by_priorities_the_worked_example_takes_15_and_not_22():
    problem = examples.master_slave()
    assert planned("m-s", problem).makespan == 22
    plan = planned("pm-s", problem)
    assert plan.makespan == 15
    assert plan.start.tolist() == [0, 2, 6, 1, 2, 6, 10, 14, 5]


@settings(
    max_examples=settings.default.max_examples * 150 // 100, deadline=None
)  # the first example compiles
@given(
    naive_listing.problems((1, 12)).filter(lambda each: each.work.min() > 0), st.sampled_from(RULES)
)
def test_a_plan_is_what_comes_of_deciding_task_by_task(problem, rule):
    name, settings_ = rule
    plan = planned(name, problem, **settings_)
    trace = simulate(problem, make(name, settings_))
    assert not trace.left
    assert plan.start.tolist() == trace.plan.start.tolist()
    assert plan.processor.tolist() == trace.plan.processor.tolist()


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(naive_listing.problems((1, 12)), st.sampled_from(RULES))
def test_a_plan_can_be_carried_out_and_is_the_same_every_time(problem, rule):
    name, settings_ = rule
    one, other = planned(name, problem, **settings_), planned(name, problem, **settings_)
    assert one.algorithm == name
    assert one.start.tolist() == other.start.tolist()
    assert one.processor.tolist() == other.processor.tolist()
    assert not simulate(problem, make(name, settings_)).left


@settings(max_examples=settings.default.max_examples * 60 // 100, deadline=None)
@given(
    naive_listing.problems((1, 12)).filter(lambda each: each.work.min() > 0), st.sampled_from(RULES)
)
def test_no_task_is_sent_before_all_that_it_waits_for_have_ended(problem, rule):
    plan = planned(rule[0], problem, **rule[1])
    flow = problem.workflow
    for a, b, data in zip(flow.sources, flow.targets, flow.data, strict=True):
        sent = plan.end[problem.before.of(b)].max()
        moved = problem.transfer(data, plan.processor[a], plan.processor[b])
        assert plan.start[b] >= sent + moved - 1e-9


@pytest.mark.parametrize("name", ["ptg", "otg"])
def test_priorities_change_nothing_where_each_task_waits_for_one(name):
    instance = generate(name, {}, seed=3)
    problem = Problem.of(instance.workflow, instance.platform)
    assert planned("pm-s", problem).start.tolist() == planned("m-s", problem).start.tolist()


def test_priorities_help_on_random_sweeps():
    ends = []
    for seed in range(10):
        instance = generate("sweep", {}, seed=seed)
        problem = Problem.of(instance.workflow, instance.platform)
        ends.append([planned(name, problem).makespan for name in ("pm-s", "m-s", "shuffle")])
    mean = [sum(each) for each in zip(*ends, strict=True)]
    assert mean[0] < mean[1] < mean[2]


def test_the_lazy_take_what_ends_first_or_what_runs_shortest():
    flow = Workflow.of("bag", [WorkflowTask(f"t{i}", 4) for i in range(3)])
    problem = Problem.of(
        flow, Platform("two", (PlatformMachine("fast", 2), PlatformMachine("slow", 1)))
    )
    assert planned("lazy", problem).processor.tolist() == [0, 0, 1]
    assert planned("lazy", problem, by="time").processor.tolist() == [0, 0, 0]


def test_the_lazy_leave_a_machine_that_has_become_slow():
    flow = Workflow.of("chain", [WorkflowTask("a", 2), WorkflowTask("b", 4)], [("a", "b")])
    slow = PlatformMachine("fast", 2, load=(LoadStep(0.5, 0.1),))
    problem = Problem.of(flow, Platform("two", (slow, PlatformMachine("slow", 1))))
    assert simulate(problem, make("lazy")).plan.processor.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["lazy", "m-s", "pm-s"])
def test_what_a_failure_takes_is_sent_elsewhere(name):
    flow = Workflow.of("bag", [WorkflowTask(f"t{i}", 4) for i in range(6)])
    failing = PlatformMachine("failing", load=(LoadStep(1, 0.0),))
    problem = Problem.of(flow, Platform("two", (failing, PlatformMachine("good"))))
    algorithm = make(name)
    for _ in range(2):  # the second play knows nothing of the first
        trace = simulate(problem, algorithm)
        assert not trace.left
        assert set(trace.plan.processor.tolist()) == {1}


def test_tasks_that_share_a_machine_wait_for_it():
    tasks = [
        WorkflowTask("a", 5, machine="x"),
        WorkflowTask("b", 1),
        WorkflowTask("c", 1, machine="x"),
        WorkflowTask("d", 1),
    ]
    plan = planned("m-s", Problem.of(Workflow.of("bag", tasks), identical(2)))
    assert plan.processor.tolist() == [0, 1, 0, 1]
    assert plan.start.tolist() == [0, 0, 5, 1]


def test_loads_that_are_to_come_are_not_foreseen():
    problem = examples.master_slave()
    machines = tuple(replace(each, load=(LoadStep(3, 0.5),)) for each in problem.platform.machines)
    loaded = Problem.of(problem.workflow, Platform("loaded", machines))
    assert planned("pm-s", loaded).makespan == 15


@pytest.mark.parametrize("by", ["end", "time"])
@pytest.mark.parametrize("transfers", [False, True])
def test_lazy_plays_each_iteration_of_a_loop_and_what_comes_after_it(by, transfers):
    made = instance_of(f"wien2k:kpoints=4,loop=true,transfers={str(transfers).lower()}")
    flow = made.workflow
    more = [*flow.tasks, WorkflowTask("report", 1.0)]
    flow = Workflow.of("f", more, [*flow.edges, ("mixer", "report")])
    problem = Problem.of(flow, identical(3))
    once, thrice = (
        simulate(problem, make("lazy", {"by": by}), repeats=LoopIterations(count))
        for count in (1, 3)
    )
    assert not once.left
    assert not thrice.left
    counts = Counter(problem.workflow.names[run.task] for run in thrice.good)
    assert counts.pop("report") == 1
    assert set(counts.values()) == {3}
    assert thrice.makespan - 1 == pytest.approx(3 * (once.makespan - 1))


def test_lazy_plays_loops_on_machines_that_fail():
    problem = Problem.of(instance_of("wien2k:kpoints=4,loop=true").workflow, identical(3))
    how = Perturbation.read("every=20:80,lasting=10:40,share=0.1:0.5,failing=0.3")
    trace = simulate_perturbed(problem, make("lazy"), how, 5, repeats=LoopIterations(3))
    assert not trace.left
    assert len(trace.again) == 2
