"""Signed ranks are those of scipy, and looking again and again keeps the level."""

import itertools
import math
import statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from zenturio.experiment.signed_ranks import (
    EXACT_BLOCKS,
    BlockPlan,
    Interval,
    decide_in_looks,
    expected_half_width,
    fewest_blocks,
    hodges_lehmann,
    is_clear,
    signed_rank_level,
    signed_rank_quantile,
)


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
    ranks = range(1, 1001)  # each counts with probability 1/2
    near = statistics.NormalDist(sum(ranks) / 2, math.sqrt(sum(rank**2 for rank in ranks) / 4))
    assert signed_rank_level(1000, q) == pytest.approx(near.cdf(q + 0.5), rel=1e-9)


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


def test_looks_grow_by_half_and_end_at_the_most():
    assert BlockPlan(8, 50).sizes == (8, 12, 18, 28, 50)
    assert BlockPlan(8, 8).sizes == (8,)
    assert BlockPlan(10, 12).sizes == (10, 12)


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 10, 0.05 / 50])
def test_looks_spend_the_level_and_no_more(alpha):
    looks = BlockPlan().looks(alpha)
    assert sum(look.alpha for look in looks) == pytest.approx(alpha)
    for look in looks:
        assert signed_rank_quantile(look.blocks, look.alpha) is not None
    if alpha < 0.01:  # eight blocks cannot decide at so small a level: their share is not lost
        assert looks[0].blocks > 8


def differs(interval):
    low, high = interval
    return low > 0 or high < 0


@pytest.mark.parametrize("heavy", [False, True])
def test_looking_five_times_says_different_of_equal_programs_in_at_most_5_percent(heavy):
    """Of 600 comparisons 5% are 30; more than 47 (3.2 standard errors) is no chance."""
    random = np.random.default_rng(5)
    wrong = 0
    for _ in range(600):
        sizes = random.pareto(1.5, 50) if heavy else random.normal(size=50)
        signs = random.choice([-1.0, 1.0], 50)
        differences = dict(enumerate((sizes * signs).tolist(), 1))
        wrong += decide_in_looks(differences, BlockPlan(), 0.05, differs, reached=50).is_decided
    assert wrong <= 47


def test_a_look_that_decides_is_the_last_one():
    differences = {block: 0.1 + block / 1000 for block in range(1, 51)}
    at_first = decide_in_looks(differences, BlockPlan(), 0.05, differs, reached=50)
    assert (at_first.blocks, at_first.is_decided) == (8, True)
    # What comes later does not change it.
    later = {block: d if block <= 8 else -d for block, d in differences.items()}
    assert decide_in_looks(later, BlockPlan(), 0.05, differs, reached=50) == at_first


def test_between_two_looks_the_earlier_one_counts():
    random = np.random.default_rng(1)
    differences = dict(enumerate(random.normal(size=50).tolist(), 1))
    first_fifteen = {block: d for block, d in differences.items() if block <= 15}
    at_fifteen = decide_in_looks(first_fifteen, BlockPlan(), 0.05, differs, reached=15)
    assert at_fifteen == decide_in_looks(differences, BlockPlan(), 0.05, differs, reached=12)
    assert at_fifteen.blocks == 12
    before = decide_in_looks(first_fifteen, BlockPlan(), 0.05, differs, reached=5)
    assert (before.estimate.interval, before.is_decided) == (None, False)
    assert math.isfinite(before.estimate.value)


@pytest.mark.parametrize("blocks", [10, 20, 50])
def test_the_width_of_an_interval_is_foretold(blocks):
    random = np.random.default_rng(blocks)
    widths = []
    for _ in range(200):
        low, high = hodges_lehmann(random.normal(size=blocks), 0.05).interval
        widths.append((high - low) / 2)
    foretold = [
        expected_half_width(random.normal(size=20).tolist(), blocks, seed=seed)
        for seed in range(20)
    ]
    assert statistics.median(foretold) == pytest.approx(statistics.median(widths), rel=0.15)


def test_too_few_blocks_foretell_nothing():
    assert expected_half_width([0.1] * 20, 5) is None
    assert expected_half_width([], 20) is None


@pytest.mark.parametrize("ended", [1, 5, 6, 9, 14, 28, 49])
def test_a_plan_that_time_ended_spends_what_is_left_at_its_last_look(ended):
    plan = BlockPlan(ended=ended)
    assert plan.sizes == (*(size for size in BlockPlan().sizes if size < ended), ended)
    looks = plan.looks(0.05)
    if ended < 6:
        assert looks == ()
    else:
        assert looks[-1].blocks == ended
        assert math.fsum(look.alpha for look in looks) == pytest.approx(0.05)
        assert looks[:-1] == BlockPlan().looks(0.05)[: len(looks) - 1]


@pytest.mark.slow
def test_a_comparison_that_time_ends_says_different_of_equal_programs_in_at_most_5_percent():
    """The time is that of the runs themselves: a neighbour makes some of them long."""
    draw, wrong, count = np.random.default_rng(8), 0, 2000
    for _ in range(count):
        times = np.exp(draw.normal(0, 0.3, (50, 2)))
        ended = max(1, int(np.searchsorted(np.cumsum(times.sum(axis=1)), 40.0)))
        by_block = dict(enumerate(np.log(times[:ended, 1] / times[:ended, 0]).tolist(), 1))
        looked_at = decide_in_looks(
            by_block, BlockPlan(ended=ended), 0.05, lambda i: i.low > 0 or i.high < 0, reached=ended
        )
        wrong += looked_at.is_decided
    assert wrong / count < 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)


def test_no_sum_of_ranks_is_below_zero_and_one_choice_of_signs_gives_zero():
    for blocks in (1, 3, 10):
        assert signed_rank_level(blocks, -1) == 0.0
        assert signed_rank_level(blocks, 0) == pytest.approx(0.5**blocks)


def test_without_differences_there_is_no_estimate_and_nothing_is_decided():
    value, blocks, _, is_decided = decide_in_looks({}, BlockPlan(), 0.05, differs, reached=50)
    assert math.isnan(value.value)
    assert (value.interval, blocks, is_decided) == (None, 0, False)


@pytest.mark.parametrize(
    ("low", "high", "clear"),
    [
        (0.1, 0.2, True), (-0.2, -0.1, True), (-0.05, 0.05, True), (-0.02, 0.01, True),
        (-0.06, 0.05, False), (-0.05, 0.06, False), (0.0, 0.2, False), (-0.2, 0.0, False),
    ],
)  # fmt: skip
def test_an_interval_is_clear_on_one_side_of_zero_or_within_the_margin(low, high, clear):
    assert is_clear(Interval(low, high), 0.05) is clear
