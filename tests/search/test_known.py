"""Searches that begin with known points: these train the engine, and use no budget."""

import numpy as np
import pytest

import zenturio as zen
from zenturio.errors import InputError
from zenturio.search import (
    Budget,
    Directions,
    SearchLoop,
    SearchProblem,
    StopRules,
    Trial,
    drive,
    make,
)

SPACE = zen.Space(a=range(30), b=range(30), c=range(30), kind=["u", "v", "w"])


def cost(point):
    """A narrow valley."""
    a, b, c = point["a"], point["b"], point["c"]
    return float((a - b) ** 2 + (b - c - 5) ** 2 + abs(a - 17) / 4 + 20 * (point["kind"] != "v"))


def known_points(count=200):
    """Random points, without the best tenth of them."""
    points = sorted(SPACE.sample(count, 5), key=cost)
    return {point: cost(point) for point in points[count // 10 :]}


@pytest.mark.parametrize("engine", ["auto", "model", "ga", "hill", "random", "exhaustive"])
def test_known_points_use_no_budget_and_are_not_tried_again(engine):
    known = known_points(60)
    calls = []

    def objective(point):
        calls.append(point)
        return cost(point)

    result = zen.search(SPACE, objective, engine=engine, budget=25, seed=1, known=known)
    assert len(calls) == len(result.trials) == 25
    assert not known.keys() & set(calls)
    assert result.best.scores[0] <= min(known.values())


@pytest.mark.parametrize("engine", ["auto", pytest.param("model", marks=pytest.mark.slow)])
def test_a_search_with_known_points_is_better_than_one_without(engine):
    known = known_points()
    warm, cold = (
        [
            zen.search(SPACE, cost, engine=engine, budget=12, seed=seed, known=points).best.scores[
                0
            ]
            for seed in range(6)
        ]
        for points in (known, None)
    )
    assert sum(w < c for w, c in zip(warm, cold, strict=True)) >= 5
    assert np.median(warm) < min(known.values())


@pytest.mark.parametrize("engine", ["ga", "hill", "anneal", "simplex", "gradient"])
def test_engines_without_a_model_start_from_the_best_known_point(engine):
    space = zen.Space(x=range(1000), y=range(1000))
    best = space.find({"x": 500, "y": 500})
    result = zen.search(
        space, lambda p: float((p["x"] - 503) ** 2 + (p["y"] - 501) ** 2), engine=engine,
        budget=60, seed=4, known={best: (10.0,)},
    )  # fmt: skip
    assert any(abs(t.point["x"] - 500) + abs(t.point["y"] - 500) < 300 for t in result.trials[8:])
    assert result.best.scores[0] <= 10


def test_a_known_point_that_meets_the_target_ends_the_search():
    loop = SearchLoop(
        make("random", SearchProblem(SPACE)), Directions(), Budget(9), StopRules(target=3.0),
        known={SPACE.point(0): (2.0,)},
    )  # fmt: skip
    assert list(drive(loop, lambda point: (cost(point),))) == []
    assert (loop.stop_reason, loop.best.scores) == ("target", (2.0,))


def test_a_compiled_objective_takes_no_known_points():
    numba = pytest.importorskip("numba")
    with pytest.raises(InputError, match="no known points"):
        zen.search(SPACE, numba.njit(lambda row: 1.0), known={SPACE.point(0): 1.0})


@pytest.mark.parametrize(("count", "models"), [(60, {60}), (100, {60, 200})])
def test_with_many_known_points_a_model_of_more_of_them_takes_every_second_turn(count, models):
    known = known_points(count * 10 // 9)
    engine = make("model", SearchProblem(SPACE, budget=30, slots=1))
    engine.tell(Trial(point, (score,)) for point, score in known.items())
    first = engine.ask(1)
    assert engine._models.keys() == {max(models)}
    engine.tell([Trial(first[0], (cost(first[0]),))])
    engine.ask(1)
    assert engine._models.keys() == models


def test_of_many_known_points_a_model_takes_the_best_some_of_all_ranks_and_every_trial():
    known = known_points(200)
    task = SearchProblem(SPACE, budget=30, slots=1)
    engine = make("model", task)
    engine.tell(Trial(point, (score,)) for point, score in sorted(known.items(), key=str))
    for _ in range(12):
        (point,) = engine.ask(1)
        engine.tell([Trial(point, (cost(point),))])
    _, losses = engine.evaluated_rows()
    chosen = engine._training(losses, 60)
    ranks = np.argsort(np.argsort(losses[:180]))[chosen[chosen < 180]]
    assert sorted(ranks)[:30] == list(range(30))
    assert len(ranks) == 60
    assert np.diff(sorted(ranks)[29:]).max() <= 6
    assert chosen[60:].tolist() == list(range(180, len(losses)))
