"""What every engine promises."""

import io
import json
import math
import random
import subprocess
import sys
from contextlib import redirect_stdout

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zenturio as zen
from zenturio.search import (
    Budget,
    Directions,
    SearchLoop,
    SearchProblem,
    describe,
    drive,
    make,
    names,
)

ENGINES = [*names(), "optuna:CmaEs"]

SPACES = {
    "free": zen.Space(n=[8, 1, 4, 2, 16], m=zen.span(1, 30), k=["a", "b", "c"]),
    "bound": zen.Space(n=zen.geometric(1, 256), m=zen.span(1, 12), k=["x", "y"], t=[1, 2, 4]).where(
        "n * m <= 512", "m % t == 0", "k == 'x' or t < 4"
    ),
    "conditional": zen.Space(
        solver=["cg", "lu"],
        steps=zen.parameter(zen.span(1, 20), when="solver == 'cg'"),
        tile=zen.span(1, 9),
        inner=zen.span(1, "tile"),
    ),
    "continuous": zen.Space(x=zen.uniform(-3, 3), y=zen.loguniform(0.01, 100), k=["a", "b"]),
    "mixed": zen.Space(x=zen.uniform(0, 1), n=[1, 2, 3, 4], k=["a", "b"]).where("x * n < 1.5"),
}
SMALL = zen.Space(n=zen.span(1, 6), k=["a", "b"]).where("n != 3 or k == 'a'")


PROBLEM = SearchProblem(SMALL, Directions(), 1, 100)
IGNORANT = {name for name in ENGINES if getattr(make(name, PROBLEM), "ignores_results", False)}
"""Engines whose points do not depend on results, of chance or evenly spread."""
WITHOUT_CHANCE = {"exhaustive", "one-at-a-time"}
THOROUGH = ("auto", "model", "portfolio", "optuna", "optuna:CmaEs")
"""Engines that think longer about each trial than all others about a search."""

MADE_OF_OTHERS = ("auto", "portfolio")


def _marks(*, slow):
    return [pytest.mark.slow] if slow else []


cases = pytest.mark.parametrize(
    ("engine", "place"),
    [
        pytest.param(
            engine,
            place,
            marks=_marks(
                slow=engine in THOROUGH and (place != "bound" or engine in MADE_OF_OTHERS)
            ),
        )
        for engine in ENGINES
        for place in SPACES
        if (engine, place) not in {("exhaustive", "continuous"), ("exhaustive", "mixed")}
    ],
)


def cost(point):
    """Something rugged, that fails here and there."""
    total = sum(
        abs(value - 2.5) if isinstance(value, int | float) else len(str(value)) * 1.5
        for value in point.values()
    )
    if math.floor(total * 7) % 11 == 3:
        return ()
    return (total + math.sin(5 * total),)


def pilot_of(engine, space, budget=40, seed=3, **more):
    directions = more.pop("directions", Directions())
    search = make(engine, SearchProblem(space, directions, seed, budget), more)
    return SearchLoop(search, directions, Budget(budget))


def scrambled(loop, slots, seed):
    chance, away = random.Random(seed), []
    while not loop.is_over:
        away += loop.ask(slots - len(away))
        for _ in range(chance.randrange(1, len(away) + 1) if away else 0):
            number, point = away.pop(chance.randrange(len(away)))
            loop.tell(number, cost(point))
    return loop.trials


@cases
@settings(
    max_examples=max(1, settings.default.max_examples // 20), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(st.integers(1, 12), st.integers(0, 999), st.integers(0, 2**63))
def test_the_trials_are_the_same_whatever_is_ready_first(engine, place, slots, chance, seed):
    space = SPACES[place]
    expected = list(drive(pilot_of(engine, space, seed=seed), cost))
    assert scrambled(pilot_of(engine, space, seed=seed), slots, chance) == expected


@pytest.mark.parametrize("slots", [2, 8])
def test_a_model_that_proposes_ahead_makes_the_same_trials_whatever_is_ready_first(slots):
    def ahead():
        problem = SearchProblem(SPACES["bound"], Directions(), 5, 40, slots=slots)
        return SearchLoop(make("model", problem), Directions(), Budget(40))

    expected = list(drive(ahead(), cost))
    assert all(scrambled(ahead(), slots, seed) == expected for seed in range(3))
    assert len({trial.point for trial in expected}) == 40


@cases
def test_every_point_is_valid_and_none_is_tried_twice_and_the_budget_is_spent(engine, place):
    space = SPACES[place]
    trials = list(drive(pilot_of(engine, space, 60), cost))
    points = [trial.point for trial in trials]
    assert len(set(points)) == len(points)
    assert all(space.contains(point) for point in points)
    if engine != "one-at-a-time":  # which ends when it has seen its lines
        assert len(points) == min(60, space.size if space.finite else 60)


@pytest.mark.parametrize("engine", ENGINES)
def test_another_seed_makes_other_trials(engine):
    if engine in WITHOUT_CHANCE:
        pytest.skip("leaves nothing to chance")
    first, second = (list(drive(pilot_of(engine, SPACES["bound"], seed=s), cost)) for s in (1, 2))
    assert first != second


@pytest.mark.parametrize("engine", ENGINES)
def test_a_small_space_is_exhausted_without_a_hang(engine):
    loop = pilot_of(engine, SMALL, budget=1000)
    points = [trial.point for trial in drive(loop, cost)]
    assert loop.stop_reason == "exhausted"
    assert len(set(points)) == len(points) <= SMALL.size
    if engine in IGNORANT | {"exhaustive", "optuna", "portfolio", "ga"}:
        assert len(points) == SMALL.size


@pytest.mark.parametrize("engine", ENGINES)
def test_a_space_of_one_point_is_searched(engine):
    trials = list(drive(pilot_of(engine, zen.Space(n=[5], k=["a"]).where("n == 5")), cost))
    assert [dict(trial.point) for trial in trials] == [{"n": 5, "k": "a"}]


@pytest.mark.parametrize(
    ("engine", "answer"),
    [
        pytest.param(e, answer, marks=_marks(slow=e in THOROUGH and answer not in ((), (None,))))
        for e in ENGINES
        for answer in [(), (None,), (math.nan,), (math.inf,), (-math.inf,)]
    ],
)
def test_an_engine_survives_that_everything_fails(engine, answer):
    loop = pilot_of(engine, SPACES["bound"], 50)
    trials = list(drive(loop, lambda _point: answer))
    assert loop.best is None
    assert len(trials) > 10


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_asks_again_if_it_is_asked_to(engine):
    if engine in WITHOUT_CHANCE | {"hill", "simplex", "gradient"}:
        pytest.skip("names every point once anyway, or ends where nothing is better")
    problem = SearchProblem(SMALL, Directions(), 1, 100, allow_repeats=True)
    loop = SearchLoop(make(engine, problem), Directions(), Budget(100), allow_repeats=True)
    points = [trial.point for trial in drive(loop, cost)]
    assert len(points) == 100 > len(set(points))


@pytest.mark.parametrize(
    ("engine", "direction"),
    [
        pytest.param(
            e, d, marks=_marks(slow=e in MADE_OF_OTHERS or (d == "maximize" and e != "ga"))
        )
        for e in ENGINES
        if e not in WITHOUT_CHANCE
        for d in ("minimize", "maximize")
    ],
)
def test_engines_that_learn_find_better_points_than_the_median_of_chance(engine, direction):
    budget = 100 if engine in THOROUGH else 300
    space = zen.Space(**{f"x{i}": zen.span(0, 40) for i in range(4)})
    sign = 1 if direction == "minimize" else -1

    def bowl(point):
        return (sign * sum((value - 11) ** 2 for value in point.values()),)

    directions = Directions(direction)

    def best(name, seed):
        loop = pilot_of(name, space, budget, seed, directions=directions)
        list(drive(loop, bowl))
        return directions.losses(loop.best.scores)[0]

    if engine in IGNORANT:
        assert best(engine, 1) < 500
    else:
        found = np.median([best(engine, seed) for seed in range(3)])
        assert found < np.median([best("random", seed) for seed in range(9)])


@pytest.mark.parametrize("engine", [e for e in names() if describe(e).multi_objective])
def test_engines_for_several_goals_find_a_front(engine):
    directions = Directions(["minimize", "maximize"])
    space = zen.Space(x=zen.span(0, 19), y=zen.span(0, 19))
    loop = pilot_of(engine, space, 120, directions=directions)
    list(drive(loop, lambda p: (p["x"] + p["y"], p["x"] - (p["y"] - 3) ** 2)))
    front = loop.front
    assert len(front) > 1
    assert front[0].scores[0] == min(trial.scores[0] for trial in loop.trials)


def test_engines_for_one_goal_refuse_several():
    with pytest.raises(zen.ZenError, match="takes one objective"):
        pilot_of("ga", SMALL, directions=Directions(["minimize", "minimize"]))


PROGRAM = """
import json, sys
from search.test_laws import ENGINES, SPACES, cost, pilot_of
from zenturio.search import drive
print(json.dumps({
    engine: [list(t.point.values()) for t in drive(pilot_of(engine, SPACES["bound"]), cost)]
    for engine in ENGINES
}))
"""


def test_other_processes_make_the_same_trials():
    elsewhere = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": "tests", "PYTHONHASHSEED": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    ).stdout
    here = io.StringIO()
    with redirect_stdout(here):
        exec(PROGRAM, {})
    assert json.loads(elsewhere) == json.loads(here.getvalue())
    assert all(json.loads(elsewhere).values())
