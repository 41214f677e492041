"""Regressions: a formula for a metric, chosen by how well it foretells what it has not seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from zenturio.errors import InputError
from zenturio.query.candidates import candidates
from zenturio.query.model import Model
from zenturio.query.points import FitPoints, FitRows, Noise, fit_rows, real_column, require_columns
from zenturio.query.shapes import FormulaShape, Kind

KINDS: tuple[Kind, ...] = get_args(Kind)


def fit(
    columns: Mapping[str, Any],
    y: str,
    x: Sequence[str],
    *,
    kinds: Iterable[Kind] = KINDS,
    noise: Noise | None = None,
) -> Model:
    """The model that foretells *y* best from the columns *x*; the simplest of equals.

    Deviations weigh the same everywhere, or in proportion to y (*noise*): as the repeats say, or
    without repeats as fits better.
    """
    rows = fit_rows(columns, y, x)
    chosen = tuple(kinds)
    tried = [found for data in rows.data(noise) for found in _tries(chosen, data)]
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
    """A model for each combination of values in the columns *by*, in their order."""
    require_columns(columns, (y, *x, *by))
    rows: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*(list(columns[name]) for name in by), strict=True)):
        rows.setdefault(key, []).append(row)
    table = {name: real_column(columns, name) for name in dict.fromkeys((y, *x))}
    return {
        key: fit({name: column[some] for name, column in table.items()}, y, x, **options)
        for key, some in rows.items()
    }


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
        """How much it misses, with what its size and the luck of being picked are worth.

        By the extended criterion of Chen & Chen (2008): points * log(squared error) + size *
        log(points) + 2 log(shapes tried). Where all errors are roundings the simplest is best.
        """
        data = self.data
        floor = 1e-20 * float(((data.y * data.root) ** 2).sum()) or 1e-300
        missed = data.points * math.log(max(float(self.left_out.sum()), floor))
        return missed + self.shape.size * math.log(data.points) + 2 * math.log(self.among)


def _tries(kinds: Iterable[Kind], data: FitPoints) -> list[_Try]:
    found = (_try(shape, among, data) for k in kinds for shape, among in candidates(k, data))
    return [each for each in found if each is not None]


def _try(shape: FormulaShape, among: int, data: FitPoints) -> _Try | None:
    """None where the points are too few or cannot determine the coefficients.

    The errors come from the hat matrix: exact for sums, and to first order for the others.
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
    )


def _rounded(best: _Try, error: float, unit: float) -> list[str]:
    """The coefficients with the fewest digits that leave the curve where it was, *unit* included.

    That is: nowhere moved by more than a hundredth of the error, or by a millionth of its value.
    """
    shape, columns = best.shape, best.data.columns
    found = shape.scaled(best.coefficients, unit)
    exact = shape.values(columns, found)
    allowed = np.maximum(error * unit / 100, np.abs(exact) * 1e-6)

    def stays(texts: list[str]) -> bool:
        moved = shape.values(columns, np.array([float(text) for text in texts])) - exact
        return bool((np.abs(moved) <= allowed).all())

    tries = ([f"{c:.{digits}g}" for c in found] for digits in range(3, 17))
    texts = next(filter(stays, tries), [repr(float(c)) for c in found])
    for i in range(len(texts)):
        without = [*texts[:i], "0", *texts[i + 1 :]]
        if stays(without):
            texts = without
    return texts
