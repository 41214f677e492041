"""List algorithms that keep a budget or a deadline, and the options for them."""

import json
from pathlib import Path

import numpy as np
import pytest

from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.commands import PlanRequest, plan_report
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.model.metrics import metrics
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

MACHINES = (
    *(PlatformMachine(f"slow{i}", 1.0, price=1.0, billing=60.0) for i in range(4)),
    *(PlatformMachine(f"fast{i}", 4.0, price=6.0, billing=60.0, boot=5.0) for i in range(3)),
)
CLOUD = Platform("cloud", MACHINES, default=NetworkLink("", "", 1e8))


def montage(inputs=8):
    return Problem.of(instance_of(f"application:name=montage,inputs={inputs}").workflow, CLOUD)


def cost_of(plan):
    return metrics(plan)["cost"]


def test_a_budget_is_kept_and_more_money_is_never_slower():
    problem = montage()
    times = []
    for budget in (12, 16, 24, 48):
        plan = check(make("heft-budget", {"budget": budget}).plan(problem))
        assert cost_of(plan) <= budget
        times.append(plan.makespan)
    assert times[-1] < times[0]
    assert times[-1] <= make("heft").plan(problem).makespan


def test_a_deadline_is_kept_and_more_time_is_cheaper():
    problem = montage()
    fastest = make("heft").plan(problem)
    costs = []
    for factor in (1.0, 2.0, 20.0):
        deadline = factor * fastest.makespan
        plan = check(make("ic-pcp", {"deadline": deadline}).plan(problem))
        assert plan.makespan <= deadline * (1 + 1e-9)
        costs.append(cost_of(plan))
    assert costs[0] <= cost_of(fastest)
    assert costs[-1] < costs[0]


def test_with_much_time_a_path_is_put_on_one_cheap_machine():
    tasks = [WorkflowTask(name, 10.0) for name in "abc"]
    problem = Problem.of(Workflow.of("chain", tasks, [("a", "b"), ("b", "c")]), CLOUD)
    plan = make("ic-pcp:deadline=60").plan(problem)
    assert (plan.makespan, cost_of(plan)) == (30.0, 1.0)
    # 15 s are too few for the slow machines: 5 s of boot, and three times 2.5 s.
    plan = make("ic-pcp:deadline=15").plan(problem)
    assert (plan.makespan, cost_of(plan)) == (12.5, 6.0)


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [("heft-budget:budget=0.5", "no plan with cost 0.5"), ("ic-pcp:deadline=1", "within 1 s")],
)
def test_limits_that_no_plan_keeps_are_told_with_the_best_one(algorithm, message):
    with pytest.raises(InputError, match=message) as failure:
        make(algorithm).plan(montage())
    assert "its " in failure.value.diagnostics[0].hint


def test_reliability_is_the_probability_that_nothing_fails():
    tasks = [WorkflowTask("a", 100.0), WorkflowTask("b", 50.0)]
    platform = Platform("p", (PlatformMachine("m", 2.0, mtbf=500.0),))
    problem = Problem.of(Workflow.of("w", tasks), platform)
    assert metrics(make("heft").plan(problem))["reliability"] == pytest.approx(np.exp(-75 / 500))
    assert np.isnan(metrics(make("heft").plan(montage()))["reliability"])
    with pytest.raises(InputError, match="mtbf"):
        Platform("p", (PlatformMachine("m", mtbf=0.0),))


def test_a_front_has_reliability_as_a_goal_too():
    machines = (PlatformMachine("safe", mtbf=1e6), PlatformMachine("fast", 3.0, mtbf=50.0))
    tasks = [WorkflowTask(f"t{i}", 5.0 + i) for i in range(5)]
    problem = Problem.of(Workflow.of("w", tasks), Platform("p", machines))
    plan = make("moheft:generations=30,objectives=makespan+reliability").plan(problem)
    rows = [(row["makespan"], row["reliability"]) for row in plan.notes["front"]]
    assert rows == sorted(rows)
    assert rows[-1][1] == pytest.approx(np.exp(-35 / 1e6))


def request(*words, folder=Path()):
    return PlanRequest.read(["application:name=montage,inputs=4", *words], folder)


def test_options_choose_the_algorithm_and_its_settings(tmp_path):
    assert request("--front", "makespan+cost").name == "moheft"
    assert request("--deadline", "1h").name == "moheft"
    (tmp_path / "cloud.toml").write_text(
        '[[machine]]\nname = "m"\ncount = 3\nprice = 1\nbilling = "1min"\nmtbf = "10h"\n'
    )
    words = ("--on", "cloud.toml", "--algorithm", "ic-pcp", "--deadline", "10min")
    plan = request(*words, folder=tmp_path).plan()
    assert plan.makespan <= 600
    assert 0 < json.loads(plan_report(plan))["reliability"] < 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--front", "makespan+cost", "--algorithm", "heft"), "heft has no setting objectives"),
        (("--budget", "3", "--algorithm", "ic-pcp"), "ic-pcp has no setting budget"),
        (("--deadline", "soon"), "--deadline soon: a time"),
    ],
)
def test_goals_that_an_algorithm_does_not_know_are_refused(words, message):
    with pytest.raises(InputError, match=message):
        request("--on", "identical:2", *words).plan()
