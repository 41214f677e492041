"""Which parameters matter for a metric, and which setting is best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from zenturio.errors import InputError
from zenturio.experiment.signed_ranks import Interval
from zenturio.expression import text_of
from zenturio.query.regression import real_column, require_columns
from zenturio.query.result_table import ResultTable
from zenturio.query.statistics import CONFIDENCE, fisher, student

MANY_VALUES = 12
"""Numbers of more distinct values are taken in groups of neighbours."""
VALUE_GROUPS = 10
MOST_TEXTS = 50
"""The most texts with a category of their own, by frequency; the others share one."""
OTHERS = "others"

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class LevelCodes:
    """For each row, a number for its value, and one for its level."""

    exact: Ints
    groups: Ints
    labels: tuple[str, ...]
    """Of the levels, in order of value."""


def level_codes(column: pd.Series[Any]) -> LevelCodes:
    """*column* as levels; rows without a value (inactive parameters) are a level of their own."""
    codes, distinct = pd.factorize(column, use_na_sentinel=True)
    values = [item.item() if hasattr(item, "item") else item for item in distinct]
    number = all(isinstance(value, int | float) for value in values)
    order = sorted(range(len(values)), key=lambda at: values[at] if number else str(values[at]))
    rank = np.empty(len(values) + 1, dtype=np.int64)  # the last is for what has no value
    rank[order] = np.arange(len(values))
    rank[-1] = len(values)
    exact = rank[codes]
    ranked = [values[at] for at in order]
    if number and len(ranked) > MANY_VALUES:
        return _grouped(exact, ranked)
    if not number and len(ranked) > MOST_TEXTS:
        return _frequent(exact, ranked)
    return _labelled(exact, exact, [*map(text_of, ranked), "none"])


def combine_codes(codes: Sequence[Ints]) -> Ints:
    """Return a number for each combination that there is, from 0, without gaps."""
    combined = codes[0]
    for column in codes[1:]:
        combined = combined * (int(column.max()) + 1) + column
        combined = np.unique(combined, return_inverse=True)[1].ravel()
    return np.unique(combined, return_inverse=True)[1].ravel()


def _grouped(exact: Ints, values: Sequence[Any]) -> LevelCodes:
    """Neighbouring numbers together, about as many rows in each group."""
    present = exact[exact < len(values)]
    below = np.cumsum(np.bincount(present, minlength=len(values))) - 1
    group = below * VALUE_GROUPS // len(present)
    labels = []
    for level in range(VALUE_GROUPS):
        inside = np.flatnonzero(group == level)
        first, last = (text_of(values[i]) for i in (inside[[0, -1]] if len(inside) else (0, 0)))
        labels.append(first if first == last else f"{first} .. {last}")
    return _labelled(exact, np.append(group, VALUE_GROUPS)[exact], [*labels, "none"])


def _frequent(exact: Ints, values: Sequence[Any]) -> LevelCodes:
    """Return the most frequent texts, and all others together."""
    counts = np.bincount(exact, minlength=len(values) + 1)[: len(values)]
    frequent = np.sort(np.argsort(-counts, kind="stable")[: MOST_TEXTS - 1])
    group = np.full(len(values) + 1, len(frequent), dtype=np.int64)
    group[frequent] = np.arange(len(frequent))
    group[-1] = len(frequent) + 1
    return _labelled(exact, group[exact], [*(str(values[i]) for i in frequent), OTHERS, "none"])


def _labelled(exact: Ints, groups: Ints, labels: Sequence[str]) -> LevelCodes:
    """Numbers without gaps, and the labels of those that there are."""
    present, dense = np.unique(groups, return_inverse=True)
    distinct = np.unique(exact, return_inverse=True)[1]
    return LevelCodes(distinct.ravel(), dense.ravel(), tuple(labels[at] for at in present))


LEAST = 0.01
"""A parameter of a smaller share does not matter, however sure that share is."""
NEGLIGIBLE = 0.05
"""One that may be chance does not matter if no more than this can go with it."""
UNKNOWN: Final = "not enough data to tell"
Verdict = Literal["yes", "no", "not enough data to tell"]

Floats = np.ndarray


@dataclass(frozen=True, slots=True)
class Level:
    """One value of a parameter, or some neighbouring ones."""

    label: str
    rows: int
    mean: float
    """Of the metric at this level, if all other parameters were as they are on average."""


@dataclass(frozen=True, slots=True)
class Importance:
    """How much of a metric's variance goes with one parameter."""

    parameter: str
    share: float
    """Of the variance of all rows, what goes with the parameter alone: its main effect."""
    total: float | None
    """The same with all interactions that it takes part in; known only where each of its values
    meets all combinations of the others, repeatedly.
    """
    chance: float
    """How likely as large an effect, alone or with interactions, is where there is none; NaN where
    that cannot be known.
    """
    levels: tuple[Level, ...]
    most: float = 1.0
    """How large a share may be its own: that with its interactions, or where that is not known,
    its share and all that no parameter explains alone."""

    @property
    def verdict(self) -> Verdict:
        """Whether it matters; a share that may be chance is no answer while it may be large."""
        if self.matters:
            return "yes"
        return "no" if self.most < NEGLIGIBLE else UNKNOWN

    @property
    def matters(self) -> bool:
        """Whether its share is worth knowing, and not likely to be chance."""
        share = self.share if self.total is None else max(self.share, self.total)
        return share >= LEAST and self.chance < 1 - CONFIDENCE

    @property
    def range(self) -> float:
        """How far the means of its levels are apart."""
        means = [level.mean for level in self.levels]
        return max(means) - min(means)


@dataclass(frozen=True)
class Importances:
    """The parameters of a study by what they mean for one metric, the most important first."""

    metric: str
    parameters: tuple[Importance, ...]
    noise: float | None
    """The share in which repeats of the same point differ; none where nothing was repeated."""
    interactions: float
    """The share of all that is neither noise nor a main effect."""
    rows: int
    points: int
    same: tuple[str, ...] = ()
    """Parameters that have one value in all rows: nothing can be said of them."""
    terms: int | None = None
    """How many terms the model has, if the points do not tell them apart."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before believing the shares."""
        unexplained = "interactions and noise" if self.noise is None else "interactions"
        notes = [
            f"{self.rows:,} rows at {self.points:,} points; {unexplained}: {self.interactions:.1%}"
        ]
        if self.noise is not None:
            notes[0] += f"; noise of repeats: {self.noise:.1%}"
        if self.terms is not None:
            notes.append(
                f"the points do not tell {self.terms:,} terms of the model apart: run more of them,"
                " or see zen explain, whose model needs fewer"
            )
        if unknown := [
            importance.parameter for importance in self.parameters if importance.verdict == UNKNOWN
        ]:
            notes.append(f"{UNKNOWN} whether it matters: {', '.join(unknown)}")
        if self.same:
            notes.append(f"the same in all rows: {', '.join(self.same)}")
        return tuple(notes)

    def result(self) -> ResultTable:
        """Return the shares as a table."""
        columns = ("parameter", "share", "total", "chance", "worst to best", "matters")
        rows = tuple(
            (
                p.parameter,
                None if p.verdict == UNKNOWN else max(0.0, p.share),
                None if p.verdict == UNKNOWN else p.total,
                _number_or_none(p.chance),
                p.range,
                p.verdict,
            )
            for p in self.parameters
        )
        return ResultTable(columns, rows, found=len(rows), notes=self.notes)


def importances(frame: pd.DataFrame, metric: str, parameters: Sequence[str] = ()) -> Importances:
    """Return how much of the variance of *metric* goes with each of the *parameters* of *frame*.

    Without *parameters*, all that the frame of a study names. An additive model is fitted by least
    squares, with a term for each value; of numbers with many values, for each of ten groups of
    neighbours. A share is the covariance of a parameter's term with the metric, over the metric's
    variance (Li et al. 2010): where all combinations are equally frequent it is the main effect of
    the analysis of variance, and where they are not (points that a search chose) what another
    parameter explains is not counted twice. With the interactions and the noise, shares sum to 1.
    """
    names = tuple(parameters) or tuple(frame.attrs.get("parameters", ()))
    require_columns(frame, (metric, *names))  # type: ignore[arg-type] # a frame is a mapping to it
    y = real_column(frame, metric)  # type: ignore[arg-type]
    used = np.isfinite(y)
    if not used.any():
        raise InputError(f"{metric!r} has no number in any row")
    y = y[used]
    codes = {name: level_codes(frame[name][used]) for name in names}
    varied = {name: column for name, column in codes.items() if len(column.labels) > 1}
    if not varied:
        raise InputError(f"no parameter varies in the {len(y):,} rows that have {metric!r}")
    return _Shares(metric, y, varied).all(tuple(n for n in codes if n not in varied))


class _Shares:
    """The sums of squares that shares are made of."""

    def __init__(self, metric: str, y: Floats, codes: dict[str, LevelCodes]) -> None:
        self._metric = metric
        self._codes = codes
        self._mean = float(y.mean())
        self._y = y - self._mean
        self._all = float(self._y @ self._y)
        self._fit = _Additive(self._y, [column.groups for column in codes.values()])
        point = combine_codes([column.exact for column in codes.values()])
        self._points = int(point.max()) + 1
        # A model with nearly as many terms as points predicts these, whatever they are.
        self._is_overfitted = self._points - 1 < 1.5 * self._fit.freedom
        self._freedom = len(y) - self._points
        """Of the repeats: how often a point was measured beyond its first time."""
        self._noise = _within(self._y, point)

    def all(self, same: tuple[str, ...]) -> Importances:
        """Return all of them, the most important first."""
        shares = [self._importance(at, name) for at, name in enumerate(self._codes)]
        noise = self._share(self._noise) if self._freedom else None
        unexplained = max(0.0, 1 - sum(importance.share for importance in shares) - (noise or 0.0))
        most = [
            importance.share + unexplained if importance.total is None else importance.total
            for importance in shares
        ]
        shares = [
            replace(importance, most=share) for importance, share in zip(shares, most, strict=True)
        ]
        # A share far below 0 shows that terms of several parameters are taken for each other.
        is_mixed = any(importance.share < -LEAST for importance in shares)
        is_overfitted = (self._is_overfitted or is_mixed) and any(
            importance.total is None for importance in shares
        )
        if is_overfitted:
            shares = [
                importance
                if importance.total is not None
                else replace(importance, most=1.0, chance=math.nan)
                for importance in shares
            ]
        return Importances(
            self._metric,
            tuple(
                sorted(
                    shares, key=lambda importance: -max(importance.share, importance.total or 0.0)
                )
            ),
            noise,
            unexplained if self._all else 0.0,
            len(self._y),
            self._points,
            same,
            self._fit.freedom if is_overfitted else None,
        )

    def _importance(self, at: int, name: str) -> Importance:
        codes = self._codes[name]
        terms = self._fit.terms(at)
        counts = np.bincount(codes.groups, minlength=len(codes.labels))
        levels = [
            Level(label, int(rows), self._mean + float(term))
            for label, rows, term in zip(codes.labels, counts, terms, strict=True)
        ]
        share = self._share(float(terms[codes.groups] @ self._y))
        chance, total = self._chance(self._fit.without(at), codes), None
        if total_effect := self._whole(name):
            total, chance_of_total = total_effect
            if len(self._codes) > 1:  # two tests are made, and the better one is believed
                chance = min(1.0, 2 * min(chance, chance_of_total))
        return Importance(name, share, total, chance, tuple(levels))

    def _whole(self, name: str) -> tuple[float, float] | None:
        """Return the share of a parameter with its interactions, and how likely it is by chance."""
        columns = [column.exact for other, column in self._codes.items() if other != name]
        background = combine_codes(columns) if columns else np.zeros(len(self._y), dtype=np.int64)
        groups = int(background.max()) + 1
        values = int(self._codes[name].exact.max()) + 1
        if not self._freedom or groups * values != self._points:
            return None
        freedom = self._points - groups
        squares = max(0.0, _within(self._y, background) - self._noise)
        error = self._noise / self._freedom
        chance = _tail(squares / freedom, error, freedom, self._freedom, self._all)
        return self._share(squares), chance

    def _chance(self, squares: float, codes: LevelCodes) -> float:
        """Return how likely main effects of these *squares* are where there are none."""
        freedom = len(codes.labels) - 1
        error, freedom_left = self._noise, self._freedom
        if not freedom_left:  # nothing was repeated: what the additive model misses is noise
            error, freedom_left = (
                self._all - self._fit.explained,
                len(self._y) - 1 - self._fit.freedom,
            )
        if freedom_left < 1:
            return math.nan
        return _tail(squares / freedom, error / freedom_left, freedom, freedom_left, self._all)

    def _share(self, squares: float) -> float:
        return squares / self._all if self._all else 0.0


class _Additive:
    """The least squares of a term for each level of each parameter."""

    def __init__(self, y: Floats, groups: Sequence[Ints]) -> None:
        self._counts = [np.bincount(group) for group in groups]
        ends = np.cumsum([0, *map(len, self._counts)])
        self._spans = [slice(ends[i], ends[i + 1]) for i in range(len(groups))]
        self._normal = np.zeros((ends[-1], ends[-1]))
        for i, rows in enumerate(groups):
            for j, columns in enumerate(groups[: i + 1]):
                shape = len(self._counts[i]), len(self._counts[j])
                pairs = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1])
                self._normal[self._spans[i], self._spans[j]] = pairs.reshape(shape)
                self._normal[self._spans[j], self._spans[i]] = pairs.reshape(shape).T
        self._right = np.concatenate([np.bincount(group, y) for group in groups])
        self._terms, self.explained, self.freedom = _solved(self._normal, self._right)

    def terms(self, at: int) -> Floats:
        """Return the terms of one parameter, whose mean over all rows is 0."""
        terms = self._terms[self._spans[at]]
        centred: Floats = terms - np.average(terms, weights=self._counts[at])
        return centred

    def without(self, at: int) -> float:
        """By how much less is explained without this parameter."""
        remaining = np.delete(np.arange(len(self._right)), self._spans[at])
        if not len(remaining):
            return self.explained
        return max(0.0, self.explained - _solved(self._normal[np.ix_(remaining, remaining)],
                                                 self._right[remaining])[1])  # fmt: skip


def _solved(normal: Floats, right: Floats) -> tuple[Floats, float, int]:
    """Return the shortest solution, the sum of squares that it explains, and its freedom.

    The terms of all parameters but one are known up to a constant, so *normal* is singular.
    """
    terms, _, rank, _ = np.linalg.lstsq(normal, right, rcond=1e-10)
    return terms, float(terms @ right), int(rank) - 1


def _within(y: Floats, group: Ints) -> float:
    """Return the sum of squares of *y* about the mean of each group."""
    means = np.bincount(group, y) / np.bincount(group)
    off = y - means[group]
    return float(off @ off)


def _tail(effect: float, error: float, above: int, below: int, scale: float) -> float:
    """Return the p-value of a ratio of mean squares, by the F distribution."""
    rounding = 1e-12 * scale
    if effect <= rounding:
        return 1.0
    return 0.0 if error * below <= rounding else fisher(effect / error, above, below)


def _number_or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


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
class SettingsRanking:
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
        return tuple(setting for setting in self.settings[1:] if setting.alike)

    @property
    def cheapest(self) -> RankedSetting:
        """Of the best one and those that cannot be told from it, the one that costs least."""
        return min((self.best, *self.alike), key=lambda setting: tuple(setting.costs.values()))

    def result(self, limit: int | None = None) -> ResultTable:
        """Return the settings as a table."""
        names = tuple(self.best.values)
        columns = (*names, self.metric, "low", "high", *self.costs, "repeats", "as good")
        rows = tuple(
            (
                *setting.values.values(),
                setting.mean,
                *(end if math.isfinite(end) else None for end in setting.interval),
                *setting.costs.values(),
                setting.repeats,
                setting.alike,
            )
            for setting in self.settings[:limit]
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
) -> SettingsRanking:
    """Return the settings in *frame* by the mean of *metric* over their repeats, then by *costs*.

    Each other one is held against the best by Welch's test, at a level that all of these tests
    keep together (Bonferroni): with *confidence*, the one that is truly best is not among those
    that are said to be worse (Gupta's subset selection).
    """
    names = tuple(parameters) or tuple(frame.attrs.get("parameters", ()))
    require_columns(frame, (metric, *costs, *names))  # type: ignore[arg-type] # a frame is a mapping to it
    score = real_column(frame, metric)  # type: ignore[arg-type]
    used = np.isfinite(score)
    if not used.any():
        raise InputError(f"{metric!r} has no number in any row")
    rows, score = frame[used], score[used]
    group = combine_codes([level_codes(rows[name]).exact for name in names])
    count = np.bincount(group)
    mean = np.bincount(group, score) / count
    prices = {name: np.bincount(group, real_column(rows, name)) / count for name in costs}
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.bincount(group, (score - mean[group]) ** 2) / (count - 1) / count
    order = np.lexsort((*reversed(prices.values()), mean if minimize else -mean))
    alike = _alike(np.abs(mean - mean[order[0]]), error, count, order[0], confidence)
    first = np.unique(group, return_index=True)[1]
    cells = [[_plain(value) for value in rows[name].iloc[first]] for name in names]
    settings = []
    for at in order:
        half = _half(float(error[at]), int(count[at]), confidence)
        centre = float(mean[at])
        values = dict(zip(names, (column[at] for column in cells), strict=True))
        interval = Interval(centre - half, centre + half)
        took = {name: float(price[at]) for name, price in prices.items()}
        settings.append(
            RankedSetting(values, centre, interval, int(count[at]), took, bool(alike[at]))
        )
    return SettingsRanking(metric, tuple(costs), tuple(settings), confidence)


def _alike(
    behind: np.ndarray, error: np.ndarray, count: np.ndarray, best: int, confidence: float
) -> np.ndarray:
    """Return which settings are not behind the best by more than their repeats explain.

    B. L. Welch: The generalization of Student's problem, Biometrika 34 (1947), with the degrees of
    freedom of F. E. Satterthwaite (1946), corrected for the number of settings (Bonferroni).
    """
    comparisons = max(1, len(behind) - 1)
    probability = 1 - (1 - confidence) / comparisons
    is_worse = np.zeros(len(behind), dtype=np.bool_)
    quantiles: dict[int, float] = {}
    for at in np.flatnonzero(behind > 0):
        if min(count[at], count[best]) < 2:
            continue  # one run says nothing of its own noise
        noise = error[at] + error[best]
        if noise == 0:
            is_worse[at] = True
            continue
        parts = error[at] ** 2 / (count[at] - 1) + error[best] ** 2 / (count[best] - 1)
        freedom = max(1, int(noise**2 / parts))
        if freedom not in quantiles:
            quantiles[freedom] = student(probability, freedom)
        is_worse[at] = behind[at] > quantiles[freedom] * math.sqrt(noise)
    return ~is_worse


def _half(error: float, count: int, confidence: float) -> float:
    """Half of the interval of a mean with this squared standard error."""
    if count < 2:
        return math.nan
    return student(0.5 + confidence / 2, count - 1) * math.sqrt(error)


def _plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value
