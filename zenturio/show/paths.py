"""What plotly draws in the panels of a search's charts."""

from __future__ import annotations

from typing import Any

from zenturio.show import palette
from zenturio.show.chart import Chart, Panel, Series, brief
from zenturio.show.layout import shares_said
from zenturio.show.plain import said, trace
from zenturio.show.traces import DASHES

MANY = 500
"""Beyond so many, points are small and let others shine through."""
CROWDED = 100
"""Beyond so many, points of a front have no edges: they would hide each other."""


def steps(panel: Panel, chart: Chart) -> list[Any]:
    """Lines that stay where they are until something better is found, and their bands."""
    found: list[Any] = []
    for series in panel.series:
        colour = palette.colour(series.rank, len(chart.levels), ordered=chart.ordered)
        common = {"x": series.x, "legendgroup": series.name, "name": said(brief(series.name))}
        dash = DASHES[palette.dash(series.rank, ordered=chart.ordered)]
        line = {"shape": "hv", "color": colour, "dash": dash, "width": 2}
        # Before its band, for the first of a group stands in the legend.
        found.append(trace("scatter", y=series.y, mode="lines", line=line, **common))
        if series.low:
            edge = {"shape": "hv", "width": 0, "color": colour}
            aside = common | {"line": edge, "mode": "lines", "hoverinfo": "skip"}
            for heights, fill in ((series.low, None), (series.high, "tonexty")):
                found.append(
                    trace("scatter", y=heights, fill=fill, fillcolor=colour + "2e", **aside)
                )
    return found


def shares(panel: Panel, chart: Chart) -> list[Any]:  # noqa: ARG001 - as its siblings
    """Bars from left to right, the first name on top, with their numbers."""
    looks: dict[str, dict[str, Any]] = {
        "front": {"color": "rgba(0,0,0,0)", "line": {"color": palette.DISTINCT[0], "width": 1.2}},
        "plain": {"color": palette.DISTINCT[0]},
        "faint": {"color": palette.PALE},
    }
    texts, ends = shares_said(panel), dict[str, float]()

    def pairs(series: Series) -> list[tuple[str, float]]:
        return list(zip(series.x, series.y, strict=True))

    for series in panel.series:
        for name, value in pairs(series):
            ends[name] = max(value, ends.get(name, value))
    return [
        trace(
            "bar",
            x=series.y,
            y=series.x,
            orientation="h",
            width=0.72 if series.role == "front" else 0.5,
            marker=looks[series.role],
            text=[texts[name] if ends[name] == value else "" for name, value in pairs(series)],
            textposition="outside",
            cliponaxis=False,
            name=said(series.name),
            legendgroup=series.name,
        )
        for series in panel.series
    ]


def sliced(panel: Panel, chart: Chart) -> list[Any]:  # noqa: ARG001 - as its siblings
    """What came of each value of one parameter; the ring is the best point."""
    found = []
    for series in panel.series:
        marker: dict[str, Any] = _dots(series) | {"color": series.shades, "coloraxis": "coloraxis"}
        if series.role == "best":
            line = {"color": palette.RING, "width": 2}
            marker = {"size": 11, "symbol": "circle-open", "line": line, "color": palette.RING}
        hover = "%{x}: %{y}<extra>visit %{customdata}</extra>"
        found.append(
            trace("scatter",
                x=series.x, y=series.y, mode="markers", marker=marker, customdata=series.shades,
                hovertemplate=hover, showlegend=False,
            )
        )  # fmt: skip
    return found


def _dots(series: Series) -> dict[str, Any]:
    many = len(series.x) > MANY
    return {"size": 4 if many else 7, "opacity": 0.5 if many else 0.85}


def fronts(panel: Panel, chart: Chart) -> list[Any]:  # noqa: ARG001 - as its siblings
    """Points by their goals; what is on the front is joined by the edge of what it covers."""
    found = []
    for series in panel.series:
        on_front = series.role == "front"
        colour = palette.DISTINCT[1] if on_front else palette.PALE
        marker = _dots(series) | {"color": colour}
        if on_front:
            edge = 1 if len(series.x) <= CROWDED else 0
            marker |= {"size": 8 if edge else 5, "opacity": 1}
            marker |= {"line": {"color": "white", "width": edge}}
        if series.shades:
            marker |= {"color": series.shades, "coloraxis": "coloraxis"}
            marker |= (
                {"line": {"color": palette.INK, "width": edge}} if on_front else {"opacity": 0.25}
            )
        joined = on_front and not series.shades
        found.append(
            trace(
                "scatter",
                x=series.x,
                y=series.y,
                mode="lines+markers" if joined else "markers",
                line={"shape": "hv", "color": colour, "width": 1.5} if joined else None,
                marker=marker,
                name=said(series.name),
                legendgroup="" if series.shades else series.name,
            )
        )
    return found
