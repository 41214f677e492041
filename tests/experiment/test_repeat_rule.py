"""When the repeats of a point suffice, against scipy and by simulation."""

import random
from itertools import accumulate

import numpy as np
import pytest
from scipy import stats

from zenturio.experiment.aggregates import (
    RepeatRule,
    depends_on_order,
    median_interval,
    outliers,
    outside_median_interval,
    relative_width,
    serial_correlation,
)

RULE = RepeatRule(6, 50, 0.02)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_interval_of_the_median_is_that_of_the_quantile_test(confidence):
    """Scipy finds the order statistics by quantiles of the binomial distribution."""
    draw = random.Random(1)
    for count in [*range(1, 60), 200, 999, 5000]:
        values = [draw.gauss(0, 1) for _ in range(count)]
        reference = stats.quantile_test(values, p=0.5).confidence_interval(confidence)
        interval = median_interval(values, confidence)
        if interval is None:
            assert np.isnan([reference.low, reference.high]).all(), count
        else:
            assert interval == (reference.low, reference.high), count


@pytest.mark.parametrize("count", [10_000, 10_001, 20_000, 10_000_000])
def test_the_interval_of_the_median_of_very_many_values_is_that_of_the_binomial_test(count):
    for confidence in (0.9, 0.95, 0.99):
        expected = stats.binom.ppf((1 - confidence) / 2, count, 0.5) - 1
        assert outside_median_interval(count, confidence) == expected


def test_a_rule_is_read_from_the_notes_of_the_study_that_goes_by_this_metric():
    notes = {"until": {"metric": "time", "least": 6, "within": 0.02}, "repeat": 50}
    assert RepeatRule.of(notes, "time") == RULE
    assert RepeatRule.of(notes, "energy") is None
    assert RepeatRule.of({"repeat": 50}, "time") is None


def test_outliers_are_beyond_three_robust_deviations():
    draw = random.Random(6)
    for count in (2, 9, 40):
        values = [draw.gauss(10, 1) for _ in range(count)] + [30.0]
        scale = stats.median_abs_deviation(values, scale="normal")
        expected = [abs(value - np.median(values)) > 3 * scale for value in values]
        assert outliers(values) == expected
        assert outliers(values)[-1]
    assert outliers([]) == []
    assert outliers([5, 5, 5, 9]) == [False] * 4


def test_five_values_have_no_interval_and_six_have():
    assert median_interval([1, 2, 3, 4, 5]) is None
    assert median_interval([3, 1, 2, 4, 5, 6]) == (1, 6)


def test_the_serial_correlation_is_that_of_the_ranks():
    draw = random.Random(2)
    for count in (2, 7, 30):
        values = [draw.choice([1.0, 1.0, 2.0, 3.5]) for _ in range(count - 1)] + [9.0]
        ranks = stats.rankdata(values) - (count + 1) / 2
        expected = float((ranks[1:] * ranks[:-1]).sum() / (ranks**2).sum())
        assert serial_correlation(values) == pytest.approx(expected)
    assert serial_correlation([4, 4, 4]) is None


def test_a_point_runs_at_least_as_often_as_it_must_and_stops_at_two_narrow_looks():
    values = [10.0, 10.01, 9.99, 10.0, 10.01, 9.99]
    assert RULE.stop(values[:5], 5) is None
    assert RULE.stop(values, 6) is None, "five values had no interval, so this is the first look"
    assert RULE.stop([*values, 10.0], 7) == "narrow"
    assert RULE.stop([*values, 10.0], 3) is None


def test_a_point_that_stays_wide_runs_as_often_as_it_may():
    draw = random.Random(3)
    values = [10 + draw.gauss(0, 3) for _ in range(50)]
    assert {RULE.stop(values[:count], count) for count in range(1, 50)} == {None}
    assert RULE.stop(values, 50) == "wide"


def test_a_point_without_a_number_runs_no_more_often_than_it_must():
    assert RULE.stop([], 5) is None
    assert RULE.stop([], 6) == "no value"


def test_runs_that_failed_are_not_among_the_values():
    """With 5 values of 6 runs there is no interval yet."""
    assert RULE.stop([10.0] * 5, 6) is None
    assert RULE.stop([10.0] * 7, 8) == "narrow"


def test_a_drift_is_measured_to_the_limit_and_named():
    values = [10 + 0.001 * number for number in range(50)]
    assert relative_width(values[:7]) < 0.02
    assert {RULE.stop(values[:count], count) for count in range(1, 50)} == {None}
    assert RULE.stop(values, 50) == "dependent"


def test_a_median_of_zero_is_no_share_of_anything():
    assert relative_width([-1, 0, 0, 0, 0, 1]) == float("inf")
    assert relative_width([0] * 6) == 0
    assert relative_width([1] * 5) is None


def test_independent_values_are_rarely_called_dependent():
    draw = random.Random(4)
    flagged = sum(depends_on_order([draw.gauss(0, 1) for _ in range(30)]) for _ in range(2000))
    assert 60 < flagged < 150, "about 5%"
    walks = [list(accumulate(draw.gauss(0, 1) for _ in range(30))) for _ in range(100)]
    assert sum(map(depends_on_order, walks)) > 90


@pytest.mark.parametrize("noise", ["white", "lognormal"])
def test_the_interval_at_the_stop_holds_the_median_as_often_as_it_says(noise):
    """Looked at after each run: 95% less what two looks cannot cure, plus three deviations."""
    draw = random.Random(5)
    sample = {
        "white": lambda: 100 + draw.gauss(0, 3),
        "lognormal": lambda: 100 * draw.lognormvariate(0, 0.04),
    }
    hits = 0
    for _ in range(400):
        values = []
        while RULE.stop(values, len(values)) is None:
            values.append(sample[noise]())
        low, high = median_interval(values)
        hits += low <= 100 <= high
    assert hits >= 400 * 0.95 - 3 * (400 * 0.95 * 0.05) ** 0.5
