"""Tabu search: its moves beside those of a program that tries all of them, and its plans."""

import random
import threading
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest

from zenturio.schedule.algorithm import make
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.kernels.shared_tabu_search import (
    best_window,
    decode_shared,
    move_shared,
    remove_shared,
    without_task,
)
from zenturio.schedule.kernels.tabu_search import (
    Removal,
    best_insertion,
    critical_path,
    empty_sequences,
    fill_sequences,
    remove_task,
    sort_sequences,
    time_sequences,
)
from zenturio.schedule.model.plan import Plan, check
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.genetic import decoding_problem_of, start_order
from zenturio.schedule.static.tabu_search import (
    InsertionSearch,
    SharedMachineSearch,
    search_in_threads,
)
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
    seconds, plan = 0.1, first
    while plan.makespan == first.makespan:  # a busy machine may give it no time
        plan, seconds = check(search_in_threads(problem, [first], seconds, 0)), 2 * seconds
    assert plan.makespan < first.makespan


def shared_problem(seed):
    """Return 12 tasks of one to three cores on machines of two to four, with memory and data."""
    chance, made = (
        random.Random(seed),
        instance_of(f"layered:tasks=12,machines=2,ccr=1,seed={seed}"),
    )
    tasks = [replace(task, cores=chance.choice([1, 1, 2, 3]), memory=chance.choice([1, 4]))
             for task in made.workflow.tasks]  # fmt: skip
    machines = [replace(m, cores=3 + i, memory=8) for i, m in enumerate(made.platform.machines)]
    platform = replace(made.platform, machines=tuple(machines))
    return Problem.of(Workflow.of("wide", tasks, made.workflow.edges), platform)


def in_order(plan, machines, moved):
    """Yield pairs of tasks that share a machine and do not overlap, but for the one that moved."""
    for a, b in permutations(range(len(plan.start)), 2):
        same = moved not in (a, b) and machines[a] == machines[b]
        if same and plan.end[a] <= plan.start[b] and plan.end[b] > plan.start[b]:
            yield a, b


def longest_path(problem, machines, arcs):
    """Return the makespan of tasks that wait for data and arcs, or infinity if there is a cycle."""
    flow, ends = problem.workflow, {}
    edges = list(zip(flow.sources.tolist(), flow.targets.tolist(), flow.data.tolist(), strict=True))
    waits = [(a, b, problem.transfer(data, machines[a], machines[b])) for a, b, data in edges]
    waits += [(a, b, 0.0) for a, b in arcs]
    while len(ends) < problem.tasks:
        ready = [
            t for t in range(problem.tasks)
            if t not in ends and all(a in ends for a, b, _ in waits if b == t)
        ]  # fmt: skip
        if not ready:
            return np.inf
        for t in ready:
            begin = max((ends[a] + seconds for a, b, seconds in waits if b == t), default=0.0)
            ends[t] = begin + problem.time(t, machines[t])
    return max(ends.values())


def naive_windows(problem, plan, task, machine):
    """Return the makespan for each span of *machine* in which *task* has room."""
    others = [t for t in range(problem.tasks) if t != task and plan.processor[t] == machine]
    moments = sorted({-np.inf, np.inf, *plan.start[others], *plan.end[others]})
    need, capacity = problem.resources.need, problem.resources.capacity[machine]
    machines = plan.processor.tolist()
    kept = list(in_order(plan, machines, task))
    machines[task] = machine
    for opened in moments:
        for closed in (moment for moment in moments if moment >= opened):
            beside = [t for t in others if plan.start[t] < closed and plan.end[t] > opened]
            if opened == closed:
                crowds = [beside]
            else:
                crowds = [
                    [t for t in beside if plan.start[t] <= moment < plan.end[t]]
                    for moment in [max(opened, plan.start[t]) for t in beside] or [0]
                ]
            if any((need[[task, *crowd]].sum(axis=0) > capacity).any() for crowd in crowds):
                continue
            before = [(t, task) for t in others if plan.end[t] <= opened]
            after = [(task, t) for t in others if plan.start[t] >= closed]
            yield opened, closed, longest_path(problem, machines, kept + before + after)


@pytest.mark.parametrize("seed", range(3))
def test_the_best_window_is_that_of_a_program_that_tries_all(seed):
    problem = shared_problem(seed)
    first = make("shuffle").plan(problem)
    kernel = SharedMachineSearch(problem, decoding_problem_of(problem))
    kernel.fill(first)
    case, plan = kernel.case, kernel.current
    makespan = decode_shared(case, plan)
    shown = Plan(problem, "", plan.place.astype(int), plan.start.copy(), plan.end.copy())
    assert check(shown).makespan == makespan <= first.makespan
    without = without_task(problem.tasks, problem.processors)
    for task in range(problem.tasks):
        rest = remove_shared(case, plan, task, without)
        for machine in range(problem.processors):
            through, _, _ = best_window(case, plan, task, without, machine)
            spans = naive_windows(problem, shown, task, machine)
            values = [
                value for opened, closed, value in spans
                if machine != shown.processor[task]
                or not (opened <= shown.start[task] and shown.end[task] <= closed)
            ]  # fmt: skip
            # A span of the present window may be short of the task: the kernel leaves that out.
            if machine == shown.processor[task]:
                assert max(through, rest) >= min(values, default=np.inf) * (1 - 1e-12)
            else:
                assert max(through, rest) == pytest.approx(min(values, default=np.inf))


@pytest.mark.parametrize("seed", range(2))
def test_where_tasks_share_machines_a_move_keeps_what_it_promises(seed):
    problem = shared_problem(seed)
    kernel = SharedMachineSearch(problem, decoding_problem_of(problem))
    kernel.fill(make("shuffle").plan(problem))
    case, plan = kernel.case, kernel.current
    decode_shared(case, plan)
    without = without_task(problem.tasks, problem.processors)
    for task in [*range(problem.tasks)] * 2:
        machine = (task + 1) % problem.processors
        rest = remove_shared(case, plan, task, without)
        through, begin, close = best_window(case, plan, task, without, machine)
        if through < np.inf:
            makespan = move_shared(case, plan, task, machine, begin, close, without)
            assert makespan <= max(through, rest) * (1 + 1e-12)
            check(Plan(problem, "", plan.place.astype(int), plan.start.copy(), plan.end.copy()))


def test_where_tasks_share_machines_it_is_better_than_the_heuristics():
    problem = shared_problem(5)
    plan = check(make("tabu:moves=500").plan(problem))
    names = ("heft", "cpop", "peft", "min-min", "max-min", "sufferage")
    assert plan.makespan < min(make(name).plan(problem).makespan for name in names)
