"""Charts for browsers and notebooks: figures of plotly.js.

Figures are plain values, and pages have the copy of plotly.js that the portal serves: the plotly
package, which loads slowly, is for those who want to go on with a figure in Python.
"""

from __future__ import annotations

import gzip
import html
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from zenturio.show.chart import (
    Bars,
    Boxes,
    Chart,
    ChartAxis,
    Line,
    Nodes,
    Panel,
    Points,
    Rectangle,
    Rectangles,
    Segments,
    Strands,
    Surface,
    Tiles,
    Wedges,
    bar_labels,
    columns_for,
    every_nth,
    has_room_for_ticks,
    log_ticks,
    shorten,
    strand_ticks,
    tick_texts,
)
from zenturio.show.renderers import palette

Figure = dict[str, Any]
"""``data``, a list of traces, and ``layout``."""
Trace = dict[str, Any]
Span = list[float]
"""From where to where, as shares of the whole."""
Places = Sequence[tuple[Span, Span]]
"""Where each panel is, across and upwards."""

FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
PANEL_HEIGHT = 320
"""Pixels, as all that follow."""
ROW_HEIGHT = 22
TALLEST_ROWS = 900
"""Height of a chart with any number of rows."""
GRAPH_HEIGHT = 640
PANEL_GAP, FREE_PANEL_GAP = 0.05, 0.09
"""Between panels side by side, of the width; the second leaves room for the ticks of each."""
MOST_NAMES = 24
"""Names that have room along an axis; twice as many fit below it upright."""
MOST_UNIT_TICKS = 8
"""Whole numbers farther apart than this have whole ticks by themselves."""
MANY_POINTS = 500
"""Beyond this, points are small and translucent, so that others show through."""
CROWDED_FRONT = 100
"""Beyond this, points of a front have no edges: they would hide each other."""
MANY_AXES = 8
"""The names of more parallel axes than this are slanted."""
MOST_TILES_WITH_TEXT = 12
"""A heatmap with at most so many rows and columns shows its numbers."""
FEW_NODES = 300
CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["sendChartToCloud"],  # nothing leaves the machine
}

_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")
_DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot"}
_GRID, _SPACE, _INK = "#ebf0f8", "#dfe8f3", "#2a3f5f"
_AXIS = {
    "gridcolor": _GRID, "linecolor": _GRID, "zerolinecolor": _GRID, "zerolinewidth": 2,
    "ticks": "", "title": {"standoff": 15}, "automargin": True,
}  # fmt: skip
_SPACE_AXIS = {
    "gridcolor": _SPACE, "linecolor": _GRID, "zerolinecolor": _GRID, "gridwidth": 2, "ticks": "",
    "backgroundcolor": "white", "showbackground": True,
}  # fmt: skip
TEMPLATE: Figure = {
    "layout": {
        "autotypenumbers": "strict",
        "font": {"color": _INK},
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "coloraxis": {"colorbar": {"outlinewidth": 0, "ticks": ""}},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "scene": {"xaxis": _SPACE_AXIS, "yaxis": _SPACE_AXIS, "zaxis": _SPACE_AXIS},
        "title": {"x": 0.05},
    },
    "data": {
        "bar": [{
            "type": "bar", "error_x": {"color": _INK}, "error_y": {"color": _INK},
            "marker": {"line": {"color": "white", "width": 0.5},
                       "pattern": {"fillmode": "overlay", "size": 10, "solidity": 0.2}},
        }],
        "pie": [{"type": "pie", "automargin": True}],
    },
}  # fmt: skip
"""The light theme."""


@dataclass(frozen=True, repr=False)
class NotebookChart(Chart):
    """A chart that a notebook displays by itself."""

    def __repr__(self) -> str:
        return f"<{self.kind} chart: {self.title}; {self.note}>"

    def _repr_mimebundle_(self, **_: Any) -> Mapping[str, Any]:
        return mime_bundle(self)

    def figure(self) -> Any:
        """Return the chart as a figure of plotly, to be changed or combined in Python."""
        return plotly_figure(self)


def plotly_figure(chart: Chart) -> Any:
    """Return *chart* as a figure of the plotly package."""
    from plotly import graph_objects  # noqa: PLC0415 - loads slowly

    return graph_objects.Figure(chart_figure(chart))


def chart_page(chart: Chart) -> str:
    """Return an HTML page that works without a network: plotly.js is in it."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{escape(chart.title)}</title></head>\n"
        f"<body>{chart_html(chart, include_script=True)}</body></html>\n"
    )


def chart_html(chart: Chart, *, include_script: bool) -> str:
    """Return the part of an HTML page that shows *chart*; one part has to include plotly.js."""
    figure = jsonable(chart_figure(chart))
    name = f"chart-{uuid4().hex}"  # a page may have the same chart twice
    arguments = ", ".join(map(_script_json, (name, figure["data"], figure["layout"], CONFIG)))
    # A notebook may have removed the place again before its script runs.
    draw = f'if (document.getElementById("{name}")) Plotly.newPlot({arguments});'
    script = f"<script>{plotly_script()}</script>" if include_script else ""
    height = figure["layout"]["height"]
    place = f'<div id="{name}" class="plotly-graph-div" style="height:{height}px"></div>'
    return f"<div>{script}{place}<script>{draw}</script></div>"


def plotly_script() -> str:
    """Return plotly.js, the copy that the portal serves."""
    packed = Path(__file__).parent.parent / "portal" / "static" / "plotly-strict.min.js.gz"
    return gzip.decompress(packed.read_bytes()).decode()


def _script_json(value: Any) -> str:
    """Return JSON that cannot end the script it stands in."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def mime_bundle(chart: Chart) -> dict[str, Any]:
    """Return what a notebook shows: plotly's own format, HTML, or a text."""
    return {
        "text/plain": f"{chart.title}\n{chart.note}",
        "application/vnd.plotly.v1+json": jsonable(chart_figure(chart)),
        "text/html": chart_html(chart, include_script=True),
    }


def chart_figure(chart: Chart, *, columns: int | None = None) -> Figure:
    """Return the figure of *chart*, with *columns* panels side by side."""
    count = len(chart.panels)
    columns = columns or columns_for(count)
    rows = -(-count // columns)
    has_own_axes = any(panel.x is not None for panel in chart.panels)
    has_own_y = any(panel.y is not None for panel in chart.panels)
    gaps = (
        FREE_PANEL_GAP if has_own_y else PANEL_GAP,
        (90 if has_own_axes else 60) / (PANEL_HEIGHT * rows),
    )
    places = _panel_places(count, columns, *gaps)
    traces = [
        trace | _panel_reference(chart, number, *places[number])
        for number, panel in enumerate(chart.panels)
        for mark in panel.marks
        for trace in _TRACES[type(mark)](mark, panel, chart)
    ]
    _show_each_name_once(traces)
    layout = _common_layout(chart, rows) | _axes_layout(chart, places, columns)
    layout["annotations"] = _panel_titles(chart.panels, places, 100 // columns)
    return {"data": traces, "layout": layout}


def jsonable(value: Any) -> Any:
    """Return *value* as JSON can hold it: a number that is not finite becomes null."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: jsonable(part) for name, part in value.items()}
        case list() | tuple():
            return [jsonable(part) for part in value]
        case str() | int() | None:
            return value
    return jsonable(value.item())  # a NumPy scalar


def escape(text: str) -> str:
    """Return *text* so that plotly shows it literally: it would interpret tags and entities."""
    return html.escape(shorten(text, 120), quote=False)


# Layout


def _common_layout(chart: Chart, rows: int) -> dict[str, Any]:
    title = "<br>".join(map(escape, textwrap.wrap(" ".join(chart.title.split()), 75)))
    note = "<br>".join(map(escape, textwrap.wrap(chart.note, 115)))
    legend = chart.colour.label if chart.colour and chart.levels else ""
    colour_axis = _colour_axis(chart)
    bars = [mark for mark in chart.marks() if isinstance(mark, Bars)]
    is_overlaid = chart.rectangles or any(mark.is_lying for mark in bars)
    layout = {
        "template": TEMPLATE,
        "title": {"text": f"<b>{title}</b><br><sup>{note}</sup>", "x": 0.01, "xanchor": "left"},
        "font": {"family": FONT, "size": 14, "color": palette.INK},
        "legend": {"title": {"text": escape(legend)}, "traceorder": "normal"},
        "height": _height(chart, rows),
        "margin": {"l": 70, "r": 30, "t": 150 if chart.frame == "strands" else 100, "b": 70},
        "barmode": "overlay" if is_overlaid else "group",
        "boxmode": "group",
        "hovermode": "closest",
        **({"coloraxis": colour_axis} if colour_axis else {}),
    }
    if chart.rectangles:
        layout |= {"bargap": 0, "uniformtext": {"mode": "hide", "minsize": 8}}
    if any(isinstance(mark, Nodes) for mark in chart.marks()):
        layout["dragmode"] = "pan"
    return layout


def _height(chart: Chart, rows: int) -> int:
    if chart.y.is_hidden:
        return GRAPH_HEIGHT
    if chart.y.is_spread:
        return min(TALLEST_ROWS, max(420, 190 + ROW_HEIGHT * len(chart.y.categories or ())))
    return max(540, PANEL_HEIGHT * rows + 170)


def _panel_places(
    count: int, columns: int, column_gap: float, row_gap: float
) -> list[tuple[Span, Span]]:
    """Return where each panel is, row by row."""
    rows = -(-count // columns)
    width = (1 - column_gap * (columns - 1)) / columns
    height = (1 - row_gap * (rows - 1)) / rows
    places = []
    for number in range(count):
        left = number % columns * (width + column_gap)
        top = 1 - number // columns * (height + row_gap)
        places.append(([left, left + width], [max(top - height, 0.0), top]))
    return places


def _panel_titles(panels: Sequence[Panel], places: Places, longest: int) -> list[Any]:
    return [
        {
            "text": escape(shorten(panel.title, longest)), "font": {"size": 16},
            "showarrow": False, "x": sum(across) / 2, "y": upwards[1], "xanchor": "center",
            "yanchor": "bottom", "xref": "paper", "yref": "paper",
        }
        for panel, (across, upwards) in zip(panels, places, strict=True)
        if panel.title
    ]  # fmt: skip


def _numbered(name: str, number: int) -> str:
    """Return ``xaxis``, ``xaxis2`` ...: what plotly calls the axes and scenes of panel 0, 1, ..."""
    return f"{name}{number + 1}" if number else name


def _panel_reference(chart: Chart, number: int, across: Span, upwards: Span) -> dict[str, Any]:
    """Return what puts a trace into its panel."""
    if chart.frame in ("circle", "strands"):
        return {"domain": {"x": across, "y": upwards}}
    if chart.frame == "space":
        return {"scene": _numbered("scene", number)}
    return {"xaxis": _numbered("x", number), "yaxis": _numbered("y", number)}


def _axes_layout(chart: Chart, places: Places, columns: int) -> dict[str, Any]:
    """Return the axes of all panels, or their scenes in space."""
    if chart.frame in ("circle", "strands"):
        return {}
    if chart.frame == "space":
        space = _space_layout(chart)
        return {
            _numbered("scene", number): {**space, "domain": {"x": across, "y": upwards}}
            for number, (across, upwards) in enumerate(places)
        }
    layout: dict[str, Any] = {}
    for number, (across, upwards) in enumerate(places):
        x, y = _plane_axes(chart, number, columns)
        x |= {"domain": across, "anchor": _numbered("y", number)}
        y |= {"domain": upwards, "anchor": _numbered("x", number)}
        if number and chart.panels[number].y is None:
            y["matches"] = "y"
        if number and all(panel.x is None for panel in chart.panels):
            x["matches"] = "x"
        layout |= {_numbered("xaxis", number): x, _numbered("yaxis", number): y}
    return layout


def _space_layout(chart: Chart) -> dict[str, Any]:
    axes = {"xaxis": chart.x, "yaxis": chart.y, "zaxis": chart.z or chart.y}
    small = {"tickfont": {"size": 11}}
    return {
        **{name: _axis_layout(axis, 9) | small for name, axis in axes.items()},
        "camera": {"eye": {"x": -1.5, "y": -1.7, "z": 0.9}},
        "aspectmode": "cube",
    }


def _plane_axes(chart: Chart, number: int, columns: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both axes of a panel; only those at the left and lower edges have titles."""
    count, panel = len(chart.panels), chart.panels[number]
    axis = panel.x
    y = _axis_layout(panel.y or chart.y, count)
    if number % columns:
        y |= {"title": {"text": ""}, "showticklabels": panel.y is not None}
    if axis is not None:
        return _axis_layout(axis, count), y
    x = _axis_layout(chart.x, count, 2 * MOST_NAMES // columns)
    if chart.rectangles:
        x["rangemode"] = "tozero"
    if number + columns < count:
        x |= {"title": {"text": ""}, "showticklabels": False}
    return x, y


def _axis_layout(axis: ChartAxis, panels: int, most_names: int = MOST_NAMES) -> dict[str, Any]:
    """Return the settings of an axis; texts are never taken for numbers or dates."""
    if axis.is_hidden:
        return {"visible": False}
    layout: dict[str, Any] = {"title": {"text": escape(axis.title_of_panel(panels))}}
    if axis.is_spread:
        return layout | _spread_axis_layout(axis)
    if axis.categories is not None:
        names = every_nth(axis.categories, most_names)
        layout |= {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": list(axis.categories),
            "tickvals": names,
            "ticktext": [escape(shorten(text, 28)) for text in names],
        }
        return layout | ({"autorange": "reversed"} if axis.is_reversed else {})
    layout["type"] = "log" if axis.log else "linear"
    ticks: Sequence[float] = ()
    if has_room_for_ticks(axis, panels):
        ticks = axis.ticks
    elif axis.log:
        ticks = log_ticks(*axis.ends)
    if ticks:
        layout |= {"tickvals": list(ticks), "ticktext": tick_texts(ticks)}
    elif axis.is_whole and axis.ends[1] - axis.ends[0] <= MOST_UNIT_TICKS:
        layout["dtick"] = 1
    return layout


def _spread_axis_layout(axis: ChartAxis) -> dict[str, Any]:
    """Return an axis of numbers whose ticks are texts: points lie beside that of their category."""
    names = axis.categories or ()
    longest, most = 16, MOST_NAMES
    layout: dict[str, Any] = {"type": "linear"}
    if axis.is_reversed:  # rows, from the top
        longest, most = 28, (TALLEST_ROWS - 190) // 14
        layout |= {"range": [len(names) - 0.5, -0.5], "showgrid": False}
    return layout | {
        "tickvals": every_nth(range(len(names)), most),
        "ticktext": [escape(shorten(text, longest)) for text in every_nth(names, most)],
    }


def _colour_axis(chart: Chart) -> dict[str, Any] | None:
    """Return the colour scale that all panels share; None where colours are in the legend."""
    meaning = chart.z or chart.colour
    values = list(chart.shades())
    if not values or meaning is None or (chart.levels and not chart.z):
        return None
    low, high = min(values), max(values)
    brightest = 1.0 if chart.z else palette.BRIGHTEST
    bar: dict[str, Any] = {"title": {"text": escape(meaning.label_with_direction), "side": "right"}}
    if meaning.log:
        ticks = log_ticks(low, high)
        bar |= {
            "tickvals": [math.log10(tick) for tick in ticks],
            "ticktext": tick_texts(ticks),
        }
        low, high = math.log10(low), math.log10(high)
    scale = [(i / 16, palette.shade(brightest * i / 16)) for i in range(17)]
    return {"colorscale": scale, "cmin": low, "cmax": high, "colorbar": bar | {"outlinewidth": 0}}


# Traces: a function for each mark


def _trace(kind: str, **values: Any) -> Trace:
    """Return a trace; what is None is left to plotly.js."""
    return {"type": kind, **{name: value for name, value in values.items() if value is not None}}


def _show_each_name_once(traces: Iterable[Trace]) -> None:
    """Put each name into the legend once; there it hides its series in all panels."""
    seen: set[str] = set()
    for trace in traces:
        group = trace.get("legendgroup")
        if group is not None:
            trace["showlegend"] = bool(group) and group not in seen
            seen.add(group)


def _legend(name: str) -> dict[str, Any]:
    return {"name": escape(shorten(name)), "legendgroup": name}


_NO_BAR = "none"
"""Where there is no error bar: no number, as null were one (0), whose ends would be drawn."""


def _error_bars(mark: Line | Bars | Points) -> dict[str, Any] | None:
    if not mark.high:
        return None

    def lengths(ends: Sequence[float]) -> list[float]:
        return [abs(end - value) for value, end in zip(mark.y, ends, strict=True)]

    def drawn(lengths: Sequence[float]) -> list[float | str]:
        return [length if math.isfinite(length) else _NO_BAR for length in lengths]

    up, down = lengths(mark.high), lengths(mark.low)
    bars = {"type": "data", "array": drawn(up), "thickness": 1.2, "width": 4}
    pairs = zip(up, down, strict=True)
    is_symmetric = all(math.isclose(*pair) or all(map(math.isnan, pair)) for pair in pairs)
    return bars if is_symmetric else {**bars, "symmetric": False, "arrayminus": drawn(down)}


def _line_traces(mark: Line, _panel: Panel, chart: Chart) -> list[Trace]:
    colour = palette.level_colour(chart, mark.rank)
    dash = _DASHES[palette.dash(mark.rank, ordered=chart.ordered)]
    line = {"color": colour, "dash": dash, "width": 2}
    common = {"x": mark.x, **_legend(mark.name)}
    if not mark.is_stepped:
        has_markers = len(mark.x) <= palette.MOST_MARKERS
        return [
            _trace(
                "scatter",
                y=mark.y,
                error_y=_error_bars(mark),
                mode="lines+markers" if has_markers else "lines",
                line=line,
                marker={"symbol": _SYMBOLS[mark.rank % len(_SYMBOLS)], "size": 7},
                **common,
            )
        ]
    # The line comes before its band: the first trace of a group is the one in the legend.
    traces = [_trace("scatter", y=mark.y, mode="lines", line={"shape": "hv", **line}, **common)]
    if mark.low:
        edge = {"shape": "hv", "width": 0, "color": colour}
        hidden = common | {"line": edge, "mode": "lines", "hoverinfo": "skip"}
        for heights, fill in ((mark.low, None), (mark.high, "tonexty")):
            traces.append(
                _trace("scatter", y=heights, fill=fill, fillcolor=colour + "2e", **hidden)
            )
    return traces


def _bar_traces(mark: Bars, panel: Panel, chart: Chart) -> list[Trace]:
    if mark.is_lying:
        return [_lying_bars(mark, panel)]
    hatches = ("", "/", ".", "x")
    pattern = hatches[0 if chart.ordered else mark.rank // len(palette.DISTINCT) % len(hatches)]
    return [
        _trace(
            "bar",
            x=mark.x,
            y=mark.y,
            error_y=_error_bars(mark),
            marker={
                "color": palette.level_colour(chart, mark.rank),
                "pattern": {"shape": pattern, "fgcolor": "white"},
            },
            **_legend(mark.name),
        )
    ]


def _lying_bars(mark: Bars, panel: Panel) -> Trace:
    styles: dict[str, dict[str, Any]] = {
        "front": {"color": "rgba(0,0,0,0)", "line": {"color": palette.DISTINCT[0], "width": 1.2}},
        "plain": {"color": palette.DISTINCT[0]},
        "faint": {"color": palette.PALE},
    }
    labels = bar_labels(panel)
    longest: dict[str, float] = {}
    for bars in (bars for bars in panel.marks if isinstance(bars, Bars)):
        for name, value in zip(bars.x, bars.y, strict=True):
            longest[name] = max(value, longest.get(name, value))
    # The label stands once, at the end of the longest of the bars that overlap.
    texts = [
        labels[name] if longest[name] == value else ""
        for name, value in zip(mark.x, mark.y, strict=True)
    ]
    return _trace(
        "bar",
        x=mark.y,
        y=mark.x,
        orientation="h",
        width=0.72 if mark.role == "front" else 0.5,
        marker=styles[mark.role],
        text=texts,
        textposition="outside",
        cliponaxis=False,
        **_legend(mark.name),
    )


def _point_traces(mark: Points, _panel: Panel, chart: Chart) -> list[Trace]:
    is_many = len(mark.x) > MANY_POINTS
    marker: dict[str, Any] = {
        "size": 4 if is_many else 7,
        "opacity": 0.5 if is_many else 0.85,
    }
    edge = 1 if len(mark.x) <= CROWDED_FRONT else 0
    front_style = {"size": 8 if edge else 5, "opacity": 1}
    colour = palette.level_colour(chart, mark.rank)
    match mark.role:
        case "best":
            ring = {"color": palette.RING, "width": 2}
            marker = {"size": 11, "symbol": "circle-open", "line": ring, "color": palette.RING}
        case "front":
            colour = palette.DISTINCT[1]
            edge_colour = palette.INK if mark.shades else "white"
            marker |= {**front_style, "line": {"color": edge_colour, "width": edge}}
        case "faint":
            colour = palette.PALE
            marker |= {"opacity": 0.25} if mark.shades else {}
        case "plain":
            marker |= {"symbol": _SYMBOLS[mark.rank % len(_SYMBOLS)]}
    hover = None
    if mark.role != "best":
        marker |= (
            {"color": mark.shades, "coloraxis": "coloraxis"} if mark.shades else {"color": colour}
        )
    if mark.shades and chart.colour:
        meaning = escape(chart.colour.label)
        hover = "%{x}, %{y}<extra>" + meaning + ": %{customdata}</extra>"
    return [
        _trace(
            "scatter",
            x=mark.x,
            y=mark.y,
            error_y=_error_bars(mark),
            mode="lines+markers" if mark.is_joined else "markers",
            line={"shape": "hv", "color": colour, "width": 1.5} if mark.is_joined else None,
            marker=marker,
            customdata=mark.shades or None,
            hovertemplate=hover,
            name=escape(shorten(mark.name)),
            legendgroup="" if mark.shades else mark.name,
        )
    ]


def _box_traces(mark: Boxes, _panel: Panel, chart: Chart) -> list[Trace]:
    colour = palette.level_colour(chart, mark.rank)
    boxes, dots = list(mark.boxes), list(mark.dots)
    common: dict[str, Any] = {"offsetgroup": str(mark.rank), **_legend(mark.name)}
    traces = []
    if boxes:
        traces.append(
            _trace(
                "box",
                x=[x for x, sample in boxes for _ in sample],
                y=[value for _, sample in boxes for value in sample],
                line={"color": colour, "width": 1.5},
                fillcolor=colour + "40",
                quartilemethod="linear",
                boxpoints="outliers",
                boxmean=True,
                **common,
            )
        )
    if dots:  # a box of which only the points are seen: so they stand beside those of other ranks
        traces.append(
            _trace(
                "box",
                x=[x for x, _ in dots],
                y=[value for _, value in dots],
                line={"color": "rgba(0,0,0,0)"},
                fillcolor="rgba(0,0,0,0)",
                boxpoints="all",
                jitter=0,
                pointpos=0,
                marker={"color": colour, "size": 7},
                hoveron="points",
                **common,
            )
        )
    return traces


def _wedge_traces(mark: Wedges, _panel: Panel, chart: Chart) -> list[Trace]:
    colours = palette.slice_colours(mark.x, chart.x.categories or ())
    return [
        _trace(
            "pie",
            labels=[escape(shorten(name)) for name in mark.x],
            values=mark.y,
            sort=False,
            direction="clockwise",
            textinfo="label+percent",
            textposition="outside",
            showlegend=False,
            marker={"colors": colours, "line": {"color": "white", "width": 1.5}},
        )
    ]


def _tile_traces(mark: Tiles, _panel: Panel, chart: Chart) -> list[Trace]:
    texts = [[f"{value:.3g}" if math.isfinite(value) else "" for value in row] for row in mark.z]
    has_text = max(len(mark.x), len(mark.y)) <= MOST_TILES_WITH_TEXT
    return [
        _trace(
            "heatmap",
            x=mark.x,
            y=mark.y,
            z=_scaled(mark, chart),
            xgap=1,
            ygap=1,
            text=texts,
            texttemplate="%{text}" if has_text else None,
            coloraxis="coloraxis",
            hovertemplate="%{x}, %{y}: %{text}<extra></extra>",
        )
    ]


def _surface_traces(mark: Surface, _panel: Panel, chart: Chart) -> list[Trace]:
    z = [[value if math.isfinite(value) else None for value in row] for row in mark.z]
    shades = _scaled(mark, chart)
    return [_trace("surface", x=mark.x, y=mark.y, z=z, surfacecolor=shades, coloraxis="coloraxis")]


def _scaled(mark: Tiles | Surface, chart: Chart) -> list[list[float | None]]:
    """Return the values for the colour scale, which has no logarithm in plotly."""
    log = chart.z is not None and chart.z.log
    return [
        [(math.log10(value) if log else value) if math.isfinite(value) else None for value in row]
        for row in mark.z
    ]


def _strand_traces(mark: Strands, _panel: Panel, _chart: Chart) -> list[Trace]:
    dimensions = []
    for axis, column in zip(mark.axes, mark.columns, strict=True):
        values = tuple(map(math.log10, column)) if axis.log else column
        dimension: dict[str, Any] = {"label": escape(shorten(axis.label, 24)), "values": values}
        if axis.categories is not None:
            names = [escape(shorten(text, 20)) for text in axis.categories]
            dimension |= {"tickvals": list(range(len(names))), "ticktext": names}
        else:
            ticks = strand_ticks(column, log=axis.log)
            dimension |= {"tickvals": [math.log10(t) for t in ticks] if axis.log else ticks}
            dimension |= {"ticktext": [f"{tick:.4g}" for tick in ticks]}
        dimensions.append(dimension)
    line = {"color": mark.shades, "coloraxis": "coloraxis"}
    slanted = {"labelangle": -25} if len(dimensions) > MANY_AXES else {}
    return [_trace("parcoords", dimensions=dimensions, line=line, **slanted)]


def _rectangle_traces(mark: Rectangles, _panel: Panel, chart: Chart) -> list[Trace]:
    """Return a trace for each level, and one for its faint rectangles."""
    traces = []
    rows = chart.y.categories or ()
    for level, name in enumerate(chart.levels):
        for is_faint in (False, True):
            items = [r for r in mark.items if r.level == level and r.is_faint is is_faint]
            if not items:
                continue
            colour = palette.PALE if is_faint else palette.level_colour(chart, level)
            traces.append(
                _trace(
                    "bar",
                    orientation="h",
                    base=[item.left for item in items],
                    x=[item.right - item.left for item in items],
                    y=[(item.first + item.last) / 2 for item in items],
                    width=[item.last - item.first + 0.86 for item in items],
                    name=escape(shorten(name)) + (" (lost)" if is_faint else ""),
                    marker={"color": colour, "line": {"width": 0.5, "color": "white"}},
                    text=[escape(item.name) for item in items] if mark.is_labelled else None,
                    textposition="inside" if mark.is_labelled else "none",
                    insidetextanchor="middle",
                    hovertext=[_rectangle_tooltip(item, rows) for item in items],
                    hoverinfo="text",
                    showlegend=chart.has_legend,
                )
            )
    return traces


def _rectangle_tooltip(item: Rectangle, rows: Sequence[str]) -> str:
    where = rows[item.first]
    if item.last > item.first:
        where += f" to {rows[item.last]}"
    return f"{escape(item.name)}<br>{escape(where)}<br>{escape(item.tooltip)}"


def _segment_traces(mark: Segments, _panel: Panel, _chart: Chart) -> list[Trace]:
    gap = math.nan  # a gap in the line, so that one trace holds all segments
    return [
        _trace(
            "scattergl",
            x=[x for a, _, b, _ in mark.lines for x in (a, b, gap)],
            y=[y for _, a, _, b in mark.lines for y in (a, b, gap)],
            mode="lines",
            line={"color": palette.PALE, "width": 1},
            hoverinfo="skip",
            showlegend=False,
        )
    ]


def _node_traces(mark: Nodes, _panel: Panel, chart: Chart) -> list[Trace]:
    size = 12 if len(mark.items) <= FEW_NODES else 5
    traces = []
    for level, name in enumerate(chart.levels):
        nodes = [node for node in mark.items if node.level == level]
        traces.append(
            _trace(
                "scattergl",
                x=[node.x for node in nodes],
                y=[node.y for node in nodes],
                mode="markers+text" if mark.is_labelled else "markers",
                text=[escape(shorten(node.name, 16)) for node in nodes],
                textposition="top center",
                textfont={"size": 11},
                marker={"color": palette.level_colour(chart, level), "size": size},
                name=escape(shorten(name)),
                hovertext=[f"{escape(node.name)}<br>{escape(node.tooltip)}" for node in nodes],
                hoverinfo="text",
                showlegend=chart.has_legend,
            )
        )
    return traces


_TRACES: dict[type, Callable[[Any, Panel, Chart], list[Trace]]] = {
    Bars: _bar_traces,
    Boxes: _box_traces,
    Line: _line_traces,
    Nodes: _node_traces,
    Points: _point_traces,
    Rectangles: _rectangle_traces,
    Segments: _segment_traces,
    Strands: _strand_traces,
    Surface: _surface_traces,
    Tiles: _tile_traces,
    Wedges: _wedge_traces,
}
