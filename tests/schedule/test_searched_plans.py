"""The algorithms that search for plans: ga, ga-2005, anneal, cp-sat."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import examples, naive, naive_listing, naive_placing
from zenturio.errors import InputError, PlaceError
from zenturio.schedule.algorithm import describe, make
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.model.evaluation import makespans, problem_arrays, topological_orders
from zenturio.schedule.model.lower_bounds import lower_bound
from zenturio.schedule.model.metrics import METRICS, MetricCalculator, metrics
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static import islands as islands_module
from zenturio.schedule.static.genetic import (
    GeneticScheduler,
    GeneticSchedulerSettings,
    decoding_problem_of,
)
from zenturio.schedule.static.islands import EvolutionSettings, Island, IslandModel, ThreadRunner
from zenturio.schedule.static.list_scheduling import heft, mean_delays, mean_times, upward_ranks
from zenturio.search.engine import SearchProblem as Wanted
from zenturio.search.ga import Ga, GaSettings
from zenturio.search.objective import Directions
from zenturio.space import Space
from zenturio.testing.executor import until

QUICK = {
    "anneal": {"evaluations": 300},
    "cp-sat": {"effort": 5},
    "ga": {"evaluations": 300, "population": 6},
    "ga-2005": {"population": 10, "generations": 10},
}
ROUNDING = 1 + 1e-9


def planned(name, problem, seed=0, **more):
    return check(make(name, {**QUICK[name], **more}, seed).plan(problem))


def generated(text):
    found = instance_of(text)
    return Problem.of(found.workflow, found.platform)


@settings(max_examples=max(1, settings.default.max_examples * 2 // 5), deadline=None)
@given(naive_listing.problems((0, 7), (1, 3)), st.sampled_from(sorted(QUICK)), st.integers(0, 9))
def test_a_plan_can_be_carried_out_and_is_the_same_every_time(problem, name, seed):
    one, other = planned(name, problem, seed), planned(name, problem, seed)
    assert one.algorithm == name
    assert one.start.tolist() == other.start.tolist()
    assert one.processor.tolist() == other.processor.tolist()
    assert one.notes == other.notes


@pytest.mark.parametrize("name", QUICK)
def test_a_workflow_without_tasks_takes_no_time(name):
    assert planned(name, Problem.of(Workflow.of("none", []), identical(2))).makespan == 0


@settings(max_examples=settings.default.max_examples * 60 // 100, deadline=None)
@given(naive_listing.problems((1, 10)), st.sampled_from(["ga", "anneal"]), st.integers(0, 99))
def test_no_plan_is_longer_than_that_of_heft(problem, name, seed):
    plan, limit = planned(name, problem, seed, evaluations=1), heft(problem).makespan
    assert plan.makespan <= limit
    better = planned(name, problem, seed)
    assert better.makespan <= limit
    assert better.makespan >= better.notes["bound"] / ROUNDING


@pytest.mark.parametrize("name", ["ga", "anneal"])
def test_nor_where_tasks_of_no_length_make_ties(name):
    idle = [WorkflowTask(f"t{i}") for i in (2, 3, 4, 5)]
    edges = [("t2", "t1"), ("t2", "t3"), ("t1", "t3"), ("t0", "t3"), ("t2", "t4"), ("t1", "t4")]
    flow = Workflow.of(
        "ties", [WorkflowTask("t0", times=(1.0, 2.0)), WorkflowTask("t1", 0.5), *idle], edges
    )
    machines = (PlatformMachine("slow", 0.5), PlatformMachine("fast"))
    problem = Problem.of(flow, Platform("two", machines, (), NetworkLink("", "", 0.5, 0.5)))
    assert planned(name, problem, evaluations=1).makespan <= heft(problem).makespan


@pytest.mark.parametrize("seed", range(8))
def test_nor_is_it_where_nothing_is_searched(seed):
    problem = generated(f"layered:tasks=60,machines=8,seed={seed}")
    plan = planned("ga", problem, evaluations=1, tries=0)
    assert plan.makespan <= heft(problem).makespan
    assert planned("anneal", problem, evaluations=1).makespan <= heft(problem).makespan


@settings(max_examples=settings.default.max_examples * 30 // 100, deadline=None)
@given(naive_listing.problems((1, 4), (1, 3)))
def test_the_exact_plan_is_the_shortest_of_all(problem):
    plan, shortest = planned("cp-sat", problem), naive_placing.shortest(problem)
    assert plan.notes["status"] == "optimal"
    assert shortest / ROUNDING <= plan.makespan <= shortest * (1 + 1e-5)
    assert plan.notes["bound"] <= shortest * ROUNDING
    assert plan.notes["gap"] <= 1e-5


@settings(max_examples=settings.default.max_examples * 20 // 100, deadline=None)
@given(naive.flows((1, 5)), st.integers(1, 3))
def test_and_so_it_is_where_all_processors_are_alike(flow, count):
    problem = Problem.of(flow, identical(count))
    shortest = naive_placing.shortest(problem)
    assert planned("cp-sat", problem).makespan == pytest.approx(shortest, rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_ga_finds_what_cp_sat_proves_where_heft_does_not(seed):
    problem = generated(f"layered:tasks=12,machines=3,unrelated=true,ccr=0.5,seed={seed}")
    best = planned("cp-sat", problem, effort=60)
    assert best.notes["gap"] <= 1e-5
    found = make("ga", {"evaluations": 20_000}).plan(problem)
    assert best.makespan / ROUNDING <= found.makespan <= 1.02 * best.makespan


def test_ga_ends_where_no_plan_can_be_better():
    problem = Problem.of(
        Workflow.of("one", [WorkflowTask("a", 3.0), WorkflowTask("b", 2.0)]), identical(2)
    )
    plan = make("ga").plan(problem)
    assert plan.makespan == 3.0
    assert plan.notes["ended"] == "bound"
    assert plan.notes["gap"] == 0


def test_ga_tries_as_many_plans_as_it_may_or_as_there_is_time():
    problem = examples.topcuoglu()
    few = planned("ga", problem, evaluations=2000)
    assert few.notes["ended"] == "evaluations"
    assert 2000 <= few.notes["evaluations"] < 3000
    assert few.makespan < heft(problem).makespan == 80
    timed = make("ga", {"seconds": 0.05}).plan(problem)
    assert timed.notes["ended"] == "seconds"
    both = make("ga", {"seconds": 60, "evaluations": 500}).plan(problem)
    assert both.notes["ended"] == "evaluations"


def test_the_longer_ga_runs_the_better_is_its_plan():
    problem = generated("layered:tasks=40,machines=5")
    lengths = [
        planned("ga", problem, evaluations=count, population=20).makespan
        for count in (5_000, 10_000, 20_000)
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < lengths[0] < heft(problem).makespan


@pytest.mark.parametrize("islands", [2, 5])
def test_islands_find_the_same_plan_on_any_number_of_cores(islands, monkeypatch):
    problem = generated("layered:tasks=20,machines=3,ccr=2,seed=1")
    plans = []
    for cores in (1, 4):
        monkeypatch.setattr(islands_module, "usable_cores", lambda cores=cores: cores)
        plans.append(check(make(f"ga:evaluations=600,islands={islands}", seed=3).plan(problem)))
    assert plans[0].start.tolist() == plans[1].start.tolist()
    assert plans[0].processor.tolist() == plans[1].processor.tolist()
    notes = plans[0].notes
    assert 600 <= notes["evaluations"] <= 600 + 60 * islands
    assert 1 < notes["speedup_predicted"] <= islands
    assert plans[0].makespan <= make("heft").plan(problem).makespan


class Recorded:
    """An island that fails if it is the first, and otherwise evolves until it is cancelled."""

    def __init__(self, fails, evolving):
        self._fails, self._evolving, self.is_cancelled = fails, evolving, False

    def evolve(self, _until, _seconds):
        self._evolving.append(self)
        if self._fails:
            raise KeyboardInterrupt
        until(lambda: self.is_cancelled)


def test_no_island_begins_after_an_interrupt(monkeypatch):
    monkeypatch.setattr(islands_module, "usable_cores", lambda: 1)
    evolving = []
    islands = [Recorded(i == 0, evolving) for i in range(3)]
    with pytest.raises(KeyboardInterrupt):
        ThreadRunner().evolve(islands, [9] * 3, 9.0)
    assert islands[2] not in evolving


def test_islands_exchange_their_best_plans():
    problem = generated("layered:tasks=20,machines=3,ccr=2,seed=1")
    settings = GeneticSchedulerSettings(evaluations=60, islands=3, population=4)
    case, search = decoding_problem_of(problem), GeneticScheduler(settings)
    orders, genes = search._first(problem, 60)
    shared = EvolutionSettings(settings.tries, settings.mutation, 0.0)
    islands = [Island(case, *search._first_of_island(problem, orders, genes, i), shared, i)
               for i in range(3)]  # fmt: skip
    model = IslandModel(islands, 60, ThreadRunner())
    before = [island.best for island in islands]
    model.advance(0)
    # Nothing evolved: each has the better of its own best plan and its neighbour's.
    after = [min(own, other) for own, other in zip(before, before[-1:] + before[:-1], strict=True)]
    assert [island.best for island in islands] == after


def test_plans_of_other_seeds_differ():
    problem = generated("layered:tasks=40,machines=5")
    for name, more in (("ga", {}), ("ga-2005", {}), ("anneal", {"evaluations": 5000})):
        first, second = (planned(name, problem, seed, **more) for seed in (1, 2))
        assert first.start.tolist() != second.start.tolist()


def test_the_genetic_algorithm_of_2005_has_the_settings_of_its_paper():
    about = describe("ga-2005")
    assert {each.name: each.default for each in about.settings} == {
        "objective": "makespan",
        "population": 150,
        "crossover": 0.9,
        "mutation": 0.001,
        "generations": 500,
        "steady": 20.0,
        "scaling": 2.0,
        "elitist": True,
        "const": 1.0,
    }


def test_it_tells_its_visited_points_and_its_improvement():
    problem = generated("layered:tasks=30,machines=6")
    rates = {"mutation": 1.0, "generations": 60, "steady": 100}
    assert planned("ga-2005", problem, **rates).notes["visited"] == 10 + 59 * 9  # all but the elite
    whole = planned("ga-2005", problem, generations=60, steady=100)
    assert 60 < whole.notes["visited"] < 10 + 59 * 9  # nor what is copied unchanged
    assert whole.notes["generations"] == 60
    one = planned("ga-2005", problem, generations=1)
    assert one.notes == {
        "objective": "makespan",
        "visited": 10,
        "generations": 1,
        "settled": 1,
        "last": one.makespan,
        "improvement": 0.0,
    }
    improved = 100 * (one.makespan - whole.makespan) / whole.makespan
    assert whole.notes["improvement"] == pytest.approx(improved)
    steady = planned("ga-2005", problem, generations=200, steady=5, mutation=0)
    assert steady.notes["generations"] < 200
    lost = planned("ga-2005", problem, generations=60, mutation=0.5, elitist=False)
    assert lost.notes["last"] > lost.makespan
    first = lost.notes["last"] * (1 + lost.notes["improvement"] / 100)
    assert first == pytest.approx(one.makespan)


@settings(max_examples=12, deadline=None)
@given(
    naive_listing.problems((1, 7), (1, 3)),
    st.sampled_from([1.0, 1.5, 2.0]),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.booleans(),
    st.integers(0, 99),
)
def test_its_generations_are_those_of_the_engine_ga(problem, scaling, mutation, elitist, seed):
    rates = {"population": 9, "generations": 30, "scaling": scaling}
    plan = planned(
        "ga-2005", problem, seed, **rates, mutation=mutation, crossover=0.6, elitist=elitist
    )
    fits = np.isfinite(problem.pace)[problem.row]
    groups = np.unique(problem.group).tolist()
    space = Space(**{f"m{group}": np.flatnonzero(fits[group]).tolist() for group in groups})
    rules = GaSettings(
        **rates, selection="remainder", mutation_rate=mutation, crossover_rate=0.6, elite=elitist
    )
    walk = Ga(Wanted(space, Directions(), seed), rules).walk()
    order = topological_orders(
        problem, -upward_ranks(problem, mean_times(problem), mean_delays(problem))
    )
    allele = [np.flatnonzero(fits[group]) for group in groups]
    best, generations, genes = np.inf, 0, next(walk)
    while genes is not None:
        places = np.stack(
            [allele[groups.index(g)][genes[:, groups.index(g)]] for g in problem.group], 1
        )
        found = makespans(problem_arrays(problem), places, order)
        best, generations = min(best, found.min()), generations + 1
        try:
            genes = walk.send(found[:, None])
        except StopIteration:
            genes = None
    assert (plan.makespan, plan.notes["generations"]) == (best, generations)


def test_what_it_does_for_one_objective_it_does_for_all():
    tasks = [WorkflowTask(f"t{i}", float(1 + 7 * i % 32)) for i in range(30)]
    machines = [PlatformMachine(f"m{i}", float(1 + i % 2)) for i in range(6)]
    problem = Problem.of(Workflow.of("free", tasks), Platform("six", tuple(machines)))
    assert MetricCalculator(problem).longest == 16  # nothing is rounded when it divides
    for const in (1.0, 3.0):
        short = planned("ga-2005", problem, const=const, generations=60)
        slight = planned("ga-2005", problem, const=const, generations=60, objective="slr")
        assert slight.processor.tolist() == short.processor.tolist()
        assert slight.notes["settled"] == short.notes["settled"] > 1
        assert slight.notes["visited"] == short.notes["visited"]


def test_the_farther_const_is_the_less_it_matters_who_is_better():
    problem = generated("layered:tasks=40,machines=12")
    worth = {"population": 60, "generations": 100, "steady": 100, "elitist": False}
    for const, scaling in ((100.0, 1.0), (100.0, 2.0)):
        near = planned("ga-2005", problem, **worth, scaling=scaling)
        distant = planned("ga-2005", problem, **worth, scaling=scaling, const=const)
        if scaling == 1.0:
            assert distant.makespan > near.makespan
        else:  # scaling takes Const away again, where it has room for it
            assert distant.makespan == pytest.approx(near.makespan, rel=0.1)


def test_its_first_generation_is_of_chance_and_its_order_is_by_the_longest_way():
    problem = generated("layered:tasks=30,machines=6")
    plan = planned("ga-2005", problem)
    order = topological_orders(
        problem, -upward_ranks(problem, mean_times(problem), mean_delays(problem))
    )
    again = makespans(problem_arrays(problem), plan.processor.astype(np.uint32), order)
    assert again.tolist() == [plan.makespan]


@pytest.mark.parametrize("objective", sorted(METRICS))
def test_ga_is_no_worse_than_heuristics_by_any_objective(objective):
    machines = tuple(
        PlatformMachine(
            f"m{i}", float(i), cost=i**2.0, power_idle=5.0, power_busy=9.0 * i, mtbf=1e5 * i
        )
        for i in (1, 2, 3)
    )
    flow = instance_of("wien2k:kpoints=6").workflow
    problem = Problem.of(flow, Platform("priced", machines))
    quick = {"objective": objective, "evaluations": 400, "population": 20}
    plan = planned("ga", problem, **quick)
    sign = 1 if METRICS[objective].direction == "minimize" else -1
    for other in ("heft", "cpop", "min-min", "max-min"):
        value, heuristic = (metrics(p)[objective] for p in (plan, make(other).plan(problem)))
        assert sign * value <= sign * heuristic + 1e-9 * abs(heuristic)
    assert planned("ga", problem, **quick).end.tolist() == plan.end.tolist()


def test_ga_finds_the_shortest_of_the_cheapest_plans():
    machines = (
        PlatformMachine("slow", 1.0, cores=2, cost=1.0), PlatformMachine("fast", 2.0, cost=3.0),
    )  # fmt: skip
    flow = Workflow.of("bag", [WorkflowTask(f"t{i}", 4.0) for i in range(4)])
    plan = planned("ga", Problem.of(flow, Platform("two", machines)), objective="cost")
    assert (metrics(plan)["cost"], plan.makespan) == (16, 8)
    with pytest.raises(InputError, match="no metric is named 'costs'"):
        make("ga", {"objective": "costs"})


def test_it_takes_any_metric_as_its_objective():
    machines = tuple(PlatformMachine(f"m{i}", float(i), cost=float(i) ** 2) for i in (1, 2, 3))
    tasks = [WorkflowTask(f"t{i}", 5.0) for i in range(6)]
    problem = Problem.of(Workflow.of("free", tasks), Platform("three", machines))
    longer = {"generations": 200, "mutation": 0.05}
    cheap = planned("ga-2005", problem, objective="cost", **longer)
    short = planned("ga-2005", problem, objective="makespan", **longer)
    assert cheap.processor.tolist() == [0] * 6
    assert metrics(cheap)["cost"] == 30 < metrics(short)["cost"]
    assert short.makespan < cheap.makespan
    quick = planned("ga-2005", problem, objective="speedup", **longer)
    assert metrics(quick)["speedup"] > metrics(cheap)["speedup"]
    with pytest.raises(InputError, match="no metric is named 'costs'"):
        make("ga-2005", {"objective": "costs"})


def test_it_loses_to_heft_and_ga_does_not():
    problem = generated("wien2k:kpoints=20")
    old = make("ga-2005").plan(problem).makespan
    assert old > heft(problem).makespan >= planned("ga", problem).makespan


def test_cp_sat_proves_bounds_that_no_plan_has_to_reach():
    problem = generated("layered:tasks=40,machines=5")
    plan = planned("cp-sat", problem, effort=0.01)
    assert plan.notes["status"] != "optimal"
    assert lower_bound(problem) <= plan.notes["bound"] < plan.makespan <= heft(problem).makespan
    assert plan.notes["gap"] == pytest.approx(plan.makespan / plan.notes["bound"] - 1)


def test_without_its_extra_cp_sat_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(PlaceError, match="OR-Tools") as caught:
        make("cp-sat").plan(examples.topcuoglu())
    assert "[exact]" in str(caught.value)


SCRIPT = """
import json
from zenturio.schedule.model.problem import (Problem)
from zenturio.schedule.algorithm import (make)
from zenturio.schedule.generators.generator import (instance_of)
found = instance_of("layered:tasks=30,machines=4,seed=3")
problem = Problem.of(found.workflow, found.platform)
plans = [make(name, {}, 7).plan(problem) for name in ("ga", "ga-2005", "anneal")]
print(json.dumps([[p.processor.tolist(), p.start.tolist(), p.end.tolist()] for p in plans]))
"""


def told(cache, threads):
    changed = {"NUMBA_CACHE_DIR": str(cache), "NUMBA_NUM_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **changed},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_plans_are_the_same_in_every_process_with_any_threads_and_any_cache(tmp_path):
    cold = told(tmp_path, "1")
    assert told(tmp_path, "2") == cold
    problem = generated("layered:tasks=30,machines=4,seed=3")
    plans = [make(name, {}, 7).plan(problem) for name in ("ga", "ga-2005", "anneal")]
    assert [[p.processor.tolist(), p.start.tolist(), p.end.tolist()] for p in plans] == cold
