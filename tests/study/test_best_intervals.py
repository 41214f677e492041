"""Intervals of the best points: of many noisy scores the best one is lucky, and says so."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from zenturio.experiment import MachineKind
from zenturio.experiment.aggregates import RepeatNoise, median_interval, noise_of
from zenturio.query.statistics import student
from zenturio.study.best_points import (
    MEAN,
    MEDIAN,
    PointRanking,
    RankedScore,
    ScoredPoint,
    leaders_of,
)


def ranking_of(repeats, count=3):
    """The ranking of points with these *repeats*, the lowest mean first."""
    ordered = sorted(repeats, key=np.mean)
    points = tuple(
        ScoredPoint({"n": n}, {"t": float(np.mean(r))}, len(r), len(r), len(r))
        for n, r in enumerate(ordered[:count])
    )
    leaders = tuple(RankedScore(float(np.mean(r)), len(r)) for r in ordered)
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


def scored(n, used, ok, tried, **more):
    return ScoredPoint({"n": n}, {"t": n / 2}, used, ok, tried, **more)


def quantile(share, freedom):
    """A quantile that tells with what it was asked for."""
    assert (share, freedom) == (pytest.approx(1 - 0.05 / 8), 5)
    return 2.0


def test_what_a_reader_should_know_of_the_points_is_said():
    points = (scored(1, 5, 5, 5), scored(2, 2, 3, 5), scored(3, 1, 3, 3), scored(4, 3, 3, 4))
    ranking = PointRanking(points, 4, "t")
    assert ranking.notes == (
        "row 2 counts 2 of 5 repeats: 2 did not succeed and 1 has no number for the objective",
        "row 3 counts 1 of 3 repeats: 2 have no number for the objective",
        "row 4 counts 3 of 4 repeats: 1 did not succeed",
    )
    median = replace(ranking, aggregates={"t": "median"}, has_repeats=True)
    assert median.lacks_repeats
    assert not replace(median, points=(scored(1, 6, 6, 6),)).lacks_repeats
    assert replace(median, points=(scored(1, 1, 1, 1), scored(2, 1, 1, 2))).lacks_repeats
    assert not replace(median, has_repeats=False).lacks_repeats
    assert not replace(median, points=()).lacks_repeats
    assert not replace(median, aggregates={"t": "mean"}).lacks_repeats
    assert not replace(median, aggregates={"t": "median", "u": "median"}).lacks_repeats


def test_a_point_may_be_the_best_where_its_interval_reaches_that_of_the_best():
    leaders = (
        RankedScore(1.0, 6, (0.0, 2.0)), RankedScore(1.5, 6, (2.0, 3.0)), RankedScore(1.6, 6, (2.1, 3.0)),
        RankedScore(1.7, 5, None), RankedScore(0.5, 6, (-1.0, 0.0)), RankedScore(0.4, 6, (-1.0, -0.1)),
    )  # fmt: skip
    points = (scored(1, 6, 6, 6, interval=(0.5, 1.5)), scored(2, 6, 6, 6))
    ranking = PointRanking(points, 4, "t", leaders=leaders)
    assert ranking.certainty(quantile) == (
        [(0.5, 1.5), None],
        [True, True, False, True, True, False],
    )
    assert replace(ranking, leaders=()).certainty(quantile) == ([(0.5, 1.5), None], [])


def test_the_facts_of_points_are_those_of_their_certainty():
    points = (
        scored(1, 2, 3, 4, machine=MachineKind("Epyc", 8), round=2, stopped="narrow"),
        scored(2, 4, 4, 4, deviations={"t": 0.5}),
    )  # fmt: skip
    leaders = (RankedScore(1.0, 1), RankedScore(3.8, 1), RankedScore(3.9, 1))
    noise = RepeatNoise(1.0, 5, False)
    ranking = PointRanking(
        points, 4, "t", 3, noise=noise, leaders=leaders, aggregates={"t": "mean"}
    )  # fmt: skip
    first, second = ranking.facts(quantile)
    assert first == {
        "parameters": {"n": 1}, "scores": {"t": 0.5}, "aggregates": {"t": "mean"}, "std": {},
        "used": 2, "ok": 3, "tried": 4, "interval": (-1.0, 3.0), "as_good": True, "left_out": 3,
        "machine": "Epyc, 8 cores", "round": 2, "stopped": "narrow",
    }  # fmt: skip
    assert (second["interval"], second["as_good"], second["std"]) == (
        (pytest.approx(1.8), pytest.approx(5.8)), True, {"t": 0.5}
    )  # fmt: skip
    assert (second["machine"], second["round"]) == (None, None)
    assert second.keys() == first.keys() - {"stopped"}
    assert ranking.certainty(quantile)[1] == [True, True, False]  # 2 * sqrt(2) lies between
    plain = replace(ranking, noise=None, leaders=())
    assert [facts["as_good"] for facts in plain.facts(quantile)] == [None, None]


def test_leaders_of_medians_have_intervals_for_all_points():
    many = [float(n) for n in range(40)]
    six = [3.0, 1.0, 2.0, 6.0, 5.0, 4.0]
    first, second, third = leaders_of([(19.5, many), (3.5, six), (9.0, [9.0] * 5)], MEDIAN, 10)
    assert first == (19.5, 40, median_interval(many, 1 - 0.05 / 10))
    assert second == (3.5, 6, (1.0, 6.0))  # too few for that level
    assert third == (9.0, 5, None)
    assert leaders_of([(3.5, six), (9.0, [9.0])], MEAN, 10) == (
        RankedScore(3.5, 6),
        RankedScore(9.0, 1),
    )


def test_what_is_never_negative_has_no_interval_below_0():
    assert noise_of([[0.0, 0.0, 0.0], [1.0, 5.0, 0.0]]).interval(0.0, 3, 2.0)[0] == 0.0
    assert noise_of([[0.0, 0.0, 0.0], [1.0, 5.0, -1.0]]).interval(0.0, 3, 2.0)[0] < 0.0
