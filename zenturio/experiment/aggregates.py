"""Aggregates: what many values come to, in tables, charts and rankings; when repeats suffice.

Sums are exact until they are rounded once, so neither the order of the values nor one that has
diverged (1e200) changes a digit. None is the answer where there is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, pairwise
from statistics import NormalDist
from typing import Any, Literal

Number = int | float

_LARGEST_EXACT = 2**53
"""Up to this, each integer is a float."""


def total(values: Sequence[Number]) -> float | None:
    """Return the sum; infinite where no float is as large, None of infinities of both signs."""
    return _rounded(values, 1)


def mean(values: Sequence[Number]) -> float | None:
    """Return the arithmetic mean; None of no values, and of infinities of both signs."""
    return _rounded(values, len(values)) if values else None


def deviation(values: Sequence[Number]) -> float | None:
    """The sample's standard deviation (n - 1); None of fewer than two values or infinite ones.

    The values are taken as distances from their mean, divided by a power of two: squares neither
    overflow nor vanish. What is left of the mean's rounding is subtracted (the corrected
    two-pass algorithm, Chan, Golub and LeVeque 1983).
    """
    if len(values) < 2:
        return None
    if all(isinstance(value, int) for value in values):  # exact, also beyond 53 bits
        # Distances of integers are exact, and small enough to be exact as floats as well.
        values = [value - values[0] for value in values]
    elif not all(map(math.isfinite, values)):
        return None
    centre = mean(values)
    assert centre is not None, "there are values, none infinite"
    # The difference of values beyond half of the greatest float may overflow.
    shrunk = 0.5 if max(map(abs, values)) > 1e307 else 1.0
    parts = [value * shrunk - centre * shrunk for value in values]
    exponent = math.frexp(max(map(abs, parts)))[1]
    parts = [math.ldexp(part, -exponent) for part in parts]
    count = len(parts)
    squares = math.fsum(part * part for part in parts) - math.fsum(parts) ** 2 / count
    return _scaled(math.sqrt(squares / (count - 1)) / shrunk, exponent)


def median(values: Sequence[Number]) -> float | None:
    """Return the middle value, or the mean of the two in the middle; None of no values."""
    if not values:
        return None
    ordered = sorted(values)
    low, high = ordered[(len(values) - 1) // 2], ordered[len(values) // 2]
    return low if low == high and isinstance(low, float) else mean([low, high])


def median_interval(
    values: Sequence[Number], confidence: float = 0.95
) -> tuple[float, float] | None:
    """Return the order statistics that hold the median of the distribution with *confidence*.

    G. J. Hahn & W. Q. Meeker: Statistical Intervals (1991), 5.2, for any continuous distribution.
    None of too few values: 95% needs 6, five have 93.75%.
    """
    below = outside_median_interval(len(values), confidence)
    if below is None:
        return None
    ordered = sorted(values)
    return float(ordered[below]), float(ordered[-1 - below])


TIMES = frozenset({
    "d", "h", "min", "s", "sec", "seconds", "ms", "us", "\u00b5s", "\u03bcs", "ns",
})  # fmt: skip
"""Units of times: less of them is faster. Keyboards have the micro sign, or the letter mu."""


def default_aggregate(unit: str) -> Literal["mean", "median"]:
    """Return the aggregate of values in *unit* where none is named.

    That of times is the median: a few slow runs must not decide.
    """
    return "median" if unit in TIMES else "mean"


_FAR = 3 * 1.4826
"""Absolute deviations that make an outlier: three standard deviations of a normal distribution."""


def outliers(values: Sequence[Number]) -> list[bool]:
    """Return which of *values* are farther from the median than three robust standard deviations.

    F. R. Hampel: The influence curve and its role in robust estimation, JASA 69 (1974), with the
    median absolute deviation. None is one where more than half of the values are equal.
    """
    centre = median(values)
    if centre is None:
        return []
    distances = [abs(value - centre) for value in values]
    deviation_ = median(distances)
    if not deviation_:
        return [False] * len(values)
    return [distance > _FAR * deviation_ for distance in distances]


_EXACT_VALUES = 10_000
"""Up to so many values the binomial distribution is summed exactly."""


@lru_cache(maxsize=1024)
def outside_median_interval(count: int, confidence: float = 0.95) -> int | None:
    """Return how many values on each side lie outside `median_interval`; None of too few.

    It is the largest r with 2 P(X < r + 1) small enough.
    """
    if count > _EXACT_VALUES:
        spread = NormalDist(count / 2, math.sqrt(count) / 2)
        return math.floor(spread.inv_cdf((1 - confidence) / 2) - 0.5)
    # In units of 1 / 2^count: integers, which neither overflow nor vanish.
    most = math.floor(Fraction(1 - confidence).limit_denominator(10**9) * 2 ** (count - 1))
    sequences, term, below = 0, 1, None
    for successes in range(count // 2 + 1):
        sequences += term
        if sequences > most:
            break
        below = successes
        term = term * (count - successes) // (successes + 1)
    return below


LEAST_FOR_MEDIAN_INTERVAL = next(
    count for count in range(1, 100) if outside_median_interval(count) is not None
)
"""Values that a 95% interval of their median needs."""


def serial_correlation(values: Sequence[Number]) -> float | None:
    """Return the correlation of the ranks of neighbours in *values*; None where all are equal.

    A. Wald & J. Wolfowitz: An exact test for randomness in the non-parametric case based on
    serial correlation, Annals of Mathematical Statistics 14 (1943), of ranks, and not circular.
    """
    ranks = mean_ranks(values)
    centre = (len(values) + 1) / 2
    distances = [rank - centre for rank in ranks]
    squares = math.fsum(distance * distance for distance in distances)
    if not squares:
        return None
    return math.fsum(a * b for a, b in pairwise(distances)) / squares


def mean_ranks(values: Sequence[Number]) -> list[float]:
    """Return the rank of each value from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    first = 0
    for _, equal in groupby(order, key=values.__getitem__):
        places = list(equal)
        for place in places:
            ranks[place] = first + (len(places) + 1) / 2
        first += len(places)
    return ranks


def variance(values: Sequence[Number]) -> float | None:
    """Return the sample's variance (n - 1); None where `deviation` is.

    R. A. Fisher: Statistical Methods for Research Workers (1925).
    """
    spread = deviation(values)
    return None if spread is None else spread * spread


def standard_error(values: Sequence[Number]) -> float | None:
    """Return the standard error of the mean: the deviation by the root of the number of values.

    Student: The probable error of a mean, Biometrika 6 (1908).
    """
    spread = deviation(values)
    return None if spread is None else spread / math.sqrt(len(values))


def quantile(values: Sequence[Number], share: float) -> float | None:
    """Return the quantile for *share*, interpolated; None of no values.

    Definition 7 of R. J. Hyndman & Y. Fan: Sample quantiles in statistical packages, The American
    Statistician 50 (1996), which is that of NumPy and of percentile_cont in SQL.
    """
    if not values:
        return None
    ordered = sorted(values)
    place = (len(values) - 1) * share
    at = math.floor(place)
    low, high = ordered[at], ordered[min(at + 1, len(values) - 1)]
    if low == high or place == at:
        return float(low)
    if not (math.isfinite(low) and math.isfinite(high)):
        if math.isinf(low) and math.isinf(high):
            return None
        return float(low if math.isinf(low) else high)
    # Both shares of a sum: the difference of values of both signs may overflow.
    return low * (1 - (place - at)) + high * (place - at)


def interquartile_range(values: Sequence[Number]) -> float | None:
    """Return the distance of the upper from the lower quartile; None of no values.

    With the quantiles of Hyndman & Fan (1996), definition 7.
    """
    low, high = quantile(values, 0.25), quantile(values, 0.75)
    if low is None or high is None or math.isinf(low) or math.isinf(high):
        return None
    return high - low


def geometric_mean(values: Sequence[Number]) -> float | None:
    """Return the root of the product: of ratios and times; None where a value is not positive.

    P. J. Fleming & J. J. Wallace: How not to lie with statistics: the correct way to summarize
    benchmark results, Communications of the ACM 29 (1986).
    """
    if not values or min(values) <= 0 or not math.isfinite(max(values)):
        return None
    return math.exp(math.fsum(map(math.log, values)) / len(values))


_QUANTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,3})?)")


def quantile_share(name: str) -> float | None:
    """0.9 of ``p90``, 0.999 of ``p99.9``; None of any other name."""
    match = _QUANTILE.fullmatch(name)
    return float(match.group(1)) / 100 if match else None


def _rounded(values: Sequence[Number], divisor: int) -> float | None:
    """Return the exact sum divided by *divisor*."""
    try:
        if not _has_inexact_integers(values):
            return math.fsum(values) / divisor
    except ValueError:  # infinities of both signs
        return None
    except OverflowError:  # on the way
        pass
    floats = [value for value in values if isinstance(value, float)]
    infinite = [value for value in floats if not math.isfinite(value)]
    if infinite:
        return _rounded(infinite, divisor)
    integers = sum(value for value in values if isinstance(value, int))
    exact = sum(map(Fraction, floats), Fraction(integers)) / divisor
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _has_inexact_integers(values: Sequence[Number]) -> bool:
    """Return whether one of *values* is an integer that fsum would round before it adds it."""
    if not values or (max(values) <= _LARGEST_EXACT and min(values) >= -_LARGEST_EXACT):
        return False
    return any(isinstance(value, int) and abs(value) > _LARGEST_EXACT for value in values)


def _scaled(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


# Repeats: how much they differ, and when they suffice (REPEAT 6:50 UNTIL wtime WITHIN 2%)
#
# A point has enough repeats when the 95% interval of its median lies within the share that UNTIL
# names, at two looks one after the other: one narrow interval among many looks may be chance, and
# with two the interval that is reported keeps its 95% (decisions/repeats.md). Where runs depend on
# those before them the interval is too narrow, so such a point runs as often as it may.

UNTIL = "until"
"""The note of a study that says when the repeats of a point suffice."""

StopReason = Literal["narrow", "wide", "dependent", "no value", "budget", "behind"]
"""Why a point has no more repeats: its interval is narrow enough; it is not, and the limit is
reached, for runs that depend on each other, too; none of its runs has a number; the time of the
whole run is over; or the first ones show that it is not the best."""

STOPS: Mapping[str, str] = {
    "narrow": "precise enough",
    "wide": "not precise enough after the most repeats",
    "dependent": "with runs that depend on each other, so that the interval is too narrow",
    "no value": "without a number",
    "budget": "not precise enough when the budget was spent",
    "behind": "too far behind the best after a few",
}
"""Each `StopReason` behind a number of points."""
STOPPED: Mapping[StopReason | None, str] = {
    "narrow": "precise enough",
    "wide": "limit reached",
    "dependent": "runs depend on each other",
    "no value": "no number",
    None: "unfinished",
}
"""Each `StopReason` in a table."""

_DEPENDENT = 1.65
"""Of normal deviations of the serial correlation, one-sided 5%."""


@dataclass(frozen=True, slots=True)
class RepeatRule:
    """At least and at most so many repeats, until the interval of the median is narrow."""

    least: int
    most: int
    within: float

    @staticmethod
    def of(notes: Mapping[str, Any], metric: str) -> RepeatRule | None:
        """Return the rule that the *notes* of a study hold; None if it does not go by *metric*."""
        until = notes.get(UNTIL)
        if until is None or until["metric"] != metric:
            return None
        return RepeatRule(int(until["least"]), int(notes["repeat"]), float(until["within"]))

    def stop(self, values: Sequence[float], ran: int) -> StopReason | None:
        """Return why a point needs no more runs after *ran* with these *values*; None if it does.

        *values* are those of one kind of machine, in the order of their runs; a run that failed
        has none.
        """
        if ran < self.least:
            return None
        if not values:
            return "no value"
        is_last = ran >= self.most
        is_narrow = self._is_narrow(values) and (is_last or self._is_narrow(values[:-1]))
        dependent = depends_on_order(values)
        if is_narrow and not dependent:
            return "narrow"
        if not is_last:
            return None
        return "dependent" if dependent else "wide"

    def _is_narrow(self, values: Sequence[float]) -> bool:
        width = relative_width(values)
        return width is not None and width <= self.within


def relative_width(values: Sequence[float]) -> float | None:
    """How far the 95% interval of the median reaches from it, as a share; None if it has none.

    The interval is that of Hahn & Meeker (1991), see `median_interval`.
    """
    interval, centre = median_interval(values), median(values)
    if interval is None or centre is None:
        return None
    distance = max(interval[1] - centre, centre - interval[0])
    if not distance:
        return 0.0
    return distance / abs(centre) if centre else math.inf


def depends_on_order(values: Sequence[float]) -> bool:
    """Return whether values resemble those before them: under drift, bursts or a warm-up.

    The serial correlation of independent values is 0 but for a bias of -1/n, with a deviation of
    about 1/sqrt(n): M. G. Kendall: Note on bias in the estimation of autocorrelation, Biometrika 41
    (1954); M. S. Bartlett: On the theoretical specification and sampling properties of
    autocorrelated time-series, J. R. Statist. Soc. Supplement 8 (1946).
    """
    correlation = serial_correlation(values)
    if correlation is None:
        return False
    count = len(values)
    return correlation + 1 / count > _DEPENDENT / math.sqrt(count)


@dataclass(frozen=True, slots=True)
class RepeatNoise:
    """How much repeats of a point differ, in all points together."""

    deviation: float
    """The standard deviation of one repeat; of its logarithm if it is relative."""
    freedom: int
    """Degrees of freedom: the repeats of all points but one of each."""
    is_relative: bool
    """Whether the deviation is in proportion to the score, as all scores are positive."""
    lowest: float = -math.inf
    """0 where no repeat is negative: neither is its mean then."""

    def interval(self, score: float, used: int, quantile: float) -> tuple[float, float]:
        """Return *quantile* deviations around a *score* that is the mean of *used* repeats."""
        half = quantile * self.deviation / math.sqrt(used)
        if self.is_relative:
            return score * math.exp(-half), score * math.exp(half)
        return max(score - half, self.lowest), score + half

    def tells_apart(
        self, first: tuple[float, int], second: tuple[float, int], quantile: float
    ) -> bool:
        """Return whether two scores, each with its used repeats, differ by more than noise."""
        (score, used), (other, of_other) = first, second
        distance = math.log(score / other) if self.is_relative else score - other
        return abs(distance) > quantile * self.deviation * math.sqrt(1 / used + 1 / of_other)


def noise_of(repeats: Sequence[Sequence[float]]) -> RepeatNoise | None:
    """Return the pooled deviation of the *repeats* of points around their means.

    The mean square within groups: R. A. Fisher: Statistical Methods for Research Workers (1925).
    """
    several = [scores for scores in repeats if len(scores) > 1]
    freedom = sum(map(len, several)) - len(several)
    is_relative = all(score > 0 for scores in repeats for score in scores)
    deviations: list[float] = []
    for scores in several:
        values = [math.log(score) for score in scores] if is_relative else scores
        # Each part by itself: the sum of two diverged values may be beyond all reals.
        middle = math.fsum(value / len(values) for value in values)
        deviations += [value - middle for value in values]
    norm = math.hypot(*deviations)
    if not freedom or not norm or not math.isfinite(norm):
        return None
    lowest = -math.inf if any(score < 0 for scores in repeats for score in scores) else 0.0
    return RepeatNoise(norm / math.sqrt(freedom), freedom, is_relative, lowest)
