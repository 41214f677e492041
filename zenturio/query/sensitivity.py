"""Sensitivity of a metric to parameters, from the points of a design.

Shares of variance (Sobol' indices) come from a ``saltelli`` design: of the first order by Saltelli
and others (2010), total by Jansen (1999), "Variance based sensitivity analysis of model output",
Computer Physics Communications 181, table 2 (b) and (f). Elementary effects come from a ``morris``
design (Morris 1991; Campolongo and others 2007). Both need independent factors: parameters that
constraints tie to each other are one factor.

Shapley effects (Owen 2014; Song, Nelson, Staum 2016) divide the variance among all parameters, tied
ones too. They are estimated from valid points that were drawn independently, by nearest neighbours
(B. Broto, F. Bachoc, M. Depecker: Variance reduction for estimation of Shapley effects and
adaptation to unknown input distribution, SIAM/ASA J. Uncertainty Quantification 8, 2020).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from zenturio.annotate.model import MEASURED
from zenturio.errors import InputError, did_you_mean
from zenturio.experiment.signed_ranks import Interval
from zenturio.query.frames import study_frame
from zenturio.query.points_outside import present_space
from zenturio.query.regression import real_column
from zenturio.query.statistics import CONFIDENCE
from zenturio.record import Repository
from zenturio.record.entities import NEWEST, RowChoice
from zenturio.search.designs import Design
from zenturio.space import Point

LEAST = 0.01
"""A factor with a smaller share of the variance does not matter."""

NEGLIGIBLE = 0.05
"""A factor whose interval ends below this share does not matter, either."""

RESAMPLES = 1000
"""Bootstrap samples of an interval."""

FEWEST = 10
"""Fewer complete rows or trajectories tell nothing."""

FEWEST_POINTS = 20
"""Fewer points have no Shapley effects."""

MOST_TIED = 8
"""Shapley effects take twice as long with each further parameter."""

MOST_COMPARISONS = 1 << 25
"""Distances that Shapley effects look at: those of all pairs, for each set of parameters."""

NEIGHBOURS, HALVES = 3, 20
"""Points whose values estimate a conditional variance, itself included; halves of the points by
which an interval is estimated."""


def most_points(parameters: int) -> int:
    """Return from how many points Shapley effects of *parameters* are estimated; of more, a sample.

    >>> most_points(4), most_points(8)
    (1448, 362)
    """
    return math.isqrt(MOST_COMPARISONS >> parameters)


Reals = np.ndarray[Any, np.dtype[np.float64]]
Verdict = Literal["yes", "no", "not enough runs to tell"]


def _verdict(interval: Interval) -> Verdict:
    if interval.low > LEAST:
        return "yes"
    return "no" if interval.high < NEGLIGIBLE else "not enough runs to tell"


@dataclass(frozen=True)
class FactorShare:
    """The share of a metric's variance that goes with one factor."""

    factor: str
    first: float
    first_interval: Interval
    total: float
    """With all interactions that it takes part in."""
    total_interval: Interval

    @property
    def matters(self) -> Verdict:
        """Whether it matters, alone or together with others."""
        return _verdict(self.total_interval)


@dataclass(frozen=True)
class ShapleyEffect:
    """A parameter's part of a metric's variance, also where parameters correlate."""

    parameter: str
    share: float
    """With its part of each interaction, and of what correlated parameters share."""
    interval: Interval

    @property
    def matters(self) -> Verdict:
        """Whether it matters."""
        return _verdict(self.interval)


@dataclass(frozen=True)
class FactorEffect:
    """How much a metric changes where one factor alone changes."""

    factor: str
    size: float
    """The mean of the absolute changes (mu*)."""
    size_interval: Interval
    mean: float
    """The mean change (mu); near 0 where changes of both signs cancel out."""
    spread: float
    """The deviation of the changes (sigma): large where they depend on the other factors, or on the
    factor's own value.
    """


@dataclass(frozen=True)
class Sensitivity:
    """Shares or effects of all factors, the largest first."""

    metric: str
    design: Design
    shares: tuple[FactorShare, ...] = ()
    effects: tuple[FactorEffect, ...] = ()
    used: int = 0
    """Complete rows of a saltelli design, or trajectories; else points."""
    unit: str = ""
    sql: str = ""
    """The query of the results."""
    shapley: tuple[ShapleyEffect, ...] = ()
    """Of each parameter, where constraints tie some, or the design has independent points."""
    points: int = 0
    """Points that these were estimated from."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before believing the numbers."""
        notes = [f"{self.used:,} of {self.design.number:,} {self.design.counted} have all results"]
        unknown = [share for share in self.shares if share.matters == "not enough runs to tell"]
        if unknown:
            # The width of an interval falls with the root of the number of rows.
            widest = max(s.total_interval.high - s.total_interval.low for s in unknown)
            rows = math.ceil(self.design.number * (widest / NEGLIGIBLE) ** 2)
            names = ", ".join(share.factor for share in unknown)
            notes.append(
                f"not enough runs to tell whether it matters: {names}; about {rows:,} rows are"
                f" needed (--design saltelli:{rows})"
            )
        most = most_points(len(self.shapley))
        if self.shapley:
            sampled = f", by a sample of {most:,}" if self.points > most else ""
            notes.append(f"Shapley effects of {self.points:,} independent points{sampled}")
        if vague := [effect for effect in self.shapley if effect.matters not in ("yes", "no")]:
            widest = max(effect.interval.high - effect.interval.low for effect in vague)
            points = math.ceil(min(self.points, most) * (widest / NEGLIGIBLE) ** 2)
            number = -(-points // 2) if self.shares else points
            names = ", ".join(effect.parameter for effect in vague)
            needed = f"about {points:,} points are needed (--design {self.design.kind}:{number})"
            if points > most:
                needed = f"at least {most:,} points are needed, which may be too few"
            notes.append(f"not enough runs to tell by Shapley effects: {names}; {needed}")
        return tuple(notes)

    def facts(self) -> dict[str, Any]:
        """Return the numbers as JSON has them."""
        return {
            "metric": self.metric,
            "unit": self.unit,
            "design": self.design.text,
            "seed": self.design.seed,
            "used": self.used,
            "factors": [
                {
                    "factor": s.factor,
                    "first": s.first,
                    "first_interval": [s.first_interval.low, s.first_interval.high],
                    "total": s.total,
                    "total_interval": [s.total_interval.low, s.total_interval.high],
                    "matters": s.matters,
                }
                for s in self.shares
            ]
            + [
                {
                    "factor": e.factor,
                    "size": e.size,
                    "size_interval": [e.size_interval.low, e.size_interval.high],
                    "mean": e.mean,
                    "spread": e.spread,
                }
                for e in self.effects
            ],
            "shapley": [
                {
                    "parameter": e.parameter,
                    "share": e.share,
                    "interval": [e.interval.low, e.interval.high],
                    "matters": e.matters,
                }
                for e in self.shapley
            ],
            "points": self.points,
            "notes": list(self.notes),
        }


def variance_shares(values: Reals, factors: Sequence[str]) -> tuple[tuple[FactorShare, ...], int]:
    """Return the shares of *values* at a saltelli design, and how many of its rows were complete.

    *values* are those of the rows A, of B, and of A with each factor of B, one block after the
    other; NaN where a value is missing. A. Saltelli and others: Variance based sensitivity analysis
    of model output, Computer Physics Communications 181 (2010); the total ones of M. J. W. Jansen:
    Analysis of variance designs for model output, Computer Physics Communications 117 (1999).
    """
    blocks = values.reshape(len(factors) + 2, -1)
    complete = blocks[:, np.isfinite(blocks).all(axis=0)]
    used = complete.shape[1]
    if used < FEWEST:
        return (), used
    # Estimates of the first order are products of values: without the mean they vary less.
    complete = complete - complete[:2].mean()
    first, second, mixed = complete[0], complete[1], complete[2:]
    rng = np.random.default_rng(0)
    picked = rng.integers(used, size=(RESAMPLES, used))

    def shares(rows: Any) -> tuple[Reals, Reals]:
        a, b = first[rows], second[rows]
        both = np.concatenate([a, b], axis=-1)
        variance = both.var(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            alone = [(b * (ab[rows] - a)).mean(axis=-1) / variance for ab in mixed]
            total = [((a - ab[rows]) ** 2).mean(axis=-1) / (2 * variance) for ab in mixed]
        return np.nan_to_num(np.array(alone)), np.nan_to_num(np.array(total))

    alone, total = shares(slice(None))
    alone_samples, total_samples = shares(picked)
    shares_by_factor = (
        FactorShare(
            name,
            float(alone[at]),
            _percentiles(alone_samples[at]),
            float(total[at]),
            _percentiles(total_samples[at]),
        )
        for at, name in enumerate(factors)
    )
    return tuple(sorted(shares_by_factor, key=lambda share: -share.total)), used


def elementary_effects(
    values: Reals, changed: Sequence[Sequence[int]], factors: Sequence[str]
) -> tuple[tuple[FactorEffect, ...], int]:
    """Return the effects of *values* along trajectories, and how many of these were complete.

    *values* has a row for each trajectory; *changed* names, for each of its steps, the factor by
    its number. M. D. Morris: Factorial sampling plans for preliminary computational experiments,
    Technometrics 33 (1991); sizes as means of absolute values: F. Campolongo, J. Cariboni & A.
    Saltelli, Environmental Modelling & Software 22 (2007).
    """
    complete = np.isfinite(values).all(axis=1)
    used = int(complete.sum())
    if used < 2:
        return (), used
    steps = np.diff(values[complete], axis=1)
    of = np.asarray(changed)[complete]
    effects = []
    rng = np.random.default_rng(0)
    for at, name in enumerate(factors):
        changes = steps[of == at]
        sizes = np.abs(changes)
        samples = sizes[rng.integers(len(sizes), size=(RESAMPLES, len(sizes)))].mean(axis=1)
        effects.append(
            FactorEffect(
                name,
                float(sizes.mean()),
                _percentiles(samples),
                float(changes.mean()),
                float(changes.std(ddof=1)),
            )
        )
    return tuple(sorted(effects, key=lambda effect: -effect.size)), used


def shapley_effects(
    distances: Reals, values: Reals, parameters: Sequence[str], noise: float = 0.0
) -> tuple[ShapleyEffect, ...]:
    """Return the Shapley effects of *values* at independent points of a space, the largest first.

    By nearest neighbours (Broto, Bachoc, Depecker 2020), of *distances* between all pairs of points
    for each of the *parameters*; *noise* is the variance
    of a value that no parameter explains. The interval is that of random halves of the points,
    widened by what twice as many points change on average: neighbours are then nearer.
    """
    rng = np.random.default_rng(0)
    # Of neighbours that are equally near any may be taken, but not always the first ones.
    distances = distances + rng.random(distances.shape) * 1e-9
    points = len(values)
    shares = _shapley_shares(distances, values, noise)
    halves = []
    for _ in range(HALVES):
        rows = rng.permutation(points)[: points // 2]
        halves.append(_shapley_shares(distances[:, rows][:, :, rows], values[rows], noise))
    # The variance of an estimate is that of estimates from random halves (delete-half jackknife).
    half_width = 1.96 * np.std(halves, axis=0, ddof=1)
    shift = np.mean(halves, axis=0) - shares
    lows, highs = shares - half_width - shift.clip(0), shares + half_width + (-shift).clip(0)
    effects = (
        ShapleyEffect(name, float(share), Interval(float(low), float(high)))
        for name, share, low, high in zip(parameters, shares, lows, highs, strict=True)
    )
    return tuple(sorted(effects, key=lambda effect: -effect.share))


def _shapley_shares(distances: Reals, values: Reals, noise: float) -> Reals:
    """Return the share of the variance of *values* that is due to each parameter."""
    count = len(distances)
    variance = float(values.var(ddof=1))
    if variance <= 0:
        return np.zeros(count)
    remaining: list[float] = []
    """By set of parameters, as bits: the variance that is left when all others are known."""
    for varying in range(1 << count):
        known = [at for at in range(count) if not varying >> at & 1]
        if not varying:
            remaining.append(min(noise, variance))
        elif not known:
            remaining.append(variance)
        else:
            near = np.argpartition(distances[known].sum(axis=0), NEIGHBOURS - 1, axis=1)
            remaining.append(float(values[near[:, :NEIGHBOURS]].var(axis=1, ddof=1).mean()))
    shares = np.zeros(count)
    for at in range(count):
        for varying in range(1 << count):
            if not varying >> at & 1:
                weight = 1 / (count * math.comb(count - 1, varying.bit_count()))
                shares[at] += weight * (remaining[varying | 1 << at] - remaining[varying])
    return shares / variance


def point_distances(points: Sequence[Point], parameters: Sequence[str]) -> Reals:
    """Return the distances between all *points*, for each parameter, from 0 to 1.

    Numbers are as far apart as their ranks; different texts, and active and inactive, are 1 apart.
    """
    return np.stack([_distances([point[name] for point in points]) for name in parameters])


def _distances(column: Sequence[Any]) -> Reals:
    is_number = [isinstance(v, int | float) and not isinstance(v, bool) for v in column]
    if all(number or value is None for number, value in zip(is_number, column, strict=True)):
        present = np.unique([float(v) for v in column if v is not None])
        last = max(len(present) - 1, 1)
        ranks = [np.nan if v is None else np.searchsorted(present, v) / last for v in column]
        places = np.array(ranks, dtype=np.float64)
        apart = np.abs(places[:, None] - places)
        missing = np.isnan(places)
        apart[missing[:, None] != missing] = 1.0
        apart[missing[:, None] & missing] = 0.0
        return apart
    codes = pd.factorize(np.array([repr(value) for value in column]))[0]
    different: Reals = (codes[:, None] != codes).astype(np.float64)
    return different


def _percentiles(samples: Reals) -> Interval:
    """Return the middle 95% of bootstrap *samples*.

    B. Efron: Nonparametric standard errors and confidence intervals, Canadian J. Statistics 9
    (1981).
    """
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(samples, [tail, 100 - tail])
    return Interval(float(low), float(high))


def study_sensitivity(
    repository: Repository,
    study: str,
    design: Design,
    metric: str = "",
    *,
    rows: RowChoice = NEWEST,
) -> Sensitivity:
    """Return how much *metric* of *study* depends on each factor of *design*.

    Repeats of a point count by their mean. InputError where the design is of another kind, or where
    too few of its points have results.
    """
    if design.kind == "covering":
        raise InputError(
            f"a design {design.text} has no sensitivity",
            hint="run one that has: zen run FILE --design saltelli:128, morris:10 or lhs:200",
        )
    definition, space = repository.definition(study), present_space(repository, study)
    if space is None:
        raise InputError(
            f"the space of {study} is not known",
            hint="it is of a function in Python: use zenturio.query.sensitivity there",
        )
    frame = study_frame(repository, study, rows=rows)
    metric = metric or _only_metric(frame.attrs["metrics"], study, definition.goals)
    if metric not in frame.attrs["metrics"]:
        hint = did_you_mean(metric, frame.attrs["metrics"])
        raise InputError(f"{study} has no metric {metric!r}", hint=hint)
    if not is_numeric_dtype(frame[metric]) and frame[metric].dtype != object:
        raise InputError(
            f"{metric!r} holds text, and a variance needs numbers",
            hint="choose another one: --metric NAME",
        )
    names = [name for name in frame.attrs["parameters"] if name in frame]
    keys = zip(*(frame[name].tolist() for name in names), strict=True)
    measured, noise = _means(keys, real_column(frame, metric))  # type: ignore[arg-type] # a mapping, too
    points = design.points(space)
    values = np.array([measured.get(_key(point, names), math.nan) for point in points])
    factors = design.factors(space)
    labels = [", ".join(names) for names in factors]
    unit = str(frame.attrs["units"].get(metric, ""))
    independent = _independent(design, factors, points, values)
    if design.kind == "saltelli":
        shares, used = variance_shares(values, labels)
        least, answer = FEWEST, Sensitivity(metric, design, shares, (), used, unit)
        if shares and any(len(names) > 1 for names in factors):
            answer = _with_shapley(answer, factors, *independent, noise)
    elif design.kind != "morris":
        least, used = FEWEST_POINTS, len(independent[1])
        answer = Sensitivity(metric, design, (), (), used, unit)
        if used >= least:
            answer = _with_shapley(answer, factors, *independent, noise)
    else:
        paths = values.reshape(-1, len(factors) + 1)
        effects, used = elementary_effects(paths, _changes(points, factors), labels)
        least, answer = 2, Sensitivity(metric, design, (), effects, used, unit)
    if not (answer.shares or answer.effects or answer.shapley):
        raise InputError(
            f"not enough runs: {used} of {design.number} {design.counted} of {design.text}"
            f" (seed {design.seed}) have all results, at least {least} are needed",
            hint=f"run them: zen run FILE --design {design.kind}:{max(design.number, least)}"
            f" --seed {design.seed}",
        )
    return replace(answer, sql=str(frame.attrs["sql"]))


def _independent(
    design: Design, factors: Sequence[object], points: Sequence[Point], values: Reals
) -> tuple[list[Point], Reals]:
    """Return the points of *design* that were drawn independently and have a value."""
    # The other rows of a saltelli design are mixed of its first two blocks.
    count = 2 * len(points) // (len(factors) + 2) if design.kind == "saltelli" else len(points)
    has_value = np.flatnonzero(np.isfinite(values[:count]))
    return [points[at] for at in has_value.tolist()], values[has_value]


def _with_shapley(
    answer: Sensitivity,
    factors: Sequence[Sequence[str]],
    points: Sequence[Point],
    values: Reals,
    noise: float,
) -> Sensitivity:
    """Return *answer* with the Shapley effects of the parameters of all *factors*."""
    named = [name for names in factors for name in names]
    parameters = [name for name in named if len({point[name] for point in points}) > 1]
    if len(parameters) > MOST_TIED:
        if answer.shares:
            return answer
        raise InputError(
            f"{len(parameters)} parameters are too many for Shapley effects: at most {MOST_TIED}",
            hint="zen run FILE --design saltelli:128, or a smaller space: --set NAME=VALUE",
        )
    if len(points) < FEWEST_POINTS or not parameters:
        return answer
    chosen = np.arange(len(points))
    most = most_points(len(parameters))
    if len(chosen) > most:
        chosen = np.random.default_rng(0).choice(chosen, most, replace=False)
    distances = point_distances([points[at] for at in chosen.tolist()], parameters)
    effects = shapley_effects(distances, values[chosen], parameters, noise)
    return replace(answer, shapley=effects, points=len(points))


def _only_metric(metrics: Sequence[str], study: str, goals: Sequence[Mapping[str, str]]) -> str:
    """Return the metric of the objective, or the one that is declared, or else the wall time."""
    if goals and goals[0]["expression"] in metrics:
        return goals[0]["expression"]
    declared = [name for name in metrics if name not in MEASURED]
    if len(declared) > 1:
        raise InputError(
            f"{study} has several metrics: {', '.join(declared)}", hint="name one: --metric NAME"
        )
    return (*declared, "wtime")[0]


Key = tuple[object, ...]


def _means(keys: Any, values: Reals) -> tuple[Mapping[Key, float], float]:
    """Return the mean of the values of each key, and the variance of such a mean by repeats."""
    values_by_key: dict[Key, list[float]] = {}
    for key, value in zip(keys, values.tolist(), strict=True):
        if math.isfinite(value):
            values_by_key.setdefault(tuple(map(_plain, key)), []).append(value)
    means = {key: math.fsum(numbers) / len(numbers) for key, numbers in values_by_key.items()}
    squares = math.fsum(
        (number - means[key]) ** 2 for key, numbers in values_by_key.items() for number in numbers
    )
    counts = [len(numbers) for numbers in values_by_key.values()]
    freedom = sum(counts) - len(counts)
    return means, squares / freedom * len(counts) / sum(counts) if freedom else 0.0


def _key(point: Point, names: Sequence[str]) -> Key:
    return tuple(_plain(point.get(name)) for name in names)


def _plain(value: Any) -> object:
    # pandas has several words for a missing value; the text "nan" is none of them.
    return None if not isinstance(value, str) and pd.isna(value) else value


def _changes(points: Sequence[Point], factors: Sequence[tuple[str, ...]]) -> list[list[int]]:
    """Return which factor changes at each step of each trajectory."""
    length = len(factors) + 1
    changes = []
    for start in range(0, len(points), length):
        path = points[start : start + length]
        changes.append(
            [
                next(
                    at
                    for at, names in enumerate(factors)
                    if any(before[name] != after[name] for name in names)
                )
                for before, after in pairwise(path)
            ]
        )
    return changes
