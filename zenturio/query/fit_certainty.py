"""How sure a regression is: whether anything varies at all, and where new values will lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zenturio.errors import InputError
from zenturio.experiment.signed_ranks import Interval
from zenturio.query.formula_shapes import FitPoints, Kind, Noise
from zenturio.query.regression import KINDS, Model, fit_rows, lowest_price
from zenturio.query.statistics import CONFIDENCE

PERMUTATIONS = 199
"""Orders that are tried: the least p is 1 / 200."""
FEWEST_ROWS = 19
"""Rows that a band of 95% needs: of fewer, one in twenty lies beyond the outermost."""


def chance_of_constant(
    columns: Mapping[str, Any],
    y: str,
    x: Sequence[str],
    *,
    kinds: Iterable[Kind] = KINDS,
    noise: Noise | None = None,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> float:
    """Return how often a formula fits *y* as well as it does where *y* does not depend on *x*.

    The means of *y* are put to the points in another order, and all formulas are fitted anew, so
    that the choice among them is part of the test: P. H. Westfall & S. S. Young: Resampling-Based
    Multiple Testing (1993), 2.3. InputError where no formula but the constant can be fitted.
    """
    varying = [kind for kind in kinds if kind != "constant"]
    data = fit_rows(columns, y, x).data(noise)
    observed = lowest_price(varying, data)
    if not math.isfinite(observed):
        hint = "more points are needed, or another kind"
        raise InputError(f"no formula over {', '.join(x)} can be fitted to {y!r}", hint=hint)
    random = np.random.default_rng(seed)
    as_good = 0
    for _ in range(permutations):
        order = random.permutation(data[0].points)
        as_good += lowest_price(varying, [_reordered(part, order) for part in data]) <= observed
    return (as_good + 1) / (permutations + 1)


def _reordered(data: FitPoints, order: np.ndarray) -> FitPoints:
    """Return the same values, with their weights, at the points in another order."""
    return replace(data, y=data.y[order], counts=data.counts[order])


def prediction_interval(
    columns: Mapping[str, Any], model: Model, at: Mapping[str, float]
) -> Interval | None:
    """Return where a single new value *at* a point will lie, with about 95%; None of few rows.

    The formula is fitted anew without each point, and the values there say how far one misses:
    the jackknife+ of R. F. Barber, E. J. Candes, A. Ramdas & R. J. Tibshirani: Predictive inference
    with the jackknife+, Annals of Statistics 49 (2021), which promises 90% and mostly holds 95%.
    """
    rows = fit_rows(columns, model.y, model.x or list(columns)[:1])
    if len(rows.y) < FEWEST_ROWS:
        return None
    point = {name: np.array([float(at[name])]) for name in model.x}
    used = {name: rows.columns[name] for name in model.x} or {"": np.zeros(len(rows.y))}
    point = point or {"": np.zeros(1)}
    (data, *_) = rows.data(model.noise)
    keys = np.column_stack([*used.values()])
    lows, highs = [], []
    for key in np.unique(keys, axis=0):
        inside = (keys == key).all(axis=1)
        others = np.ones(data.points, dtype=np.bool_)
        if model.x:
            places = np.column_stack([data.columns[name] for name in model.x])
            others = ~(places == key).all(axis=1)
        part = FitPoints(
            {name: column[others] for name, column in data.columns.items()},
            data.y[others], data.counts[others], data.noise,
        )  # fmt: skip
        fitted = model.shape.solve(part.columns, part.y, part.root)
        if fitted is None:
            return None
        points = {name: column[inside] for name, column in used.items()}
        expected = model.shape.values(points, fitted)
        predicted = float(model.shape.values(point, fitted)[0])
        missed = np.abs(rows.y[inside] - expected)
        if data.noise == "relative":
            missed = missed / np.abs(expected) * abs(predicted)
        lows += (predicted - missed).tolist()
        highs += (predicted + missed).tolist()
    # The order statistics of n values that a new one is beyond with (1 - confidence) / 2 each.
    beyond = max(math.floor((1 - CONFIDENCE) / 2 * (len(lows) + 1)), 1)
    low, high = sorted(lows)[beyond - 1], sorted(highs)[-beyond]
    return Interval(low * rows.unit, high * rows.unit)
