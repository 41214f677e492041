import itertools
import math
import statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from zenturio.query.statistics import (
    EXACT_BLOCKS,
    deviation,
    fewest_blocks,
    half_width,
    hodges_lehmann,
    mean,
    signed_rank_level,
    signed_rank_quantile,
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


@pytest.mark.parametrize("count", [6, 9, 12, 20])
def test_levels_of_signed_ranks_are_those_of_scipy(count):
    random = np.random.default_rng(count)
    for _ in range(20):
        sample = random.normal(0.3, 1, count)
        expected = scipy.stats.wilcoxon(sample, method="exact")
        level = 2 * signed_rank_level(count, int(expected.statistic))
        assert min(1.0, level) == pytest.approx(expected.pvalue, rel=1e-12)


def test_many_blocks_have_the_normal_levels():
    exact, count = signed_rank_level(EXACT_BLOCKS, 8500), EXACT_BLOCKS
    spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    near = statistics.NormalDist(count * (count + 1) / 4, spread).cdf(8500.5)
    assert exact == pytest.approx(near, rel=0.01)
    q = signed_rank_quantile(1000, 0.05)
    assert 2 * signed_rank_level(1000, q) <= 0.05 < 2 * signed_rank_level(1000, q + 1)


def test_the_interval_holds_what_the_test_of_scipy_does_not_reject():
    random = np.random.default_rng(4)
    for count in (6, 10, 15):
        sample = random.exponential(1, count)
        low, high = hodges_lehmann(sample, 0.05).interval
        for shift in np.linspace(-1, 3, 101):
            p = scipy.stats.wilcoxon(sample - shift, method="exact").pvalue
            assert (p > 0.05) == (low <= shift <= high), (count, shift)


def test_the_interval_is_that_of_all_signs():
    """All 2^n signs are as likely where nothing differs: the interval misses zero in 5% at most."""
    sizes = np.array([0.3, 1.1, 2.0, 2.2, 5.0, 7.5, 9.1])
    missed = 0
    for signs in itertools.product((-1, 1), repeat=len(sizes)):
        low, high = hodges_lehmann(sizes * signs, 0.05).interval
        missed += not low <= 0 <= high
    q = signed_rank_quantile(len(sizes), 0.05)
    assert missed / 2 ** len(sizes) == 2 * signed_rank_level(len(sizes), q) <= 0.05


@pytest.mark.parametrize(("points", "count"), [(1, 6), (10, 9), (50, 11), (1000, 16), (10_000, 19)])
def test_points_need_so_many_blocks(points, count):
    assert fewest_blocks(0.05 / points) == count
    assert signed_rank_quantile(count, 0.05 / points) is not None
    assert hodges_lehmann(np.ones(count - 1), 0.05 / points).interval is None


@given(st.lists(st.floats(-100, 100), min_size=6, max_size=20), st.randoms())
def test_the_estimate_turns_with_its_signs_and_forgets_the_order(values, random):
    value, (low, high) = hodges_lehmann(values, 0.05)
    shuffled = list(values)
    random.shuffle(shuffled)
    assert hodges_lehmann(shuffled, 0.05) == (value, (low, high))
    assert hodges_lehmann([-v for v in values], 0.05) == (-value, (-high, -low))
