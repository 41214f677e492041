"""Quantities as a person reads them."""

import pytest

from zenturio.quantities import amount, count, duration, rate, size


def test_counts_have_their_thousands_apart_and_large_ones_a_power():
    assert [count(n) for n in (7, 349_853, 10**30)] == ["7", "349,853", "1.00e+30"]


def test_an_amount_has_its_noun_in_the_plural_unless_it_is_one():
    assert [amount(n, "point") for n in (0, 1, 2000)] == ["0 points", "1 point", "2,000 points"]


def test_times_have_the_two_units_that_matter():
    assert [duration(s) for s in (0.42, 12, 200, 18_720, 273_600)] == [
        "0.42 s", "12 s", "3 min 20 s", "5 h 12 min", "3 d 4 h",
    ]  # fmt: skip


@pytest.mark.parametrize("never", [None, float("inf"), float("nan")])
def test_what_no_time_is_known_of_is_empty(never):
    assert duration(never) == ""


def test_rates_are_in_the_unit_in_which_there_is_at_least_one():
    assert [rate(r) for r in (820, 0.2, 0.001)] == ["820/s", "12/min", "3.6/h"]


def test_sizes_are_in_the_largest_unit_of_which_there_is_one():
    assert [size(n) for n in (999, 1_234_567, 5 * 10**15)] == ["999 B", "1.23 MB", "5e+03 TB"]
