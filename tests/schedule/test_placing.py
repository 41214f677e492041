"""Decoding, moving and crossing plans: as their slow twins do, and every order stays possible."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import naive, naive_listing, naive_placing
from zenturio.schedule.kernels.genetic import (
    critical_tasks,
    crossover,
    decode_plan,
    empty_plan,
    evaluate_plan,
    justify,
    local_search,
    random_move,
    reversed_order,
)
from zenturio.schedule.model.plan import Plan, check
from zenturio.schedule.static.genetic import (
    FREE,
    decoded_plan,
    decoding_problem_of,
    ranked_orders,
    start_order,
)
from zenturio.schedule.static.list_scheduling import heft
from zenturio.search.kernels.rng import stream

seeds = st.integers(0, 2**32)


@st.composite
def drawn(draw):
    """A problem, an order, and for each group a processor or none."""
    problem = draw(naive_listing.problems((1, 9)))
    rank = draw(st.permutations(range(problem.tasks)))
    order = np.array(naive.order_by(problem, rank), np.uint32)
    genes = np.full(problem.tasks, FREE, np.int32)
    for group in set(problem.group.tolist()):
        genes[group] = draw(st.sampled_from([FREE, *naive_placing.common(problem, group)]))
    return problem, order, genes


def board_for(problem):
    return empty_plan(decoding_problem_of(problem))


def possible(problem, order):
    """Whether *order* has each task once, behind what it waits for."""
    at = np.argsort(order)
    edges = zip(problem.workflow.sources, problem.workflow.targets, strict=True)
    return sorted(order) == list(range(problem.tasks)) and all(at[a] < at[b] for a, b in edges)


@settings(
    max_examples=settings.default.max_examples * 200 // 100, deadline=None
)  # the first example compiles
@given(drawn())
def test_each_task_is_put_into_the_first_gap_where_its_gene_says(given_plan):
    problem, order, genes = given_plan
    case, board = decoding_problem_of(problem), board_for(problem)
    makespan = decode_plan(case, case.forth, order, genes, board)
    place, start, end = naive_placing.decode(problem, order, genes, naive_placing.links(problem))
    tasks = range(problem.tasks)
    assert board.place.tolist() == [place[t] for t in tasks]
    assert board.start.tolist() == [start[t] for t in tasks]
    assert board.end.tolist() == [end[t] for t in tasks]
    assert makespan == max(end.values())
    check(Plan(problem, "", board.place.astype(np.int32), board.start, board.end))


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(drawn())
def test_a_plan_backwards_is_a_plan_of_the_problem_with_its_edges_turned(given_plan):
    problem, order, genes = given_plan
    case, board, turned = decoding_problem_of(problem), board_for(problem), np.empty_like(order)
    decode_plan(case, case.forth, order, genes, board)
    reversed_order(order, board.end, turned)
    ends = board.end[turned]
    assert (np.diff(ends) <= 0).all()
    assert possible(problem, turned[::-1])
    total = decode_plan(case, case.back, turned, genes, board)
    where = board.place.astype(np.int32)
    check(Plan(problem, "", where, total - board.end, total - board.start))


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(drawn())
def test_late_and_then_early_makes_no_plan_longer_whose_tasks_stay_where_they_are(given_plan):
    problem, order, genes = given_plan
    case, board = decoding_problem_of(problem), board_for(problem)
    before = evaluate_plan(case, order, genes, board)
    after = justify(case, order, genes, board)
    assert after <= before * (1 + 1e-12)
    assert possible(problem, order)


@settings(max_examples=settings.default.max_examples * 50 // 100, deadline=None)
@given(naive.flows((1, 12)), st.integers(1, 4))
def test_nor_one_on_processors_that_are_all_alike(flow, count):
    from zenturio.schedule.model.platform import identical
    from zenturio.schedule.model.problem import Problem

    problem = Problem.of(flow, identical(count))
    case, board = decoding_problem_of(problem), board_for(problem)
    assert case.loose
    (order,) = ranked_orders(problem, 1, np.random.default_rng(0))
    genes = np.full(problem.tasks, FREE, np.int32)
    before = evaluate_plan(case, order, genes, board)
    assert (genes == FREE).all()
    assert justify(case, order, genes, board) <= before


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(drawn(), seeds)
def test_moves_leave_an_order_that_is_possible_and_places_that_can_run(given_plan, seed):
    problem, order, genes = given_plan
    case, state = decoding_problem_of(problem), stream(seed)
    for task in range(problem.tasks):
        random_move(case, order, genes, np.uint32(task), state)
        assert possible(problem, order)
        for group in set(problem.group.tolist()):
            assert genes[group] in {FREE, *naive_placing.common(problem, group)}


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(drawn(), st.randoms(use_true_random=False), seeds)
def test_a_child_has_the_order_and_the_places_of_its_parents(given_plan, rng, seed):
    problem, mother, genes = given_plan
    rank = [rng.random() for _ in range(problem.tasks)]
    father = np.array(naive.order_by(problem, rank), np.uint32)
    theirs = np.where(genes == FREE, genes, FREE).astype(np.int32)
    order, child = np.empty_like(mother), np.empty_like(genes)
    crossover(
        decoding_problem_of(problem), mother, father, genes, theirs, stream(seed), order, child
    )
    assert possible(problem, order)
    assert ((child == genes) | (child == theirs)).all()
    crossover(
        decoding_problem_of(problem), mother, mother, genes, genes, stream(seed), order, child
    )
    assert order.tolist() == mother.tolist()
    assert child.tolist() == genes.tolist()


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(drawn(), seeds)
def test_a_critical_task_starts_when_the_one_before_lets_it(given_plan, seed):
    problem, order, genes = given_plan
    case, board = decoding_problem_of(problem), board_for(problem)
    makespan = evaluate_plan(case, order, genes, board)
    path = np.empty(problem.tasks, np.int64)
    path = path[: critical_tasks(case.forth, board, stream(seed), path)][::-1]
    assert board.end[path[-1]] == makespan
    ways = naive_placing.links(problem)
    for task, following in pairwise(path):
        here, there = board.place[task], board.place[following]
        waits = [
            naive_placing.arrives(problem, data, board.end[parent], here, there)
            for parent, data in ways[following]
            if parent == task
        ]
        if here == there:
            waits.append(board.end[task])
        assert board.start[following] in waits


@settings(max_examples=settings.default.max_examples * 50 // 100, deadline=None)
@given(drawn(), seeds)
def test_climbing_never_leads_down(given_plan, seed):
    problem, order, genes = given_plan
    case, board = decoding_problem_of(problem), board_for(problem)
    before = decode_plan(case, case.forth, order, genes, board)
    best, total, count = local_search(case, order, genes, board, 10, 0.0, stream(seed))
    assert best <= before
    assert count >= 3
    assert evaluate_plan(case, order, genes, board) == best
    assert board.end.sum() == pytest.approx(total)


def lasting(problem):
    return bool(problem.work.all())


@settings(max_examples=settings.default.max_examples * 50 // 100, deadline=None)
@given(naive.problems().filter(lasting))
def test_the_first_order_makes_the_plan_of_heft(problem):
    case = decoding_problem_of(problem)
    (order,) = ranked_orders(problem, 1, np.random.default_rng(1))
    free = np.full(problem.tasks, FREE, np.int32)
    wanted = heft(problem)
    found = decoded_plan(problem, case, "again", order, free, {})
    assert found.processor.tolist() == wanted.processor.tolist()
    assert found.start.tolist() == wanted.start.tolist()


@settings(max_examples=settings.default.max_examples * 50 // 100, deadline=None)
@given(naive_listing.problems())
def test_what_is_decoded_from_a_plan_is_nowhere_later(problem):
    plan = heft(problem)
    again = decoded_plan(
        problem, decoding_problem_of(problem), "again", start_order(plan), plan.processor, {}
    )
    assert (again.end <= plan.end).all()
