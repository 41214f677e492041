"""Charts as figures of the plotly package, which refuses what plotly.js does not know."""

from typing import Any

from plotly import graph_objects

from zenturio.show.chart import Chart
from zenturio.show.renderers.plotly import chart_figure


def plotly_figure(chart: Chart) -> Any:
    return graph_objects.Figure(chart_figure(chart))
