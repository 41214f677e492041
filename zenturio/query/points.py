"""What a regression sees: rows become distinct points, each with the mean of its repeats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from zenturio.errors import InputError, did_you_mean

FEWEST = 3
"""Distinct points that a regression needs."""

Noise = Literal["equal", "relative"]
"""Whether deviations are as large everywhere, or in proportion to the value."""


@dataclass(frozen=True)
class FitPoints:
    """Distinct points, the mean of y at each, and how many rows that is the mean of."""

    columns: Mapping[str, np.ndarray]
    y: np.ndarray
    counts: np.ndarray
    noise: Noise

    @property
    def points(self) -> int:
        return len(self.y)

    @cached_property
    def root(self) -> np.ndarray:
        """Square roots of the weights: one over the deviation that each mean is expected to have,
        in units of a typical one, so that kinds of noise can be compared.
        """
        root = np.sqrt(self.counts)
        if self.noise == "relative":
            root = root / np.abs(self.y)
        scaled: np.ndarray = root / np.exp(np.log(root).mean())
        return scaled


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
        inputs = np.column_stack(list(self.columns.values()))
        points, group, counts = np.unique(inputs, axis=0, return_inverse=True, return_counts=True)
        return points, group.ravel(), counts

    def data(self, noise: Noise | None) -> tuple[FitPoints, ...]:
        """The points under *noise*; under each that is possible, if the repeats do not tell."""
        points, group, counts = self._grouped
        means = np.bincount(group, self.y) / counts
        columns = {name: points[:, i] for i, name in enumerate(self.columns)}
        equal = FitPoints(columns, means, counts, "equal")
        relative = replace(equal, noise="relative")
        if noise == "relative" and not means.all():
            raise InputError("a mean is 0: noise cannot be relative to it", hint="noise='equal'")
        match noise or _told(self.y - means[group], means[group], counts[group]):
            case "equal":
                return (equal,)
            case "relative":
                return (relative,)
            case None:
                return (equal, relative)


def fit_rows(columns: Mapping[str, Any], y: str, x: Sequence[str]) -> FitRows:
    """The rows that count; InputError if there are too few for a regression."""
    require_columns(columns, (y, *x))
    table = {name: real_column(columns, name) for name in dict.fromkeys((*x, y))}
    used = np.logical_and.reduce([np.isfinite(column) for column in table.values()])
    values = table[y][used]
    greatest = float(np.abs(values).max(initial=0.0))
    unit = math.ldexp(1.0, max(math.frexp(greatest)[1] - 1, -1022))
    rows = FitRows({name: table[name][used] for name in x}, values / unit, unit)
    distinct = len(np.unique(np.column_stack(list(rows.columns.values())), axis=0))
    if distinct < FEWEST:
        raise InputError(
            f"{y!r} is known at {distinct} distinct values of {', '.join(x)}",
            hint=f"a regression needs at least {FEWEST}",
        )
    return rows


def require_columns(columns: Mapping[str, Any], names: Iterable[str]) -> None:
    """InputError for the first of *names* that is no column."""
    for name in names:
        if name not in columns:
            raise InputError(f"there is no column {name!r}", hint=did_you_mean(name, columns))


def real_column(columns: Mapping[str, Any], name: str) -> np.ndarray:
    """The column as real numbers, NaN where there is none; InputError if it holds text."""
    column = columns[name]
    try:
        if hasattr(column, "to_numpy"):
            values: np.ndarray = column.to_numpy(dtype=float, na_value=math.nan)
            return values
        if isinstance(column, np.ndarray) and column.dtype != object:
            return column.astype(float)
        return np.array([math.nan if value is None else value for value in column], dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name!r} holds text, and a regression needs numbers",
            hint=f"fit each of its values by itself: --by {name}",
        ) from error


def _told(off: np.ndarray, means: np.ndarray, counts: np.ndarray) -> Noise | None:
    """Under which noise the deviations of the repeats are likelier (Gauss); None without repeats.

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
