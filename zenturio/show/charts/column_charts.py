"""Charts of columns: line, bar, scatter, box, pie, heatmap, surface; and of scaling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any

import numpy as np
import pandas as pd

from zenturio.errors import InputError, PluginError, ZenError
from zenturio.query.scaling import RATE_NOTE, Scaling, ScalingCurve, scaling_curve
from zenturio.show.chart import (
    BOX_VALUES,
    Bars,
    Boxes,
    Chart,
    ChartAxis,
    Line,
    Panel,
    Points,
    Surface,
    Tiles,
    Wedges,
)
from zenturio.show.charts.chart_query import KINDS, ChartQuery, counts_workers
from zenturio.show.charts.chart_table import (
    Cell,
    ChartTable,
    GroupedTable,
    group_key,
    has_level,
    is_missing,
    is_number,
    label_of,
    levels,
)
from zenturio.show.charts.search_charts import search_chart
from zenturio.show.renderers.plotly import NotebookChart

# Scaling: measured speedups, the law that fits best, and the ideal

MOST_CURVES = 10
"""Each curve has two colours: one for what was measured, one for its law."""
_STEPS = 96
"""Points of a drawn law."""
IDEAL = "ideal"
_Ends = tuple[tuple[float, ...], tuple[float, ...]]


def scaling_panel(
    title: str, curves: Sequence[ScalingCurve], names: Sequence[str], ranks: dict[str, int]
) -> Panel:
    """Return the speedups of *curves*, each under its name, with their laws and the ideal.

    *ranks* are those of the legend, to which new names are added.
    """
    marks: list[Line] = []

    def add(name: str, x: Iterable[float], y: Iterable[float], ends: _Ends = ((), ())) -> None:
        rank = ranks.setdefault(name, len(ranks))
        marks.append(Line(name, rank, tuple(x), tuple(y), *ends))

    for curve, name in zip(curves, names, strict=True):
        workers = [point.workers for point in curve.points]
        add(name, workers, [point.speedup for point in curve.points], _ends(curve))
        law = curve.models[0]
        if law.name != IDEAL:
            ratios = np.geomspace(1.0, workers[-1] / curve.base, _STEPS)
            heights = law.speedup(ratios)
            add(f"{name}: {law.name}", (ratios * curve.base).tolist(), heights.tolist())
    least = min(curve.base for curve in curves)
    most = max(curve.points[-1].workers for curve in curves)
    if all(curve.base == least for curve in curves):
        add(IDEAL, (least, most), (1.0, most / least))
    return Panel(title, tuple(marks))


def _ends(curve: ScalingCurve) -> _Ends:
    """Return the lower and upper ends of the intervals, NaN where there is none."""
    intervals = [point.speedup_interval for point in curve.points]
    if not any(intervals):
        return (), ()
    return (
        tuple(math.nan if interval is None else interval.low for interval in intervals),
        tuple(math.nan if interval is None else interval.high for interval in intervals),
    )


def speedup_axis(panels: Sequence[Panel], *, log: bool = False) -> ChartAxis:
    """Return the axis of speedups, with all marks of *panels* on it."""
    heights = [
        y for panel in panels for mark in panel.marks if isinstance(mark, Line) for y in mark.y
    ]
    return ChartAxis("speedup", log=log, ends=(min(heights), max(heights)))


def scaling_chart(scaling: Scaling) -> Chart:
    """Return the chart of an analysis, all of its curves in one panel."""
    curves = scaling.curves
    if len(curves) > MOST_CURVES:
        raise InputError(
            f"{len(curves)} curves are too many for a chart; it shows {MOST_CURVES}",
            hint="choose some by --where, or draw them by --by",
        )
    names = [curve.name or "measured" for curve in curves]
    ranks: dict[str, int] = {}
    panel = scaling_panel("", curves, names, ranks)
    workers = sorted({point.workers for curve in curves for point in curve.points})
    x = ChartAxis(scaling.over, ticks=tuple(workers), ends=(workers[0], workers[-1]))
    rows = sum(point.rows for curve in curves for point in curve.points)
    note = "; ".join(
        ["bars: 95 % interval of the speedup", *scaling.notes, f"{rows:,} experiments"]
    )
    title = f"{scaling.study}: {scaling.mode} scaling of {scaling.metric} over {scaling.over}"
    return NotebookChart(
        "scaling", title, note, x, speedup_axis([panel]), (panel,),
        colour=ChartAxis("curve"), levels=tuple(ranks),
    )  # fmt: skip


# All charts of columns


def chart_of_rows(table: ChartTable) -> Chart:
    """Return strong scaling: x are the workers, y is a time or a rate; a curve for each colour."""
    x = table.axis("x")
    if x.categories is not None:
        raise InputError(
            f"{table.query.x!r} is not a number of workers",
            hint="--x names what counts them, such as threads or nodes",
        )
    is_rate = bool(table.query.rate)
    if table.query.rate is None and table.attrs.get("maximized"):
        is_rate = True
        table.notes.append(RATE_NOTE.format(table.query.metric))
    if not counts_workers(table.query.x):
        table.notes.append(f"{table.query.x} is taken for the number of workers")
    table.notes.append("bars: 95 % interval of the speedup")
    panels: list[Panel] = []
    ranks: dict[str, int] = {}
    name = table.query.colour
    for facet in table.split("facet", 16):
        curves, names = [], []
        for colour in table.split("colour", MOST_CURVES):
            parts = table.parts
            chosen = has_level(parts["facet"], facet) & has_level(parts["colour"], colour)
            rows = parts[chosen & (parts["x"] > 0) & (parts["value"] > 0)]
            if len(set(rows["x"])) > 1:
                curves.append(scaling_curve(rows["x"], rows["value"], is_rate=is_rate))
                names.append(f"{name}={label_of(colour)}" if name else "measured")
        if curves:
            title = f"{table.query.facet} = {label_of(facet)}" if table.query.facet else ""
            panels.append(scaling_panel(title, curves, names, ranks))
    if not panels:
        raise InputError(f"no curve has two values of {table.query.x}", hint="--x threads")
    return table.chart(
        panels, x, speedup_axis(panels, log="y" in table.query.log),
        subject=f"speedup of {table.query.metric} over {table.query.x}",
        colour=ChartAxis(name or "curve"), levels=tuple(ranks),
    )  # fmt: skip


MOST_COLOURS = 20
MOST_PANELS = 16
MOST_SLICES = 8
MOST_POINTS = 20_000

_Series = Line | Bars | Points | Boxes
MakeSeries = Callable[[str, int, Any, Any], _Series | None]
"""Makes the mark of a name, a rank, a level of the facet and one of the colour; None if empty."""


def chart(frame: pd.DataFrame, kind: str = "line", **options: Any) -> Chart:
    """Return a chart of the rows of *frame*; the *options* are the fields of `ChartQuery`.

    The frame's ``attrs`` may hold ``study``, ``units`` (by column), ``parameters`` (names),
    ``of`` (how many experiments there are, with those that have no row), ``noun`` (what a row is,
    if not an experiment), ``goals`` (``minimize column`` ...), ``visit`` (the column that numbers
    the rows in the order of a search), ``runs`` (columns that tell several searches apart),
    ``sampled`` (how many rows of how many) and ``grouped``: how the rows of
    `zenturio.query.frames` are read.

    Raise InputError if the options do not fit the kind or the frame.
    """
    return build_chart(ChartQuery.of(kind=kind, **options), frame)


def with_first_columns(query: ChartQuery, frame: pd.DataFrame) -> ChartQuery:
    """Return *query*; columns that it does not name are the first ones of *frame* that fit.

    The answer of an SQL query has its columns in the order in which somebody wrote them: x first.
    """
    kind = KINDS[query.kind]
    if not kind.has_series:
        return query
    names = [str(name) for name in frame.columns]
    x = query.x or next((name for name in names if name not in query.y), "")
    numbers = (name for name in names if name != x and is_number(frame[name]))
    y = query.y or tuple(islice(numbers, 1))
    return replace(query, x=x, y=y)


def build_chart(query: ChartQuery, frame: pd.DataFrame) -> Chart:
    """Return the chart of *query* with the rows of *frame*; raise InputError if they do not fit."""
    query.check()
    if KINDS[query.kind].has_objective:
        return search_chart(query, frame)
    draw = KINDS[query.kind].draw or _BUILDERS.get(query.kind)
    if draw is None:
        raise InputError(f"a {query.kind} chart needs a study", hint="name the study")
    table = GroupedTable(frame, query) if "grouped" in frame.attrs else ChartTable(frame, query)
    try:
        return draw(table)
    except ZenError:
        raise
    except Exception as error:
        if query.kind in _BUILDERS:
            raise
        # Whatever a plug-in raises, its name must be known.
        message = f"chart {query.kind!r} failed: {type(error).__name__}: {error}"
        raise PluginError(message, hint="choose another kind, or correct the plug-in") from error


def _line_chart(table: ChartTable) -> Chart:
    x = table.axis("x")

    def line(name: str, rank: int, places: tuple[Any, ...], cells: Sequence[Cell]) -> Line:
        values, low, high = _heights(cells)
        return Line(name, rank, places, values, low, high)

    return _series_chart(table, x, line)


def _bar_chart(table: ChartTable) -> Chart:
    if "x" in table.query.log:
        raise InputError(
            "the x axis of a bar chart cannot be logarithmic", hint="use --log y, or a line chart"
        )
    x = table.axis("x", categories=True)

    def bars(name: str, rank: int, places: tuple[Any, ...], cells: Sequence[Cell]) -> Bars:
        values, low, high = _heights(cells)
        return Bars(name, rank, places, values, low, high)

    return _series_chart(table, x, bars)


def _series_chart(
    table: ChartTable,
    x: ChartAxis,
    make: Callable[[str, int, tuple[Any, ...], Sequence[Cell]], Line | Bars],
) -> Chart:
    """Return a chart with a value for each x, in one series for each colour."""
    cells = table.cells("facet", "colour", "x")
    places = levels(table.parts["x"])

    def series(name: str, rank: int, facet: Any, colour: Any) -> Line | Bars | None:
        # The order of *places* is that of the axis; an x without a value is a gap, not a zero.
        present = {place: cell for place in places if (cell := cells.get((facet, colour, place)))}
        positions = tuple(_position(x, place) for place in present)
        return make(name, rank, positions, list(present.values())) if present else None

    y = table.value_axis("y", (cell.value for cell in cells.values()))
    if not all(math.isnan(cell.low) for cell in cells.values()):
        y = replace(y, is_whole=False)
    return _chart_with_panels(table, x, y, series)


def _heights(
    cells: Sequence[Cell],
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return the values, and the lower and upper ends of error bars, empty if there are none."""
    low = tuple(cell.low for cell in cells)
    values = tuple(cell.value for cell in cells)
    if np.isnan(low).all():
        return values, (), ()
    return values, low, tuple(cell.high for cell in cells)


def _position(axis: ChartAxis, value: Any) -> Any:
    return float(value) if axis.categories is None else label_of(value)


def _chart_with_panels(
    table: ChartTable, x: ChartAxis, y: ChartAxis, series: MakeSeries, **options: Any
) -> Chart:
    """Return a chart with a panel for each facet, and in it a series for each colour."""
    colours = table.split("colour", MOST_COLOURS)
    name = table.query.colour
    panels = []
    for facet in table.split("facet", MOST_PANELS):
        marks = (
            series(label_of(colour) if name else "", rank, facet, colour)
            for rank, colour in enumerate(colours)
        )
        drawn = tuple(mark for mark in marks if mark is not None)
        own_y = _own_axis(y, drawn) if table.query.free else None
        panels.append(Panel(_panel_title(table, facet), drawn, y=own_y))
    legend: dict[str, Any] = {
        "colour": ChartAxis(name, table.unit(name)),
        "ordered": is_number(table.parts["colour"]) and not any(map(is_missing, colours)),
        "levels": tuple(map(label_of, colours)),
    }
    return table.chart(panels, x, y, **(legend if name else {}), **options)


def _own_axis(axis: ChartAxis, marks: Sequence[_Series]) -> ChartAxis:
    """Return *axis* for these marks alone."""
    values = [
        value
        for mark in marks
        for part in (mark.samples if isinstance(mark, Boxes) else [mark.y])
        for value in part
        if math.isfinite(value)
    ]
    return replace(axis, ends=(min(values, default=0.0), max(values, default=0.0)))


def _panel_title(table: ChartTable, facet: Any) -> str:
    name = table.query.facet
    return f"{name} = {label_of(facet)} {table.unit(name)}".strip() if name else ""


def _scatter_chart(table: ChartTable) -> Chart:
    """Return a chart with a point for each row; very many are thinned evenly."""
    x = table.axis("x")
    parts = table.thinned(MOST_POINTS, "points")
    y = table.value_axis("y", parts["value"])
    has_scale = is_number(parts["colour"]) and parts["colour"].nunique() > MOST_COLOURS // 2
    if not has_scale:

        def series(name: str, rank: int, facet: Any, colour: Any) -> Points | None:
            rows = parts[has_level(parts["facet"], facet) & has_level(parts["colour"], colour)]
            return _points(name, rank, x, rows) if len(rows) else None

        return _chart_with_panels(table, x, y, series)
    # NULL has no place on a scale of colours.
    coloured = parts[parts["colour"].notna()]
    panels = [
        Panel(_panel_title(table, facet), (_points("", 0, x, rows, shaded=True),))
        for facet in table.split("facet", MOST_PANELS)
        if len(rows := coloured[has_level(coloured["facet"], facet)])
    ]
    colour = ChartAxis(table.query.colour, table.unit(table.query.colour))
    return table.chart(panels, x, y, colour=colour, ordered=True)


def _points(
    name: str, rank: int, x: ChartAxis, rows: pd.DataFrame, *, shaded: bool = False
) -> Points:
    return Points(
        name,
        rank,
        tuple(_position(x, value) for value in rows["x"]),
        tuple(map(float, rows["value"])),
        shades=tuple(map(float, rows["colour"])) if shaded else (),
    )


def _box_chart(table: ChartTable) -> Chart:
    """Return the distribution at each x; numbers stand side by side like texts."""
    x = table.axis("x", categories=True)
    parts = table.parts
    y = table.value_axis("y", parts["value"])
    places = levels(parts["x"])
    keys = ["facet", "colour", "x"]
    samples = {
        group_key(key): tuple(map(float, column))
        for key, column in parts.groupby(keys, sort=False, dropna=False, observed=True)["value"]
    }
    counts = [len(sample) for sample in samples.values()]
    if max(counts) >= BOX_VALUES:
        table.notes.append("box: quartiles, median and mean; whiskers: within 1.5 box lengths")
    if min(counts) < BOX_VALUES:
        table.notes.append(f"points: where there are fewer than {BOX_VALUES} values")

    def series(name: str, rank: int, facet: Any, colour: Any) -> Boxes | None:
        present = {
            label_of(place): samples[facet, colour, place]
            for place in places
            if (facet, colour, place) in samples
        }
        return Boxes(name, rank, tuple(present), tuple(present.values())) if present else None

    return _chart_with_panels(table, x, y, series)


def _pie_chart(table: ChartTable) -> Chart:
    """Return a share for each x; the small ones are one slice together."""
    if table.query.colour:
        raise InputError("the colours of a pie chart are its x", hint="leave out the colour")
    x = table.axis("x", categories=True)
    cells = table.cells("facet", "x")
    y = table.value_axis("-", ())
    panels = []
    for facet in table.split("facet", MOST_PANELS):
        shares = {label_of(place): cell.value for (f, place), cell in cells.items() if f == facet}
        if min(shares.values(), default=0) < 0 or not any(shares.values()):
            raise InputError(
                "a pie chart shows shares of a whole: values must not be negative, nor all zero",
                hint="use a bar chart",
            )
        names = sorted(shares, key=(x.categories or ()).index)
        if len(names) > MOST_SLICES:
            largest = sorted(names, key=lambda name: -shares[name])[: MOST_SLICES - 1]
            small = [name for name in names if name not in largest]
            names = [*(name for name in names if name in largest), f"{len(small)} others"]
            shares[names[-1]] = sum(shares[name] for name in small)
        wedges = Wedges(tuple(names), tuple(shares[name] for name in names))
        panels.append(Panel(_panel_title(table, facet), (wedges,)))
    return table.chart(panels, x, y)


def _grid_chart(table: ChartTable) -> Chart:
    """Return a heatmap or a surface: a value for each pair of x and y."""
    is_flat = table.query.kind == "heatmap"
    if table.query.colour:
        raise InputError(
            f"the colours of a {table.query.kind} chart are its z", hint="leave out the colour"
        )
    x, y = table.axis("x", categories=is_flat), table.axis("y", categories=is_flat)
    cells = table.cells("facet", "y", "x")
    columns, rows = levels(table.parts["x"]), levels(table.parts["y"])
    if not is_flat and min(len(columns), len(rows)) < 2:
        raise InputError("a surface needs two values of x and of y", hint="use a line chart")
    across = tuple(_position(x, column) for column in columns)
    upwards = tuple(_position(y, row) for row in rows)
    panels = []
    for facet in table.split("facet", MOST_PANELS):
        values = [
            cell.value if (cell := cells.get((facet, row, column))) else np.nan
            for row, column in product(rows, columns)
        ]
        z = np.reshape(values, (len(rows), len(columns))).tolist()
        mark = (Tiles if is_flat else Surface)(across, upwards, tuple(map(tuple, z)))
        panels.append(Panel(_panel_title(table, facet), (mark,)))
    z_axis = table.value_axis("z", (cell.value for cell in cells.values()))
    return table.chart(panels, x, y, z=z_axis)


_BUILDERS: Mapping[str, Callable[[ChartTable], Chart]] = {
    "line": _line_chart,
    "bar": _bar_chart,
    "scatter": _scatter_chart,
    "box": _box_chart,
    "scaling": chart_of_rows,
    "pie": _pie_chart,
    "heatmap": _grid_chart,
    "surface": _grid_chart,
}
