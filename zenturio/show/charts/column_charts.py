"""Charts of columns: line, bar, scatter, box, pie, heatmap, surface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from zenturio.errors import InputError
from zenturio.show.chart import AIMED, Axis, Chart, Grid, Kind, Panel, Series
from zenturio.show.charts.chart_options import Wish
from zenturio.show.charts.chart_table import (
    Cell,
    Groups,
    Table,
    is_number,
    key_of,
    levels,
    missing,
    text,
)
from zenturio.show.charts.search_charts import of_search

MOST_COLOURS = 20
MOST_PANELS = 16
MOST_SLICES = 8
MOST_POINTS = 20_000


def chart(frame: pd.DataFrame, kind: Kind = "line", **wishes: Any) -> Chart:
    """The chart that the *wishes* (the fields of `Wish`) ask for; InputError says what is wrong.

    The frame's ``attrs`` may hold ``study``, ``units`` (by column), ``parameters`` (names),
    ``of`` (how many experiments there are, with those that have no row), ``noun`` (what a row is,
    if no experiment), ``goals`` (``minimize column`` ...), ``visit`` (the column that numbers the
    rows in the order of a search), ``runs`` (columns that tell several searches apart), ``sampled``
    (how many rows of how many) and ``grouped``: how the rows of `zenturio.query.groups` are read.
    """
    return _of(Wish(kind, **wishes), frame)


def _of(wish: Wish, frame: pd.DataFrame) -> Chart:
    if wish.kind in AIMED:
        return of_search(wish, frame)
    table = Groups(frame, wish) if "grouped" in frame.attrs else Table(frame, wish)
    builders: dict[Kind, Callable[[Table], Chart]] = {
        "line": _line, "bar": _bar, "scatter": _scatter, "box": _box,
        "pie": _pie, "heatmap": _grid, "surface": _grid,
    }  # fmt: skip
    return builders[wish.kind](table)


def _line(table: Table) -> Chart:
    return _series(table, table.axis("x"))


def _bar(table: Table) -> Chart:
    if "x" in table.wish.log:
        raise InputError("bars stand side by side: their x axis has no logarithm", hint="log='y'")
    return _series(table, table.axis("x", categories=True))


def _series(table: Table, x: Axis) -> Chart:
    """A value for each x, in one series for each colour."""
    found = table.cells("facet", "colour", "x")
    places = levels(table.parts["x"])

    def series(name: str, rank: int, facet: Any, colour: Any) -> Series | None:
        at = [(place, found.get((facet, colour, place))) for place in places]
        there = [(place, cell) for place, cell in at if cell is not None]
        return _drawn(name, rank, x, there) if there else None

    values = (cell.value for cell in found.values())
    return _panelled(table, x, table.value_axis("y", values), series)


def _drawn(name: str, rank: int, x: Axis, cells: Sequence[tuple[Any, Cell]]) -> Series:
    low = tuple(cell.low for _, cell in cells)
    bars = not np.isnan(low).all()
    return Series(
        name,
        rank,
        x=tuple(_placed(x, place) for place, _ in cells),
        y=tuple(cell.value for _, cell in cells),
        low=low if bars else (),
        high=tuple(cell.high for _, cell in cells) if bars else (),
    )


def _placed(axis: Axis, value: Any) -> Any:
    return float(value) if axis.categories is None else text(value)


def _panelled(
    table: Table,
    x: Axis,
    y: Axis,
    series: Callable[[str, int, Any, Any], Series | None],
    **rest: Any,
) -> Chart:
    """Panels for the facets, in each of them a series for each colour."""
    colours = table.split("colour", MOST_COLOURS)
    name = table.wish.colour
    panels = []
    for facet in table.split("facet", MOST_PANELS):
        drawn = (
            series(text(colour) if name else "", rank, facet, colour)
            for rank, colour in enumerate(colours)
        )
        panels.append(Panel(_heading(table, facet), tuple(s for s in drawn if s is not None)))
    legend: dict[str, Any] = {
        "colour": Axis(name, table.unit(name)),
        "ordered": is_number(table.parts["colour"]) and not any(map(missing, colours)),
        "levels": tuple(map(text, colours)),
    }
    return table.chart(panels, x, y, **(legend if name else {}), **rest)


def _heading(table: Table, facet: Any) -> str:
    name = table.wish.facet
    return f"{name} = {text(facet)} {table.unit(name)}".strip() if name else ""


def _scatter(table: Table) -> Chart:
    """Every row by itself; very many are thinned out evenly, and that is said."""
    x = table.axis("x")
    parts = table.thinned(MOST_POINTS, "points")
    y = table.value_axis("y", parts["value"])
    scale = is_number(parts["colour"]) and parts["colour"].nunique() > MOST_COLOURS // 2
    if not scale:

        def series(name: str, rank: int, facet: Any, colour: Any) -> Series | None:
            rows = parts[_same(parts["facet"], facet) & _same(parts["colour"], colour)]
            return _points(name, rank, x, rows) if len(rows) else None

        return _panelled(table, x, y, series)
    known = parts[parts["colour"].notna()]
    panels = [
        Panel(_heading(table, facet), (_points("", 0, x, rows, shaded=True),))
        for facet in table.split("facet", MOST_PANELS)
        if len(rows := known[_same(known["facet"], facet)])
    ]
    colour = Axis(table.wish.colour, table.unit(table.wish.colour))
    return table.chart(panels, x, y, colour=colour, ordered=True)


def _same(column: pd.Series[Any], level: Any) -> np.ndarray:
    """Rows of one level; what is missing is a level too."""
    same = column.isna() if missing(level) else column == level
    found: np.ndarray = same.to_numpy(bool, na_value=False)
    return found


def _points(name: str, rank: int, x: Axis, rows: pd.DataFrame, *, shaded: bool = False) -> Series:
    return Series(
        name,
        rank,
        x=tuple(_placed(x, value) for value in rows["x"]),
        y=tuple(map(float, rows["value"])),
        shades=tuple(map(float, rows["colour"])) if shaded else (),
    )


def _box(table: Table) -> Chart:
    """The distribution at each x; numbers stand side by side like texts."""
    x = table.axis("x", categories=True)
    parts = table.parts
    y = table.value_axis("y", parts["value"])
    places = levels(parts["x"])
    table.notes.append("box: quartiles, median and mean; whiskers: within 1.5 box lengths")
    groups = {
        key_of(key): tuple(map(float, column))
        for key, column in parts.groupby(
            ["facet", "colour", "x"], sort=False, dropna=False, observed=True
        )["value"]
    }

    def series(name: str, rank: int, facet: Any, colour: Any) -> Series | None:
        there = [p for p in places if (facet, colour, p) in groups]
        samples = tuple(groups[facet, colour, p] for p in there)
        names = tuple(map(text, there))
        return Series(name, rank, x=names, samples=samples) if there else None

    return _panelled(table, x, y, series)


def _pie(table: Table) -> Chart:
    """A share for each x; the small ones go together, and that is said."""
    if table.wish.colour:
        raise InputError("the colours of a pie are its x", hint="leave out the colour")
    x = table.axis("x", categories=True)
    found = table.cells("facet", "x")
    y = table.value_axis("-", ())
    panels = []
    for facet in table.split("facet", MOST_PANELS):
        shares = {text(place): cell.value for (f, place), cell in found.items() if f == facet}
        if min(shares.values()) < 0 or not sum(shares.values()) > 0:
            raise InputError("a pie shows shares of a whole: no value may be negative")
        names = sorted(shares, key=(x.categories or ()).index)
        if len(names) > MOST_SLICES:
            largest = sorted(names, key=lambda name: -shares[name])[: MOST_SLICES - 1]
            rest = [name for name in names if name not in largest]
            names = [*(name for name in names if name in largest), f"{len(rest)} others"]
            shares[names[-1]] = sum(shares[name] for name in rest)
        slices = Series("", 0, x=tuple(names), y=tuple(shares[name] for name in names))
        panels.append(Panel(_heading(table, facet), (slices,)))
    return table.chart(panels, x, y)


def _grid(table: Table) -> Chart:
    """A value for each pair of x and y."""
    flat = table.wish.kind == "heatmap"
    if table.wish.colour:
        raise InputError("the colours of this chart are its z", hint="leave out the colour")
    x, y = table.axis("x", categories=flat), table.axis("y", categories=flat)
    found = table.cells("facet", "y", "x")
    columns, rows = levels(table.parts["x"]), levels(table.parts["y"])
    if not flat and min(len(columns), len(rows)) < 2:
        raise InputError("a surface needs two values of x and of y", hint="draw a line")
    panels = []
    for facet in table.split("facet", MOST_PANELS):
        values = [
            cell.value if (cell := found.get((facet, row, column))) else np.nan
            for row, column in product(rows, columns)
        ]
        lines = np.reshape(values, (len(rows), len(columns))).tolist()
        across = tuple(_placed(x, column) for column in columns)
        grid = Grid(across, tuple(_placed(y, row) for row in rows), tuple(map(tuple, lines)))
        panels.append(Panel(_heading(table, facet), grid=grid))
    z = table.value_axis("z", (cell.value for cell in found.values()))
    return table.chart(panels, x, y, z=z)
