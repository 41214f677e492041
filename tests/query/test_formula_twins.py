"""Statistical formulas against scipy and statsmodels; `test_formulas` lists all of them."""

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats
from statsmodels.regression.linear_model import OLS, WLS
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW
from statsmodels.tsa.stattools import acf

from zenturio.experiment import aggregates
from zenturio.experiment.aggregates import depends_on_order, relative_width
from zenturio.experiment.signed_ranks import (
    fewest_blocks,
    hodges_lehmann,
    rank_sum_chance,
    signed_rank_quantile,
)
from zenturio.query.aggregates import _deviation
from zenturio.query.fit_certainty import chance_of_constant, prediction_interval
from zenturio.query.formula_shapes import FitPoints
from zenturio.query.regression import _likelier_noise, _tries, fit
from zenturio.query.scaling import _schwarz, _turning_point, _universal, welch_half_width
from zenturio.query.sensitivity import _percentiles, elementary_effects, variance_shares
from zenturio.query.statistics import _beta, noise_of
from zenturio.study.paired import bisect_and_history

SIZES = np.array([1.0, 2, 3, 4, 6, 8, 12, 16])


def line(seed, sizes=SIZES, noise=0.2):
    random = np.random.default_rng(seed)
    return {"n": sizes, "y": 3 + 2 * sizes + noise * random.normal(size=len(sizes))}


def design(table):
    return np.column_stack([np.ones(len(table["n"])), table["n"]])


@pytest.mark.parametrize("count", [6, 9, 25, 60])
def test_the_interval_of_a_median_is_that_of_the_quantile_test(count):
    values = np.random.default_rng(count).exponential(size=count)
    test = scipy.stats.quantile_test(values, p=0.5)
    low, high = aggregates.median_interval(values.tolist())
    expected = test.confidence_interval(0.95)
    assert (low, high) == (expected.low, expected.high)
    middle = np.median(values)
    assert relative_width(values.tolist()) == max(middle - low, high - middle) / middle


def test_outliers_are_three_robust_deviations_from_the_median():
    values = np.random.default_rng(2).standard_t(2, 200)
    spread = scipy.stats.median_abs_deviation(values) / scipy.stats.norm.ppf(0.75)
    expected = np.abs(values - np.median(values)) > 3 * spread
    assert 0 < expected.sum() < 100
    assert aggregates.outliers(values.tolist()) == expected.tolist()


@pytest.mark.parametrize("drift", [0.0, 0.05])
def test_serial_correlation_is_the_autocorrelation_of_ranks(drift):
    values = np.random.default_rng(3).normal(size=50) + drift * np.arange(50)
    expected = acf(scipy.stats.rankdata(values), nlags=1)[1]
    assert aggregates.serial_correlation(values.tolist()) == pytest.approx(expected, abs=1e-12)
    is_dependent = (expected + 1 / 50) * math.sqrt(50) > 1.65
    assert depends_on_order(values.tolist()) == is_dependent == (drift > 0)


def test_deviations_of_parts_are_that_of_the_whole():
    values = np.random.default_rng(4).normal(5, 2, 90)
    parts = np.split(values, [10, 35])
    said = _deviation([p.std(ddof=1) for p in parts], [p.sum() for p in parts], [10, 25, 55])
    assert said == pytest.approx(scipy.stats.tstd(values), rel=1e-12)


def test_the_noise_of_one_value_is_that_of_differences():
    values = np.random.default_rng(5).normal(size=101)
    differences = np.diff(values)
    # With their negatives they have the median 0.
    size = scipy.stats.median_abs_deviation(np.concatenate([differences, -differences]))
    sure = scipy.stats.norm.ppf(0.75) * math.sqrt(2)
    assert noise_of(values) == pytest.approx(size / sure, rel=1e-4)


@pytest.mark.parametrize("noise", ["equal", "relative"])
def test_intervals_of_coefficients_are_those_of_weighted_least_squares(noise):
    table = line(6)
    model = fit(table, "y", ["n"], kinds=["linear"], noise=noise)
    weights = 1 / table["y"] ** 2 if noise == "relative" else 1.0
    expected = WLS(table["y"], design(table), weights).fit().conf_int()
    assert np.array(model.intervals) == pytest.approx(expected, rel=1e-9)


def test_a_shape_is_judged_by_its_errors_at_points_that_were_left_out():
    table = line(7)
    data = FitPoints({"n": SIZES}, table["y"], np.ones(len(SIZES)), "equal")
    influence = OLS(table["y"], design(table)).fit().get_influence()
    press = influence.resid_press
    (tried,) = (t for t in _tries(["linear"], data) if t.shape.size == 2)
    assert tried.left_out == pytest.approx(press**2, rel=1e-9)
    price = len(SIZES) * math.log(press @ press) + 2 * math.log(len(SIZES))
    assert tried.price() == pytest.approx(price + 2 * math.log(tried.among), rel=1e-12)
    model = fit(table, "y", ["n"], kinds=["linear"], noise="equal")
    assert model.error == pytest.approx(math.sqrt(np.mean(press**2)), rel=1e-9)


@pytest.mark.parametrize("power", [0, 0.4, 0.6, 1])
def test_the_likelier_noise_is_that_of_independent_contrasts(power):
    """Of k repeats, k - 1 contrasts have no mean: their likelihood is that of the deviations."""
    random = np.random.default_rng(8)
    means, repeats = np.array([1.0, 5.0, 30.0, 80.0]), 6
    values = means[:, None] + means[:, None] ** power * random.normal(0, 0.1, (4, repeats))
    centres = values.mean(axis=1)
    contrasts = values @ scipy.linalg.helmert(repeats).T

    def likelihood(scales):
        scaled = contrasts / scales[:, None]
        spread = math.sqrt(np.mean(scaled**2))
        return scipy.stats.norm.logpdf(contrasts, 0, spread * scales[:, None]).sum()

    expected = "relative" if likelihood(centres) > likelihood(np.ones(4)) else "equal"
    off = (values - centres[:, None]).ravel()
    assert _likelier_noise(off, np.repeat(centres, repeats), np.full(24, repeats)) == expected
    assert expected == ("relative" if power > 0.5 else "equal")


def test_the_chance_of_a_constant_is_that_of_its_permutations():
    table = line(9, noise=20.0)

    def missed(y):
        """Leave out each point, and fit a line to the others."""
        return sum(
            (y[i] - np.polyval(np.polyfit(np.delete(SIZES, i), np.delete(y, i), 1), SIZES[i])) ** 2
            for i in range(len(SIZES))
        )

    random = np.random.default_rng(0)
    as_good = sum(
        missed(table["y"][random.permutation(len(SIZES))]) <= missed(table["y"]) for _ in range(39)
    )
    chance = chance_of_constant(table, "y", ["n"], kinds=["linear"], noise="equal", permutations=39)
    assert chance == (as_good + 1) / 40 > 1 / 40


def test_a_band_is_that_of_refits_without_each_point():
    table = line(10, np.arange(1.0, 41))
    n, y = table["n"], table["y"]
    lows, highs = [], []
    for i in range(len(n)):
        refit = np.polyfit(np.delete(n, i), np.delete(y, i), 1)
        off = abs(y[i] - np.polyval(refit, n[i]))
        lows.append(np.polyval(refit, 50) - off)
        highs.append(np.polyval(refit, 50) + off)
    model = fit(table, "y", ["n"], kinds=["linear"], noise="equal")
    # 41 * 2.5% = 1.025: the outermost on each side.
    assert prediction_interval(table, model, {"n": 50}) == pytest.approx((min(lows), max(highs)))


def test_welchs_interval_is_that_of_unequal_variances():
    random = np.random.default_rng(11)
    first, second = random.normal(0, 1, 7), random.normal(0, 3, 12)
    means = CompareMeans(DescrStatsW(first), DescrStatsW(second))
    low, high = means.tconfint_diff(usevar="unequal")
    assert 2 * welch_half_width(first, second) == pytest.approx(high - low, rel=1e-9)


def test_schwarzs_criterion_differs_by_a_constant_from_that_of_least_squares():
    table = line(12)
    shapes = (np.ones((len(SIZES), 1)), design(table))
    fits = [OLS(table["y"], shape).fit() for shape in shapes]
    said = [_schwarz(f.ssr, len(SIZES), size) for size, f in enumerate(fits, 1)]
    assert said[1] - said[0] == pytest.approx(fits[1].bic - fits[0].bic, rel=1e-9)


def test_gunthers_speedup_is_greatest_where_it_says():
    c = np.array([0.05, 0.002])
    found = scipy.optimize.minimize_scalar(
        lambda q: -float(_universal(np.array([q]), c)[0]), bounds=(1, 200), method="bounded"
    )
    assert _turning_point(c.tolist()) == pytest.approx(found.x, rel=1e-5)


def test_shares_of_variance_are_sobols_indices():
    random = np.random.default_rng(13)
    a, b = random.normal(size=(2, 3, 512))

    def function(x):
        return x[0] + 2 * x[1] * x[2] + x[2]

    mixed = np.array([np.where(np.arange(3)[:, None] == i, b, a) for i in range(3)])
    values = {"f_A": function(a)[None], "f_B": function(b)[None]}
    values["f_AB"] = np.array([function(m) for m in mixed])[:, None]
    expected = scipy.stats.sobol_indices(func=values, n=512)
    rows = [values["f_A"], values["f_B"], values["f_AB"][:, 0]]
    shares, _ = variance_shares(np.concatenate(rows).ravel(), ["x", "y", "z"])
    at = ["x", "y", "z"].index
    assert {s.factor: s.total for s in shares} == pytest.approx(
        {s.factor: float(expected.total_order.ravel()[at(s.factor)]) for s in shares}, rel=1e-9
    )
    # scipy subtracts the mean of all blocks, we that of A and B: another rounding of the same sum.
    assert {s.factor: s.first for s in shares} == pytest.approx(
        {s.factor: float(expected.first_order.ravel()[at(s.factor)]) for s in shares}, abs=0.02
    )


def test_an_elementary_effect_is_described_by_its_changes():
    random = np.random.default_rng(14)
    changes = random.normal(1, 2, 40)
    values = np.column_stack([np.zeros(40), changes])
    (effect,), _ = elementary_effects(values, [[0]] * 40, ["a"])
    described = DescrStatsW(changes, ddof=1)
    assert (effect.mean, effect.spread) == pytest.approx((described.mean, described.std))
    assert effect.size == pytest.approx(DescrStatsW(np.abs(changes)).mean)
    low, high = DescrStatsW(np.abs(changes)).tconfint_mean()  # nearly normal: nearly the same
    assert [*effect.size_interval] == pytest.approx([low, high], abs=0.15)


def test_percentiles_of_samples_hold_the_middle_95():
    samples = scipy.stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    assert [*_percentiles(samples)] == pytest.approx(scipy.stats.norm.interval(0.95), abs=0.01)


@pytest.mark.parametrize(("x", "a", "b"), [(0.2, 0.5, 3), (0.9, 4, 0.5), (0.5, 40, 30), (1, 2, 2)])
def test_the_incomplete_beta_function_is_that_of_scipy(x, a, b):
    assert _beta(x, 1 - x, a, b) == pytest.approx(scipy.special.betainc(a, b, x), rel=1e-12)


def test_the_evidence_of_a_bisection_is_students():
    at, other = 0.7, -2.3
    density = scipy.stats.t(bisect_and_history.FREEDOM, scale=0.5).logpdf
    said = bisect_and_history._log_density(at, 0.5) - bisect_and_history._log_density(other, 0.5)
    assert said == pytest.approx(density(at) - density(other), rel=1e-12)
    sample = np.random.default_rng(15).normal(size=31)
    expected = scipy.stats.median_abs_deviation(sample) * 1.4826
    assert bisect_and_history._spread(sample.tolist()) == pytest.approx(expected)


def test_intervals_of_many_points_agree_with_corrected_tests():
    random = np.random.default_rng(16)
    samples = [random.normal(shift, 1, 16) for shift in (0, 0.5, 1, 1.5, 2)]
    p_values = [scipy.stats.wilcoxon(sample, method="exact").pvalue for sample in samples]
    rejected, *_ = multipletests(p_values, 0.05, method="bonferroni")
    for sample, is_rejected in zip(samples, rejected, strict=True):
        low, high = hodges_lehmann(sample, 0.05 / len(samples)).interval
        assert (low > 0 or high < 0) == is_rejected
    assert set(rejected) == {False, True}


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.05 / 50])
def test_so_many_blocks_are_the_fewest_that_the_test_of_scipy_can_reject(alpha):
    def least_p(blocks):
        return scipy.stats.wilcoxon(np.arange(1.0, blocks + 1), method="exact").pvalue

    blocks = fewest_blocks(alpha)
    assert least_p(blocks) <= alpha < least_p(blocks - 1)
    assert signed_rank_quantile(blocks, alpha) is not None
    assert signed_rank_quantile(blocks - 1, alpha) is None


@pytest.mark.parametrize("ties", [False, True])
def test_the_rank_sum_test_is_that_of_scipy(ties):
    random = np.random.default_rng(17)
    for shift in (0, 0.3, 1, 3):
        first, second = random.normal(size=9), random.normal(shift, 1, 12)
        if ties:
            first, second = first.round(), second.round()
        expected = scipy.stats.mannwhitneyu(first, second, method="asymptotic").pvalue
        assert rank_sum_chance(first.tolist(), second.tolist()) == pytest.approx(expected, rel=1e-9)
    assert rank_sum_chance([1.0, 1.0], [1.0]) == 1.0
