"""How much repeats of a point differ, and when they suffice: REPEAT 6:50 UNTIL wtime WITHIN 2%.

A point has enough repeats when the 95% interval of its median lies within the share that UNTIL
names, at two looks one after the other: one narrow interval among many looks may be chance, and
with two the interval that is reported keeps its 95% (decisions/repeats.md). Where runs depend on
those before them the interval is too narrow, so such a point runs as often as it may.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from zenturio.experiment.aggregates import median, median_interval, serial_correlation

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
        """Why a point needs no more runs after *ran* with these *values*; None if it does.

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
    """Whether values resemble those before them: under drift, bursts or a warm-up.

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

    def interval(self, score: float, used: int, quantile: float) -> tuple[float, float]:
        """Return *quantile* deviations around a *score* that is the mean of *used* repeats."""
        half = quantile * self.deviation / math.sqrt(used)
        if self.is_relative:
            return score * math.exp(-half), score * math.exp(half)
        return score - half, score + half

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
    return RepeatNoise(norm / math.sqrt(freedom), freedom, is_relative)
