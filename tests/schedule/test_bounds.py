"""Lower bounds are below every plan, and as high as can be where that is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import naive, naive_listing, naive_placing
from zenturio.schedule.algorithm import make
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.kernels.lower_bounds import equal_task_times, interval_excess
from zenturio.schedule.model import lower_bounds as bounds_module
from zenturio.schedule.model.lower_bounds import LowerBounds, gap, lower_bound, lower_bounds
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static import exact

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
    assert found == LowerBounds(critical=11, load=10, crowded=12, level=11, refuted=12)
    fast = Platform("two", (PlatformMachine("slow"), PlatformMachine("fast", 3.0)))
    assert bounds([8], [], fast).best == pytest.approx(8 / 3)
    assert bounds([2, 2, 2, 2], [], fast).load == pytest.approx(2)


def unit_links(names, edges, machines, seconds):
    """Tasks of 10 s whose data take *seconds* between any two machines of one core."""
    platform = Platform(
        "linked", tuple(PlatformMachine(f"m{i}") for i in range(machines)),
        default=NetworkLink("", "", 1.0),
    )  # fmt: skip
    tasks = [WorkflowTask(name, 10.0) for name in names]
    return Problem.of(Workflow.of("made", tasks, [(a, b, seconds) for a, b in edges]), platform)


def test_a_successor_waits_for_its_data_or_for_its_siblings():
    fork = [("a", "b"), ("a", "c")]
    # One successor stays with the first task, the other pays the transfer.
    assert lower_bounds(unit_links("abc", fork, 2, 4.0)).critical == 24
    # A transfer that is longer than the other successor is never worth it.
    assert lower_bounds(unit_links("abc", fork, 2, 15.0)).critical == 30
    join = [("b", "a"), ("c", "a")]
    assert lower_bounds(unit_links("abc", join, 2, 4.0)).critical == 24
    # Two cores of one machine run both successors at once.
    wide = Platform("wide", (PlatformMachine("m", cores=2),))
    made = unit_links("abc", fork, 1, 15.0).workflow
    assert lower_bounds(Problem.of(made, wide)).critical == 20


def test_tasks_that_must_share_a_machine_are_added_up():
    zigzag = [("a", "c"), ("b", "c"), ("b", "d")]
    bounds = lower_bounds(unit_links("abcd", zigzag, 4, 100.0))
    assert (bounds.critical, bounds.refuted) == (30, pytest.approx(40, rel=2e-4))


def test_a_machine_that_runs_several_tasks_at_a_time_offers_its_memory_but_once():
    fork = [("a", "b"), ("a", "c")]
    flow = unit_links("abc", fork, 1, 100.0).workflow
    tasks = [WorkflowTask(name, 10.0, memory=6.0) for name in "abc"]
    machines = tuple(PlatformMachine(f"m{i}", cores=4, memory=8.0) for i in range(3))
    platform = Platform("large", machines, default=NetworkLink("", "", 1.0))
    problem = Problem.of(Workflow.of("made", tasks, list(flow.edges)), platform)
    assert problem.resources is not None
    # At most 1.33 tasks a second have room: 10 s, and then twice 6 of 8 bytes for 10 s.
    assert lower_bounds(problem).critical == pytest.approx(25)


def random_case(seed, *, is_shared):
    """A small workflow with data on different machines, which tasks share or not."""
    rng = np.random.default_rng(seed)
    count = 7
    sizes = rng.choice([1, 2], count) if is_shared else np.ones(count, int)
    tasks = [
        WorkflowTask(f"t{i}", float(rng.integers(1, 9)), cores=int(sizes[i])) for i in range(count)
    ]
    edges = [
        (f"t{a}", f"t{b}", float(rng.integers(0, 12)))
        for b in range(count)
        for a in range(b)
        if rng.random() < 0.35
    ]
    machines = tuple(
        PlatformMachine(
            f"m{i}", float(rng.choice([1.0, 2.0])), cores=2 if is_shared else 1,
            boot=float(rng.choice([0.0, 3.0])) if is_shared else 0.0,
        )
        for i in range(3)
    )  # fmt: skip
    platform = Platform("drawn", machines, default=NetworkLink("", "", 1.0, 0.5))
    return Problem.of(Workflow.of("drawn", tasks, edges), platform)


@pytest.mark.parametrize("is_shared", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 40))])  # fmt: skip
def test_the_optimum_of_a_solver_is_never_below_a_bound(seed, is_shared, monkeypatch):
    monkeypatch.setattr(exact, "lower_bound", lambda _: 0.0)  # the solver proves it by itself
    problem = random_case(seed, is_shared=is_shared)
    plan = make("cp-sat:effort=5").plan(problem)
    assert plan.notes["status"] == "optimal"
    assert lower_bound(problem) <= plan.makespan * ROUNDING


def without_skip(problem):
    """The bounds, with refuted makespans even where crowded intervals say as much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds_module, "_is_refutation_implied", lambda *_: False)
        return bounds_module._computed(problem)


@settings(max_examples=settings.default.max_examples * 20 // 100, deadline=None)
@given(naive.flows((1, 6)), st.integers(1, 3))
def test_nothing_is_lost_where_makespans_are_not_refuted_one_by_one(flow, count):
    problem = Problem.of(flow, identical(count))
    assert bounds_module._is_refutation_implied(problem, bounds_module._machine_kinds(problem))
    assert without_skip(problem) == lower_bounds(problem)


@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 30))])  # fmt: skip
@pytest.mark.parametrize("count", [2, 3])
def test_nor_is_it_in_larger_graphs(seed, count):
    flow = instance_of(f"layered:tasks=16,ccr=0,layers=4,seed={seed}").workflow
    problem = Problem.of(flow, identical(count))
    assert without_skip(problem) == lower_bounds(problem)


def test_makespans_are_refuted_where_machines_differ_or_tasks_are_tied_or_share_them():
    def bounds(tasks, edges, *machines):
        edges = [(f"t{a}", f"t{b}") for a, b in edges]
        tasks = [replace(task, name=f"t{i}") for i, task in enumerate(tasks)]
        found = lower_bounds(Problem.of(Workflow.of("made", tasks, edges), Platform("p", machines)))
        return max(found.critical, found.load, found.crowded, found.level), found.refuted

    one, other = PlatformMachine("one"), PlatformMachine("other")
    tied = [WorkflowTask("", 10.0, machine="x"), WorkflowTask("", 10.0, machine="x")]
    assert bounds([*tied, WorkflowTask("", 5.0)], [], one, other) == (13, 20)
    edges = [(0, 1), (2, 3), (1, 4), (2, 4), (3, 4), (1, 5), (4, 5)]
    works = [WorkflowTask("", work) for work in (8.0, 4.0, 4.0, 5.0, 7.0, 8.0)]
    assert bounds(works, edges, one, PlatformMachine("fast", 2.0)) == (
        14,
        pytest.approx(14.5, 1e-4),
    )
    wide = [(7.0, 2), (2.0, 2), (5.0, 1), (6.0, 2), (7.0, 2), (7.0, 1)]
    tasks = [WorkflowTask("", work, cores=cores) for work, cores in wide]
    double = PlatformMachine("a", cores=2), PlatformMachine("b", cores=2)
    found = bounds(tasks, [(0, 2), (3, 5), (4, 5)], *double)
    assert found == (14, pytest.approx(15, 1e-4))


def test_no_tasks_take_no_time():
    problem = Problem.of(Workflow.of("none", []), identical(2))
    assert lower_bound(problem) == 0
    assert gap(0.0, 0.0) == 0
    assert gap(3.0, 2.0) == 0.5
