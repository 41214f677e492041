"""Regressions: a formula for a metric, chosen by how well it foretells what it has not seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
import pandas as pd

from zenturio.errors import InputError, did_you_mean
from zenturio.experiment.signed_ranks import Interval
from zenturio.query.formula_shapes import FitPoints, FormulaShape, Kind, Noise, candidates
from zenturio.query.frames import as_reals
from zenturio.query.statistics import CONFIDENCE, student

FEWEST = 3
"""Distinct points that a regression needs."""


@dataclass(frozen=True)
class FitRows:
    """All rows that have numbers in every column."""

    columns: Mapping[str, np.ndarray]
    y: np.ndarray
    """In units of *unit*, so that squares neither overflow nor vanish."""
    unit: float
    """A power of two: nothing is rounded by it."""

    @cached_property
    def _grouped(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        points = np.zeros((1, 0))
        group = np.zeros(len(self.y), dtype=np.int64)
        # Column by column: rows as wholes take ten times as long to sort as numbers.
        for column in self.columns.values():
            values, codes = np.unique(column, return_inverse=True)
            pairs, group = np.unique(group * len(values) + codes, return_inverse=True)
            before, last = np.divmod(pairs, max(len(values), 1))
            points = np.column_stack([points[before], values[last]])
        return points, group, np.bincount(group, minlength=len(points))

    @property
    def distinct(self) -> int:
        """How many distinct points there are."""
        return len(self._grouped[0])

    def data(self, noise: Noise | None) -> tuple[FitPoints, ...]:
        """The points under *noise*; under each that is possible, if the repeats do not tell."""
        points, group, counts = self._grouped
        means = np.bincount(group, self.y) / counts
        columns = {name: points[:, i] for i, name in enumerate(self.columns)}
        equal = FitPoints(columns, means, counts, "equal")
        relative = replace(equal, noise="relative")
        if noise == "relative" and not means.all():
            raise InputError("a mean is 0: noise cannot be relative to it", hint="noise='equal'")
        match noise or _likelier_noise(self.y - means[group], means[group], counts[group]):
            case "equal":
                return (equal,)
            case "relative":
                return (relative,)
            case None:
                return (equal, relative)


def fit_rows(columns: Mapping[str, Any], y: str, x: Sequence[str]) -> FitRows:
    """Return the rows that count; InputError if there are too few for a regression."""
    require_columns(columns, (y, *x))
    table = {name: real_column(columns, name) for name in dict.fromkeys((*x, y))}
    used = used_rows(table, y, x)
    values = table[y][used]
    greatest = float(np.abs(values).max(initial=0.0))
    unit = math.ldexp(1.0, max(math.frexp(greatest)[1] - 1, -1022))
    rows = FitRows({name: table[name][used] for name in x}, values / unit, unit)
    if rows.distinct < FEWEST:
        raise InputError(
            f"{y!r} is known at {rows.distinct} distinct values of {', '.join(x)}",
            hint=f"a regression needs at least {FEWEST}",
        )
    return rows


def used_rows(columns: Mapping[str, Any], y: str, x: Sequence[str]) -> np.ndarray:
    """Return the mask of the rows that a fit of *y* over *x* uses: those with numbers in all
    columns.
    """
    table = (real_column(columns, name) for name in dict.fromkeys((*x, y)))
    used: np.ndarray = np.logical_and.reduce([np.isfinite(column) for column in table])
    return used


def require_columns(columns: Mapping[str, Any], names: Iterable[str]) -> None:
    """InputError for the first of *names* that is no column."""
    for name in names:
        if name not in columns:
            raise InputError(f"there is no column {name!r}", hint=did_you_mean(name, columns))


def real_column(columns: Mapping[str, Any], name: str) -> np.ndarray:
    """Return the column as real numbers, NaN where there is none; InputError if it holds text."""
    column = columns[name]
    try:
        if hasattr(column, "to_numpy"):
            return as_reals(column)
        if isinstance(column, np.ndarray) and column.dtype != object:
            return column.astype(float)
        return np.array([math.nan if value is None else value for value in column], dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name!r} holds text, and a regression needs numbers",
            hint=f"fit each value of a label by itself: --by {name}; for a number, correct its"
            " METRIC and run zen extract",
        ) from error


def _likelier_noise(off: np.ndarray, means: np.ndarray, counts: np.ndarray) -> Noise | None:
    """Under which noise the deviations of the repeats are likelier; None without repeats.

    The likelihood is the restricted one: H. D. Patterson & R. Thompson: Recovery of inter-block
    information when block sizes are unequal, Biometrika 58 (1971).
    By row: how far it is from the mean of its point, that mean, and how many rows the point has.
    """
    # A point of k rows has k - 1 free deviations.
    share = (counts - 1) / counts
    freedom = share.sum()
    if not means.all():
        return "equal"
    if freedom < 1 or not off.any():
        return None
    equal = freedom / 2 * math.log(float(off @ off))
    ratios = off / means
    relative = freedom / 2 * math.log(float(ratios @ ratios)) + share @ np.log(np.abs(means))
    return "relative" if relative < equal else "equal"


@dataclass(frozen=True)
class Model:
    """A fitted formula, and how good it is."""

    kind: Kind
    y: str
    x: tuple[str, ...]
    """The columns that the formula names."""
    formula: str
    """In the expression language; no more digits than the data are worth."""
    r2: float
    """The share of the variance of all rows that the formula explains."""
    error: float
    """Root mean square of what is missed at points that were left out one at a time."""
    rows: int
    points: int
    """Distinct points among the rows."""
    noise: Noise
    shape: FormulaShape
    coefficients: tuple[float, ...]
    intervals: tuple[Interval | None, ...] = ()
    """Of each coefficient, about 95%; narrower than they should be, for the shape was chosen."""

    def predict(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Return the formula's value on each row; NaN where it has none."""
        x = {name: np.asarray(column, dtype=float) for name, column in columns.items()
             if name in self.x}  # fmt: skip
        if not self.x:
            x = {"": np.zeros(len(next(iter(columns.values()))))}
        values = self.shape.values(x, np.array(self.coefficients))
        return np.where(np.isfinite(values), values, np.nan)

    def __str__(self) -> str:
        return (
            f"{self.y} = {self.formula}   ({self.kind}, R2 {self.r2:.4f}, "
            f"left-out error {self.error:.4g}, {self.rows} rows at {self.points} points)"
        )


KINDS: tuple[Kind, ...] = get_args(Kind)


def lowest_price(kinds: Iterable[Kind], data: Iterable[FitPoints]) -> float:
    """What the best formula of these *kinds* misses, with its size; infinite if there is none."""
    chosen = tuple(kinds)
    return min((t.price() for part in data for t in _tries(chosen, part)), default=math.inf)


def fit(
    columns: Mapping[str, Any],
    y: str,
    x: Sequence[str],
    *,
    kinds: Iterable[Kind] = KINDS,
    noise: Noise | None = None,
) -> Model:
    """Return the model that foretells *y* best from the columns *x*; the simplest of equals.

    Deviations weigh the same everywhere, or in proportion to y (*noise*): as the repeats say, or
    without repeats as fits better.
    """
    rows = fit_rows(columns, y, x)
    chosen = tuple(kinds)
    tried = [fitted for data in rows.data(noise) for fitted in _tries(chosen, data)]
    if not tried:
        kind = ", ".join(chosen)
        raise InputError(
            f"no {kind} formula can be fitted to {y!r} over {', '.join(x)}",
            hint="more points are needed, or another kind",
        )
    return _model(min(tried, key=_Try.price), y, rows)


def fits(
    columns: Mapping[str, Any],
    y: str,
    x: Sequence[str],
    *,
    kinds: Iterable[Kind] = KINDS,
    noise: Noise | None = None,
) -> tuple[Model, ...]:
    """The best model of each kind, the best first; a kind that cannot be fitted is left out."""
    rows = fit_rows(columns, y, x)
    by_kind = ([f for data in rows.data(noise) for f in _tries([kind], data)] for kind in kinds)
    models = [_model(min(tried, key=_Try.price), y, rows) for tried in by_kind if tried]
    return tuple(sorted(models, key=lambda model: model.error))


def fit_each(
    columns: Mapping[str, Any], y: str, x: Sequence[str], by: Sequence[str], **options: Any
) -> dict[tuple[Any, ...], Model]:
    """Return a model for each combination of values in the columns *by*, in their order."""
    require_columns(columns, (y, *x, *by))
    rows: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*(list(columns[name]) for name in by), strict=True)):
        rows.setdefault(key, []).append(row)
    table = {name: real_column(columns, name) for name in dict.fromkeys((y, *x))}
    return {
        key: fit({name: column[some] for name, column in table.items()}, y, x, **options)
        for key, some in rows.items()
    }


HEAD = 10_000
"""Rows that are looked at before all are: parameters that differ mostly do so there."""


def mixed_parameters(
    columns: Mapping[str, Any],
    parameters: Iterable[str],
    points: Sequence[str],
    used: np.ndarray | None = None,
) -> list[str]:
    """Return the *parameters* in which rows differ that agree in the columns *points*.

    What such rows differ by is no noise: intervals around their mean say nothing of either value.
    *used*: which rows count; all, if nothing is said.
    """
    mixed: list[str] = []
    if not points:
        return mixed
    places = np.flatnonzero(used if used is not None else np.ones(len(columns[points[0]]), bool))
    for name in parameters:
        # What is computed from one of them differs with it, and is not named beside it.
        others = [columns[other] for other in (*points, *mixed)]
        parts = [places[:HEAD], places] if len(places) > HEAD else [places]
        if any(_differs(columns[name], others, rows) for rows in parts):
            mixed.append(name)
    return mixed


def _differs(column: Any, others: Sequence[Any], rows: np.ndarray) -> bool:
    """Return whether two of *rows* agree in all *others*, and not in the *column*."""
    groups = np.zeros(len(rows), dtype=np.int64)
    for other in others:
        codes = _codes(other, rows)
        groups = _codes(groups * (codes.max(initial=0) + 1) + codes)
    codes = _codes(column, rows)
    first = np.empty(groups.max(initial=0) + 1, dtype=np.int64)
    first[groups[::-1]] = codes[::-1]
    return bool((codes != first[groups]).any())


def _codes(column: Any, rows: np.ndarray | None = None) -> np.ndarray:
    """Return a number for each value of *rows*, the same for equal ones."""
    if not hasattr(column, "take"):
        column = np.array([*column, None], dtype=object)[:-1]
    codes: np.ndarray = pd.factorize(
        column if rows is None else column.take(rows), use_na_sentinel=False
    )[0]
    return codes


@dataclass(frozen=True)
class _Try:
    """A shape that was fitted, and its squared weighted error at each point when left out."""

    shape: FormulaShape
    among: int
    """How many shapes it was picked from."""
    data: FitPoints
    coefficients: np.ndarray
    left_out: np.ndarray

    def price(self) -> float:
        """Return how much it misses, with what its size and the luck of being picked are worth.

        By the extended criterion of Chen & Chen (2008): points * log(squared error) + size *
        log(points) + 2 log(shapes tried). Where all errors are roundings the simplest is best.
        """
        data = self.data
        floor = 1e-20 * float(((data.y * data.root) ** 2).sum()) or 1e-300
        missed = data.points * math.log(max(float(self.left_out.sum()), floor))
        return missed + self.shape.size * math.log(data.points) + 2 * math.log(self.among)


def _tries(kinds: Iterable[Kind], data: FitPoints) -> list[_Try]:
    fits = (_try(shape, among, data) for k in kinds for shape, among in candidates(k, data))
    return [fitted for fitted in fits if fitted is not None]


def _try(shape: FormulaShape, among: int, data: FitPoints) -> _Try | None:
    """None where the points are too few or cannot determine the coefficients.

    The error at a left-out point is the residual over 1 - leverage, without a refit: D. M. Allen:
    The relationship between variable selection and data augmentation and a method for prediction,
    Technometrics 16 (1974). That is exact for sums, and to first order for the others.
    """
    spare = 2 if shape.kind == "performance" else 1
    if data.points < shape.size + spare:
        return None
    coefficients = shape.solve(data.columns, data.y, data.root)
    if coefficients is None:
        return None
    basis, _ = np.linalg.qr(shape.slopes(data.columns, coefficients) * data.root[:, None])
    leverage = (basis**2).sum(axis=1)
    off = (data.y - shape.values(data.columns, coefficients)) * data.root
    with np.errstate(divide="ignore", invalid="ignore"):
        left_out = (off / (1 - leverage)) ** 2
    usable = np.isfinite(left_out).all()
    return _Try(shape, among, data, coefficients, left_out) if usable else None


def _model(best: _Try, y: str, rows: FitRows) -> Model:
    shape, data = best.shape, best.data
    error = math.sqrt(float((best.left_out / data.root**2).mean()))
    texts = _rounded(best, error, rows.unit)
    coefficients = tuple(map(float, texts))
    missed = rows.y - shape.values(rows.columns, np.array(coefficients)) / rows.unit
    spread = float(((rows.y - rows.y.mean()) ** 2).sum())
    return Model(
        kind=shape.kind,
        y=y,
        x=() if shape.kind == "constant" else tuple(rows.columns),
        formula=shape.formula(texts),
        r2=1 - float(missed @ missed) / spread if spread > 0 else 1.0,
        error=error * rows.unit,
        rows=len(rows.y),
        points=data.points,
        noise=data.noise,
        shape=shape,
        coefficients=coefficients,
        intervals=_intervals(best, rows.unit),
    )


def _intervals(best: _Try, unit: float) -> tuple[Interval | None, ...]:
    """Student's intervals of the coefficients, of weighted least squares at the points.

    N. R. Draper & H. Smith: Applied Regression Analysis (1998), 9.2; of shapes that are no sums,
    those of the linearized model (Bates & Watts 1988, chapter 2).
    """
    shape, data = best.shape, best.data
    freedom = data.points - len(best.coefficients)
    if freedom < 1:
        return (None,) * len(best.coefficients)
    slopes = shape.slopes(data.columns, best.coefficients) * data.root[:, None]
    # Columns differ by powers of x: scaled, their triangle can be inverted.
    sizes = np.linalg.norm(slopes, axis=0)
    inverse = np.linalg.pinv(np.linalg.qr(slopes / sizes, mode="r")) / sizes[:, None]
    off = (data.y - shape.values(data.columns, best.coefficients)) * data.root
    errors = np.sqrt((inverse**2).sum(axis=1) * float(off @ off) / freedom)
    half = student(0.5 + CONFIDENCE / 2, freedom) * errors
    low, high = (
        shape.scaled(best.coefficients + sign * half, unit).tolist() for sign in (-1.0, 1.0)
    )
    return tuple(Interval(*sorted(ends)) for ends in zip(low, high, strict=True))


def _rounded(best: _Try, error: float, unit: float) -> list[str]:
    """The coefficients with the fewest digits that leave the curve where it was, *unit* included.

    That is: nowhere moved by more than a hundredth of the error, or by a millionth of its value.
    """
    shape, columns = best.shape, best.data.columns
    coefficients = shape.scaled(best.coefficients, unit)
    exact = shape.values(columns, coefficients)
    allowed = np.maximum(error * unit / 100, np.abs(exact) * 1e-6)

    def stays(texts: list[str]) -> bool:
        moved = shape.values(columns, np.array([float(text) for text in texts])) - exact
        return bool((np.abs(moved) <= allowed).all())

    tries = ([f"{c:.{digits}g}" for c in coefficients] for digits in range(3, 17))
    texts = next(filter(stays, tries), [repr(float(c)) for c in coefficients])
    # A coefficient whose absence nobody can see is left out of the formula.
    for i in range(len(texts)):
        without = [*texts[:i], "0", *texts[i + 1 :]]
        if stays(without):
            texts = without
    return texts
