"""Rows become what is drawn: one value for all rows that agree on x, colour and panel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zenturio.query import statistics
from zenturio.show.charts import Aggregate, Errors

NONE = "(none)"
"""What a value is called that is not there: an inactive parameter."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The rows of one place in a chart."""

    value: float
    low: float
    high: float
    rows: int


def cells(
    frame: pd.DataFrame, keys: Sequence[str], y: str, aggregate: Aggregate, errors: Errors
) -> dict[tuple[Any, ...], Cell]:
    """The *aggregate* of *y* for each combination of the *keys*, in the order of the frame."""
    groups = frame.groupby(list(keys), sort=False, dropna=False, observed=True)[y]
    reduce = _REDUCTIONS[aggregate]
    found = {}
    for key, column in groups:
        values = _numbers(column) if aggregate != "count" else np.ones(len(column))
        value = reduce(values)
        half = _half(values, errors)
        found[key_of(key)] = Cell(value, value - half, value + half, len(values))
    return found


def key_of(key: Any) -> tuple[Any, ...]:
    """A group's key, where NULL is None: NaN would not be found again."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(None if missing(part) else part for part in parts)


def _numbers(column: pd.Series[Any]) -> np.ndarray:
    values: np.ndarray = column.to_numpy(dtype=float)
    return values


_REDUCTIONS: dict[Aggregate, Callable[[np.ndarray], float]] = {
    "mean": statistics.mean,
    "median": statistics.median,
    "min": lambda values: float(values.min()),
    "max": lambda values: float(values.max()),
    "sum": statistics.total,
    "std": statistics.deviation,
    "count": lambda values: float(len(values)),
}


def _half(values: np.ndarray, errors: Errors) -> float:
    match errors:
        case "interval":
            return statistics.half_width(values)
        case "std":
            return statistics.deviation(values)
        case "none":
            return math.nan


def text(value: Any) -> str:
    """*value* as it stands in a legend or under an axis."""
    if missing(value):
        return NONE
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def missing(value: Any) -> bool:
    """Whether *value* is NULL, in any of the ways of pandas."""
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def levels(column: pd.Series[Any]) -> list[Any]:
    """The distinct values: numbers ascending, texts as they come; None at the end for NULL."""
    distinct = list(column.drop_duplicates())
    there = [value for value in distinct if not missing(value)]
    if is_number(column):
        there.sort()
    return there + [None] * (len(distinct) > len(there))


def is_number(column: pd.Series[Any]) -> bool:
    """Whether the values can be placed on an axis; true and false are texts here."""
    numeric = pd.api.types.is_numeric_dtype(column)
    return bool(numeric and not pd.api.types.is_bool_dtype(column))
