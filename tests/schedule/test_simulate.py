"""Workflows that are played on machines that change."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import naive
from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.model.evaluation import evaluate
from zenturio.schedule.model.plan import Plan, check, faults
from zenturio.schedule.model.platform import (
    LoadStep,
    NetworkLink,
    Platform,
    PlatformMachine,
    identical,
)
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.simulate.simulator import simulate, task_sequence

PAIR = Workflow.of("pair", [WorkflowTask("a", 4), WorkflowTask("b", 2)], [("a", "b", 6.0)])


def loaded(*steps, speed=1.0):
    """A machine of one core, with (time, share) as its load."""
    return Platform(
        "one", (PlatformMachine("m", speed, load=tuple(LoadStep(*step) for step in steps)),)
    )


def played(flow, platform, **more):
    """All tasks on the first processor."""
    problem = Problem.of(flow, platform)
    plan = evaluate(problem, [0] * problem.tasks, problem.order)
    return simulate(problem, plan, **more)


def kinds(trace):
    return [(event.time, event.kind) for event in trace.events]


@settings(deadline=None)
@given(naive.planned())
def test_a_plan_that_nothing_disturbs_is_carried_out_as_it_is(drawn):
    problem, processor, order = drawn
    plan = evaluate(problem, processor, order, "drawn")
    trace = simulate(problem, plan)
    assert not list(faults(trace.plan))
    assert (trace.plan.end <= plan.end).all()
    assert trace.algorithm == "drawn"
    if problem.work.all():  # times do not tell the order of tasks of no length
        assert trace.plan.start.tolist() == plan.start.tolist()
        assert trace.plan.end.tolist() == plan.end.tolist()
        assert trace.makespan == plan.makespan


def test_a_machine_that_is_loaded_takes_longer():
    trace = played(PAIR, loaded((1, 0.5), (3, 0.25), (7, 1)))
    assert trace.plan.end.tolist() == [1 + 2 + 4 + 1, 10]
    assert [event.kind for event in trace.events] == [
        "began", "started", "load", "load", "load", "ended", "started", "ended",
    ]  # fmt: skip


def test_a_task_that_is_lost_begins_anew_when_its_machine_is_back():
    trace = played(PAIR, loaded((3, 0), (10, 0.5)))
    assert [(run.kind, run.start, run.end) for run in trace.runs] == [
        ("lost", 0, 3), ("ended", 10, 18), ("ended", 18, 22),
    ]  # fmt: skip
    assert trace.wasted == 3
    assert [kind for kind in kinds(trace) if kind[1] in {"failed", "lost", "back"}] == [
        (3, "failed"), (3, "lost"), (10, "back"),
    ]  # fmt: skip


def test_a_task_that_ends_when_its_machine_fails_has_ended():
    trace = played(PAIR, loaded((4, 0), (5, 1)))
    assert [(run.kind, run.end) for run in trace.runs] == [("ended", 4), ("ended", 7)]


def test_what_waits_for_a_machine_that_is_gone_is_left():
    trace = played(PAIR, loaded((3, 0)))
    assert trace.left == (0, 1)
    assert trace.makespan == np.inf
    assert np.isnan(trace.plan.end).all()


def test_a_task_is_unknown_until_it_arrives():
    flow = Workflow.of("two", [WorkflowTask("a", 1), WorkflowTask("b", 2)])
    trace = played(flow, loaded(), arrivals=[5, 2])
    assert [(run.task, run.start, run.end) for run in trace.runs] == [(1, 2, 4), (0, 5, 6)]
    assert (5, "arrived") in kinds(trace)


class Script:
    """Does at each time what is written for it, and keeps what it was told."""

    def __init__(self, **acts):
        self.acts, self.told = acts, []

    def react(self, grid, events):
        self.told += [(event.time, event.kind) for event in events]
        act = self.acts.pop(f"at_{grid.now:g}".replace(".", "_"), None)
        if act:
            act(grid)


def test_a_task_that_migrates_begins_anew_and_its_data_follow_it():
    machines = (PlatformMachine("slow", 0.5, site="x"), PlatformMachine("fast", 4.0, site="y"))
    platform = Platform("two", machines, default=NetworkLink("", "", bandwidth=3.0, latency=1.0))

    def begin(grid):
        grid.send(0, 0)
        grid.send(1, 0)

    def move(grid):
        assert grid.progress(1) == 0.25
        assert grid.remaining(1) == 3
        assert grid.arrival(1, 1) == 9 + 1 + 2
        assert grid.finish(1, 1) == 12.5
        assert grid.finish(1, 0) == 9 + 3 + 4
        grid.cancel(1)
        grid.send(1, 1)

    policy = Script(at_0=lambda grid: (begin(grid), grid.wake(9)), at_9=move)
    trace = simulate(Problem.of(PAIR, platform), policy)
    assert [(run.kind, run.processor, run.start, run.end) for run in trace.runs] == [
        ("ended", 0, 0, 8), ("cancelled", 0, 8, 9), ("ended", 1, 12, 12.5),
    ]  # fmt: skip
    assert policy.told == [(0, "began"), (8, "ended"), (9, "woke"), (12.5, "ended")]
    assert trace.algorithm == "script"


def test_a_policy_is_asked_at_every_event():
    def send(grid):
        for task in grid.ready():
            grid.send(task, 0)

    acts = {"at_0": send, "at_3": send, "at_8": send, "at_7": lambda grid: None}
    platform = loaded((1, 0.5), (2, 0), (3, 1))
    flow = Workflow.of("f", [WorkflowTask("a", 4), WorkflowTask("b", 1)])
    policy = Script(**acts)
    simulate(Problem.of(flow, platform), policy, arrivals=[0, 8])
    assert policy.told == [
        (0, "began"), (1, "load"), (2, "failed"), (2, "lost"), (3, "back"), (7, "ended"),
        (8, "arrived"), (9, "ended"),
    ]  # fmt: skip


def test_a_loop_is_run_as_often_as_the_policy_wants():
    loop = Workflow.of(
        "loop", [WorkflowTask("a", 1), WorkflowTask("b", 2)], [("a", "b"), ("b", "a")]
    )

    class Twice:
        rounds = 0

        def react(self, grid, events):
            if any(event.kind == "ended" and event.task == 1 for event in events):
                self.rounds += 1
                if self.rounds < 2:
                    grid.again(0)
                    grid.again(1)
                    assert grid.ready() == [0]
            for task in grid.ready():
                grid.send(task, 0)

    trace = simulate(Problem.of(loop, identical(1)), Twice(), forward=[True, False])
    assert [(run.task, run.start) for run in trace.runs] == [(0, 0), (1, 1), (0, 3), (1, 4)]
    assert trace.makespan == 6


def test_a_task_stays_where_it_was_sent_until_all_before_it_is_there():
    flow = Workflow.of(
        "f", [WorkflowTask("a", 3), WorkflowTask("b", 1), WorkflowTask("c", 1)], [("a", "b")]
    )

    def begin(grid):
        grid.send(1, 1)
        grid.send(2, 1)
        grid.send(0, 0)
        assert not grid.idle(1)
        assert list(grid.queue[1]) == [1, 2]
        assert grid.free_at(0) == 3

    trace = simulate(Problem.of(flow, identical(2)), Script(at_0=begin))
    assert [(run.task, run.start) for run in trace.runs] == [(0, 0), (1, 3), (2, 4)]


def test_a_policy_that_does_nothing_leaves_all_and_one_that_only_wakes_is_not_asked_for_ever():
    class Sleepless:
        asked = 0

        def react(self, grid, events):
            self.asked += 1
            grid.wake(grid.now + 1)

    policy = Sleepless()
    assert simulate(Problem.of(PAIR, identical(1)), policy).left == (0, 1)
    assert policy.asked == 1 + 10_000
    assert simulate(Problem.of(PAIR, identical(1)), Script()).left == (0, 1)


@pytest.mark.parametrize(
    ("act", "diagnostic"),
    [
        (lambda grid: grid.cancel(0), "'a' is waiting: it cannot be cancelled"),
        (lambda grid: grid.again(0), "'a' is waiting: it cannot be run again"),
        (lambda grid: (grid.send(0, 0), grid.send(0, 1)), "'a' is sent: it cannot be sent"),
        (lambda grid: grid.run(1), "'b' is waiting: it has no progress"),
    ],
)
def test_what_a_policy_cannot_do_is_refused(act, diagnostic):
    with pytest.raises(InputError, match=diagnostic):
        simulate(Problem.of(PAIR, identical(2)), Script(at_0=act))


def test_a_task_is_not_sent_where_it_cannot_run():
    problem = naive.tagged(Problem.of(PAIR, identical(2)), 0)
    with pytest.raises(InputError, match="'a' cannot run on p2"):
        simulate(problem, Script(at_0=lambda grid: grid.send(0, 1)))


@pytest.mark.parametrize(
    ("steps", "diagnostic"),
    [
        ([(1, -0.5)], "share of its speed"),
        ([(float("nan"), 1)], "from a time on"),
        ([(2, 1), (1, 0.5)], "not in their order"),
    ],
)
def test_loads_are_shares_of_the_speed_in_the_order_of_their_times(steps, diagnostic):
    with pytest.raises(InputError, match=diagnostic):
        played(PAIR, loaded(*steps))


@pytest.mark.parametrize("arrivals", [[1.0], [0.0, float("inf")]])
def test_each_task_arrives_at_a_time(arrivals):
    with pytest.raises(InputError, match="arriv"):
        played(PAIR, loaded(), arrivals=arrivals)


def test_each_edge_is_waited_for_or_not():
    with pytest.raises(InputError, match="2 values for 1 edges"):
        played(PAIR, loaded(), forward=[True, True])


@settings(deadline=None, max_examples=settings.default.max_examples * 60 // 100)
@given(naive.planned(), st.data())
def test_a_trace_on_loaded_machines_keeps_the_rules_of_a_plan(drawn, data):
    problem, processor, order = drawn
    steps = st.lists(
        st.tuples(st.floats(0, 20), st.sampled_from([0.0, 0.25, 0.5, 2.0])), max_size=4
    )
    machines = tuple(
        replace(
            each,
            load=(*(LoadStep(*step) for step in sorted(data.draw(steps))), LoadStep(30.0, 1.0)),
        )
        for each in problem.platform.machines
    )
    problem = Problem.of(problem.workflow, replace(problem.platform, machines=machines))
    planned = evaluate(problem, processor, order)
    trace, again = simulate(problem, planned), simulate(problem, planned)
    assert (trace.runs, trace.events) == (again.runs, again.events)
    assert not trace.left
    times = [event.time for event in trace.events]
    assert times == sorted(times)
    for place in range(problem.processors):
        lasting = [
            t for t in task_sequence(planned) if processor[t] == place if problem.time(t, place)
        ]
        runs = sorted((r.start, r.end) for r in trace.runs if r.task in lasting)
        assert all(one[1] <= other[0] for one, other in pairwise(runs))
        assert [r.task for r in trace.good if r.task in lasting] == lasting
    plan = trace.plan
    for a, b, size in zip(
        problem.workflow.sources, problem.workflow.targets, problem.workflow.data, strict=True
    ):
        moved = problem.transfer(size, plan.processor[a], plan.processor[b])
        assert plan.start[b] >= plan.end[a] + moved - 1e-9


def test_a_load_from_the_beginning_is_there_before_anything_starts():
    trace = played(PAIR, loaded((-5, 0.1), (0, 0.5), (20, 1)))
    assert [(run.start, run.end) for run in trace.runs] == [(0, 8), (8, 12)]
    assert "load" not in dict(kinds(trace)).values()


@settings(deadline=None, max_examples=settings.default.max_examples)
@given(naive.problems(tasks=(1, 9)), st.integers(0, 3))
def test_a_plan_that_puts_what_takes_no_time_beside_others_ends_as_planned(problem, seed):
    found = make("ga", {"evaluations": 40}, seed).plan(problem)
    trace = simulate(problem, check(found))
    assert trace.makespan <= found.makespan * (1 + 1e-12)
    check(trace.plan)


def test_what_takes_no_time_is_in_nobodys_way():
    tasks = [
        WorkflowTask("a", 10),
        WorkflowTask("b", 2),
        WorkflowTask("marker", 0),
        WorkflowTask("c", 3),
    ]
    flow = Workflow.of("f", tasks, [("b", "marker"), ("marker", "c")])
    problem = Problem.of(flow, identical(2))
    start = np.array([0.0, 0, 2, 2])
    plan = check(Plan(problem, "by hand", np.array([0, 1, 0, 1]), start, np.array([10.0, 2, 2, 5])))
    trace = simulate(problem, plan)
    assert trace.plan.start.tolist() == [0, 0, 2, 2]
    assert [event.kind for event in trace.events if event.task == 2] == ["started", "ended"]
    down = replace(identical(2).machines[0], load=(LoadStep(1, 0.0), LoadStep(4, 1.0)))
    platform = replace(identical(2), machines=(down, identical(2).machines[1]))
    late = simulate(Problem.of(flow, platform), plan).plan
    assert late.start.tolist() == [4, 0, 4, 4]
