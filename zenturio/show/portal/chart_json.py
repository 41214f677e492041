"""Charts as JSON for the pages: figures for plotly.js, and what a selection in them means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zenturio.expression import quoted
from zenturio.show.chart import Chart
from zenturio.show.charts.study_charts import GRIDS, ONE_BY_ONE, STUDY, Drawn
from zenturio.show.figures import chart_figure
from zenturio.show.night import night
from zenturio.show.paged import scene_figure
from zenturio.show.plain import jsonable
from zenturio.show.scene import Scene


def figure_json(shown: Chart | Scene, *, dark: bool, narrow: bool = False) -> dict[str, Any]:
    """The figure for plotly.js, by day or by night; title and small print stand beside it."""
    if isinstance(shown, Scene):
        kind, top, figure = "scene", 20, scene_figure(shown)
    else:
        kind, top = shown.kind, 70 if shown.kind == "parallel" else 30
        figure = chart_figure(shown, columns=1 if narrow else None)
    found = jsonable(night(figure) if dark else figure)
    layout = found["layout"]
    del layout["title"]
    layout["margin"] |= {"t": top}
    layout["paper_bgcolor"] = layout["plot_bgcolor"] = "rgba(0,0,0,0)"
    layout["autosize"] = True
    return {"title": shown.title, "note": shown.note, "kind": kind, **found}


def brush(picture: Drawn, types: Mapping[str, str | None]) -> dict[str, Any] | None:
    """What a place in the chart means for the rows behind it; none where it means nothing."""
    chart, asked = picture.chart, picture.asked
    if isinstance(chart, Scene):
        return None

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
