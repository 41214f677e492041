"""Each aggregate against its definition in exact fractions, and where there is no answer."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.experiment.aggregates import (
    default_aggregate,
    deviation,
    mean,
    median,
    quantile,
    total,
)

numbers = st.lists(st.floats(-1e6, 1e6) | st.integers(-(2**70), 2**70), min_size=1, max_size=9)


@given(numbers)
def test_sums_and_means_are_those_of_exact_fractions(values):
    exact = sum(map(Fraction, values))
    assert total(values) == pytest.approx(float(exact), rel=1e-15, abs=1e-300)
    assert mean(values) == pytest.approx(float(exact / len(values)), rel=1e-14, abs=1e-300)


@given(st.lists(st.integers(-(2**70), 2**70), min_size=2, max_size=9))
def test_the_deviation_of_integers_is_exact_however_large_they_are(values):
    centre = Fraction(sum(values), len(values))
    variance = sum((value - centre) ** 2 for value in values) / (len(values) - 1)
    assert deviation(values) == pytest.approx(math.sqrt(variance), rel=1e-12)


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), st.sampled_from([1e-200, 1.0, 1e200])
)
def test_a_deviation_neither_overflows_nor_vanishes(values, scale):
    values = [value * scale for value in values]
    centre = sum(map(Fraction, values)) / len(values)
    parts = [(Fraction(value) - centre) / Fraction(scale) for value in values]
    expected = math.sqrt(sum(part**2 for part in parts) / (len(values) - 1))
    assert deviation(values) == pytest.approx(expected * scale, rel=1e-9, abs=1e-9 * scale)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([2.0, 4.0], math.sqrt(2)), ([5, 5, 5], 0.0), ([0.1, 0.1], 0.0), ([1, 2, 3, 4], math.sqrt(5 / 3)),
     ([1.7e308, -1.7e308], 1.7e308 * math.sqrt(2)), ([], None), ([3.0], None), ([1.0, math.inf], None)],
)  # fmt: skip
def test_deviations(values, expected):
    assert deviation(values) == (expected and pytest.approx(expected, rel=1e-15))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], None), ([7], 7.0), ([1, 2], 1.5), ([3, 1, 2], 2.0), ([4, 1, 3, 2], 2.5),
     ([1.7e308, 1.7e308], 1.7e308), ([1.0, math.inf, math.inf], math.inf)],
)  # fmt: skip
def test_medians(values, expected):
    assert median(values) == expected
    assert median(list(reversed(values))) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], 0.0), ([1e308, 1e308], math.inf), ([-1e308, -1e308], -math.inf), ([1e308, 1e308, -1e308], 1e308),
     ([10**400, -(10**400), 3], 3.0), ([math.inf, -math.inf], None), ([math.inf, 1.0], math.inf)],
)  # fmt: skip
def test_sums_beyond_the_greatest_float(values, expected):
    assert total(values) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [([2**53 + 1, -(2**53)], 1.0), ([-(2**53) - 1, 2**53], -1.0), ([2**60 + 1, -float(2**60)], 1.0),
     ([-(2**70) - 1, 2.0**70, 0.5], -0.5), ([10**400, math.inf], math.inf), ([10**400, -math.inf, 1], -math.inf),
     ([10**400, math.inf, -math.inf], None)],
)  # fmt: skip
def test_integers_that_no_float_holds_are_added_exactly(values, expected):
    assert total(values) == total(list(reversed(values))) == expected
    assert mean(values) == (None if expected is None else expected / len(values))


def test_means_beyond_the_greatest_float():
    assert mean([1.7e308, 1.7e308]) == 1.7e308
    assert mean([]) is None
    assert mean([math.inf, -math.inf]) is None


def test_what_is_as_wide_as_all_floats_has_an_infinite_deviation():
    greatest = math.nextafter(math.inf, 0)
    assert deviation([greatest, -greatest]) == math.inf


@pytest.mark.parametrize(
    "values",
    [
        [1e9 + 0.1, 1e9 + 0.2, 1e9 + 0.7],
        [0.9, 0.9 + 1e-12, 0.9 + 7e-12],
        [2**70, 2**70 + 1, 2**70 + 5],
        [1.0, math.nextafter(1.0, 2.0)],  # their mean is rounded to one of them
    ],
)
def test_values_that_differ_little_keep_the_digits_of_their_deviation(values):
    exact = [Fraction(value) for value in values]
    centre = sum(exact) / len(exact)
    variance = sum((value - centre) ** 2 for value in exact) / (len(exact) - 1)
    assert deviation(values) == pytest.approx(math.sqrt(variance), rel=1e-12, abs=0)


@pytest.mark.parametrize("unit", ["d", "h", "min", "s", "sec", "seconds", "ms", "us", "ns"])
def test_times_are_shown_by_their_median(unit):
    assert default_aggregate(unit) == "median"


def test_micro_may_be_the_sign_or_the_letter_and_rates_are_no_times():
    assert {default_aggregate(unit) for unit in ("\u00b5s", "\u03bcs")} == {"median"}
    assert {default_aggregate(unit) for unit in ("", "1/s", "J", "GFLOP/s")} == {"mean"}


def test_what_lies_between_a_number_and_an_infinite_one_is_infinite():
    assert quantile([-math.inf, 5.0], 0.25) == -math.inf
    assert quantile([5.0, math.inf], 0.25) == math.inf
    assert quantile([-math.inf, math.inf], 0.25) is None
