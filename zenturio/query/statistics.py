"""How sure a number is: deviations of samples, Student's intervals, signed ranks of blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from zenturio.experiment import aggregates

CONFIDENCE = 0.95

EXACT_BLOCKS = 200
"""Up to so many blocks the distribution of signed ranks is computed exactly."""


class Interval(NamedTuple):
    """Where a quantity lies, with the confidence that was asked for."""

    low: float
    high: float


def mean(values: Sequence[float] | np.ndarray) -> float:
    """The mean; NaN of nothing."""
    value = aggregates.mean(_floats(values))
    return math.nan if value is None else value


def median(values: Sequence[float] | np.ndarray) -> float:
    """The middle value; NaN of nothing."""
    value = aggregates.median(_floats(values))
    return math.nan if value is None else value


def total(values: Sequence[float] | np.ndarray) -> float:
    """The sum; NaN of infinities of both signs."""
    value = aggregates.total(_floats(values))
    return math.nan if value is None else value


def deviation(values: Sequence[float] | np.ndarray) -> float:
    """The sample's standard deviation (n - 1); NaN of fewer than two values."""
    value = aggregates.deviation(_floats(values))
    return math.nan if value is None else value


def _floats(values: Sequence[float] | np.ndarray) -> Sequence[float]:
    return values.tolist() if isinstance(values, np.ndarray) else values


def half_width(values: Sequence[float] | np.ndarray, confidence: float = CONFIDENCE) -> float:
    """Half of Student's interval of the mean; NaN of fewer than two values."""
    count = len(values)
    if count < 2:
        return math.nan
    return student(0.5 + confidence / 2, count - 1) * deviation(values) / math.sqrt(count)


def student(probability: float, freedom: int) -> float:
    """The quantile of Student's t distribution, for a *probability* above one half.

    Exact for one and two degrees of freedom, else found by bisection on the distribution itself.
    """
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        spread = 2 * probability - 1
        return spread * math.sqrt(2 / (1 - spread * spread))
    low, high = 0.0, 2.0
    while _student_below(high, freedom) < probability:
        low, high = high, high * 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _student_below(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _student_below(t: float, freedom: int) -> float:
    """P(T <= t) by the finite sums of Abramowitz & Stegun 26.7.3 and 26.7.4; normal beyond 1000."""
    if freedom > 1000:
        # Their fourth-order term (26.7.8, inverted to first order) is below 1e-7 here.
        return NormalDist().cdf(t * (1 - 1 / (4 * freedom)) / math.sqrt(1 + t * t / (2 * freedom)))
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    between = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + between / 2


def signed_rank_level(blocks: int, statistic: int) -> float:
    """P(W <= *statistic*) of the signed ranks of so many *blocks*, whose signs are fair coins.

    F. Wilcoxon: Individual comparisons by ranking methods, Biometrics Bulletin 1 (1945); Hollander,
    Wolfe & Chicken: Nonparametric Statistical Methods (2014), 3.1. Exact up to `EXACT_BLOCKS`, by
    the recursion on sums of distinct ranks; beyond, the normal distribution.
    """
    if statistic < 0:
        return 0.0
    if blocks > EXACT_BLOCKS:
        middle, spread = _signed_rank_moments(blocks)
        return NormalDist(middle, spread).cdf(statistic + 0.5)
    levels = _signed_rank_levels(blocks)
    return float(levels[min(statistic, len(levels) - 1)])


def signed_rank_quantile(blocks: int, alpha: float) -> int | None:
    """Return the largest q with 2 P(W <= q) <= *alpha*; None where even q = 0 is too likely."""
    if blocks > EXACT_BLOCKS:
        middle, spread = _signed_rank_moments(blocks)
        q = math.floor(NormalDist(middle, spread).inv_cdf(alpha / 2) - 0.5)
    else:
        # 2 / 2^n is exact, so that a level that is met exactly is not lost to a rounding.
        levels = _signed_rank_levels(blocks)
        q = int(np.searchsorted(2 * levels, alpha * (1 + 1e-12), side="right")) - 1
    return q if q >= 0 else None


@lru_cache(maxsize=256)
def _signed_rank_levels(blocks: int) -> np.ndarray:
    """P(W <= q) for each q."""
    likely = np.ones(1)
    for rank in range(1, blocks + 1):
        without, with_rank = np.pad(likely, (0, rank)), np.pad(likely, (rank, 0))
        likely = (without + with_rank) / 2
    return np.cumsum(likely)


def _signed_rank_moments(blocks: int) -> tuple[float, float]:
    squares = blocks * (blocks + 1) * (2 * blocks + 1)
    return blocks * (blocks + 1) / 4, math.sqrt(squares / 24)


def fewest_blocks(alpha: float) -> int:
    """Return the least number of blocks that has an interval at level *alpha*: 2 / 2^n <= alpha."""
    return max(1, math.ceil(1 + math.log2(1 / alpha) - 1e-12))


class Estimate(NamedTuple):
    """A value, and where it lies; no interval where the blocks are too few for the level."""

    value: float
    interval: Interval | None


def hodges_lehmann(differences: Sequence[float] | np.ndarray, alpha: float) -> Estimate:
    """Return the middle of symmetric *differences*, and its interval at level 1 - *alpha*.

    The median of the Walsh averages (d_i + d_j) / 2, i <= j, and the order statistics that the
    signed rank test does not reject: J. L. Hodges & E. L. Lehmann: Estimates of location based on
    rank tests, Annals of Mathematical Statistics 34 (1963); E. L. Lehmann: Nonparametrics (1975).
    The interval is closed, so ties and zeros make it conservative.
    """
    values = np.asarray(differences, dtype=float)
    averages = np.concatenate([(values[i] + values[i:]) / 2 for i in range(len(values))])
    averages.sort()
    q = signed_rank_quantile(len(values), alpha)
    interval = None
    if q is not None:
        interval = Interval(float(averages[q]), float(averages[len(averages) - 1 - q]))
    return Estimate(float(np.median(averages)), interval)


def fisher(ratio: float, above: int, below: int) -> float:
    """P(F >= *ratio*) of Fisher's distribution with *above* and *below* degrees of freedom."""
    return _beta(below / (below + above * ratio), below / 2, above / 2)


def _beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where the fraction of the complement converges sooner
        return 1 - _beta(1 - x, b, a)
    scale = a * math.log(x) + b * math.log1p(-x)
    scale += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(scale) / (a * _fraction(x, a, b))


def _fraction(x: float, a: float, b: float) -> float:
    """1 + d1 / (1 + d2 / (1 + ...)), evaluated from the front (Lentz)."""
    value, up, down = 1.0, 1.0, 0.0
    for n in range(1, 100_000):
        m = n // 2
        if n % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        down = 1 / (1 + term * down)
        up = 1 + term / up
        value *= up * down
        if abs(up * down - 1) < 1e-14:
            break
    return value
