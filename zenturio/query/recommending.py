"""Which setting is best, how sure that is, and which others may be as good."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zenturio.errors import InputError
from zenturio.query.levels import combine_codes, level_codes
from zenturio.query.points import real_column, require_columns
from zenturio.query.result import ResultTable
from zenturio.query.statistics import CONFIDENCE, Interval, student


@dataclass(frozen=True, slots=True)
class RankedSetting:
    """One combination of parameters, and what its repeats came to."""

    values: Mapping[str, Any]
    mean: float
    interval: Interval
    """Of the mean; unknown (NaN) without repeats."""
    repeats: int
    costs: Mapping[str, float]
    """The means of what it took."""
    alike: bool
    """Whether it may be as good as the best one."""


@dataclass(frozen=True)
class Recommendation:
    """All settings that were tried, the best first."""

    metric: str
    costs: tuple[str, ...]
    settings: tuple[RankedSetting, ...]
    confidence: float

    @property
    def best(self) -> RankedSetting:
        """The one with the best mean; of equal ones, the cheapest."""
        return self.settings[0]

    @property
    def alike(self) -> tuple[RankedSetting, ...]:
        """The others that cannot be told from the best one, the best first."""
        return tuple(each for each in self.settings[1:] if each.alike)

    @property
    def cheapest(self) -> RankedSetting:
        """Of the best one and those that cannot be told from it, the one that costs least."""
        return min((self.best, *self.alike), key=lambda each: tuple(each.costs.values()))

    def result(self, limit: int | None = None) -> ResultTable:
        """The settings as a table."""
        names = tuple(self.best.values)
        columns = (*names, self.metric, "low", "high", *self.costs, "repeats", "as good")
        rows = tuple(
            (
                *each.values.values(),
                each.mean,
                *(end if math.isfinite(end) else None for end in each.interval),
                *each.costs.values(),
                each.repeats,
                each.alike,
            )
            for each in self.settings[:limit]
        )
        return ResultTable(columns, rows, found=len(self.settings))


def recommend(
    frame: pd.DataFrame,
    metric: str,
    costs: Sequence[str],
    parameters: Sequence[str] = (),
    *,
    minimize: bool = False,
    confidence: float = CONFIDENCE,
) -> Recommendation:
    """The settings in *frame* by the mean of *metric* over their repeats, then by *costs*.

    Each other one is held against the best by Welch's test, at a level that all of these tests
    keep together (Bonferroni): with *confidence*, the one that is truly best is not among those
    that are said to be worse (Gupta's subset selection).
    """
    wanted = tuple(parameters) or tuple(frame.attrs.get("parameters", ()))
    require_columns(frame, (metric, *costs, *wanted))  # type: ignore[arg-type] # a frame is a mapping to it
    score = real_column(frame, metric)  # type: ignore[arg-type]
    used = np.isfinite(score)
    if not used.any():
        raise InputError(f"{metric!r} has no number in any row")
    rows, score = frame[used], score[used]
    group = combine_codes([level_codes(rows[name]).exact for name in wanted])
    count = np.bincount(group)
    mean = np.bincount(group, score) / count
    prices = {name: np.bincount(group, real_column(rows, name)) / count for name in costs}
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.bincount(group, (score - mean[group]) ** 2) / (count - 1) / count
    order = np.lexsort((*reversed(prices.values()), mean if minimize else -mean))
    alike = _alike(np.abs(mean - mean[order[0]]), error, count, order[0], confidence)
    first = np.unique(group, return_index=True)[1]
    cells = [[_plain(each) for each in rows[name].iloc[first]] for name in wanted]
    found = []
    for at in order:
        half = _half(float(error[at]), int(count[at]), confidence)
        centre = float(mean[at])
        values = dict(zip(wanted, (column[at] for column in cells), strict=True))
        interval = Interval(centre - half, centre + half)
        took = {name: float(price[at]) for name, price in prices.items()}
        found.append(RankedSetting(values, centre, interval, int(count[at]), took, bool(alike[at])))
    return Recommendation(metric, tuple(costs), tuple(found), confidence)


def _alike(
    behind: np.ndarray, error: np.ndarray, count: np.ndarray, best: int, confidence: float
) -> np.ndarray:
    """Which settings are not behind the best by more than their repeats explain."""
    others = max(1, len(behind) - 1)
    probability = 1 - (1 - confidence) / others
    told = np.zeros(len(behind), dtype=np.bool_)
    quantiles: dict[int, float] = {}
    for at in np.flatnonzero(behind > 0):
        if min(count[at], count[best]) < 2:
            continue  # one run says nothing of its own noise
        noise = error[at] + error[best]
        if noise == 0:
            told[at] = True
            continue
        parts = error[at] ** 2 / (count[at] - 1) + error[best] ** 2 / (count[best] - 1)
        freedom = max(1, int(noise**2 / parts))
        if freedom not in quantiles:
            quantiles[freedom] = student(probability, freedom)
        told[at] = behind[at] > quantiles[freedom] * math.sqrt(noise)
    return ~told


def _half(error: float, count: int, confidence: float) -> float:
    """Half of the interval of a mean with this squared standard error."""
    if count < 2:
        return math.nan
    return student(0.5 + confidence / 2, count - 1) * math.sqrt(error)


def _plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value
