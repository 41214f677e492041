"""Tabu search: its moves beside those of a program that tries all of them, and its plans."""

import threading
from itertools import pairwise

import numpy as np
import pytest

from zenturio.schedule.algorithm import make
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.kernels.insertion_search import (
    Removal,
    best_insertion,
    critical_path,
    empty_sequences,
    fill_sequences,
    remove_task,
    sort_sequences,
    time_sequences,
)
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.genetic import decoding_problem_of, start_order
from zenturio.schedule.static.insertion import InsertionSearch, search_in_threads
from zenturio.search.kernels.rng import stream


def problem_of(text):
    made = instance_of(text)
    return Problem.of(made.workflow, made.platform)


def naive_makespan(problem, lanes):
    """Return the makespan of the sequences *lanes*, or infinity if they contradict the edges."""
    place = {task: processor for processor, lane in enumerate(lanes) for task in lane}
    ahead = {task: [before] for lane in lanes for before, task in pairwise(lane)}
    flow, ends = problem.workflow, {}
    edges = list(zip(flow.sources.tolist(), flow.targets.tolist(), flow.data.tolist(), strict=True))
    while len(ends) < problem.tasks:
        progress = False
        for task, processor in place.items():
            inputs = [(source, data) for source, target, data in edges if target == task]
            needed = [source for source, _ in inputs] + ahead.get(task, [])
            if task in ends or any(other not in ends for other in needed):
                continue
            ready = [ends[s] + problem.transfer(d, place[s], processor) for s, d in inputs]
            ready += [ends[before] for before in ahead.get(task, [])]
            ends[task] = max(ready, default=0.0) + problem.time(task, processor)
            progress = True
        if not progress:
            return np.inf
    return max(ends.values())


def naive_insertions(problem, lanes, task, processor):
    """Return the makespan for each gap of *processor*, but for the present one of *task*."""
    without = [[other for other in lane if other != task] for lane in lanes]
    values = []
    for gap in range(len(without[processor]) + 1):
        changed = [list(lane) for lane in without]
        changed[processor].insert(gap, task)
        if changed != lanes:
            values.append(naive_makespan(problem, changed))
    return values


@pytest.mark.parametrize("seed", range(3))
def test_the_best_gap_is_that_of_a_program_that_tries_all(seed):
    problem = problem_of(f"layered:tasks=14,machines=3,ccr=2,unrelated=true,seed={seed}")
    plan = make("round-robin").plan(problem)
    case, sequences = decoding_problem_of(problem), empty_sequences(14, 3)
    order = start_order(plan).astype(np.int64)
    fill_sequences(case.forth, sequences, plan.processor.astype(np.int64), order)
    assert sort_sequences(case, sequences)
    makespan = time_sequences(case, sequences)
    lanes = [[t for t in order.tolist() if plan.processor[t] == p] for p in range(3)]
    assert makespan == pytest.approx(naive_makespan(problem, lanes))
    without = Removal(np.zeros(14), np.zeros(14), np.zeros(14, np.int8))
    for task in range(14):
        rest = remove_task(case, sequences, task, without)
        for processor in range(3):
            through, _ = best_insertion(case, sequences, task, without, processor)
            values = naive_insertions(problem, lanes, task, processor)
            assert max(through, rest) == pytest.approx(min(values, default=np.inf)), (
                task,
                processor,
            )


def test_a_critical_path_leads_from_the_start_to_the_end_without_waiting():
    problem = problem_of("layered:tasks=40,machines=4,ccr=1,seed=3")
    plan = make("heft").plan(problem)
    case, sequences = decoding_problem_of(problem), empty_sequences(40, 4)
    fill_sequences(case.forth, sequences, plan.processor.astype(np.int64), start_order(plan))
    sort_sequences(case, sequences)
    makespan = time_sequences(case, sequences)
    path = np.empty(40, np.int64)
    count = critical_path(case, sequences, makespan, path, stream(1))
    tasks = path[:count].tolist()
    assert sequences.end[tasks[0]] == makespan
    assert sequences.start[tasks[-1]] == 0
    for task in tasks:
        assert sequences.start[task] + sequences.tail[task] == pytest.approx(makespan)


@pytest.mark.parametrize("seed", range(2))
def test_it_is_never_worse_than_the_heuristics_and_repeats_itself(seed):
    problem = problem_of(f"layered:tasks=30,machines=4,ccr=2,seed={seed}")
    plan = check(make("tabu:moves=3000", seed=seed).plan(problem))
    best = min(make(name).plan(problem).makespan for name in ("heft", "cpop", "peft", "min-min"))
    assert plan.notes["bound"] <= plan.makespan < best
    assert make("tabu:moves=3000", seed=seed).plan(problem).makespan == plan.makespan
    assert plan.notes["moves"] == 3000


def test_with_data_it_finds_optima_that_are_proved():
    # By CP-SAT in a minute each.
    for seed, optimum in ((2, 216.96), (3, 189.48), (4, 276.71)):
        problem = problem_of(f"layered:tasks=30,machines=4,ccr=2,seed={seed}")
        assert make("tabu:moves=30000").plan(problem).makespan == pytest.approx(optimum, rel=0.01)


def test_tasks_of_a_group_stay_together_and_tasks_without_work_are_in_no_way():
    tasks = [
        WorkflowTask(f"t{i}", 3.0 * (i % 4), machine="M" if i % 3 == 0 else "") for i in range(12)
    ]
    edges = [(f"t{i}", f"t{i + 3}", 1e6 * i) for i in range(9)]
    machines = (PlatformMachine("a"), PlatformMachine("b", 2.0), PlatformMachine("c", 3.0))
    platform = Platform("p", machines, (), NetworkLink("", "", 1e6))
    problem = Problem.of(Workflow.of("w", tasks, edges), platform)
    check(make("tabu:moves=500").plan(problem))


def test_a_search_that_is_cancelled_stops():
    problem = problem_of("layered:tasks=30,machines=4,ccr=2")
    search = InsertionSearch(problem, make("shuffle").plan(problem), 1)
    thread = threading.Thread(target=search.improve_until, args=(np.inf, 0.0))
    thread.start()
    search.is_cancelled = True
    thread.join(60)
    assert not thread.is_alive()


def test_searches_in_threads_give_a_plan_that_can_be_carried_out():
    problem = problem_of("layered:tasks=30,machines=4,ccr=2")
    first = make("shuffle").plan(problem)
    assert check(search_in_threads(problem, [first], 0.1, 0)).makespan < first.makespan


def test_where_tasks_share_machines_the_plan_is_that_of_ga():
    tasks = [WorkflowTask(f"t{i}", 5.0 + i, cores=1 + i % 2) for i in range(6)]
    problem = Problem.of(Workflow.of("w", tasks), Platform("p", (PlatformMachine("a", cores=3),)))
    plan = check(make("tabu").plan(problem))
    assert plan.makespan == make("ga").plan(problem).makespan
