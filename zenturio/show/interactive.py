"""Charts for browsers and notebooks: plotly figures, and pages that need no network."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from typing import Any

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from zenturio.show import palette, paths, traces
from zenturio.show.charts import Axis, Chart, Kind, Panel, brief
from zenturio.show.layout import apart, columns_of, decades, numbers, some
from zenturio.show.paged import scene_figure
from zenturio.show.scene import Scene
from zenturio.show.traces import said

FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"

CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["sendChartToCloud"],  # nothing leaves the machine
}

PANEL = 320
"""Height of a panel in pixels."""
NAMES = 24
"""That have room along it; twice as many stand below it on their heads."""


def plotly_figure(chart: Chart, *, columns: int | None = None) -> go.Figure:
    """The chart as a figure to look around in, with so many panels side by side."""
    count = len(chart.panels)
    columns = columns or columns_of(count)
    rows = -(-count // columns)
    kinds = {"surface": "scene", "pie": "domain", "parallel": "domain"}
    flat = chart.kind not in kinds
    own = any(panel.x is not None for panel in chart.panels)
    figure = make_subplots(
        rows,
        columns,
        specs=[[{"type": kinds.get(chart.kind, "xy")}] * columns for _ in range(rows)],
        subplot_titles=[said(brief(panel.title, 100 // columns)) for panel in chart.panels],
        shared_xaxes="all" if flat and not own else False,
        shared_yaxes="all" if flat else False,
        horizontal_spacing=0.05,
        vertical_spacing=(90 if own else 60) / (PANEL * rows),
    )
    makers: dict[Kind, Callable[[Panel, Chart], list[Any]]] = {
        "line": traces.lines, "bar": traces.bars, "scatter": traces.points, "box": traces.boxes,
        "pie": traces.slices, "heatmap": traces.tiles, "surface": traces.surface,
        "parallel": traces.strands, "convergence": paths.steps, "importance": paths.shares,
        "slice": paths.sliced, "pareto": paths.fronts,
    }  # fmt: skip
    for place, panel in enumerate(chart.panels):
        for trace in makers[chart.kind](panel, chart):
            figure.add_trace(trace, row=place // columns + 1, col=place % columns + 1)
    traces.one_entry_each(figure)
    _arrange(figure, chart, rows, columns)
    return figure


def page(chart: Chart | Scene) -> str:
    """One HTML file that works without a network: plotly.js is in it."""
    shown = figure_of(chart).to_html(
        include_plotlyjs=True,
        include_mathjax=False,
        full_html=True,
        default_width="100%",
        config=CONFIG,
    )
    title = said(chart.title)
    head = f'<head><meta name="referrer" content="no-referrer" /><title>{title}</title>'
    return str(shown).replace("<head>", head, 1)


def notebook(chart: Chart | Scene) -> dict[str, Any]:
    """What a notebook shows; plotly itself knows how, in the one that it runs in."""
    figure = figure_of(chart)
    return {
        "text/plain": f"{chart.title}\n{chart.note}",
        "application/vnd.plotly.v1+json": json.loads(figure.to_json()),
        "text/html": figure.to_html(
            include_plotlyjs=True, include_mathjax=False, full_html=False, config=CONFIG
        ),
    }


def figure_of(chart: Chart | Scene) -> go.Figure:
    """The figure of either."""
    return scene_figure(chart) if isinstance(chart, Scene) else plotly_figure(chart)


def _arrange(figure: go.Figure, chart: Chart, rows: int, columns: int) -> None:
    count = len(chart.panels)
    title = "<br>".join(map(said, textwrap.wrap(" ".join(chart.title.split()), 75)))
    note = "<br>".join(map(said, textwrap.wrap(chart.note, 130)))
    legend = chart.colour.label if chart.colour and chart.levels else ""
    figure.update_layout(
        template="plotly_white",
        title={"text": f"<b>{title}</b><br><sup>{note}</sup>", "x": 0.01, "xanchor": "left"},
        font={"family": FONT, "size": 14, "color": palette.INK},
        legend={"title": {"text": said(legend)}, "traceorder": "normal"},
        height=max(540, PANEL * rows + 170),
        margin={"l": 70, "r": 30, "t": 150 if chart.kind == "parallel" else 100, "b": 70},
        coloraxis=traces.colour_axis(chart),
        barmode="overlay" if chart.kind == "importance" else "group",
        boxmode="group",
        hovermode="closest",
    )
    if chart.kind == "surface":
        sides = {"xaxis": chart.x, "yaxis": chart.y, "zaxis": chart.z or chart.y}
        small = {"font": {"size": 11}, "camera": {"eye": {"x": -1.5, "y": -1.7, "z": 0.9}}}
        figure.update_scenes(
            **{name: _side(axis, 9) | {"tickfont": small["font"]} for name, axis in sides.items()},
            camera=small["camera"],
            aspectmode="cube",
        )
    elif chart.kind not in ("pie", "parallel"):
        figure.update_xaxes(**_side(chart.x, count, 2 * NAMES // columns))
        figure.update_yaxes(**_side(chart.y, count))
        if chart.kind == "importance":
            figure.update_yaxes(autorange="reversed")
        _name_outer(figure, chart, columns)


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


def _name_outer(figure: go.Figure, chart: Chart, columns: int) -> None:
    """Names of the axes only at the panels of the left and lower edges."""
    count = len(chart.panels)
    for each in range(count):
        place = {"row": each // columns + 1, "col": each % columns + 1}
        lowest = each + columns >= count
        own = chart.panels[each].x
        if own is not None:
            figure.update_xaxes(**_own_side(own, count), **place)
        else:
            figure.update_xaxes(title_text=said(chart.x.pointed) if lowest else "",
                                showticklabels=lowest, **place)  # fmt: skip
        left = each % columns == 0
        figure.update_yaxes(title_text=said(chart.y.pointed) if left else "",
                            showticklabels=left, **place)  # fmt: skip
