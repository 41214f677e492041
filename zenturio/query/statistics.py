"""How sure a number is: deviations of samples, Student's intervals, Fisher's distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from zenturio.experiment import aggregates
from zenturio.experiment.signed_ranks import Interval

CONFIDENCE = 0.95


def interval_end(interval: tuple[float, float] | None, end: Literal[0, 1]) -> float | None:
    """The lower or the upper end; None of none."""
    return None if interval is None else interval[end]


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
    """Half of Student's interval (1908) of the mean; NaN of fewer than two values."""
    count = len(values)
    if count < 2:
        return math.nan
    return student(0.5 + confidence / 2, count - 1) * deviation(values) / math.sqrt(count)


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Student's 95% interval of the mean; None of fewer than two values or infinite ones.

    Student: The probable error of a mean, Biometrika 6 (1908).
    """
    centre, error = aggregates.mean(values), aggregates.standard_error(values)
    if centre is None or error is None:
        return None
    half = _student_95(len(values) - 1) * error
    return Interval(centre - half, centre + half)


@lru_cache(maxsize=1024)
def _student_95(freedom: int) -> float:
    return student(0.5 + CONFIDENCE / 2, freedom)


def student(probability: float, freedom: float) -> float:
    """The quantile of Student's t distribution, for a *probability* above one half.

    Student: The probable error of a mean, Biometrika 6 (1908); Abramowitz & Stegun 26.7. Exact
    for one and two degrees of freedom, else found by bisection on the distribution itself.
    Degrees of freedom may be broken, as Satterthwaite's are.
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


def _student_below(t: float, freedom: float) -> float:
    """P(T <= t) by the finite sums of Abramowitz & Stegun 26.7.3 and 26.7.4; normal beyond 1000.

    Broken degrees of freedom have no such sums, but the incomplete beta function (26.7.1).
    """
    if freedom != int(freedom):
        whole = freedom + t * t
        return 1 - _beta(freedom / whole, t * t / whole, freedom / 2, 0.5) / 2
    if freedom > 1000:
        # Their fourth-order term (26.7.8, inverted to first order) is below 1e-7 here.
        return NormalDist().cdf(t * (1 - 1 / (4 * freedom)) / math.sqrt(1 + t * t / (2 * freedom)))
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if odd else 2, int(freedom) - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    between = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + between / 2


def fisher(ratio: float, above: int, below: int) -> float:
    """P(F >= *ratio*) of Fisher's distribution with *above* and *below* degrees of freedom.

    R. A. Fisher: On a distribution yielding the error functions of several well known statistics
    (1924); by the incomplete beta function, Abramowitz & Stegun 26.6.2.
    """
    total_freedom = below + above * ratio
    return _beta(below / total_freedom, above * ratio / total_freedom, below / 2, above / 2)


def _beta(x: float, complement: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (DLMF 8.17.22).

    The *complement* is 1 - *x*, of which a difference would lose digits where *x* is nearly 1.
    """
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where the fraction of the complement converges sooner
        return 1 - _beta(complement, x, b, a)
    scale = a * math.log(x) + b * math.log(complement)
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


DEFINED_AGGREGATES: Mapping[str, Callable[[Sequence[Any]], float | None]] = {
    "var": aggregates.variance,
    "sem": aggregates.standard_error,
    "iqr": aggregates.interquartile_range,
    "geomean": aggregates.geometric_mean,
    "mean_low": lambda values: interval_end(mean_interval(values), 0),
    "mean_high": lambda values: interval_end(mean_interval(values), 1),
    "median_low": lambda values: interval_end(aggregates.median_interval(values), 0),
    "median_high": lambda values: interval_end(aggregates.median_interval(values), 1),
}
"""Aggregates that no database has by itself: SQLite calls these functions, and where values are
read they are computed by the same ones."""
