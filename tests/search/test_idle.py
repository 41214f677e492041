"""How long slots are idle where experiments take unequal times: in simulated time, exactly."""

import heapq
import math
import random

import pytest

import zenturio as zen
from zenturio.search import Budget, Directions, SearchLoop, SearchProblem, make

SPACE = zen.Space(n=zen.span(1, 60), m=zen.span(1, 60), k=["a", "b", "c"])
SLOTS = 4


def lasts(point):
    """From 1 to 10, the longer the rarer, as if by chance."""
    at = (point["n"] * 7919 + point["m"] * 104729 + ord(point["k"]) * 15485863) % 1000
    return 1 + 9 * (at / 1000) ** 3


def cost(point):
    return (float((point["n"] - 41) ** 2 + (point["m"] - 13) ** 2 + 50 * (point["k"] == "b")),)


def idle_share(engine, budget=400, slots=SLOTS, says=None, lasts=lasts, **settings):
    """What share of all slots' time passes without an experiment, until the last has begun."""
    directions = Directions()
    loop = SearchLoop(
        make(engine, SearchProblem(SPACE, directions, 3, budget, slots=says), settings),
        directions,
        Budget(budget),
    )
    now, busy, begun, away = 0.0, 0.0, 0, []
    while not loop.is_over:
        for number, point in loop.ask(slots - len(away)):
            heapq.heappush(away, (now + lasts(point), number, point))
            busy += lasts(point)
            begun += 1
        if begun == budget:
            busy -= sum(end - now for end, _, _ in away)
            return 1 - busy / (slots * now)
        now, number, point = heapq.heappop(away)
        loop.tell(number, cost(point))
    raise AssertionError("a search that spends its budget is over with it")


@pytest.mark.parametrize("engine", ["random", "sobol", "latin", "exhaustive"])
def test_engines_that_do_not_learn_keep_all_slots_busy(engine):
    assert idle_share(engine) == pytest.approx(0, abs=1e-9)


def test_a_generation_is_waited_for_and_for_no_longer():
    """Only the ends of generations are idle: the larger a generation, the less that is."""
    small, large = idle_share("ga", population=20), idle_share("ga", population=100)
    assert large < 0.1 < small < 0.5


@pytest.mark.parametrize(
    ("engine", "settings"),
    [("model", {"batch": 16}), ("hill", {"climbers": 4}), ("anneal", {"chains": 16}),
     ("simplex", {"simplexes": 8}), ("gradient", {"descents": 4}), ("nsga2", {"population": 60})],
)  # fmt: skip
def test_engines_that_wait_can_be_told_to_ask_for_more_at_a_time(engine, settings):
    budget = 60 if engine == "model" else 400
    assert idle_share(engine, budget, **settings) < min(0.35, idle_share(engine, budget))


def lognormal(point):
    """Durations whose logarithm varies by 0.8."""
    seed = point["n"] * 7919 + point["m"] * 104729 + ord(point["k"])
    return math.exp(random.Random(seed).gauss(0, 0.8))


@pytest.mark.parametrize("slots", [4, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("engine", "settings", "least"),
    [("model", {"candidates": 8, "memory": 10}, 0.9), ("ga", {}, 0.8)],
)
def test_engines_that_know_of_slots_keep_them_busy(engine, settings, least, slots):
    """A genetic search ends among points that take long: the best ones here do."""
    busy = 1 - idle_share(engine, 200, slots, slots, lognormal, **settings)
    assert busy > least > 1 - idle_share(engine, 200, slots, 1, lognormal, **settings)
