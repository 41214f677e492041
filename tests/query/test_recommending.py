"""The best setting is told with how sure that is, and with those that may be as good."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from zenturio.errors import InputError
from zenturio.query import recommend


def tried(means, repeats=10, noise=0.1, seed=0, costs=None):
    """Settings ``a`` = 0, 1, ... with these means."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "a": np.repeat(np.arange(len(means)), repeats),
            "y": np.repeat(means, repeats) + noise * random.normal(size=len(means) * repeats),
            "cost": np.repeat(costs or [1] * len(means), repeats),
        }
    )
    table.attrs["parameters"] = ["a"]
    return table


def order(found):
    return [each.values["a"] for each in found.settings]


def test_settings_are_sorted_by_their_means():
    table = tried([1, 3, 2], noise=0.01)
    assert order(recommend(table, "y", ["cost"])) == [1, 2, 0]
    assert order(recommend(table, "y", ["cost"], minimize=True)) == [0, 2, 1]


def test_of_equal_settings_the_cheaper_one_is_best():
    found = recommend(tried([1, 1, 0], noise=0, costs=[5, 3, 1]), "y", ["cost"])
    assert order(found) == [1, 0, 2]
    assert [each.alike for each in found.settings] == [True, True, False]
    assert found.alike == (found.settings[1],)


def test_an_interval_is_students():
    table = tried([1.0])
    best = recommend(table, "y", ["cost"]).best
    values = table["y"].to_numpy()
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    assert best.interval == pytest.approx((low, high))


def test_who_is_told_from_the_best_is_told_by_welchs_test():
    table = tried([1.0, 0.95, 0.9, 0.8, 0.5], seed=3)
    found = recommend(table, "y", ["cost"])
    groups = {a: group["y"].to_numpy() for a, group in table.groupby("a")}
    best = groups[found.best.values["a"]]
    for each in found.settings[1:]:
        test = stats.ttest_ind(
            best, groups[each.values["a"]], equal_var=False, alternative="greater"
        )
        assert each.alike == (test.pvalue >= 0.05 / 4)
    assert {each.alike for each in found.settings[1:]} == {True, False}


def test_the_truly_best_is_hardly_ever_told_from_the_best_that_was_seen():
    wrong = 0
    for seed in range(100):
        found = recommend(tried([1.0] * 20, seed=seed), "y", ["cost"])
        wrong += not next(each.alike for each in found.settings if each.values["a"] == 7)
    assert wrong <= 10


def test_one_run_of_each_says_nothing_of_its_noise():
    found = recommend(tried([3.0, 1.0], repeats=1), "y", ["cost"])
    assert [each.alike for each in found.settings] == [True, True]
    assert math.isnan(found.best.interval.low)
    assert found.result().rows[0][2:4] == (None, None)


def test_the_cheapest_is_one_that_may_be_as_good():
    found = recommend(tried([1.0, 0.999, 0.1], noise=0.05, costs=[9, 4, 1]), "y", ["cost"])
    assert found.cheapest.costs == {"cost": 4}


def test_settings_without_a_number_are_left_out():
    table = tried([1.0, 2.0])
    table.loc[table["a"] == 1, "y"] = math.nan
    assert order(recommend(table, "y", ["cost"])) == [0]
    with pytest.raises(InputError, match="no number"):
        recommend(table.assign(y=math.nan), "y", ["cost"])
