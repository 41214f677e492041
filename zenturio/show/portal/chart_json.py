"""Charts as JSON for the pages: figures for plotly.js, and what a selection in them means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zenturio.expression import quoted
from zenturio.show.chart import Bars, Chart, Line, Strands
from zenturio.show.charts.chart_query import KINDS
from zenturio.show.charts.study_charts import STUDY, ChartResult
from zenturio.show.renderers.palette import dark_figure
from zenturio.show.renderers.plotly import chart_figure, jsonable


def figure_json(chart: Chart, *, dark: bool, narrow: bool = False) -> dict[str, Any]:
    """Return the figure for plotly.js in a theme; its title and note stand beside it in the page.

    In a *narrow* window all panels are below each other.
    """
    figure = chart_figure(chart, columns=1 if narrow else None)
    values: dict[str, Any] = jsonable(dark_figure(figure) if dark else figure)
    layout = values["layout"]
    del layout["title"]
    # The names of parallel axes stand above them.
    layout["margin"] |= {"t": 70 if chart.frame == "strands" else 30}
    layout["paper_bgcolor"] = layout["plot_bgcolor"] = "rgba(0,0,0,0)"
    layout["autosize"] = True
    return {"title": chart.title, "note": chart.note, "kind": chart.kind, **values}


def selection_meaning(
    result: ChartResult, types: Mapping[str, str | None]
) -> dict[str, Any] | None:
    """Return the columns that positions in a chart stand for, so that a page can select rows.

    None if positions do not stand for experiments. *types* are the types of the study's columns.
    """
    chart, query = result.chart, result.query

    def part(name: str) -> dict[str, Any] | None:
        if not name or (name == STUDY and STUDY not in types):
            return None
        # What is not a column is a formula: in parentheses it can be compared.
        column = quoted(name) if name in types else f"({name})"
        return {"of": column, "type": types.get(name) or "real"}

    kind = KINDS[query.kind]
    # What stands at a speedup is no value of a column: neither are rows of many experiments.
    is_computed = kind.source == "attempts" or kind.name == "scaling"
    if is_computed or any(_is_summary(mark) for mark in chart.marks()):
        return None
    if strands := next((mark for mark in chart.marks() if isinstance(mark, Strands)), None):
        axes = [
            {**(part(axis.name) or {}), "log": axis.log, "texts": axis.categories}
            for axis in strands.axes
        ]
        return {"axes": axes}
    own_axes = [panel.x for panel in chart.panels if panel.x]
    if own_axes:
        panels = [{**(part(axis.name) or {}), "texts": axis.categories} for axis in own_axes]
        return {"panels": panels, "y": part(chart.y.name)}
    if kind.has_objective:
        return {"x": part(chart.x.name), "y": part(chart.y.name)}
    return {
        "x": part(query.x),
        "y": part(query.y_column) if kind.is_grid or kind.source == "rows" else None,
        "colour": part(query.colour),
        "studies": query.colour == STUDY and STUDY not in types,
        "facet": part(query.facet),
        "facets": _facet_values(chart, query.facet),
    }


def _is_summary(mark: object) -> bool:
    """Return whether *mark* shows no experiments, but a search or shares of a variance."""
    return (isinstance(mark, Line) and mark.is_stepped) or (
        isinstance(mark, Bars) and mark.is_lying
    )


def _facet_values(chart: Chart, facet: str) -> Sequence[str]:
    """Return the value in the title ``name = value`` of each panel."""
    return [panel.title.removeprefix(f"{facet} = ") for panel in chart.panels] if facet else []
