"""Charts for browsers: figures of plotly.js, made without plotly, which loads slowly."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from zenturio.show import palette, paths, traces
from zenturio.show.chart import Axis, Chart, Kind, Panel, brief
from zenturio.show.layout import apart, columns_of, decades, numbers, some
from zenturio.show.plain import TEMPLATE, Figure, Span, headings, numbered, said, spans

FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
PANEL = 320
"""Height of a panel in pixels."""
NAMES = 24
"""That have room along it; twice as many stand below it on their heads."""
_MAKERS: dict[Kind, Callable[[Panel, Chart], list[dict[str, Any]]]] = {
    "line": traces.lines, "bar": traces.bars, "scatter": traces.points, "box": traces.boxes,
    "pie": traces.slices, "heatmap": traces.tiles, "surface": traces.surface,
    "parallel": traces.strands, "convergence": paths.steps, "importance": paths.shares,
    "slice": paths.sliced, "pareto": paths.fronts,
}  # fmt: skip
_Places = Sequence[tuple[Span, Span]]


def chart_figure(chart: Chart, *, columns: int | None = None) -> Figure:
    """The chart as a figure to look around in, with so many panels side by side."""
    count = len(chart.panels)
    columns = columns or columns_of(count)
    rows = -(-count // columns)
    own = any(panel.x is not None for panel in chart.panels)
    places = spans(count, columns, (90 if own else 60) / (PANEL * rows))
    drawn = [
        each | _where(chart, place, *places[place])
        for place, panel in enumerate(chart.panels)
        for each in _MAKERS[chart.kind](panel, chart)
    ]
    traces.one_entry_each(drawn)
    layout = _common(chart, rows) | _sides(chart, places, columns)
    layout["annotations"] = headings(chart.panels, places, 100 // columns)
    return {"data": drawn, "layout": layout}


def _where(chart: Chart, place: int, across: Span, upwards: Span) -> dict[str, Any]:
    """What puts a trace into its panel."""
    if chart.kind in ("pie", "parallel"):
        return {"domain": {"x": across, "y": upwards}}
    if chart.kind == "surface":
        return {"scene": numbered("scene", place)}
    return {"xaxis": numbered("x", place), "yaxis": numbered("y", place)}


def _common(chart: Chart, rows: int) -> dict[str, Any]:
    """What all charts say."""
    title = "<br>".join(map(said, textwrap.wrap(" ".join(chart.title.split()), 75)))
    note = "<br>".join(map(said, textwrap.wrap(chart.note, 130)))
    legend = chart.colour.label if chart.colour and chart.levels else ""
    scale = traces.colour_axis(chart)
    return {
        "template": TEMPLATE,
        "title": {"text": f"<b>{title}</b><br><sup>{note}</sup>", "x": 0.01, "xanchor": "left"},
        "font": {"family": FONT, "size": 14, "color": palette.INK},
        "legend": {"title": {"text": said(legend)}, "traceorder": "normal"},
        "height": max(540, PANEL * rows + 170),
        "margin": {"l": 70, "r": 30, "t": 150 if chart.kind == "parallel" else 100, "b": 70},
        "barmode": "overlay" if chart.kind == "importance" else "group",
        "boxmode": "group",
        "hovermode": "closest",
        **({"coloraxis": scale} if scale else {}),
    }


def _sides(chart: Chart, places: _Places, columns: int) -> dict[str, Any]:
    """The axes of all panels, or their spaces."""
    if chart.kind in ("pie", "parallel"):
        return {}
    if chart.kind == "surface":
        space = _space(chart)
        return {
            numbered("scene", place): {**space, "domain": {"x": across, "y": upwards}}
            for place, (across, upwards) in enumerate(places)
        }
    found: dict[str, Any] = {}
    for place, (across, upwards) in enumerate(places):
        x, y = _flat(chart, place, columns)
        x |= {"domain": across, "anchor": numbered("y", place)}
        y |= {"domain": upwards, "anchor": numbered("x", place)}
        if place:
            y["matches"] = "y"
        if place and all(panel.x is None for panel in chart.panels):
            x["matches"] = "x"
        found |= {numbered("xaxis", place): x, numbered("yaxis", place): y}
    return found


def _space(chart: Chart) -> dict[str, Any]:
    sides = {"xaxis": chart.x, "yaxis": chart.y, "zaxis": chart.z or chart.y}
    small = {"tickfont": {"size": 11}}
    return {
        **{name: _side(axis, 9) | small for name, axis in sides.items()},
        "camera": {"eye": {"x": -1.5, "y": -1.7, "z": 0.9}},
        "aspectmode": "cube",
    }


def _flat(chart: Chart, place: int, columns: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both axes of a panel: names stand only at those of the left and lower edges."""
    count, own = len(chart.panels), chart.panels[place].x
    y = _side(chart.y, count)
    if chart.kind == "importance":
        y["autorange"] = "reversed"
    if place % columns:
        y |= {"title": {"text": ""}, "showticklabels": False}
    if own is not None:
        return _own_side(own, count), y
    x = _side(chart.x, count, 2 * NAMES // columns)
    if place + columns < count:
        x |= {"title": {"text": ""}, "showticklabels": False}
    return x, y


def _side(axis: Axis, panels: int, names: int = NAMES) -> dict[str, Any]:
    """How an axis of plotly is set; texts are never taken for numbers or dates."""
    side: dict[str, Any] = {"title": {"text": said(axis.pointed)}}
    if axis.categories is not None:
        return side | {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": list(axis.categories),
            "tickvals": (shown := some(axis.categories, names)),
            "ticktext": [said(brief(text, 28)) for text in shown],
        }
    side |= {"type": "log" if axis.log else "linear"}
    ticks = axis.ticks if apart(axis, panels) else decades(*axis.ends) if axis.log else ()
    if ticks:
        side |= {"tickvals": list(ticks), "ticktext": numbers(ticks)}
    return side


def _own_side(axis: Axis, panels: int) -> dict[str, Any]:
    """The x axis of one panel; points of a text lie beside its number."""
    if axis.categories is None:
        return _side(axis, panels)
    names = [said(brief(text, 16)) for text in some(axis.categories, NAMES)]
    places = some(range(len(axis.categories)), NAMES)
    title = {"text": said(axis.label)}
    return {"type": "linear", "title": title, "tickvals": places, "ticktext": names}
