"""Charts as pages take them: without a title of their own, and with what their places mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from zenturio.expression import quoted
from zenturio.show.charts import Chart
from zenturio.show.drawn import GRIDS, ONE_BY_ONE, STUDY, Drawn


def figure_json(chart: Chart, *, dark: bool, narrow: bool) -> dict[str, Any]:
    """The chart for plotly in a page, which has title and small print beside it."""
    from zenturio.show.interactive import plotly_figure  # noqa: PLC0415 - plotly loads slowly
    from zenturio.show.night import night  # noqa: PLC0415

    figure = plotly_figure(chart, columns=1 if narrow else None)
    found = cast("dict[str, Any]", json.loads(figure.to_json()))
    if dark:
        found = night(found)
    return settled(found, top=70 if chart.kind == "parallel" else 30)


def settled(figure: dict[str, Any], top: int) -> dict[str, Any]:
    """*figure* without its title, on the ground of the page."""
    layout = figure["layout"]
    layout.pop("title", None)
    layout["margin"] = layout.get("margin", {}) | {"t": top}
    layout["paper_bgcolor"] = layout["plot_bgcolor"] = "rgba(0,0,0,0)"
    layout["autosize"] = True
    return figure


def brush(picture: Drawn, types: Mapping[str, str | None]) -> dict[str, Any] | None:
    """What a place in the chart means for the rows behind it; none where it means nothing."""
    chart, asked = picture.chart, picture.asked

    def part(name: str) -> dict[str, Any] | None:
        if not name or (name == STUDY and STUDY not in types):
            return None
        known = name in types
        return {"of": quoted(name) if known else f"({name})", "type": types.get(name) or "real"}

    match chart.kind:
        case "convergence" | "importance":
            return None
        case "parallel":
            strands = chart.panels[0].strands
            axes = strands.axes if strands else ()
            return {"axes": [
                {**(part(axis.name) or {}), "log": axis.log, "texts": axis.categories}
                for axis in axes
            ]}  # fmt: skip
        case "slice":
            panels = [
                {**(part(p.x.name) or {}), "texts": p.x.categories} for p in chart.panels if p.x
            ]
            return {"panels": panels, "y": part(chart.y.name)}
        case "pareto":
            return {"x": part(chart.x.name), "y": part(chart.y.name)}
    two = chart.kind in (*ONE_BY_ONE, *GRIDS)
    return {
        "x": part(asked.x),
        "y": part(asked.y) if two else None,
        "colour": part(asked.colour),
        "studies": asked.colour == STUDY and STUDY not in types,
        "facet": part(asked.facet),
        "facets": _facets(chart, asked.facet),
    }


def _facets(chart: Chart, facet: str) -> Sequence[str]:
    """What stands behind ``name =`` above each panel."""
    return [panel.title.removeprefix(f"{facet} = ") for panel in chart.panels] if facet else []
