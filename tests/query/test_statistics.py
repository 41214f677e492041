import math
import statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from zenturio.query.statistics import (
    deviation,
    half_width,
    mean,
    mean_interval,
    median,
    student,
)

# Abramowitz & Stegun, table 26.10 and any table of Student's t: 97.5 % quantiles.
TABLE = {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 5: 2.57058, 10: 2.22814, 29: 2.04523,
         30: 2.04227, 120: 1.97993, 1000: 1.96234, 1001: 1.96234, 100000: 1.95998}  # fmt: skip


@pytest.mark.parametrize("freedom", TABLE)
def test_quantiles_of_students_t_are_those_of_the_tables(freedom):
    assert student(0.975, freedom) == pytest.approx(TABLE[freedom], rel=4e-6)


@pytest.mark.parametrize("freedom", [1, 2, 3, 7.5, 19, 19.25, 200, 5000])
@pytest.mark.parametrize("probability", [0.6, 0.9, 0.975, 0.9995])
def test_quantiles_of_students_t_are_those_of_scipy(freedom, probability):
    expected = scipy.stats.t.ppf(probability, freedom)
    assert student(probability, freedom) == pytest.approx(expected, rel=1e-6)


@given(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=30, unique=True))
def test_the_interval_of_the_mean_is_that_of_scipy(values):
    expected = scipy.stats.t.interval(
        0.95, len(values) - 1, statistics.fmean(values), scipy.stats.sem(values)
    )
    size = max(map(abs, values))
    assert mean_interval(values) == pytest.approx(expected, rel=1e-9, abs=1e-9 * size)


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


@pytest.mark.parametrize("count", [1_000, 1_001, 2_500])
@pytest.mark.parametrize("values", ["reals", "zeros of both signs", "two", "with NaN", "huge"])
def test_the_median_of_a_long_array_is_that_of_its_list(values, count):
    chance = np.random.default_rng(count)
    numbers = {
        "reals": chance.normal(size=count),
        "zeros of both signs": chance.choice([0.0, -0.0], count),
        "two": chance.choice([1.0, 1.0 + 2**-52], count),
        "with NaN": chance.choice([1.0, 2.0, 3.0, math.nan], count),
        "huge": chance.uniform(0.5, 1.0, count) * 1.7e308,
    }[values]
    assert math.copysign(1, median(numbers)) == math.copysign(1, median(numbers.tolist()))
    assert np.array_equal(median(numbers), median(numbers.tolist()), equal_nan=True)
