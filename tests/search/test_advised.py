"""Searches with results of another version or machine, which may help and must not harm."""

import numpy as np
import pytest

import zenturio as zen
from zenturio.errors import InputError
from zenturio.search import make
from zenturio.search.ask_and_tell import Optimization
from zenturio.search.transfer_learning import TransferSearch, rank_correlation
from zenturio.testing.engines import EngineContract

SPACE = zen.Space(a=range(30), b=range(30), c=range(30))


def cost(point):
    return float((point["a"] - 12) ** 2 + (point["b"] - 4) ** 2 + (point["c"] - 21) ** 2)


def source(sign=1, shift=0.0):
    """Results of another machine: slower by a third, and one of them is nearly the best."""
    points = SPACE.sample(150, 3)
    near = SPACE.find({"a": 12, "b": 5, "c": 21})
    return {point: sign * (4 / 3 * cost(point) + shift) for point in (*points, near)}


def trials(learn_from=None, seed=1, budget=30, engine="auto"):
    return zen.search(
        SPACE, cost, engine=engine, budget=budget, seed=seed, learn_from=learn_from
    ).trials  # fmt: skip


@pytest.mark.parametrize("engine", ["random", pytest.param("auto", marks=pytest.mark.slow)])
class TestAdvisedEngines(EngineContract):
    """With advice the promises of engines hold all the same."""

    may_propose_again = True  # its engine may come to a point of the advice, too

    @pytest.fixture(autouse=True)
    def _chosen(self, engine):
        self.engine = engine

    def search(self, problem):
        size = problem.space.size if problem.space.finite else 20
        points = problem.space.sample(min(size, 20), 8)
        sign = 1.0 if problem.directions.names[0] == "minimize" else -1.0
        advice = {point: (sign * at,) * len(problem.directions) for at, point in enumerate(points)}
        return TransferSearch(make(self.engine, problem), problem, advice)

    @pytest.mark.slow
    def test_a_search_whose_process_was_killed_goes_on_in_another_one(self):
        super().test_a_search_whose_process_was_killed_goes_on_in_another_one()


def test_results_that_agree_show_the_best_point_early():
    for seed in range(3):
        advised = [trial.scores[0] for trial in trials(source(), seed, engine="random")]
        assert min(advised[:12]) == 1.0


def test_results_that_say_the_opposite_change_nothing():
    assert trials(source(sign=-1), budget=15) == trials(None, budget=15)


def test_at_most_one_trial_in_ten_is_spent_on_advice_that_is_no_improvement():
    # The ranks agree, but the best are known beforehand to be worse than what is found at once.
    advice = {point: score for point, score in source().items() if score > 300}
    proposed = [trial.point for trial in trials(advice, engine="exhaustive", budget=40)]
    plain = [trial.point for trial in trials(None, engine="exhaustive", budget=40)]
    advised = [point for point in proposed if point in advice and point not in plain]
    best, wasted = np.inf, 0
    for point in proposed:
        wasted += point in advised and cost(point) >= best
        best = min(best, cost(point))
    assert 1 <= wasted <= 4


def test_a_saved_search_goes_on_with_its_advice(tmp_path):
    search = Optimization(SPACE, engine="random", budget=30, learn_from=source())
    for _ in range(10):
        trial = search.ask()
        search.tell(trial, cost(trial.point))
    search.save(tmp_path / "search.json")
    loaded = Optimization.load(tmp_path / "search.json", SPACE)
    assert [loaded.ask().point for _ in range(1)] == [search.ask().point for _ in range(1)]


def test_advice_is_for_one_objective():
    with pytest.raises(InputError, match="one objective, and there are 2"):
        zen.search(
            SPACE, lambda p: (cost(p), 1.0), ["minimize", "maximize"], "random",
            budget=3, learn_from={SPACE.point(0): (1.0, 1.0)},
        )  # fmt: skip


def test_the_rank_correlation_is_spearmans():
    # Ranks 1, 2.5, 2.5, 4, 5 and 2, 1, 4, 3, 5: as scipy.stats.spearmanr has it.
    pairs = np.array([[0.1, 20.0], [0.3, 10.0], [0.3, 40.0], [7.0, 30.0], [9.0, 50.0]])
    assert rank_correlation(pairs) == pytest.approx(0.6668859288553503)
    assert rank_correlation(np.array([[1.0, 2.0], [1.0, 3.0]])) == 0.0
