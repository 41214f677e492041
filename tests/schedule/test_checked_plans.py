"""Plans of all algorithms, checked by a program that reads their JSON only."""

import copy
import json

import pytest

from schedule.plan_checker import faults, random_instance
from zenturio.schedule.algorithm import make
from zenturio.schedule.formats.plan_json import plan_facts, trace_facts
from zenturio.schedule.generators.generator import ProblemCache
from zenturio.schedule.simulate.simulator import simulate

ALGORITHMS = (
    "heft", "cpop", "peft", "min-min", "max-min", "sufferage", "dcp", "xdcp", "shuffle",
    "round-robin", "random", "lazy", "lazy:by=time", "m-s", "pm-s", "ga:evaluations=60,population=4",
    "anneal:evaluations=60", "tabu:moves=60", "ga-2005:generations=4,population=6",
    "ga:evaluations=60,objective=cost", "heft-budget", "ic-pcp", "moheft:generations=2,population=6",
)  # fmt: skip


def plan_json(tmp_path, instance, algorithm):
    path = tmp_path / f"{instance['name']}.json"
    path.write_text(json.dumps(instance))
    problem = ProblemCache().problem(str(path), "")
    plan = make(algorithm, seed=1).plan(problem)
    return problem, plan, json.loads(json.dumps(plan_facts(plan)))


def check_plans(tmp_path, seeds):
    for seed in seeds:
        instance = random_instance(seed)
        for algorithm in ALGORITHMS:
            plan = plan_json(tmp_path, instance, algorithm)[2]
            assert not faults(instance, plan), (seed, algorithm)


@pytest.mark.slow
def test_plans_of_all_algorithms_can_be_carried_out(tmp_path):
    check_plans(tmp_path, range(4))


def test_plans_within_a_time_limit_can_be_carried_out(tmp_path):
    for seed in range(3):
        instance = random_instance(seed)
        assert not faults(instance, plan_json(tmp_path, instance, "portfolio:seconds=0.1")[2])


@pytest.mark.slow
def test_thousands_of_plans_can_be_carried_out(tmp_path):
    check_plans(tmp_path, range(1000, 1000 + 3_000 // len(ALGORITHMS) + 1))


def test_a_simulation_is_never_longer_than_its_plan_and_can_be_carried_out(tmp_path):
    for seed in range(40):
        instance = random_instance(seed)
        problem, plan, _ = plan_json(
            tmp_path, instance, "heft" if seed % 2 else "ga:evaluations=40"
        )
        # As many transfers as there are share links that plans know for a single one.
        if any("network" in machine for machine in instance["platform"]["machines"]):
            continue
        trace = simulate(problem, plan)
        assert not faults(instance, json.loads(json.dumps(trace_facts(trace)))), seed
        assert trace.makespan <= plan.makespan * (1 + 1e-9), seed


def test_what_cp_sat_finds_can_be_carried_out(tmp_path):
    pytest.importorskip("ortools")
    for seed in range(12):
        instance = random_instance(seed)
        _, plan, facts = plan_json(tmp_path, instance, "cp-sat:effort=0.2")
        assert not faults(instance, facts), seed
        assert plan.notes["bound"] <= plan.makespan * (1 + 1e-9)


BREAKS = {
    "too early": lambda plan: plan["tasks"][0].update(start=-1.0),
    "too short": lambda plan: plan["tasks"][0].update(end=plan["tasks"][0]["start"]),
    "twice": lambda plan: plan["tasks"].append(plan["tasks"][0]),
    "all at once": lambda plan: [row.update(start=0.0, end=9.0) for row in plan["tasks"]],
}


@pytest.mark.parametrize("name", BREAKS)
def test_the_checker_sees_a_broken_plan(tmp_path, name):
    instance = {
        "name": "four",
        "tasks": [{"name": f"t{i}", "work": 9, "memory": 3, "cores": 2} for i in range(4)],
        "edges": [["t0", "t1"]],
        "platform": {"machines": [{"name": "m", "cores": 4, "memory": 6}]},
    }
    plan = plan_json(tmp_path, instance, "heft")[2]
    assert not faults(instance, plan)
    broken = copy.deepcopy(plan)
    BREAKS[name](broken)
    assert faults(instance, broken)
