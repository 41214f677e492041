"""The portfolio, and the neighbourhoods that CP-SAT solves."""

from dataclasses import replace

import pytest

from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.commands import PlanRequest
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.simulate.simulator import simulate
from zenturio.schedule.static.exact import CpSatNeighbourhoods
from zenturio.schedule.static.list_scheduling import heft
from zenturio.schedule.static.shared_links import plan_for_shared_links

LIST_ALGORITHMS = (
    "heft", "cpop", "peft", "min-min", "max-min", "sufferage", "dcp", "xdcp", "lazy",
)  # fmt: skip


def layered(tasks, seed):
    made = instance_of(f"layered:tasks={tasks},machines=4,ccr=2,seed={seed}")
    return Problem.of(made.workflow, made.platform)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_it_is_never_worse_than_a_list_algorithm(seed):
    problem = layered(20, seed)
    plan = check(make("portfolio").plan(problem))
    best = min(make(name).plan(problem).makespan for name in LIST_ALGORITHMS)
    assert plan.notes["bound"] <= plan.makespan <= best
    assert plan.notes["improved"][0] == "heft"
    assert plan.notes["improved"][-1] == plan.notes["by"]


def test_where_tasks_share_machines_it_is_never_worse_than_a_list_algorithm():
    made = instance_of("layered:tasks=20,machines=2,ccr=1,seed=4")
    tasks = [replace(task, cores=1 + i % 3) for i, task in enumerate(made.workflow.tasks)]
    machines = tuple(replace(machine, cores=4) for machine in made.platform.machines)
    flow = Workflow.of("wide", tasks, made.workflow.edges)
    problem = Problem.of(flow, replace(made.platform, machines=machines))
    plan = check(make("portfolio:seconds=0.3").plan(problem))
    assert plan.makespan <= min(make(name).plan(problem).makespan for name in LIST_ALGORITHMS)


def test_with_a_limit_it_ends_with_a_plan_that_can_be_carried_out():
    plan = check(make("portfolio:seconds=0.1").plan(layered(20, 1)))
    assert plan.algorithm == "portfolio"


def test_a_small_problem_is_solved_as_a_whole():
    pytest.importorskip("ortools")
    problem = layered(10, 1)
    optimum = make("cp-sat").plan(problem).makespan
    neighbourhoods = CpSatNeighbourhoods(problem, 0)
    plan, bound = neighbourhoods.improved(make("shuffle").plan(problem), 600.0)
    assert check(plan).makespan == pytest.approx(optimum)
    assert bound == pytest.approx(optimum, rel=1e-5)
    assert neighbourhoods.is_exhausted


@pytest.mark.parametrize("cores", [1, 2])
def test_neighbourhoods_improve_a_plan_step_by_step(cores):
    pytest.importorskip("ortools")
    made = instance_of("layered:tasks=14,machines=3,ccr=1,seed=2")
    tasks = [replace(task, cores=cores) for task in made.workflow.tasks]
    flow = Workflow.of("wide", tasks, made.workflow.edges)
    machines = tuple(replace(machine, cores=cores + 1) for machine in made.platform.machines)
    platform = Platform("p", machines, made.platform.links, made.platform.default)
    problem = Problem.of(flow, platform)
    first = plan = make("shuffle").plan(problem)
    neighbourhoods = CpSatNeighbourhoods(problem, 0)
    neighbourhoods._is_whole_next = False
    for _ in range(4):
        better, bound = neighbourhoods.improved(plan, 60.0)
        assert bound == 0
        if better is not None:
            assert check(better).makespan < plan.makespan
            plan = better
    assert plan.makespan < first.makespan


def test_within_sets_the_limit_of_an_algorithm_that_has_one():
    assert PlanRequest("w").name == "heft"
    assert PlanRequest("w", within="10s").name == "portfolio"
    assert PlanRequest("w", within="10s", objective="cost").name == "ga"
    words = ["layered:tasks=5", "--within", "200ms", "--algorithm", "ga"]
    from pathlib import Path

    assert PlanRequest.read(words, Path()).plan().notes["ended"] in {"seconds", "bound"}


@pytest.mark.parametrize(
    ("within", "algorithm", "message"),
    [
        ("soon", "", "a time from 0.1 s on"),
        ("0s", "ga", "a time"),
        ("10s", "heft", "no time limit"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused(within, algorithm, message):
    with pytest.raises(InputError, match=message):
        PlanRequest("layered:tasks=5", algorithm=algorithm, within=within).plan()


def crowded(capacity):
    """Six pairs of tasks on two sites, which a narrow link joins."""
    machines = tuple(PlatformMachine(f"m{i}", site="ab"[i // 3]) for i in range(6))
    link = NetworkLink("a", "b", 1e6, capacity=capacity)
    flow = Workflow.of(
        "pairs",
        [WorkflowTask("begin", 1), *(WorkflowTask(f"t{i}", 4) for i in range(6))],
        [("begin", f"t{i}", 3e6) for i in range(6)],
    )
    return Problem.of(flow, Platform("sites", machines, (link,)))


def test_where_links_are_shared_the_plan_is_the_best_of_those_that_were_played():
    problem = crowded(1e6)
    plan = check(make("portfolio").plan(problem))
    # Three tasks on the other site would share the link for 9 s. On the first site alone, two tasks
    # on each machine take 8 s.
    assert plan.notes["played"] == simulate(problem, plan).makespan == 9
    assert plan.notes["played"] < simulate(problem, make("heft").plan(problem)).makespan
    assert "played" not in make("portfolio").plan(crowded(float("inf"))).notes


def test_plans_for_shared_links_see_groups_and_limits():
    problem = crowded(1e6)
    tasks = [replace(task, machine="one" if i in (1, 2) else "")
             for i, task in enumerate(problem.workflow.tasks)]  # fmt: skip
    grouped = Problem.of(Workflow.of("g", tasks, problem.workflow.edges), problem.platform)
    chosen = plan_for_shared_links(grouped, heft, seed=1)
    assert check(chosen.plan).processor[1] == chosen.plan.processor[2]
    quick = check(make("portfolio:seconds=0.2").plan(problem))
    assert quick.notes["played"] <= simulate(problem, make("heft").plan(problem)).makespan
