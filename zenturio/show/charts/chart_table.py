"""The rows of a chart, grouped by its parts, and the notes below the chart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from zenturio.errors import InputError, did_you_mean
from zenturio.query import statistics
from zenturio.query.groups import Grouping
from zenturio.query.origins import Origins
from zenturio.query.present import left_out
from zenturio.query.statistics import CONFIDENCE, student
from zenturio.show.chart import AIMED, Aggregate, Axis, Chart, Errors, Panel
from zenturio.show.charts.chart_options import Wish
from zenturio.show.notebook import Shown

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


FEW_TICKS = 12

_WORDS = {
    "mean": "mean {}", "median": "median {}", "min": "least {}", "max": "greatest {}",
    "sum": "total {}", "std": "deviation of {}", "count": "number of experiments",
}  # fmt: skip


class Table:
    """Columns ``x``, ``y`` (of a grid), ``colour``, ``facet`` and ``value``: rows that count."""

    def __init__(self, frame: pd.DataFrame, wish: Wish, needed: Iterable[str] = ()) -> None:
        """Of *frame* those rows count that have a number in all *needed* columns, too."""
        wish.check()
        _check_columns(wish, frame)
        self.wish = wish
        self.attrs: dict[Any, Any] = frame.attrs
        self.notes: list[str] = []
        if sampled := frame.attrs.get("sampled"):
            self.notes.append(f"a sample of {sampled[0]:,} of {sampled[1]:,} experiments")
        self.notes += left_out(frame.attrs.get("left_out", 0))
        self.notes += Origins.of(frame.attrs).notes
        self.total = int(frame.attrs.get("of", len(frame)))
        self.noun = str(frame.attrs.get("noun", "experiments"))
        """What a row is."""
        self.given = frame
        """All rows, those included that do not count."""
        self.frame = frame[self._countable(frame, needed)]
        if self.frame.empty:
            raise InputError(
                f"there is nothing to draw: no row has a number for {wish.metric!r}",
                hint="look at the failures of the study, or at the condition",
            )
        parts = {"x": wish.x, "colour": wish.colour, "facet": wish.facet, "value": wish.metric}
        parts |= {"y": wish.y} if wish.z else {}
        columns = {part: self.frame[name] for part, name in parts.items() if name}
        self.parts = self.frame[[]].assign(colour="", facet="").assign(**columns)

    def _countable(self, frame: pd.DataFrame, needed: Iterable[str]) -> np.ndarray:
        """Rows with a number wherever a place on an axis needs one."""
        wish, keep = self.wish, np.ones(len(frame), dtype=bool)
        drawn = {wish.x, wish.y, wish.z} if wish.kind in ("line", "scatter", "surface") else set()
        for name in sorted({*drawn, *needed, wish.metric} - {""}):
            if is_number(frame[name]):
                keep &= np.isfinite(frame[name].to_numpy(dtype=float, na_value=math.nan))
            elif name == wish.metric:
                keep &= frame[name].notna().to_numpy()
        return keep

    def axis(self, letter: str, *, categories: bool = False) -> Axis:
        """The axis of the x or y of a parameter; of texts, or of numbers that are treated so."""
        name, column = getattr(self.wish, letter), self.parts[letter]
        unit, log = self.unit(name), letter in self.wish.log
        if categories or not is_number(column):
            return Axis(name, unit, categories=tuple(map(text, levels(column))))
        distinct = [float(value) for value in levels(column) if not missing(value)]
        self._check_log(log, name, distinct[0])
        ticks = tuple(distinct) if len(distinct) <= FEW_TICKS else ()
        return Axis(name, unit, log, ticks=ticks, ends=(distinct[0], distinct[-1]))

    def value_axis(self, letter: str, values: Iterable[float]) -> Axis:
        """The axis of the metric, after aggregation, with all *values* on it."""
        axis = self.number_axis(self.wish.metric, letter, values)
        counted = self.wish.aggregate == "count"
        return replace(axis, name="experiments", unit="") if counted else axis

    def number_axis(self, name: str, letter: str, values: Iterable[float]) -> Axis:
        """The axis of a column of numbers, with all *values* on it."""
        there = [value for value in values if math.isfinite(value)]
        ends = (min(there, default=0.0), max(there, default=0.0))
        log = letter in self.wish.log
        self._check_log(log, name, ends[0])
        return Axis(name, self.unit(name), log, ends=ends)

    def unit(self, name: str) -> str:
        return str(self.attrs.get("units", {}).get(name, ""))

    def _check_log(self, log: bool, name: str, least: float) -> None:
        if log and least <= 0:
            raise InputError(
                f"{name!r} goes down to {least:g}, and a logarithmic axis has no such place",
                hint=f"choose rows by a condition ({name} > 0), or leave the axis linear",
            )

    def split(self, part: str, most: int) -> list[Any]:
        """The levels of the colour or the facet."""
        found = levels(self.parts[part])
        if len(found) > most:
            name = getattr(self.wish, part)
            raise InputError(
                f"{name!r} has {len(found):,} values, and {most} can be told apart as {part}",
                hint="choose rows by a condition, or name another column",
            )
        return found

    def cells(self, *keys: str) -> dict[tuple[Any, ...], Cell]:
        """The aggregate for each combination of the parts *keys*; notes how it was made."""
        wish = self.wish
        hidden = self._hidden()
        bars = wish.kind in ("line", "bar") and wish.aggregate == "mean" and not hidden
        repeated = self._repeated(keys)
        errors: Errors = wish.errors or ("interval" if bars and repeated else "none")
        found = self._cells(keys, errors)
        rows = [cell.rows for cell in found.values()]
        if repeated:
            count = f"{min(rows)} to {max(rows)}" if min(rows) < max(rows) else str(rows[0])
            alike = "rows" if self.noun == "rows" else "repeats"
            over = f"values over all {', '.join(hidden)}" if hidden else alike
            self.notes.append(f"{wish.aggregate} of {count} {over}")
        if errors != "none":
            names = {"interval": "95 % interval of the mean", "std": "standard deviation"}
            self.notes.append(f"bars: {names[errors]}")
        return found

    def _repeated(self, keys: tuple[str, ...]) -> bool:
        return bool(self.parts.duplicated(list(keys)).any())

    def _cells(self, keys: tuple[str, ...], errors: Errors) -> dict[tuple[Any, ...], Cell]:
        return cells(self.parts, keys, "value", self.wish.aggregate, errors)

    @property
    def counted(self) -> int:
        """How many rows are drawn."""
        return len(self.frame)

    def _hidden(self) -> list[str]:
        """Parameters that vary and are not shown: the rows of one cell are no mere repeats."""
        wish = self.wish
        shown = {wish.x, wish.y, wish.colour, wish.facet}
        return [
            name
            for name in self.attrs.get("parameters", ())
            if name not in shown and self.frame[name].nunique(dropna=False) > 1
        ]

    def chart(self, panels: list[Panel], x: Axis, y: Axis, *, said: str = "", **rest: Any) -> Chart:
        """The chart of *panels*, with its title and its small print.

        The title is what is *said*, or what stands on the axes.
        """
        counted = f"{self.counted:,} of {self.total:,} {self.noun}"
        note = "; ".join([*self.notes, counted])
        title = self.wish.title or self._title(said)
        return Shown(self.wish.kind, title, note, x, y, tuple(panels), **rest)

    def thinned(self, most: int, what: str) -> pd.DataFrame:
        """The parts of at most so many rows, evenly; of fewer than all it is said."""
        if len(self.parts) <= most:
            return self.parts
        step = -(-len(self.parts) // most)
        thinned = self.parts.iloc[::step]
        self.notes.append(f"{len(thinned):,} {what} drawn, one of every {step}")
        return thinned

    def _title(self, said: str) -> str:
        study = self.attrs.get("study", "")
        said = said or self._axes_said()
        return f"{study}: {said}" if study else said

    def _axes_said(self) -> str:
        wish = self.wish
        aggregated = any(note.startswith(f"{wish.aggregate} of") for note in self.notes)
        said = _WORDS[wish.aggregate].format(wish.metric) if aggregated else wish.metric
        said += f" over {wish.x} and {wish.y}" if wish.z else f" over {wish.x}"
        said += f", by {wish.colour}" if wish.colour else ""
        return said + (f", for each {wish.facet}" if wish.facet else "")


def _check_columns(wish: Wish, frame: pd.DataFrame) -> None:
    """Raise InputError unless *frame* has the columns that the chart needs."""
    needed = {"heatmap": "xyz", "surface": "xyz", **dict.fromkeys(AIMED, "y")}
    for letter in needed.get(wish.kind, "xy"):
        if not getattr(wish, letter):
            raise InputError(f"a {wish.kind} chart needs a column for its {letter}")
    for name in (wish.x, wish.y, wish.z, wish.colour, wish.facet, *wish.axes):
        if name and name not in frame.columns:
            hint = did_you_mean(name, map(str, frame.columns))
            raise InputError(f"there is no column {name!r}", hint=hint)
    numbers = {"surface": (wish.x, wish.y, wish.z), "scatter": (wish.metric,)}
    for name in numbers.get(wish.kind, (wish.metric,)):
        if not is_number(frame[name]) and wish.aggregate != "count":
            raise InputError(f"{name!r} holds text; what is drawn must be numbers")


class Groups(Table):
    """A row for each group instead of each experiment; the same pictures come of it."""

    def __init__(self, frame: pd.DataFrame, wish: Wish) -> None:
        self._found: Grouping = frame.attrs["grouped"]
        super().__init__(frame, wish)
        self.parts["value"] = self.frame[self._found.value]

    def _countable(self, frame: pd.DataFrame, needed: Any) -> np.ndarray:  # noqa: ARG002
        """The database has chosen."""
        return np.ones(len(frame), dtype=bool)

    @property
    def counted(self) -> int:
        return int(self.frame[self._found.rows].sum())

    def _repeated(self, keys: tuple[str, ...]) -> bool:  # noqa: ARG002 - as one of experiments
        return bool((self.frame[self._found.rows] > 1).any())

    def _hidden(self) -> list[str]:
        return list(self._found.hidden)

    def _cells(self, keys: tuple[str, ...], errors: Errors) -> dict[tuple[Any, ...], Cell]:
        rows, values = self.frame[self._found.rows], self.frame[self._found.value]
        spread = self.frame[self._found.deviation] if errors != "none" else values
        places = self.parts[list(keys)].itertuples(index=False, name=None)
        found = {}
        for key, value, count, apart in zip(places, values, rows, spread, strict=True):
            half = _half_width(int(count), float(apart), errors)
            found[key_of(key)] = Cell(float(value), value - half, value + half, int(count))
        return found


def _half_width(count: int, deviation: float, errors: Errors) -> float:
    """Half of an error bar; NaN where there is none."""
    match errors:
        case "interval":
            return _quantile(count - 1) * deviation / math.sqrt(count) if count > 1 else math.nan
        case "std":
            return deviation
        case "none":
            return math.nan


@cache
def _quantile(freedom: int) -> float:
    return student(0.5 + CONFIDENCE / 2, freedom)
