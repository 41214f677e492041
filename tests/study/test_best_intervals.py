"""Intervals of the best points: of many noisy scores the best one is lucky, and says so."""

import math

import numpy as np
import pytest
from scipy import stats

from zenturio.experiment.aggregates import noise_of
from zenturio.query.statistics import student
from zenturio.study.best_points import MEDIAN, Leader, PointRanking, ScoredPoint, leaders_of


def ranking_of(repeats, count=3):
    """The ranking of points with these *repeats*, the lowest mean first."""
    ordered = sorted(repeats, key=np.mean)
    points = tuple(
        ScoredPoint({"n": n}, {"t": float(np.mean(r))}, len(r), len(r), len(r))
        for n, r in enumerate(ordered[:count])
    )
    leaders = tuple(Leader(float(np.mean(r)), len(r)) for r in ordered)
    return PointRanking(points, len(repeats), "t", noise=noise_of(repeats), leaders=leaders)


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_the_interval_of_the_luckiest_of_many_points_holds_its_true_score(noise):
    held = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        true = rng.uniform(10, 14, 40)
        repeats = [(mean * np.exp(noise * rng.normal(size=3))).tolist() for mean in true]
        best = int(np.argmin([np.mean(r) for r in repeats]))
        (interval, *_), alike = ranking_of(repeats).certainty(student)
        assert interval is not None
        held += interval[0] <= true[best] * math.exp(noise**2 / 2) <= interval[1]
        assert alike[0]
    assert held >= 54  # 90%


def test_a_point_that_is_worse_beyond_noise_is_not_as_good():
    rng = np.random.default_rng(6)
    repeats = [(mean * np.exp(0.02 * rng.normal(size=4))).tolist() for mean in (10, 10.05, 20, 30)]
    _, alike = ranking_of(repeats).certainty(student)
    assert alike == [True, True, False, False]


@pytest.mark.parametrize(("points", "count"), [(3, 8), (40, 6), (40, 30)])
def test_the_point_that_is_truly_best_is_among_those_that_may_be(points, count):
    missed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        # All points are the same but one, which is a little better; a tenth of runs is disturbed.
        values = 10 * np.exp(0.05 * rng.normal(size=(points, count)))
        values *= np.where(rng.random((points, count)) < 0.1, 3, 1)
        values[0] *= 0.999
        order = np.argsort(np.median(values, axis=1), kind="stable")
        ranked = ((float(np.median(values[at])), values[at].tolist()) for at in order)
        ranking = PointRanking((), points, "t", leaders=leaders_of(ranked, MEDIAN, points))
        _, alike = ranking.certainty(student)
        missed += not alike[order.tolist().index(0)]
    assert missed <= 2  # 5%


def test_a_median_that_is_greater_beyond_its_interval_is_not_as_good():
    rng = np.random.default_rng(6)
    rows = [(mean * np.exp(0.02 * rng.normal(size=12))).tolist() for mean in (10, 10.02, 20, 30)]
    ranked = [(float(np.median(row)), row) for row in rows]
    ranking = PointRanking((), 4, "t", leaders=leaders_of(ranked, MEDIAN, 4))
    assert ranking.certainty(student) == ([], [True, True, False, False])
    assert leaders_of([(1.0, [1.0] * 5), *ranked], MEDIAN, 5) == ()


def test_the_pooled_deviation_is_that_of_an_analysis_of_variance():
    rng = np.random.default_rng(3)
    repeats = [rng.normal(mean, 2, size).tolist() for mean, size in ((-3, 2), (0, 5), (9, 3))]
    noise = noise_of(repeats)
    within = sum((len(r) - 1) * np.var(r, ddof=1) for r in repeats) / 7
    assert (noise.freedom, noise.is_relative) == (7, False)
    assert noise.deviation == pytest.approx(math.sqrt(within))
    low, high = noise.interval(5.0, 4, student(0.975, noise.freedom))
    half = stats.t.ppf(0.975, 7) * math.sqrt(within / 4)
    assert (low, high) == pytest.approx((5 - half, 5 + half))


@pytest.mark.parametrize("repeats", [[[1.0], [2.0]], [[1.0, 1.0], [2.0, 2.0]], []])
def test_nothing_is_said_of_noise_that_nobody_measured(repeats):
    assert noise_of(repeats) is None
    assert PointRanking((), len(repeats), "t").certainty(student) == ([], [])
