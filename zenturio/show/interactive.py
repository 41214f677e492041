"""Charts for notebooks and as pages that need no network: figures of plotly."""

from __future__ import annotations

import json
from typing import Any

from plotly import graph_objects as go

from zenturio.show.chart import Chart
from zenturio.show.figures import chart_figure
from zenturio.show.paged import scene_figure
from zenturio.show.plain import said
from zenturio.show.scene import Scene

CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["sendChartToCloud"],  # nothing leaves the machine
}


def plotly_figure(chart: Chart, *, columns: int | None = None) -> go.Figure:
    """The chart as a figure to look around in, with so many panels side by side."""
    return go.Figure(chart_figure(chart, columns=columns))


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
    return go.Figure(scene_figure(chart) if isinstance(chart, Scene) else chart_figure(chart))
