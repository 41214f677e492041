"""Fronts of plans for several goals."""

from itertools import permutations, product

import numpy as np
import pytest

from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.model.evaluation import topological_orders
from zenturio.schedule.model.metrics import MetricCalculator, metrics
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.list_scheduling import mean_delays, mean_times, upward_ranks
from zenturio.schedule.static.pareto import nondominated, selected

CLOUD = Platform(
    "cloud",
    (
        PlatformMachine("small", 1.0, price=1.0, billing=10.0, power_idle=20, power_busy=60),
        PlatformMachine("large", 3.0, price=4.0, billing=10.0, power_idle=50, power_busy=200),
        PlatformMachine("spot", 2.0, cost=0.3, power_idle=40, power_busy=100),
    ),
    (NetworkLink("", "", 1e6),),
)


def small():
    """Six tasks, for which all 729 placements can be tried."""
    tasks = [
        WorkflowTask(name, work) for name, work in zip("abcdef", (6, 9, 12, 5, 8, 3), strict=True)
    ]
    edges = [("a", "b", 1e6), ("a", "c", 2e6), ("b", "d", 1e6), ("c", "e", 0), ("d", "f", 3e6),
             ("e", "f", 1e6)]  # fmt: skip
    return Problem.of(Workflow.of("small", tasks, edges), CLOUD)


SHORT = {"generations": 20, "population": 30}


def front_of(plan, *names):
    return sorted(tuple(round(row[name], 6) for name in names) for row in plan.notes["front"])


def placement_fronts(problem, goals):
    """Return the front of all placements in the order of ranks, and in any order."""
    rank = upward_ranks(problem, mean_times(problem), mean_delays(problem))
    ranked = topological_orders(problem, -rank)
    orders = topological_orders(problem, list(permutations(range(6))))
    places = np.array(list(product(range(3), repeat=6)))
    gauge, losses = MetricCalculator(problem), []
    for order in [ranked, *np.unique(orders, axis=0)]:
        values = gauge.all(places, order)
        losses.append(np.stack([values[name] for name in goals], axis=1))
    return [rows[nondominated(rows)] for rows in (losses[0], np.concatenate(losses))]


def dominates(front, point):
    return any((np.array(row) <= np.array(point) * (1 + 1e-6)).all() for row in front)


@pytest.mark.parametrize("goals", [("makespan", "cost"), ("makespan", "energy")])
def test_the_front_of_a_small_problem_lies_between_those_of_all_its_placements(goals):
    problem = small()
    of_ranks, of_all = placement_fronts(problem, goals)
    plan = check(make("moheft", {"objectives": "+".join(goals)}).plan(problem))
    front = front_of(plan, *goals)
    assert all(dominates(front, point) for point in of_ranks)
    assert all(dominates(of_all, point) for point in front)
    assert plan.makespan == pytest.approx(front[0][0])


def test_evolution_leaves_no_plan_of_moheft_better_than_its_front():
    made = instance_of("layered:tasks=30,seed=3")
    problem = Problem.of(made.workflow, CLOUD)
    alone = front_of(make("moheft:generations=0").plan(problem), "makespan", "cost")
    evolved = front_of(make("moheft:generations=30").plan(problem), "makespan", "cost")
    for time, cost in alone:
        assert any(t <= time + 1e-5 and c <= cost + 1e-5 for t, c in evolved)


def test_a_deadline_leaves_the_cheapest_plan_and_a_budget_the_shortest():
    problem = small()
    front = front_of(make("moheft", SHORT).plan(problem), "makespan", "cost")
    middle = front[len(front) // 2]
    in_time = make("moheft", {**SHORT, "deadline": middle[0]}).plan(problem)
    assert (round(in_time.makespan, 6), round(metrics(in_time)["cost"], 6)) == middle
    affordable = make("moheft", {**SHORT, "budget": middle[1]}).plan(problem)
    assert round(affordable.makespan, 6) == middle[0]
    with pytest.raises(InputError, match="no plan was found with cost 0"):
        make("moheft:budget=0,generations=1").plan(problem)


@pytest.mark.parametrize("goals", ["makespan", "makespan+makespan"])
def test_a_front_has_several_goals(goals):
    with pytest.raises(InputError, match="two or more"):
        make("moheft", {"objectives": goals})


def test_plans_on_shared_machines_have_fronts_too():
    tasks = [WorkflowTask(f"t{i}", 5.0 + i, cores=1 + i % 3) for i in range(8)]
    machines = (PlatformMachine("a", 1.0, 4, price=1.0), PlatformMachine("b", 2.0, 3, price=5.0))
    problem = Problem.of(Workflow.of("w", tasks), Platform("p", machines))
    plan = check(make("moheft:generations=20").plan(problem))
    costs = [cost for _, cost in front_of(plan, "makespan", "cost")]
    assert costs == sorted(costs, reverse=True)


def test_the_least_crowded_of_a_front_are_kept_with_its_ends():
    losses = np.array([[0.0, 9.0], [1.0, 8.0], [1.1, 7.9], [5.0, 3.0], [9.0, 0.0], [9.0, 9.0]])
    assert nondominated(losses).tolist() == [True] * 5 + [False]
    assert sorted(selected(losses, 3).tolist()) == [0, 3, 4]
    assert sorted(selected(losses, 6).tolist()) == [0, 1, 2, 3, 4, 5]
