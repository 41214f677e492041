"""Workflows that arrive one after the other, and share machines."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule.test_online_twins import platforms, streams
from zenturio.errors import InputError, NotFoundError
from zenturio.priority_rules import POLICIES, WaitingWorkflow, priority
from zenturio.schedule.algorithm import describe, make
from zenturio.schedule.generators.generator import generate
from zenturio.schedule.generators.papers import Gee, MaxDo
from zenturio.schedule.model.plan import check, faults
from zenturio.schedule.model.platform import (
    LoadStep,
    NetworkLink,
    Platform,
    PlatformMachine,
    identical,
)
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.online.policies import OnlineSimulation
from zenturio.schedule.online.stream import BioinformaticsStream, WorkflowStream, WorkflowSubmission
from zenturio.schedule.simulate.simulator import Perturbation
from zenturio.schedule.static.list_scheduling import heft

ONE = identical(1)
SHORT = Workflow.of("short", [WorkflowTask("s", 2)])
LONG = Workflow.of("long", [WorkflowTask("a", 6), WorkflowTask("b", 4)], [("a", "b")])


def stream(*pairs):
    return WorkflowStream.of("some", [WorkflowSubmission(flow, arrival) for flow, arrival in pairs])


def ends(policy, *pairs, on=ONE, by="task"):
    """When each workflow ends, by its name."""
    online = OnlineSimulation(stream(*pairs), on)
    found = online.play(policy, by)
    check(found.plan)
    names = [each.name for each in found.stream.submissions]
    return dict(zip(names, found.ended.tolist(), strict=True))


def order(policy, *pairs, on=ONE, by="task"):
    """The tasks by their starts."""
    plan = OnlineSimulation(stream(*pairs), on).play(policy, by).plan
    return [plan.problem.workflow.names[task] for task in np.argsort(plan.start, kind="stable")]


@pytest.fixture(scope="module")
def experiment():
    """The study of the paper, under each policy."""
    online = OnlineSimulation(BioinformaticsStream().stream(0), identical(4))
    return {policy: online.play(policy) for policy in POLICIES}


# Whose turn it is.


def test_first_come_is_first_served():
    assert ends("fcfs", (LONG, 0), (SHORT, 1)) == {"long": 10, "short": 12}


def test_what_has_least_left_goes_before_what_came_first():
    assert ends("srpt", (LONG, 0), (SHORT, 1)) == {"long": 12, "short": 8}


def test_a_task_that_runs_is_not_stopped_for_a_better_one():
    assert order("srpt", (LONG, 0), (SHORT, 1)) == ["long/a", "short/s", "long/b"]


def test_the_longest_way_starves_what_is_nearly_done():
    assert order("g-heft", (LONG, 0), (LONG, 1), (LONG, 7))[-3:] == [
        "long-1/b",
        "long-2/b",
        "long-3/b",
    ]


def test_age_brings_what_is_nearly_done_before_what_is_young():
    young = Workflow.of("young", [WorkflowTask("y", 9)])
    waits = [(Workflow.of("first", [WorkflowTask("f", 30)]), 0), (SHORT, 1), (young, 29)]
    assert order("g-heft", *waits)[1:] == ["young/y", "short/s"]
    assert order("aging", *waits)[1:] == ["short/s", "young/y"]
    assert order("aging-exp", *waits)[1:] == ["short/s", "young/y"]


def test_the_exponent_beats_a_rank_that_a_straight_line_does_not():
    old = Workflow.of("old", [WorkflowTask("o", 1)])
    young = Workflow.of("young", [WorkflowTask("y", 9)])
    waits = [(Workflow.of("first", [WorkflowTask("f", 6)]), 0), (old, 1), (young, 6)]
    assert order("aging", *waits)[1:] == ["young/y", "old/o"]
    assert order("aging-exp", *waits)[1:] == ["old/o", "young/y"]


def test_the_workflow_that_lags_most_is_served_for_fairness():
    waits = [(Workflow.of("first", [WorkflowTask("f", 10)]), 0), (LONG, 0), (SHORT, 7)]
    assert order("fcfs", *waits)[1:] == ["long/a", "long/b", "short/s"]
    assert order("foft", *waits)[1:] == ["short/s", "long/a", "long/b"]
    waits[2] = (SHORT, 9)  # (1 + 2) / 2 is less than (10 + 10) / 10
    assert order("foft", *waits)[1:3] == ["long/a", "short/s"]


def test_basic_sends_at_once_and_lets_tasks_queue():
    assert ends("basic", (LONG, 0), (SHORT, 1)) == {"long": 12, "short": 8}
    wide = Workflow.of("wide", [WorkflowTask(f"w{i}", 4) for i in range(3)])
    assert ends("basic", (wide, 0), (SHORT, 1)) == {"wide": 12, "short": 14}
    assert ends("srpt", (wide, 0), (SHORT, 1)) == {"wide": 14, "short": 6}


def test_by_dag_each_workflow_sends_one_task_before_any_sends_another():
    wide = Workflow.of("wide", [WorkflowTask(f"w{i}", 4) for i in range(4)])
    both = [(wide, 0), (SHORT, 0)]
    three = identical(3)
    assert ends("fcfs", *both, on=three) == {"wide": 8, "short": 6}
    assert ends("fcfs", *both, on=three, by="dag") == {"wide": 8, "short": 2}


def test_by_dag_no_machine_idles_while_a_task_is_ready():
    wide = Workflow.of("wide", [WorkflowTask(f"w{i}", 4) for i in range(4)])
    assert ends("fcfs", (wide, 0), on=identical(4), by="dag") == {"wide": 4}


def test_a_task_that_suits_no_idle_machine_holds_nobody_up():
    big = Workflow.of(
        "big",
        [WorkflowTask("b1", 9, tag="big"), WorkflowTask("b2", 9, tag="big"), WorkflowTask("b3", 1)],
    )
    two = Platform("two", (PlatformMachine("m", tags=frozenset({"big"})), PlatformMachine("n")))
    assert ends("g-heft", (big, 0), (SHORT, 0), on=two) == {"big": 18, "short": 2}


def test_tasks_that_share_an_abstract_machine_do_so_in_their_own_workflow_only():
    pair = Workflow.of(
        "pair", [WorkflowTask("p", 3, machine="M"), WorkflowTask("q", 3, machine="M")]
    )
    plan = OnlineSimulation(stream((pair, 0), (pair, 0)), identical(2)).play("fcfs").plan
    assert plan.processor.tolist() == [0, 0, 1, 1]
    assert plan.makespan == 6


@settings(deadline=None, max_examples=settings.default.max_examples * 40 // 100)
@given(streams(), platforms(), st.sampled_from(POLICIES), st.sampled_from(["task", "dag"]))
def test_no_policy_beats_the_lower_bound_or_starts_what_has_not_arrived(found, on, policy, by):
    played = OnlineSimulation(found, on).play(policy, by)
    assert not list(faults(played.plan))
    assert (played.plan.start >= found.arrivals[found.owner]).all()
    assert played.makespan >= played.lower_bound * (1 - 1e-9)


@settings(deadline=None, max_examples=settings.default.max_examples * 25 // 100)
@given(streams(), platforms(), st.sampled_from(POLICIES))
def test_without_transfers_no_machine_idles_that_suits_a_ready_task(found, on, policy):
    plain = Platform("plain", tuple(PlatformMachine(each.name, each.speed) for each in on.machines))
    flows = {
        id(each.workflow): Workflow.of(
            each.workflow.name,
            [WorkflowTask(task.name, task.work) for task in each.workflow.tasks],
            [(a, b) for a, b, _ in each.workflow.edges],
        )
        for each in found.submissions
    }
    bare = stream(*((flows[id(each.workflow)], each.arrival) for each in found.submissions))
    played = OnlineSimulation(bare, plain).play(policy)
    if policy == "basic":
        return
    times, counts = played.ready()
    plan = played.plan
    for begin, end, waiting in zip(times, times[1:], counts, strict=False):
        busy = np.count_nonzero((plan.start < end) & (plan.end > begin))
        assert not waiting or busy >= len(plain)


# Priorities alone, as others may use them.


def test_priorities_need_no_workflow():
    small = WaitingWorkflow(rank=2, arrival=5, age=10, alone=4, remaining=2, ahead=2)
    large = WaitingWorkflow(rank=8, arrival=0, age=15, alone=40, remaining=20, ahead=30)
    first = {policy: priority(policy, small) > priority(policy, large) for policy in POLICIES}
    assert first == {
        "basic": False,
        "g-heft": False,
        "aging": False,
        "aging-exp": True,
        "fcfs": False,
        "srpt": True,
        "foft": True,
    }


def test_each_priority_is_the_formula_of_the_paper():
    of = WaitingWorkflow(rank=2, arrival=5, age=10, alone=4, remaining=8, ahead=2)
    found = {policy: priority(policy, of) for policy in POLICIES}
    assert found.pop("aging-exp") == pytest.approx(math.log(2 * math.exp(1 + 10 / 4)))
    assert found == {
        "basic": -5, "g-heft": 2, "aging": 7, "fcfs": -5, "srpt": 1 / 8, "foft": 3,
    }  # fmt: skip


def test_alone_is_what_heft_takes():
    flows = [generate("layered", {"tasks": 30}, seed).workflow for seed in range(3)]
    online = OnlineSimulation(stream(*((flow, 5) for flow in flows)), identical(3))
    makespans = [heft(Problem.of(flow, identical(3))).makespan for flow in flows]
    assert online.play("srpt").alone.tolist() == makespans


def test_great_age_overflows_nothing():
    old = WaitingWorkflow(rank=1, age=1e9, alone=1)
    older = WaitingWorkflow(rank=1, age=2e9, alone=1)
    assert priority("aging-exp", older) > priority("aging-exp", old)
    assert priority("aging-exp", WaitingWorkflow(rank=0, age=1e9)) == -math.inf
    assert priority("srpt", WaitingWorkflow(remaining=0)) == math.inf


# What comes of it.


def test_slowdown_is_the_time_from_arrival_by_the_time_alone():
    found = OnlineSimulation(stream((LONG, 0), (SHORT, 1)), ONE).play("fcfs")
    assert found.makespans.tolist() == [10, 11]
    assert found.slowdowns.tolist() == [1, 5.5]
    assert found.metrics["slowdown_mean"] == 3.25
    assert found.metrics["fairness_range"] == 4.5
    assert (found.makespan, found.lower_bound, found.metrics["excess"]) == (12, 12, 0)
    assert list(found.rows())[1] == {
        "name": "short",
        "workflow": "short",
        "arrival": 1,
        "end": 12,
        "makespan": 11,
        "alone": 2,
        "slowdown": 5.5,
    }


def test_workflows_and_ready_tasks_are_counted_over_time():
    found = OnlineSimulation(stream((LONG, 0), (SHORT, 1), (SHORT, 20)), ONE).play("fcfs")
    times, counts = found.workflows()
    assert dict(zip(times.tolist(), counts.tolist(), strict=True)) == {
        0: 1, 1: 2, 10: 1, 12: 0, 20: 1, 22: 0,
    }  # fmt: skip
    times, counts = found.ready()
    assert dict(zip(times.tolist(), counts.tolist(), strict=True)) == {0: 0, 1: 1, 10: 0}


def test_the_bound_knows_that_work_cannot_be_done_before_it_arrives():
    assert (
        OnlineSimulation(stream((SHORT, 0), (LONG, 50)), identical(2)).play("fcfs").lower_bound
        == 60
    )
    wide = Workflow.of("wide", [WorkflowTask(f"w{i}", 4) for i in range(6)])
    assert (
        OnlineSimulation(stream((SHORT, 0), (wide, 50)), identical(2)).play("fcfs").lower_bound
        == 62
    )
    fast = Platform("fast", (PlatformMachine("m", 3.0), PlatformMachine("n", 1.0)))
    assert OnlineSimulation(stream((wide, 0)), fast).play("fcfs").lower_bound == 6


def test_the_bound_knows_transfers_between_tasks_that_cannot_share_a_machine():
    machines = (
        PlatformMachine("a", tags=frozenset("a")),
        PlatformMachine("b", tags=frozenset("b")),
    )
    apart = Platform("apart", machines, default=NetworkLink("", "", 2.0))
    pair = Workflow.of(
        "pair", [WorkflowTask("p", 3, tag="a"), WorkflowTask("q", 4, tag="b")], [("p", "q", 10)]
    )
    found = OnlineSimulation(stream((pair, 0), (pair, 50)), apart).play("fcfs")
    assert found.lower_bound == found.makespan == 50 + 3 + 5 + 4


def test_a_machine_that_changes_is_shared_as_well():
    half = Platform("half", (PlatformMachine("m", load=(LoadStep(2, 0.5),)),))
    found = OnlineSimulation(stream((SHORT, 0), (SHORT, 0)), half).play("fcfs")
    assert found.ended.tolist() == [2, 6]
    assert found.alone.tolist() == [2, 2]


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_lost_with_a_machine_is_run_again(policy):
    how = Perturbation.read("every=5:20,lasting=5:10,failing=0.5")
    online = OnlineSimulation(stream((Gee().instance(0).workflow, 0), (MaxDo().instance(0).workflow, 9)),
                    identical(3))  # fmt: skip
    found = online.play(policy, "task", how, 1)
    again = online.play(policy, "task", how, 1)
    assert not found.left
    assert found.wasted > 0
    assert found.plan.end.tolist() == again.plan.end.tolist()
    assert found.makespan > online.play(policy).makespan


def test_workflows_that_cannot_end_are_told_and_nothing_is_made_up():
    broken = Platform("broken", (PlatformMachine("m", load=(LoadStep(11, 0),)),))
    found = OnlineSimulation(stream((LONG, 0), (SHORT, 1)), broken).play("fcfs")
    assert found.left == ["short"]
    assert found.makespan == math.inf
    assert found.metrics == {}
    assert found.slowdowns.tolist() == [1]
    assert [row["end"] for row in found.rows()] == [10, None]
    assert found.facts()["makespan"] is None


# The experiment of the paper.


def test_the_study_has_the_workflows_of_the_paper():
    found = BioinformaticsStream().stream(3)
    assert len(found) == 102
    assert found.arrivals[:51].tolist() == [12 * i for i in range(51)]
    assert found.arrivals[51:].tolist() == [1200 + 12 * i for i in range(51)]
    for half in (found.submissions[:51], found.submissions[51:]):
        names = [each.workflow.name for each in half]
        assert [names.count(each) for each in ("gee", "maxdo", "pipealign")] == [10, 25, 16]
    work = {
        name: sum(
            float(e.workflow.work.sum()) for e in found.submissions if e.workflow.name == name
        )
        for name in ("gee", "maxdo", "pipealign")
    }
    assert set(work.values()) == {4000}
    assert len({each.name for each in found.submissions}) == 102


def test_alone_each_application_takes_what_table_1_says(experiment):
    played = experiment["fcfs"]
    found = {row["workflow"]: row["alone"] for row in played.rows()}
    assert found == {"maxdo": 33, "pipealign": 96, "gee": 123}


def test_all_policies_end_near_the_lower_bound(experiment):
    assert all(each.lower_bound == 3000 for each in experiment.values())
    assert all(0 <= each.metrics["excess"] < 0.035 for each in experiment.values())


def test_the_mean_slowdowns_are_in_the_order_of_figure_8(experiment):
    mean = {policy: each.metrics["slowdown_mean"] for policy, each in experiment.items()}
    assert sorted(mean, key=mean.__getitem__) == [
        "srpt", "foft", "aging-exp", "fcfs", "basic", "aging", "g-heft",
    ]  # fmt: skip


@pytest.mark.parametrize("measure", ["fairness_std", "fairness_average", "fairness_range"])
def test_foft_and_exponential_aging_are_the_fairest(experiment, measure):
    spread = {policy: each.metrics[measure] for policy, each in experiment.items()}
    assert set(sorted(spread, key=spread.__getitem__)[:2]) == {"foft", "aging-exp"}


def test_small_workflows_gain_by_srpt_and_lose_by_fcfs(experiment):
    """Figure 9."""

    def slow(policy, name):
        rows = [row for row in experiment[policy].rows() if row["workflow"] == name]
        return np.mean([row["slowdown"] for row in rows])

    assert slow("srpt", "maxdo") < slow("srpt", "pipealign") < slow("srpt", "gee")
    assert slow("fcfs", "maxdo") > max(slow("fcfs", "pipealign"), slow("fcfs", "gee"))


def test_with_the_longest_way_first_most_workflows_end_late_together(experiment):
    """Figure 6: how many are still there when four fifths of the time are over."""

    def late(policy):
        return np.count_nonzero(experiment[policy].ended > 2400)

    assert late("g-heft") > late("aging") > late("aging-exp") > late("srpt")


# Algorithms, and what is refused.


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_is_an_algorithm_with_its_unit_as_a_setting(name):
    found = describe(name)
    assert found.kind == "online"
    assert [(each.name, each.default, each.choices) for each in found.settings] == [
        ("by", "task", ("task", "dag"))
    ]
    online = OnlineSimulation(stream((LONG, 0), (SHORT, 0), (SHORT, 0)), identical(2))
    for by in ("task", "dag"):
        mine = make(name, {"by": by}).play(online).plan
        assert mine.notes == {"by": by}
        assert mine.end.tolist() == online.play(name, by).plan.end.tolist()


def test_names_are_made_to_differ():
    found = WorkflowStream.of(
        "some",
        [
            WorkflowSubmission(SHORT, 1),
            WorkflowSubmission(SHORT, 0),
            WorkflowSubmission(LONG, 0, "short-1"),
        ],
    )
    assert [each.name for each in found.submissions] == ["short-2", "short-1", "short-3"]


@pytest.mark.parametrize(
    ("make_it", "words"),
    [
        (lambda: WorkflowSubmission(SHORT, -1), "arrives at -1"),
        (lambda: WorkflowSubmission(SHORT, math.nan), "arrives at nan"),
        (lambda: WorkflowStream.of("none", []), "has no workflow"),
        (lambda: stream((Workflow.of("empty", []), 0)), "has no task"),
        (
            lambda: OnlineSimulation(
                stream((Workflow.of("idle", [WorkflowTask("i")]), 0)), ONE
            ).play("fcfs"),
            "no time",
        ),
    ],
)
def test_what_cannot_be_a_stream_is_refused(make_it, words):
    with pytest.raises(InputError, match=words):
        make_it()


def test_a_policy_that_there_is_not_is_refused_with_what_is_near():
    with pytest.raises(NotFoundError) as caught:
        OnlineSimulation(stream((SHORT, 0)), ONE).play("sprt")
    assert "srpt" in caught.value.diagnostics[0].hint
