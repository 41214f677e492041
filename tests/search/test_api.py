"""Search in one call: objectives of every kind, and what comes back."""

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import zenturio as zen
from zenturio.errors import InputError, PlaceError
from zenturio.search import Directions, Trial, names
from zenturio.search.api import scores_of

SPACE = zen.Space(n=[8, 1, 4, 2, 16], m=zen.span(1, 30), k=["a", "b", "c"])
BOUND = SPACE.where("n * m <= 64")
WIDE = zen.Space(**{f"x{i}": zen.span(0, 99) for i in range(6)})


def cost(point):
    return abs(point["n"] - 4) + abs(point["m"] - 11) + (point["k"] != "b")


@njit
def bowl(genes):
    total = 0.0
    for i in range(len(genes)):
        total += (genes[i] - 11.0) ** 2
    return total


@njit
def hill(genes):
    return -bowl(genes)


def test_the_example_finds_the_best():
    found = zen.search(zen.Space(x=range(-9, 10)), lambda point: point["x"] ** 2, engine="hill")
    assert found.best == Trial(zen.Space(x=range(-9, 10)).find({"x": 0}), (0.0,))


@pytest.mark.parametrize("jobs", [1, 3])
def test_threads_change_nothing(jobs):
    found = zen.search(SPACE, cost, engine="hill", budget=80, seed=5, jobs=jobs)
    alone = zen.search(SPACE, cost, engine="hill", budget=80, seed=5)
    assert list(found.trials) == list(alone.trials)
    assert (found.count, found.stop_reason) == (80, "budget")


@pytest.mark.parametrize("engine", ["ga", "model"])
def test_engines_that_propose_ahead_make_the_same_trials_for_as_many_threads(engine):
    first, second = (
        zen.search(SPACE, cost, engine=engine, budget=40, seed=5, jobs=3) for _ in range(2)
    )
    assert list(first.trials) == list(second.trials)
    assert (first.count, first.stop_reason) == (40, "budget")


def test_columns_are_evaluated_many_at_a_time():
    def batched(columns):
        return abs(columns["n"] - 4) + abs(columns["m"] - 11) + (columns["k"] != "b")

    found = zen.search(BOUND, batched, budget=80, seed=5, takes="columns")
    assert found.trials == zen.search(BOUND, cost, budget=80, seed=5).trials


def test_several_goals_come_back_as_a_front():
    def both(columns):
        return np.stack([columns["n"] + columns["m"], columns["n"] * columns["m"]], axis=1)

    directions = ("minimize", "maximize")
    found = zen.search(SPACE, both, directions, "nsga2", budget=150, takes="columns")
    assert [trial.scores for trial in found.front] == sorted(t.scores for t in found.front)
    assert len(found.front) > 2


def test_columns_of_the_wrong_shape_are_refused():
    with pytest.raises(InputError, match="of shape"):
        zen.search(SPACE, lambda columns: np.zeros(3), budget=10, takes="columns")


def test_what_is_known_is_not_tried_again():
    before = zen.search(SPACE, cost, budget=40, seed=2)
    known = {trial.point: trial.scores for trial in before.trials}
    tried = []
    again = zen.search(
        SPACE, lambda p: tried.append(p) or cost(p), budget=60, seed=2, cached=known, population=20
    )
    assert not known.keys() & set(tried)
    assert again.count == 60


def test_rules_and_settings_reach_the_search():
    found = zen.search(SPACE, cost, engine="random", budget=400, stops="target=2")
    assert (found.stop_reason, found.best.scores[0] <= 2) == ("target", True)
    with pytest.raises(InputError, match="did you mean 'population'"):
        zen.search(SPACE, cost, populatoin=3)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("space", [WIDE, WIDE.where("x0 <= x1", "x2 != 11")])
@pytest.mark.parametrize("engine", ["ga", "hill", "anneal", "simplex"])
def test_a_kernel_finds_what_a_function_of_points_finds(sign, space, engine):
    kernel, objective = (bowl, "minimize") if sign == 1 else (hill, "maximize")

    def function(point):
        return sign * sum((value - 11.0) ** 2 for value in point.values())

    if engine == "ga":
        settings = {"population": 30, "generations": 40, "steady": 100}
        slow = zen.search(space, function, objective, engine, seed=4, **settings)
        fast = zen.search(space, kernel, objective, engine, seed=4, **settings)
        assert fast.best == slow.best
    else:
        fast = zen.search(space, kernel, objective, engine, seed=4, budget=600)
        assert fast.count == 600
    assert fast.best.scores == (float(function(fast.best.point)),)
    assert all(space.contains(trial.point) for trial in fast.trials)
    assert fast.best == fast.trials[-1]


@given(st.integers(1, 400), st.sampled_from(["ga", "random", "anneal"]))
def test_a_kernel_spends_its_budget_exactly(budget, engine):
    assert zen.search(WIDE, bowl, engine=engine, budget=budget).count == budget


def test_a_kernel_keeps_the_trials_that_were_improvements():
    found = zen.search(WIDE, bowl, budget=2000, seed=3)
    scores = [trial.scores[0] for trial in found.trials]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores) == len(found.numbers) < found.count
    assert found.trials[1:3] == list(found.trials)[1:3]
    assert found.frame()["trial"].tolist() == list(found.numbers)


@pytest.mark.parametrize("engine", ["ga", "hill"])
def test_a_kernel_stops_at_its_target(engine):
    found = zen.search(WIDE, bowl, engine=engine, budget=10**6, stops="target=5000")
    assert (found.stop_reason, found.best.scores[0] <= 5000) == ("target", True)
    assert found.count == found.numbers[-1]


def test_a_kernel_that_fails_everywhere_has_no_best():
    @njit
    def nothing(genes):
        return np.nan * genes[0]

    for engine in ("ga", "random"):
        found = zen.search(WIDE, nothing, engine=engine, budget=100)
        assert (found.best, list(found.trials), found.count) == (None, [], 100)
        assert found.frame().empty


def test_kernels_that_cannot_be_used_are_refused():
    @njit
    def names_its_genes(genes):
        return genes.x

    @njit("int64(int64[::1])")
    def counts(genes):
        return genes[0]

    @njit("float64(float64[::1])")
    def real(genes):
        return genes[0]

    for kernel, told in [
        (names_its_genes, "cannot be compiled"),
        (counts, "returns a float"),
        (real, "cannot be compiled"),
    ]:
        with pytest.raises(InputError, match=told):
            zen.search(WIDE, kernel, budget=10)
    with pytest.raises(InputError, match="engines that work on genes"):
        zen.search(WIDE, bowl, engine="exhaustive")
    with pytest.raises(InputError, match="ends by its budget"):
        zen.search(WIDE, bowl, budget="10s")
    with pytest.raises(InputError, match="jobs=1"):
        zen.search(WIDE, bowl, jobs=2)


def test_frames_hold_every_trial():
    found = zen.search(
        zen.Space(score=[3, 1, 2]), lambda p: None if p["score"] == 3 else p["score"], "maximize",
        "exhaustive",
    )  # fmt: skip
    frame = found.frame()
    assert frame.columns.tolist() == ["trial", "score", "score_", "best"]
    assert frame["score"].tolist() == [3, 1, 2]
    assert frame["score_"].tolist()[1:] == [1, 2]
    assert math.isnan(frame["best"][0])
    assert frame["best"].tolist()[1:] == [1, 2]


@pytest.mark.parametrize(
    ("answer", "scores"),
    [
        (3, (3.0,)),
        (True, (1.0,)),
        (None, ()),
        ((1, None), (1.0, None)),
        (np.float32(0.5), (0.5,)),
        (np.array([1, 2]), (1.0, 2.0)),
        (np.array(7), (7.0,)),
        ([10**400, -(10**400)], (math.inf, -math.inf)),
        (10**400, (math.inf,)),
    ],
)
def test_objectives_may_answer_in_many_ways(answer, scores):
    assert scores_of(answer) == scores


@pytest.mark.parametrize("answer", ["fast", object(), {"a": 1}, ["fast"], [1, [2]]])
def test_an_answer_that_is_no_number_is_refused(answer):
    with pytest.raises(InputError, match="returned"):
        scores_of(answer)


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_score_for_each_goal_is_expected(jobs):
    with pytest.raises(InputError, match="returned 2 scores for 1 directions"):
        zen.search(SPACE, lambda point: (1, 2), budget=5, jobs=jobs)
    two = ("minimize", "maximize")
    with pytest.raises(InputError, match="returned 1 scores for 2 directions"):
        zen.search(SPACE, lambda point: 1, two, engine="random", budget=5, jobs=jobs)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": -1}, "is not a seed"),
        ({"seed": "first"}, "is not a seed"),
        ({"jobs": 0}, "jobs=0"),
        ({"takes": "column"}, "did you mean 'columns'"),
        ({"elite": 4, "population": 4}, "no room for children"),
        ({"elite": 20, "budget": 30}, "no room for children"),
    ],
)
def test_what_no_search_can_be_made_with_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        zen.search(SPACE, cost, **{"budget": 20} | options)


def test_no_point_is_tried_behind_the_end_of_a_search():
    tried = []

    def slow(point):
        tried.append(point)
        time.sleep(0.02)
        return cost(point)

    found = zen.search(SPACE, slow, engine="random", budget="0.1s")
    assert found.stop_reason == "time"
    assert len(tried) == found.count < 30
    tried.clear()
    found = zen.search(SPACE, slow, engine="random", budget=300, stops="target=20")
    assert found.stop_reason == "target"
    assert len(tried) == found.count


def test_a_sampler_that_lacks_a_package_says_which(monkeypatch):
    def lacks(self, sets):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    import optuna

    monkeypatch.setattr(optuna.study.Study, "ask", lacks)
    with pytest.raises(PlaceError, match=r"pip install.* torch"):
        zen.search(SPACE, cost, engine="optuna:TPE", budget=20)


@pytest.mark.parametrize(
    ("variant", "engine"),
    [("BruteForce", "exhaustive"), ("Grid", "exhaustive"), ("PartialFixed", "optuna:TPE")],
)
@pytest.mark.parametrize("spelled", [str, str.lower, lambda name: f"{name}Sampler"])
def test_samplers_that_choose_nothing_themselves_are_refused_with_what_to_take(
    variant, engine, spelled
):
    with pytest.raises(InputError, match=f"optuna:{variant} cannot be used here") as caught:
        zen.search(SPACE, cost, engine=f"optuna:{spelled(variant)}", budget=5)
    assert caught.value.diagnostics[0].hint == f"use engine {engine}"


@pytest.mark.parametrize("variant", ["TPQ", "Base", "BaseGrid"])
def test_a_sampler_that_optuna_lacks_is_refused(variant):
    with pytest.raises(InputError, match=f"Optuna has no sampler '{variant}'"):
        zen.search(SPACE, cost, engine=f"optuna:{variant}", budget=5)


def test_an_error_of_the_objective_is_its_callers():
    def broken(point):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        zen.search(SPACE, broken)


def test_a_search_of_a_continuous_space_comes_near_its_best():
    space = zen.Space(x=zen.uniform(-5, 5), y=zen.loguniform(0.01, 100))

    def bowl_of(point):
        return (point["x"] - 1.25) ** 2 + math.log(point["y"] / 3) ** 2

    for engine in ("hill", "simplex", "gradient"):
        found = zen.search(space, bowl_of, engine=engine, budget=400, seed=1)
        assert found.best.scores[0] < 1e-6, engine


def test_goals_keep_their_directions():
    assert Directions(["Minimize", "maximize"]).names == ("minimize", "maximize")
    assert Directions("maximize").scores((-3.0,)) == (3.0,)
    assert Directions("maximize").scores((math.inf,)) == ()


def test_all_engines_are_listed():
    assert {"ga", "random", "exhaustive", "sobol", "latin", "one-at-a-time", "anneal", "hill",
            "simplex", "gradient", "nsga2", "optuna", "portfolio"} <= set(names())  # fmt: skip


@pytest.mark.parametrize("kind", ["convergence", "slice", "parallel"])
def test_a_result_is_drawn_by_its_frame(kind):
    space = zen.Space(a=zen.span(1, 9), b=["x", "y"])
    found = zen.search(space, lambda p: p["a"] ** 2, "maximize", "random", budget=12, seed=1)
    drawn = zen.chart(found.frame(), kind)
    assert drawn.counts == "12 of 12 trials"
    assert drawn.y.name == "score"
