"""What plotly draws in a panel, by kind of chart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from zenturio.show import palette
from zenturio.show.chart import Chart, Grid, Panel, Series, brief
from zenturio.show.layout import decades, marks, numbers
from zenturio.show.plain import said, trace

MANY_AXES = 8
"""The names of more parallel axes than this are slanted."""

_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")
DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot"}


def one_entry_each(drawn: Iterable[dict[str, Any]]) -> None:
    """Every name stands once in the legend, and hides its series in all panels."""
    seen: set[str] = set()
    for each in drawn:
        group = each.get("legendgroup")
        if group is not None:
            each["showlegend"] = bool(group) and group not in seen
            seen.add(group)


def _common(series: Series) -> dict[str, Any]:
    return {"name": said(brief(series.name)), "legendgroup": series.name}


def _colour(series: Series, chart: Chart) -> str:
    return palette.colour(series.rank, len(chart.levels), ordered=chart.ordered)


def _bars(series: Series) -> dict[str, Any] | None:
    if not series.low:
        return None
    pairs = zip(series.y, series.low, series.high, strict=True)
    up = [high - y if math.isfinite(high) else 0.0 for y, _, high in pairs]
    return {"type": "data", "array": up, "thickness": 1.2, "width": 4}


def lines(panel: Panel, chart: Chart) -> list[Any]:
    return [
        trace(
            "scatter",
            x=series.x,
            y=series.y,
            error_y=_bars(series),
            mode="lines+markers" if len(series.x) <= palette.MARKED else "lines",
            line={
                "color": _colour(series, chart),
                "dash": DASHES[palette.dash(series.rank, ordered=chart.ordered)],
                "width": 2,
            },
            marker={"symbol": _SYMBOLS[series.rank % len(_SYMBOLS)], "size": 7},
            **_common(series),
        )
        for series in panel.series
    ]


def bars(panel: Panel, chart: Chart) -> list[Any]:
    hatches = ("", "/", ".", "x")
    return [
        trace(
            "bar",
            x=series.x,
            y=series.y,
            error_y=_bars(series),
            marker={
                "color": _colour(series, chart),
                "pattern": {
                    "shape": hatches[0 if chart.ordered else series.rank // 7 % 4],
                    "fgcolor": "white",
                },
            },
            **_common(series),
        )
        for series in panel.series
    ]


def points(panel: Panel, chart: Chart) -> list[Any]:
    many = sum(len(series.x) for series in panel.series) > 500
    found = []
    for series in panel.series:
        marker: dict[str, Any] = {"size": 5 if many else 8, "opacity": 0.6 if many else 0.85}
        if series.shades:
            marker |= {"color": series.shades, "coloraxis": "coloraxis"}
        else:
            marker |= {"color": _colour(series, chart)}
            marker |= {"symbol": _SYMBOLS[series.rank % len(_SYMBOLS)]}
        found.append(
            trace(
                "scatter", x=series.x, y=series.y, mode="markers", marker=marker, **_common(series)
            )
        )
    return found


def boxes(panel: Panel, chart: Chart) -> list[Any]:
    found = []
    for series in panel.series:
        colour = _colour(series, chart)
        counts = [len(sample) for sample in series.samples]
        found.append(
            trace(
                "box",
                x=[x for x, n in zip(series.x, counts, strict=True) for _ in range(n)],
                y=[value for sample in series.samples for value in sample],
                line={"color": colour, "width": 1.5},
                fillcolor=colour + "40",
                quartilemethod="linear",
                boxpoints="outliers",
                boxmean=True,
                offsetgroup=str(series.rank),
                **_common(series),
            )
        )
    return found


def slices(panel: Panel, chart: Chart) -> list[Any]:
    (series,) = panel.series
    colours = palette.slices(series.x, chart.x.categories or ())
    return [
        trace(
            "pie",
            labels=[said(brief(name)) for name in series.x],
            values=series.y,
            sort=False,
            direction="clockwise",
            textinfo="label+percent",
            textposition="outside",
            showlegend=False,
            marker={"colors": colours, "line": {"color": "white", "width": 1.5}},
        )
    ]


def tiles(panel: Panel, chart: Chart) -> list[Any]:
    grid = _grid(panel)
    shown = [[f"{value:.3g}" if math.isfinite(value) else "" for value in row] for row in grid.z]
    few = max(len(grid.x), len(grid.y)) <= 12
    return [
        trace("heatmap",
            x=grid.x, y=grid.y, z=_shades(grid, chart), xgap=1, ygap=1, text=shown,
            texttemplate="%{text}" if few else None, coloraxis="coloraxis",
            hovertemplate="%{x}, %{y}: %{text}<extra></extra>",
        )
    ]  # fmt: skip


def surface(panel: Panel, chart: Chart) -> list[Any]:
    grid = _grid(panel)
    z = [[value if math.isfinite(value) else None for value in row] for row in grid.z]
    shades = _shades(grid, chart)
    return [trace("surface", x=grid.x, y=grid.y, z=z, surfacecolor=shades, coloraxis="coloraxis")]


def _grid(panel: Panel) -> Grid:
    assert panel.grid is not None
    return panel.grid


def _shades(grid: Grid, chart: Chart) -> list[list[float | None]]:
    """What colours are made from: plotly's scale of colours has no logarithm."""
    log = chart.z is not None and chart.z.log
    return [
        [(math.log10(value) if log else value) if math.isfinite(value) else None for value in row]
        for row in grid.z
    ]


def strands(panel: Panel, chart: Chart) -> list[Any]:  # noqa: ARG001 - as its siblings
    found = panel.strands
    assert found is not None
    dimensions = []
    for axis, column in zip(found.axes, found.columns, strict=True):
        values = tuple(map(math.log10, column)) if axis.log else column
        side: dict[str, Any] = {"label": said(brief(axis.label, 24)), "values": values}
        if axis.categories is not None:
            names = [said(brief(text, 20)) for text in axis.categories]
            side |= {"tickvals": list(range(len(names))), "ticktext": names}
        else:
            ticks = marks(column, log=axis.log)
            side |= {"tickvals": [math.log10(tick) for tick in ticks] if axis.log else ticks}
            side |= {"ticktext": [f"{tick:.4g}" for tick in ticks]}
        dimensions.append(side)
    line = {"color": found.shades, "coloraxis": "coloraxis"}
    slanted = {"labelangle": -25} if len(dimensions) > MANY_AXES else {}
    return [trace("parcoords", dimensions=dimensions, line=line, **slanted)]


def colour_axis(chart: Chart) -> dict[str, Any] | None:
    """The scale of colours that all panels share; None where colours are in the legend."""
    meant = chart.z or chart.colour
    if not chart.z and chart.levels:
        return None
    values = [
        value
        for panel in chart.panels
        for value in (
            *(shade for series in panel.series for shade in series.shades),
            *(value for row in (panel.grid.z if panel.grid else ()) for value in row),
            *(panel.strands.shades if panel.strands else ()),
        )
        if math.isfinite(value)
    ]
    if not values or meant is None:
        return None
    low, high = min(values), max(values)
    brightest = 1.0 if chart.z else palette.BRIGHTEST
    bar: dict[str, Any] = {"title": {"text": said(meant.pointed), "side": "right"}}
    if meant.log:
        ticks = decades(low, high)
        bar |= {
            "tickvals": [math.log10(tick) for tick in ticks],
            "ticktext": numbers(ticks),
        }
        low, high = math.log10(low), math.log10(high)
    scale = [(i / 16, palette.shade(brightest * i / 16)) for i in range(17)]
    return {"colorscale": scale, "cmin": low, "cmax": high, "colorbar": bar | {"outlinewidth": 0}}
