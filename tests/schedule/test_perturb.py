"""Machines that are disturbed at random, and plans in many futures."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import naive
from zenturio.errors import InputError
from zenturio.schedule.model.evaluation import evaluate
from zenturio.schedule.model.platform import LoadStep, Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.simulate.simulator import (
    Perturbation,
    combined_load,
    perturbed_makespans,
    perturbed_platform,
    replay_under_load,
    simulate,
    simulate_perturbed,
)

OFTEN = Perturbation(every=(1, 4), lasting=(1, 3), share=(0.2, 0.8), failing=0.25)
shares = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0])
loads = st.lists(st.tuples(st.integers(0, 12), shares), max_size=5).map(
    lambda steps: tuple(
        LoadStep(float(time), share) for time, share in sorted(steps, key=lambda s: s[0])
    )
)


def share_at(load, time):
    """The share that holds at *time*."""
    return next((step.share for step in reversed(load) if step.time <= time), 1.0)


@given(st.integers(0, 2**32), st.floats(1, 200), st.floats(1, 200))
def test_what_befalls_a_machine_begins_the_same_however_far_one_looks(seed, near, far):
    near, far = sorted((near, far))
    short, long = OFTEN.steps(seed, 3, near), OFTEN.steps(seed, 3, far)
    for one, other in zip(short, long, strict=True):
        assert one.tolist() == other[: len(one)].tolist()
    assert (short[0][::2] <= near).all()
    assert not (long[0][len(short[0]) :: 2] <= near).any()


def test_disturbances_are_drawn_evenly_from_their_ranges():
    times, values = OFTEN.steps(1, 0, 40_000)
    lasting, every = times[1::2] - times[::2], np.diff(times, prepend=0)[::2]
    for drawn, (low, high) in (
        (lasting, (1, 3)),
        (every, (1, 4)),
        (values[::2][values[::2] > 0], (0.2, 0.8)),
    ):
        assert low <= drawn.min() + 1e-6
        assert drawn.max() <= high + 1e-6
        assert np.quantile(drawn, (0.25, 0.5, 0.75)) == pytest.approx(
            [low + (high - low) * part for part in (0.25, 0.5, 0.75)], rel=0.05
        )
    assert (values[1::2] == 1).all()
    assert np.mean(values[::2] == 0) == pytest.approx(0.25, abs=0.02)


def test_each_machine_has_chance_of_its_own():
    few, many = (perturbed_platform(identical(count), OFTEN, 5, 100) for count in (2, 4))
    assert [m.load for m in few.machines] == [m.load for m in many.machines[:2]]
    assert len({m.load for m in many.machines}) == 4
    assert perturbed_platform(identical(2), OFTEN, 6, 100).machines[0].load != few.machines[0].load


@given(loads, loads, st.lists(st.integers(0, 14), min_size=1))
def test_of_two_loads_at_once_a_machine_gives_the_share_of_the_share(one, other, times):
    both = combined_load(one, other)
    assert list(both) == sorted(both, key=lambda step: step.time)
    for time in times:
        assert share_at(both, time) == share_at(one, time) * share_at(other, time)


@settings(deadline=None, max_examples=settings.default.max_examples * 200 // 100)
@given(naive.planned(), st.data())
def test_a_plan_on_loaded_machines_has_the_times_of_its_simulation(drawn, data):
    problem, processor, order = drawn
    machines = tuple(replace(m, load=data.draw(loads)) for m in problem.platform.machines)
    problem = replace(problem, platform=replace(problem.platform, machines=machines))
    plan = evaluate(problem, processor, order)
    trace, found = simulate(problem, plan), replay_under_load(plan)
    for task in trace.left:
        assert found.end[task] == np.inf
    done = [task for task in range(problem.tasks) if task not in trace.left]
    assert found.end[done].tolist() == trace.plan.end[done].tolist()
    assert found.start[done].tolist() == trace.plan.start[done].tolist()


@settings(deadline=None, max_examples=settings.default.max_examples * 30 // 100)
@given(naive.planned(), st.integers(0, 1000))
def test_a_plan_has_in_each_future_the_makespan_that_its_simulation_has(drawn, seed):
    problem, processor, order = drawn
    plan = evaluate(problem, processor, order)
    found = perturbed_makespans(plan, OFTEN, range(seed, seed + 3))
    assert found.tolist() == [
        simulate_perturbed(problem, plan, OFTEN, each).makespan for each in range(seed, seed + 3)
    ]


def test_a_machine_is_disturbed_as_long_as_the_workflow_takes():
    problem = Problem.of(Workflow.of("f", [WorkflowTask("a", 1000)]), identical(1))
    plan = evaluate(problem, [0], [0])
    slow = Perturbation(every=(1, 1), lasting=(9, 9), share=(0.1, 0.1))
    trace = simulate_perturbed(problem, plan, slow)
    assert trace.makespan == pytest.approx(1000 / (1 + 0.9) * 10, rel=0.01)
    assert perturbed_makespans(plan, slow, range(1)).tolist() == [trace.makespan]


def test_a_machine_that_is_gone_for_good_is_not_waited_for():
    machines = (PlatformMachine("m", load=(LoadStep(2.0, 0.0),)),)
    problem = Problem.of(Workflow.of("f", [WorkflowTask("a", 5)]), Platform("p", machines))
    plan = evaluate(problem, [0], [0])
    assert simulate_perturbed(problem, plan, OFTEN).left == (0,)
    assert perturbed_makespans(plan, OFTEN, range(1)).tolist() == [np.inf]


def test_a_perturbation_is_read_from_a_line():
    assert Perturbation.read("every=20:60, lasting=10,share=0.2:0.8,failing=0.05") == Perturbation(
        (20, 60), (10, 10), (0.2, 0.8), 0.05
    )


@pytest.mark.parametrize(
    ("text", "diagnostic"),
    [
        ("every=20:60", "every and lasting are missing"),
        ("evry=20:60,lasting=1", "did you mean.*every"),
        ("every=20:60,lasting=1,every=3", "'every'"),
        ("every=20:ten,lasting=1", "'every=20:ten' is not a range"),
        ("every=60:20,lasting=1", "every=60:20: seconds from 0 on, the lower first"),
        ("every=0:0,lasting=1", "every=0:0"),
        ("every=1,lasting=nan", "lasting=nan:nan"),
        ("every=1,lasting=1,share=0:1", "share=0:1: above 0"),
        ("every=1,lasting=1,failing=2", "failing=2: a probability"),
        ("every=1,lasting=1,failing=0:1", "failing is a single number"),
    ],
)
def test_what_is_no_perturbation_is_refused(text, diagnostic):
    with pytest.raises(InputError, match=f"(?s){diagnostic}"):
        Perturbation.read(text)


def test_disturbances_beyond_all_measure_are_refused():
    with pytest.raises(InputError, match="more than 1,000,000 perturbations"):
        Perturbation((0, 1e-6), (0, 1e-6)).steps(0, 0, 1e9)
