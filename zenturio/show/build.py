"""From a frame to a chart: one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from zenturio.errors import InputError
from zenturio.show.cells import Cell, is_number, key_of, levels, missing, text
from zenturio.show.charts import Axis, Chart, Grid, Kind, Panel, Series, Strands
from zenturio.show.table import Table
from zenturio.show.wish import Wish

MOST_COLOURS = 20
MOST_PANELS = 16
MOST_SLICES = 8
MOST_POINTS = 20_000
MOST_STRANDS = 2_000


def chart(frame: pd.DataFrame, kind: Kind = "line", **wishes: Any) -> Chart:
    """The chart that the *wishes* (the fields of `Wish`) ask for; InputError says what is wrong.

    The frame's ``attrs`` may hold ``study``, ``units`` (by column), ``parameters`` (names) and
    ``of`` (how many experiments there are, with those that have no row).
    """
    return _of(Wish(kind, **wishes), frame)


def _of(wish: Wish, frame: pd.DataFrame) -> Chart:
    table = Table(frame, wish)
    builders: dict[Kind, Callable[[Table], Chart]] = {
        "line": _line, "bar": _bar, "scatter": _scatter, "box": _box,
        "pie": _pie, "heatmap": _grid, "surface": _grid, "parallel": _parallel,
    }  # fmt: skip
    return builders[wish.kind](table)


def _line(table: Table) -> Chart:
    return _series(table, table.axis("x"))


def _bar(table: Table) -> Chart:
    if "x" in table.wish.log:
        raise InputError("bars stand side by side: their x axis has no logarithm", cure="log='y'")
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
    legend = {
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
    parts = _thinned(table, MOST_POINTS, "points")
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
    found: np.ndarray = (column.isna() if missing(level) else (column == level)).to_numpy(bool)
    return found


def _points(name: str, rank: int, x: Axis, rows: pd.DataFrame, *, shaded: bool = False) -> Series:
    return Series(
        name,
        rank,
        x=tuple(_placed(x, value) for value in rows["x"]),
        y=tuple(map(float, rows["value"])),
        shades=tuple(map(float, rows["colour"])) if shaded else (),
    )


def _thinned(table: Table, most: int, what: str) -> pd.DataFrame:
    parts = table.parts
    if len(parts) <= most:
        return parts
    step = -(-len(parts) // most)
    thinned = parts.iloc[::step]
    table.notes.append(f"{len(thinned):,} {what} drawn, one of every {step}")
    return thinned


def _box(table: Table) -> Chart:
    """The distribution at each x; numbers stand side by side like texts."""
    x = table.axis("x", categories=True)
    parts = table.parts
    y = table.value_axis("y", parts["value"])
    places = levels(parts["x"])
    table.notes.append("box: quartiles and median; whiskers: within 1.5 box lengths")
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
        raise InputError("the colours of a pie are its x", cure="leave out the colour")
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
        raise InputError("the colours of this chart are its z", cure="leave out the colour")
    x, y = table.axis("x", categories=flat), table.axis("y", categories=flat)
    found = table.cells("facet", "y", "x")
    columns, rows = levels(table.parts["x"]), levels(table.parts["y"])
    if not flat and min(len(columns), len(rows)) < 2:
        raise InputError("a surface needs two values of x and of y", cure="draw a line")
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


def _parallel(table: Table) -> Chart:
    """A line for each row across an axis for each column, coloured by the metric."""
    wish, frame = table.wish, table.frame
    if wish.colour or wish.facet:
        raise InputError("the colours of parallel axes are the metric", cure="leave out colour")
    rows = frame.loc[_thinned(table, MOST_STRANDS, "lines").index]
    names = wish.axes or [
        name for name in table.attrs.get("parameters", ()) if frame[name].nunique(dropna=False) > 1
    ]
    if not names:
        raise InputError("no parameter varies", cure="name the axes: axes=…")
    names = [*(name for name in names if name != wish.y), wish.y]
    axes, columns = zip(*(_strand(table, rows, name) for name in names), strict=True)
    shades = tuple(map(float, rows[wish.y]))
    panel = Panel(strands=Strands(axes, columns, shades))
    metric = Axis(wish.y, table.unit(wish.y))
    return table.chart([panel], Axis(""), metric, colour=metric, ordered=True)


def _strand(table: Table, rows: pd.DataFrame, name: str) -> tuple[Axis, tuple[float, ...]]:
    column, unit = rows[name], table.unit(name)
    if is_number(column) and not column.isna().any():
        return Axis(name, unit), tuple(map(float, column))
    found = levels(table.frame[name])
    number = {text(level): float(i) for i, level in enumerate(found)}
    axis = Axis(name, unit, categories=tuple(number))
    return axis, tuple(number[text(value)] for value in column)
