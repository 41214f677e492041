import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.query.statistics import (
    RESAMPLES,
    _resampled_means,
    deviation,
    half_width,
    mean,
    shift,
    student,
)

# Abramowitz & Stegun, table 26.10 and any table of Student's t: 97.5 % quantiles.
TABLE = {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 5: 2.57058, 10: 2.22814, 29: 2.04523,
         30: 2.04227, 120: 1.97993, 1000: 1.96234, 1001: 1.96234, 100000: 1.95998}  # fmt: skip


@pytest.mark.parametrize("freedom", TABLE)
def test_quantiles_of_students_t_are_those_of_the_tables(freedom):
    assert student(0.975, freedom) == pytest.approx(TABLE[freedom], rel=4e-6)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_the_deviation_is_that_of_a_sample(values):
    assert deviation(values) == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-6)


def test_one_value_has_no_deviation_and_nothing_has_no_mean():
    assert math.isnan(deviation([3.0]))
    assert math.isnan(half_width([3.0]))
    assert math.isnan(mean([]))


def test_an_interval_of_the_mean_holds_it_as_often_as_promised():
    random = np.random.default_rng(1)
    held = 0
    for _ in range(2000):
        sample = random.normal(10, 3, 5)
        held += abs(sample.mean() - 10) <= half_width(sample)
    assert 0.935 <= held / 2000 <= 0.965


def test_the_interval_of_a_ratio_holds_it_nearly_as_often_as_promised():
    random = np.random.default_rng(2)
    held = 0
    for _ in range(500):
        first, second = random.normal(10, 1, 6), random.normal(12, 1, 6)
        _, ratio = shift(first, second, random)
        low, high = ratio
        held += low <= 1.2 <= high
    assert 0.92 <= held / 500 <= 0.99


def test_the_interval_of_a_difference_holds_it_nearly_as_often_as_promised():
    random = np.random.default_rng(2)
    held = 0
    for _ in range(500):
        first, second = random.normal(-1, 1, 6), random.normal(1, 1, 6)
        low, high = shift(first, second, random).difference
        held += low <= 2 <= high
    assert 0.92 <= held / 500 <= 0.99


def test_only_positive_samples_have_a_ratio():
    random = np.random.default_rng(0)
    ones = np.ones(5)
    assert shift(np.zeros(5), ones, random) == ((1.0, 1.0), None)
    assert shift(ones, -ones, random) == ((-2.0, -2.0), None)
    assert shift(ones, 2 * ones, random) == ((1.0, 1.0), (2.0, 2.0))


def test_samples_without_spread_differ_by_nothing_or_by_all():
    random = np.random.default_rng(0)
    assert shift(np.full(7, 0.1), np.full(11, 0.1), random) == ((0.0, 0.0), (1.0, 1.0))
    low, high = shift(np.full(7, 1e308), np.full(9, -1e308), random).difference
    assert low == high == -math.inf


@pytest.mark.parametrize("count", [1, 5, 7, 1003, 140_000])
def test_samples_are_drawn_some_at_a_time_as_all_at_once(count, monkeypatch):
    monkeypatch.setattr("zenturio.query.statistics.RESAMPLES", 40)
    values = np.random.default_rng(3).random(count)
    drawn = np.random.default_rng(1).integers(0, count, (40, count))
    means = _resampled_means(values, np.random.default_rng(1))
    assert (means == values[drawn].mean(axis=1)).all()
    assert RESAMPLES > 40
