"""The rows of a chart, grouped by its parts, and the notes below the chart."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from zenturio.errors import InputError, did_you_mean
from zenturio.experiment.aggregates import LEAST_FOR_MEDIAN_INTERVAL, median_interval
from zenturio.query import statistics
from zenturio.query.aggregates import Aggregate, MachineRoundCounts, exact_aggregate
from zenturio.query.excluded_points import left_out_notes
from zenturio.query.frames import Grouping
from zenturio.show.chart import Chart, ChartAxis, Errors, Panel
from zenturio.show.charts.chart_query import KINDS, ChartQuery
from zenturio.show.renderers.plotly import NotebookChart

MOST_ON_AXIS = 1e300
"""The greatest magnitude that has a place on an axis: the ends of a greater one may overflow."""
MOST_EXACT_TICKS = 12
"""Distinct numbers that are all shown as ticks."""
INACTIVE = "(none)"
"""The label of a parameter that is inactive in a point."""

_DRAWS_ROWS = ("scatter", "box")
"""Kinds of charts that show values as they are, and no aggregates of them."""
_AGGREGATE_LABELS = {
    "mean": "mean {}", "median": "median {}", "min": "least {}", "max": "greatest {}",
    "sum": "total {}", "std": "standard deviation of {}", "count": "number of experiments",
    "var": "variance of {}", "sem": "standard error of {}", "iqr": "interquartile range of {}",
    "geomean": "geometric mean of {}", "mean_low": "lower end of the mean {}",
    "mean_high": "upper end of the mean {}", "median_low": "lower end of the median {}",
    "median_high": "upper end of the median {}",
}  # fmt: skip


def _aggregate_label(aggregate: Aggregate) -> str:
    """Return what an aggregate is called in a title, with a place for the metric."""
    return _AGGREGATE_LABELS.get(aggregate, f"{aggregate} of {{}}")


_SHARE_UNITS = frozenset({"share", "fraction", "probability"})
_SHARE_NAME = re.compile(
    r"(?:^|_)(?:share|fraction|probability|efficiency|accuracy|precision|recall|f1|auc|coverage"
    r"|utili[sz]ation|occupancy|hit_rate|miss_rate|error_rate|success_rate)(?:_|$)",
    re.IGNORECASE,
)
"""Names of metrics that are parts of a whole."""


def _most(name: str, unit: str) -> float:
    """Return what no value of a metric exceeds, as its unit says, or else its name."""
    if unit in ("%", "percent"):
        return 100.0
    is_share = unit in _SHARE_UNITS or (not unit and _SHARE_NAME.search(name) is not None)
    return 1.0 if is_share else math.inf


@dataclass(frozen=True, slots=True)
class Cell:
    """The aggregate of all rows that agree on x, colour and panel."""

    value: float
    low: float
    high: float
    rows: int

    @property
    def without_bar(self) -> Cell:
        """The same without an error bar."""
        return replace(self, low=math.nan, high=math.nan)


Cells = dict[tuple[Any, ...], Cell]


def aggregate_cells(
    frame: pd.DataFrame, keys: Sequence[str], y: str, aggregate: Aggregate, errors: Errors
) -> dict[tuple[Any, ...], Cell]:
    """Return the *aggregate* of *y* for each combination of the *keys*, in the frame's order."""
    groups = frame.groupby(list(keys), sort=False, dropna=False, observed=True)[y]
    reduce = exact_aggregate(aggregate)
    cells = {}
    for key, column in groups:
        values = np.ones(len(column)) if aggregate == "count" else column.to_numpy(dtype=float)
        exact = reduce(values.tolist())
        value = math.nan if exact is None else float(exact)
        low, high = _ends(values, value, aggregate, errors)
        cells[group_key(key)] = Cell(value, low, high, len(values))
    return cells


def group_key(key: Any) -> tuple[Any, ...]:
    """Return the key of a group with None for NULL: NaN does not equal itself."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(None if is_missing(part) else part for part in parts)


def _ends(
    values: np.ndarray, value: float, aggregate: Aggregate, errors: Errors
) -> tuple[float, float]:
    """Return the ends of the error bar around the *aggregate* of *values*; NaN for none."""
    if errors == "none":
        return math.nan, math.nan
    if aggregate == "median":
        return median_interval(values.tolist()) or (math.nan, math.nan)
    half = statistics.deviation(values) if errors == "std" else statistics.half_width(values)
    return value - half, value + half


def label_of(value: Any) -> str:
    """Return *value* as it stands in a legend or under an axis."""
    if is_missing(value):
        return INACTIVE
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if value == "":
        return '""'  # a level without a name would have no line in the legend
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def is_missing(value: Any) -> bool:
    """Return whether *value* is NULL, in any of the forms that pandas has for it."""
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def are_whole(values: Iterable[float]) -> bool:
    """Return whether *values* are whole numbers, as counts are."""
    return all(value == math.floor(value) for value in values)


def has_level(column: pd.Series[Any], level: Any) -> np.ndarray:
    """Return the rows of one level; NULL is a level too."""
    rows = column.isna() if is_missing(level) else column == level
    mask: np.ndarray = rows.to_numpy(bool, na_value=False)
    return mask


def _has_value(column: pd.Series[Any]) -> np.ndarray:
    """Return the rows with a value; with a finite one, of numbers."""
    if is_number(column):
        finite: np.ndarray = np.isfinite(column.to_numpy(dtype=float, na_value=math.nan))
        return finite
    known: np.ndarray = column.notna().to_numpy(bool)
    return known


def levels(column: pd.Series[Any], ranks: Mapping[Any, int] | None = None) -> list[Any]:
    """Return the distinct values: numbers ascending, texts as they come; None for NULL is last.

    Texts that have *ranks*, as those of a set, are in their order, and before others.
    """
    distinct = list(column.drop_duplicates())
    present = [value for value in distinct if not is_missing(value)]
    if is_number(column):
        present.sort()
    elif ranks:
        present.sort(key=lambda value: ranks.get(value, len(ranks)))
    return present + [None] * (len(distinct) > len(present))


def is_number(column: pd.Series[Any]) -> bool:
    """Return whether the values can be placed on an axis; true and false count as texts."""
    numeric = pd.api.types.is_numeric_dtype(column)
    return bool(numeric and not pd.api.types.is_bool_dtype(column))


class ChartTable:
    """The rows that a chart shows, with the columns ``x``, ``y``, ``colour``, ``facet``, ``value``.

    ``value`` is the metric; ``y`` exists in grids alone. Rows without a number that the chart needs
    are left out.
    """

    def __init__(self, frame: pd.DataFrame, query: ChartQuery, needed: Iterable[str] = ()) -> None:
        """Raise InputError if a column is missing, or no row has numbers in the *needed* ones."""
        query.check()
        _check_columns(query, frame)
        self.attrs: dict[Any, Any] = frame.attrs
        self.query = query = query.with_aggregate(self.unit(query.metric))
        self.notes: list[str] = []
        if sampled := frame.attrs.get("sampled"):
            self.notes.append(f"a sample of {sampled[0]:,} of {sampled[1]:,} experiments")
        self.notes += left_out_notes(frame.attrs.get("left_out", 0))
        self.notes += MachineRoundCounts.of(frame.attrs).notes
        self.total = int(frame.attrs.get("of", len(frame)))
        self.noun = str(frame.attrs.get("noun", "experiments"))
        """What a row is."""
        self.all_rows = frame
        """Including those that are left out."""
        self.frame = frame[self._has_numbers(frame, needed)]
        self._without_place = self._count_without_place(frame)
        if self.frame.empty:
            raise InputError(
                f"nothing to draw: no row has a number for {query.metric!r}",
                hint="check the failures of the study, and the condition",
            )
        columns = {"x": query.x, "colour": query.colour, "facet": query.facet}
        columns |= {"value": query.metric, "y": query.y_column if query.is_grid else ""}
        parts = {part: self.frame[name] for part, name in columns.items() if name}
        self.parts = self.frame[[]].assign(colour="", facet="").assign(**parts)

    @property
    def _placed(self) -> list[str]:
        """The columns beside the metric whose numbers are places on an axis."""
        query = self.query
        if query.kind not in ("line", "scatter", "surface"):
            return []
        return sorted({query.x, query.y_column, query.z} - {"", query.metric})

    def _count_without_place(self, frame: pd.DataFrame) -> str:
        """Return how many rows have the metric and no place: a parameter is inactive there."""
        names = self._placed
        count = frame.attrs.get("without")
        if count is None:
            lacks = np.zeros(len(frame), dtype=bool)
            for name in names:
                if is_number(frame[name]):  # a text that is missing has a place
                    lacks |= ~_has_value(frame[name])
            if self.query.metric:
                lacks &= _has_value(frame[self.query.metric])
            count = int(np.count_nonzero(lacks))
        if not count:
            return ""
        return f", {count:,} {'has' if count == 1 else 'have'} no {' or no '.join(names)}"

    def _has_numbers(self, frame: pd.DataFrame, needed: Iterable[str]) -> np.ndarray:
        """Return the rows with a number wherever a position on an axis needs one."""
        query, keep = self.query, np.ones(len(frame), dtype=bool)
        for name in sorted({*self._placed, *needed, query.metric} - {""}):
            if is_number(frame[name]):
                values = frame[name].to_numpy(dtype=float, na_value=math.nan)
                # Whether an aggregate of very large values has a place is known behind it.
                keep &= np.isfinite(values)
                if query.kind in _DRAWS_ROWS:
                    keep &= np.abs(values) <= MOST_ON_AXIS
            elif name == query.metric:
                keep &= frame[name].notna().to_numpy()
        return keep

    def axis(self, part: str, *, categories: bool = False) -> ChartAxis:
        """Return the axis of the x or y of a parameter: texts, or numbers treated as texts."""
        name, column = self.query.column(part), self.parts[part]
        unit, log = self.unit(name), part in self.query.log
        if categories or not is_number(column):
            return ChartAxis(name, unit, categories=tuple(map(label_of, levels(column))))
        distinct = [float(value) for value in levels(column) if not is_missing(value)]
        self._check_log(log, name, distinct[0])
        ticks = tuple(distinct) if len(distinct) <= MOST_EXACT_TICKS else ()
        ends = distinct[0], distinct[-1]
        return ChartAxis(name, unit, log, ticks=ticks, ends=ends, is_whole=are_whole(distinct))

    def value_axis(self, letter: str, values: Iterable[float]) -> ChartAxis:
        """Return the axis of the metric after aggregation, with all *values* on it."""
        axis = self.number_axis(self.query.metric, letter, values)
        is_count = self.query.aggregate == "count"
        return replace(axis, name="experiments", unit="") if is_count else axis

    def number_axis(self, name: str, letter: str, values: Iterable[float]) -> ChartAxis:
        """Return the axis of a column of numbers, with all *values* on it."""
        finite = [value for value in values if math.isfinite(value)]
        ends = (min(finite, default=0.0), max(finite, default=0.0))
        log = letter in self.query.log
        self._check_log(log, name, ends[0])
        return ChartAxis(name, self.unit(name), log, ends=ends, is_whole=are_whole(finite))

    def unit(self, name: str) -> str:
        return str(self.attrs.get("units", {}).get(name, ""))

    def _check_log(self, log: bool, name: str, least: float) -> None:
        if log and least <= 0:
            raise InputError(
                f"a logarithmic axis cannot show {name!r}, which goes down to {least:g}",
                hint=f"add the condition {name} > 0, or use a linear axis",
            )

    def split(self, part: str, most: int) -> list[Any]:
        """Return the levels of the colour or the facet; raise InputError if they are too many."""
        distinct = levels(self.parts[part])
        if len(distinct) > most:
            raise InputError(
                f"{self.query.column(part)!r} has {len(distinct):,} values; "
                f"a chart can show {most} as {part}",
                hint="choose rows by a condition, or name another column",
            )
        return distinct

    def cells(self, *keys: str) -> dict[tuple[Any, ...], Cell]:
        """Return the aggregate for each combination of the parts *keys*; note how it was made.

        Combinations without a number, such as the deviation of one value, are left out and noted.
        Raise InputError if no combination has one.
        """
        query = self.query
        hidden = self._hidden_parameters()
        # Without repeats alone, an interval would be that of parameters, not of noise.
        has_bars = (
            not query.errors
            and query.kind in ("line", "bar")
            and query.aggregate in ("mean", "median")
        )
        has_repeats = self._has_repeats(keys)
        shows_interval = has_bars and has_repeats and not hidden
        errors: Errors = query.errors or ("interval" if shows_interval else "none")
        cells = self._with_numbers(self._aggregate(keys, errors))
        rows = [cell.rows for cell in cells.values()]
        if has_repeats:
            count = f"{min(rows)} to {max(rows)}" if min(rows) < max(rows) else str(rows[0])
            repeats = "rows" if self.noun == "rows" else "repeats"
            over = f"values that differ in {', '.join(hidden)}" if hidden else repeats
            why = ": no interval" if has_bars and hidden else ""
            self.notes.append(f"{query.aggregate} of {count} {over}{why}")
        if errors != "none":
            cells = self._with_bars_noted(cells, errors)
        return cells

    def _with_numbers(self, cells: Cells) -> Cells:
        """Return the *cells* whose aggregate has a place on an axis; note how many have none."""
        placed = {
            key: cell if max(abs(cell.low), abs(cell.high)) <= MOST_ON_AXIS else cell.without_bar
            for key, cell in cells.items()
            if abs(cell.value) <= MOST_ON_AXIS
        }
        if left_out := len(cells) - len(placed):
            label = _aggregate_label(self.query.aggregate).format(self.query.metric)
            if not placed:
                raise InputError(
                    f"nothing to draw: the {label} is nowhere a number",
                    hint="choose another aggregate",
                )
            self.notes.append(f"no {label} for {left_out:,} of {len(cells):,} groups")
        return placed

    def _with_bars_noted(self, cells: Cells, errors: Errors) -> Cells:
        """Return *cells* with error bars that are possible; note what the bars are."""
        aggregate = self.query.aggregate
        names = {"interval": f"95 % interval of the {aggregate}", "std": "standard deviation"}
        if aggregate == "median":
            # Its ends are values that were measured.
            few = [cell for cell in cells.values() if math.isnan(cell.low)]
            if len(few) == len(cells):
                self.notes.append(
                    f"no bars: the {names[errors]} needs {LEAST_FOR_MEDIAN_INTERVAL} values"
                )
            else:
                short = f", where {LEAST_FOR_MEDIAN_INTERVAL} values are" if few else ""
                self.notes.append(f"bars: {names[errors]}{short}")
            return cells
        low, high = self._bounds()
        ends = [f"{low:g}"] if any(cell.low < low for cell in cells.values()) else []
        ends += [f"{high:g}"] if any(cell.high > high for cell in cells.values()) else []
        if ends:
            cells = {
                key: replace(cell, low=max(cell.low, low), high=min(cell.high, high))
                for key, cell in cells.items()
            }
        cut = f", cut at {' and '.join(ends)}" if ends else ""
        self.notes.append(f"bars: {names[errors]}{cut}")
        return cells

    def _bounds(self) -> tuple[float, float]:
        """Return the range that the metric cannot leave, as far as its values and name tell it.

        What is never negative, as a time or a count, has no mean below 0 either; and a share has
        none above 1, or above 100 %.
        """
        least, greatest = self._range()
        most = _most(self.query.metric, self.unit(self.query.metric))
        return 0.0 if least >= 0 else -math.inf, most if greatest <= most else math.inf

    def _range(self) -> tuple[float, float]:
        """Return the least and the greatest value of the metric."""
        return float(self.parts["value"].min()), float(self.parts["value"].max())

    def _has_repeats(self, keys: tuple[str, ...]) -> bool:
        return bool(self.parts.duplicated(list(keys)).any())

    def _aggregate(self, keys: tuple[str, ...], errors: Errors) -> dict[tuple[Any, ...], Cell]:
        return aggregate_cells(self.parts, keys, "value", self.query.aggregate, errors)

    @property
    def row_count(self) -> int:
        """How many rows are drawn."""
        return len(self.frame)

    def _hidden_parameters(self) -> list[str]:
        """Return the parameters that vary and are not shown: cells then hold more than repeats."""
        query = self.query
        shown = {query.x, query.y_column, query.colour, query.facet}
        return [
            name
            for name in self.attrs.get("parameters", ())
            if name not in shown and self.frame[name].nunique(dropna=False) > 1
        ]

    def chart(
        self,
        panels: Sequence[Panel],
        x: ChartAxis,
        y: ChartAxis,
        *,
        subject: str = "",
        **options: Any,
    ) -> Chart:
        """Return the chart of *panels*, with its title and its note.

        The title is that of the query, or the *subject*, or the columns on the axes.
        """
        counts = f"{self.row_count:,} of {self.total:,} {self.noun}{self._without_place}"
        note = "; ".join([*self.notes, counts])
        title = self.query.title or self._title(subject)
        return NotebookChart(self.query.kind, title, note, x, y, tuple(panels), **options)

    def thinned(self, most: int, noun: str) -> pd.DataFrame:
        """Return at most so many rows of the parts, evenly; a note says so."""
        if len(self.parts) <= most:
            return self.parts
        step = -(-len(self.parts) // most)
        thinned = self.parts.iloc[::step]
        self.notes.append(f"{len(thinned):,} {noun} drawn, one of every {step}")
        return thinned

    def _title(self, subject: str) -> str:
        study = self.attrs.get("study", "")
        subject = subject or self._axes_title()
        return f"{study}: {subject}" if study else subject

    def _axes_title(self) -> str:
        query = self.query
        is_aggregated = any(note.startswith(f"{query.aggregate} of") for note in self.notes)
        title = query.metric
        if is_aggregated:
            title = _aggregate_label(query.aggregate).format(query.metric)
        title += f" over {query.x}"
        title += f" and {query.y_column}" if query.is_grid else ""
        title += f", by {query.colour}" if query.colour else ""
        return title + (f", for each {query.facet}" if query.facet else "")


class GroupedTable(ChartTable):
    """A table with a row for each group instead of each experiment, as the database returns it."""

    def __init__(self, frame: pd.DataFrame, query: ChartQuery) -> None:
        self._grouping: Grouping = frame.attrs["grouped"]
        super().__init__(frame, query)
        self.parts["value"] = self.frame[self._grouping.value]

    def _has_numbers(self, frame: pd.DataFrame, needed: Any) -> np.ndarray:  # noqa: ARG002
        """Return all rows: the database has left out the others."""
        return np.ones(len(frame), dtype=bool)

    @property
    def row_count(self) -> int:
        return int(self.frame[self._grouping.rows].sum())

    def _has_repeats(self, keys: tuple[str, ...]) -> bool:  # noqa: ARG002 - as its parent
        return bool((self.frame[self._grouping.rows] > 1).any())

    def _hidden_parameters(self) -> list[str]:
        return list(self._grouping.hidden)

    def _range(self) -> tuple[float, float]:
        spread = self._grouping.spread
        return float(self.frame[spread["least"]].min()), float(self.frame[spread["greatest"]].max())

    def _aggregate(self, keys: tuple[str, ...], errors: Errors) -> dict[tuple[Any, ...], Cell]:
        rows, values = self.frame[self._grouping.rows], self.frame[self._grouping.value]
        low, high = self._ends(errors)
        places = self.parts[list(keys)].itertuples(index=False, name=None)
        return {
            group_key(key): Cell(float(value), float(least), float(most), int(count))
            for key, value, least, most, count in zip(places, values, low, high, rows, strict=True)
        }

    def _ends(self, errors: Errors) -> tuple[Iterable[float], Iterable[float]]:
        """Return the ends of the error bar of each group; NaN where there is none."""
        frame, spread = self.frame, self._grouping.spread
        if errors == "none":
            nothing = np.full(len(frame), math.nan)
            return nothing, nothing
        if "low" in spread:
            return frame[spread["low"]], frame[spread["high"]]
        values, halves = frame[self._grouping.value], frame[spread["deviation"]]
        if errors == "interval":
            halves = halves * frame[self._grouping.rows].map(_deviations_in_interval)
        return values - halves, values + halves


def _deviations_in_interval(count: int) -> float:
    """Return how many deviations of *count* values half of the interval of their mean has."""
    return _student_quantile(count - 1) / math.sqrt(count) if count > 1 else math.nan


@cache
def _student_quantile(freedom: int) -> float:
    return statistics.student(0.5 + statistics.CONFIDENCE / 2, freedom)


def _check_columns(query: ChartQuery, frame: pd.DataFrame) -> None:
    """Raise InputError unless *frame* has the columns that the chart needs."""
    needed = "xyz" if query.is_grid else "y" if KINDS[query.kind].has_objective else "xy"
    for letter in needed:
        if not query.column(letter):
            raise InputError(f"a {query.kind} chart needs a column for its {letter}")
    parts = (query.x, query.y_column, query.z, query.colour, query.facet)
    for name in (*parts, *query.axes):
        if name and name not in frame.columns:
            hint = did_you_mean(name, map(str, frame.columns))
            raise InputError(f"there is no column {name!r}", hint=hint)
    is_surface = query.kind == "surface"
    for name in (query.x, query.y_column, query.z) if is_surface else (query.metric,):
        if not is_number(frame[name]) and query.aggregate != "count":
            raise InputError(
                f"{name!r} holds text; a chart needs numbers there",
                hint="choose another column, or the aggregate count",
            )
