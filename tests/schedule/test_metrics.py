"""The metrics of plans, and what holds between them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import naive
from zenturio.errors import InputError, NotFoundError
from zenturio.schedule.model.evaluation import evaluate, topological_orders
from zenturio.schedule.model.metrics import METRICS, MetricCalculator, metric, metrics
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.online.stream import (
    ase,
    bdt,
    fairness_metrics,
    slowdown_quartiles,
    slowdowns,
)

DIAMOND = Workflow.of(
    "diamond",
    [WorkflowTask("a", 2), WorkflowTask("b", 4), WorkflowTask("c", 4), WorkflowTask("d", 2)],
    [("a", "b", 3), ("a", "c", 3), ("b", "d", 3), ("c", "d", 6)],
)


def two(**first):
    """A machine and another of half its speed, at two sites that are a second apart."""
    machines = (
        PlatformMachine("m", 1.0, site="x", cost=3.0, **first),
        PlatformMachine("n", 0.5, site="y", cost=1.0),
    )
    return Platform("two", machines, default=NetworkLink("", "", bandwidth=3.0, latency=1.0))


def test_the_metrics_of_a_diamond_are_those_counted_by_hand():
    problem = Problem.of(DIAMOND, two())
    found = metrics(evaluate(problem, [0, 0, 1, 0], [0, 1, 2, 3]))
    # a 0-2; its data take 2 to c, which runs 4-12; these 3 to d, which runs 15-17; b 2-6
    expected = {
        "makespan": 17, "computation": 2 + 8 + 2, "communication": 2 + 3, "synchronisation": 0,
        "processors": 2, "sequential": 12, "speedup": 12 / 17, "efficiency": 6 / 17,
        "overhead": 17 - 6, "loss_of_parallelism": 12 - 6, "throughput": 6 / 17 / 17,
        "cost": 3 * (2 + 4 + 2) + 8, "idle": 1 - 16 / 34, "slr": 17 / 8,
        "energy": float("nan"), "reliability": float("nan"),
    }  # fmt: skip
    assert found == pytest.approx(expected, nan_ok=True)
    assert list(found) == list(METRICS)


def test_waiting_for_a_processor_on_the_critical_path_is_synchronisation():
    flow = Workflow.of(
        "f", [WorkflowTask("a", 3), WorkflowTask("b", 1), WorkflowTask("c", 2)], [("b", "c")]
    )
    problem = Problem.of(flow, two())
    found = metrics(evaluate(problem, [0, 0, 0], [0, 1, 2]))
    assert (found["synchronisation"], found["computation"], found["makespan"]) == (3, 3, 6)


def path(plan):
    """Computing, moving and waiting, from the end of the critical path to its beginning."""
    problem, flow = plan.problem, plan.problem.workflow
    task, found = int(np.argmax(plan.end)), [0.0, 0.0, 0.0]
    while True:
        found[0] += plan.end[task] - plan.start[task]
        ready = [
            (plan.end[a] + problem.transfer(size, plan.processor[a], plan.processor[b]), -place, a)
            for place, (a, b, size) in enumerate(
                zip(flow.sources, flow.targets, flow.data, strict=True)
            )
            if b == task
        ]
        if not ready:
            found[2] += plan.start[task]
            return found
        latest, _, parent = max(ready)
        found[1] += latest - plan.end[parent]
        found[2] += plan.start[task] - latest
        task = parent


@settings(deadline=None)
@given(naive.planned())
def test_overhead_is_communication_synchronisation_and_loss_of_parallelism(drawn):
    problem, processor, order = drawn
    found = metrics(evaluate(problem, processor, order))
    parts = ("communication", "synchronisation", "loss_of_parallelism")
    assert found["overhead"] == pytest.approx(sum(found[part] for part in parts))
    parts = ("computation", "communication", "synchronisation")
    assert found["makespan"] == pytest.approx(sum(found[part] for part in parts))
    assert found["overhead"] == pytest.approx(
        found["makespan"] - found["sequential"] / found["processors"]
    )
    if found["makespan"]:
        assert found["speedup"] * found["makespan"] == pytest.approx(found["sequential"])
        assert found["efficiency"] * found["processors"] == pytest.approx(found["speedup"])
        assert found["throughput"] * found["makespan"] == pytest.approx(found["efficiency"])
        assert -1e-12 < found["idle"] <= 1
        assert found["efficiency"] * (1 + 1e-9) >= 0
    else:
        assert math.isnan(found["speedup"])


@settings(deadline=None)
@given(naive.planned())
def test_the_critical_path_is_that_of_the_data_that_come_last(drawn):
    problem, processor, order = drawn
    plan = evaluate(problem, processor, order)
    found = metrics(plan)
    names = ("computation", "communication", "synchronisation")
    assert [found[name] for name in names] == pytest.approx(path(plan))
    assert min(found[name] for name in names) >= 0
    used = {int(each) for each in processor}
    alone = [sum(problem.time(task, each) for task in range(problem.tasks)) for each in used]
    assert (found["processors"], found["sequential"]) == (len(used), pytest.approx(min(alone)))
    lasts = plan.end - plan.start
    prices = [problem.platform.machines[problem.node[each]].cost for each in processor]
    assert found["cost"] == pytest.approx(sum(a * b for a, b in zip(lasts, prices, strict=True)))


@settings(deadline=None)
@given(naive.planned())
def test_no_plan_is_shorter_than_the_longest_path(drawn):
    problem, processor, order = drawn
    found = metrics(evaluate(problem, processor, order))
    if found["makespan"]:
        assert not found["slr"] < 1 - 1e-12


@settings(deadline=None, max_examples=settings.default.max_examples * 30 // 100)
@given(naive.problems(), st.data())
def test_a_population_has_the_metrics_that_its_plans_have_alone(problem, data):
    ranks = data.draw(st.lists(st.permutations(range(problem.tasks)), min_size=1, max_size=3))
    orders = topological_orders(problem, ranks)
    rows = st.lists(
        st.integers(0, problem.processors - 1), min_size=problem.tasks, max_size=problem.tasks
    )
    processors = np.array([data.draw(rows) for _ in orders])
    gauge = MetricCalculator(problem)
    found = gauge.all(processors, orders)
    for i, pair in enumerate(zip(processors, orders, strict=True)):
        alone = gauge.of(evaluate(problem, *pair))
        assert {name: values[i] for name, values in found.items()} == pytest.approx(
            alone, nan_ok=True
        )


def test_a_loss_is_lower_where_the_metric_is_better():
    gauge = MetricCalculator(Problem.of(DIAMOND, two()))
    rows, order = [[0, 0, 0, 0], [1, 1, 1, 1]], [0, 1, 2, 3]
    assert gauge.losses("makespan", rows, order).tolist() == [12, 24]
    assert gauge.losses("throughput", rows, order).tolist() == pytest.approx([-1 / 12, -1 / 24])
    assert gauge.losses("cost", rows, order).tolist() == [36, 24]
    with pytest.raises(NotFoundError, match="makespan"):
        gauge.losses("makespam", rows, order)
    assert metric("speedup").direction == "maximize"


def test_what_has_no_sequential_time_has_no_speedup():
    flow = Workflow.of("f", [WorkflowTask("a", 1, tag="gpu"), WorkflowTask("b", 1, tag="disk")])
    machines = (
        PlatformMachine("m", tags=frozenset({"gpu"})),
        PlatformMachine("n", tags=frozenset({"disk"})),
    )
    gauge = MetricCalculator(Problem.of(flow, Platform("p", machines)))
    found = gauge.of(evaluate(gauge.problem, [0, 1], [0, 1]))
    assert all(math.isnan(found[name]) for name in ("sequential", "speedup", "overhead"))
    assert found["makespan"] == 1
    assert gauge.losses("speedup", [[0, 1]], [0, 1]).tolist() == [math.inf]


def test_a_task_on_several_cores_costs_each_of_them():
    flow = Workflow.of("f", [WorkflowTask("a", 5, cores=4)])
    problem = Problem.of(flow, two(cores=4))
    assert metrics(evaluate(problem, [0], [0]))["cost"] == 5 * 4 * 3


def test_slowdown_is_the_time_in_the_system_by_that_alone():
    values = slowdowns([0, 10, 10, 5], [10, 20, 50, 9], [10, 5, 20, 1])
    assert values.tolist() == [1, 2, 2, 4]
    assert slowdown_quartiles(values) == {
        "slowdown_mean": 2.25, "slowdown_min": 1, "slowdown_q1": 1.75, "slowdown_median": 2,
        "slowdown_q3": 2.5, "slowdown_max": 4,
    }  # fmt: skip
    assert fairness_metrics(values) == pytest.approx({
        "fairness_range": 3, "fairness_interquartile": 0.75,
        "fairness_average": (1.25 + 0.25 + 0.25 + 1.75) / 4,
        "fairness_std": math.sqrt((1.25**2 + 2 * 0.25**2 + 1.75**2) / 4),
    })  # fmt: skip


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=20), st.floats(0.1, 10))
def test_fairness_is_zero_for_equals_and_grows_with_the_scale(values, factor):
    assert all(
        each == pytest.approx(0, abs=1e-9) for each in fairness_metrics([values[0]] * 5).values()
    )
    one, other = fairness_metrics(values), fairness_metrics([factor * each for each in values])
    assert {name: each * factor for name, each in one.items()} == pytest.approx(other, abs=1e-6)
    assert one["fairness_range"] >= one["fairness_interquartile"]
    assert one["fairness_std"] * (1 + 1e-9) + 1e-9 >= one["fairness_average"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: slowdowns([0], [1, 2], [1, 1]),
        lambda: slowdowns([2], [1], [1]),
        lambda: slowdowns([0], [1], [0]),
        lambda: slowdown_quartiles([]),
        lambda: fairness_metrics([1, float("nan")]),
        lambda: ase([1, 2], [1]),
        lambda: ase([1], [0]),
        lambda: bdt({"one": [1.0], "other": [1.0, 2.0]}),
    ],
)
def test_numbers_that_no_metric_is_made_of_are_refused(wrong):
    with pytest.raises(InputError):
        wrong()


def test_effectiveness_is_percent_of_shuffle_and_the_best_beats_down():
    shuffled = [10.0, 20.0]
    assert ase([5.0, 15.0], shuffled) == pytest.approx((50 + 75) / 2)
    assert ase(shuffled, shuffled) == 100
    assert bdt({"xdcp": [1.0, 2.0, 5.0], "m-s": [1.0, 3.0, 4.0]}) == {"xdcp": 2, "m-s": 2}
