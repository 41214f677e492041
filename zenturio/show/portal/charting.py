"""What the address of a chart says, and the pictures that it means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from zenturio.errors import InputError, Passage
from zenturio.expression import quoted
from zenturio.show.charts import AIMED, KINDS, Aggregate, Chart, Errors, Kind
from zenturio.show.drawn import GRIDS, ONE_BY_ONE, STUDY, Asked, Drawn, drawn
from zenturio.show.portal.words import address

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

    from zenturio.record import Repository

MOST_METRICS = 6
MOST_STUDIES = 12
PLAIN = ("line", "bar", "scatter", "box", "pie")
"""Kinds that show a metric over a column; several metrics make several charts."""


@dataclass(frozen=True)
class View:
    """A state of the chart page: its address says all of it."""

    studies: tuple[str, ...] = ()
    kind: Kind = "line"
    x: str = ""
    metrics: tuple[str, ...] = ()
    """Of `PLAIN` kinds each has a chart; of grids it is the y."""
    z: str = ""
    colour: str = ""
    facet: str = ""
    aggregate: Aggregate = "mean"
    errors: Errors | None = None
    log: str = ""
    axes: tuple[str, ...] = ()
    where: str = ""
    objective: str = ""
    title: str = ""
    rows: str = ""
    """A condition on the rows of the table below: what was brushed."""

    @classmethod
    def of(cls, given: QueryParams) -> View:
        """InputError if it asks for more than can be looked at."""
        found = cls(
            studies=_several(given, "study"),
            kind=cast("Kind", given.get("kind") or "line"),
            x=given.get("x", ""),
            metrics=_several(given, "y"),
            z=given.get("z", ""),
            colour=given.get("color", ""),
            facet=given.get("facet", ""),
            aggregate=cast("Aggregate", given.get("agg") or "mean"),
            errors=cast("Errors | None", given.get("errors") or None),
            log="".join(letter for letter in "xyz" if letter in "".join(given.getlist("log"))),
            axes=_several(given, "axes"),
            where=given.get("where", "").strip(),
            objective=given.get("objective", "").strip(),
            title=given.get("title", "").strip(),
            rows=given.get("rows", "").strip(),
        )
        if len(found.studies) > MOST_STUDIES or len(found.metrics) > MOST_METRICS:
            raise InputError(
                "that is more than can be looked at in one page",
                cure=f"up to {MOST_STUDIES} studies, and {MOST_METRICS} metrics",
            )
        return found

    @property
    def given(self) -> Mapping[str, Any]:
        """As an address has it; what is usual is left out."""
        return {
            "study": self.studies, "kind": self.kind, "x": self.x, "y": self.metrics, "z": self.z,
            "color": self.colour, "facet": self.facet,
            "agg": "" if self.aggregate == "mean" else self.aggregate,
            "errors": self.errors, "log": self.log, "axes": self.axes, "where": self.where,
            "objective": self.objective, "title": self.title, "rows": self.rows,
        }  # fmt: skip

    def address(self, path: str = "/chart", **changes: Any) -> str:
        return address(path, self.given, **changes)

    def asked(self) -> list[Asked]:
        """One chart, or one for each metric."""
        aimed = self.kind in AIMED
        asked = Asked(
            self.studies,
            self.kind,
            x="" if aimed else self.x,
            y=self.metrics[0] if self.metrics and not (aimed and self.objective) else "",
            z=self.z if self.kind in GRIDS else "",
            colour=self.colour if self.kind not in (*GRIDS, "pie", *_COLOURED) else "",
            facet="" if aimed else self.facet,
            aggregate=self.aggregate,
            errors=self.errors if self.kind in ("line", "bar") else None,
            log=self.log,
            axes=self.axes if aimed else (),
            title=self.title,
            where=Passage.of(self.where, "filter") if self.where else None,
            objective=self.objective if aimed else "",
        )
        if self.kind in PLAIN and len(self.metrics) > 1:
            return [replace(asked, y=metric) for metric in self.metrics]
        return [asked]

    def drawn(self, repository: Repository) -> list[Drawn]:
        """The charts that it shows."""
        return [drawn(repository, each) for each in self.asked()]


_COLOURED = tuple(kind for kind in AIMED if kind != "convergence")
assert set(PLAIN) | set(GRIDS) | set(AIMED) == set(KINDS)


def _several(given: QueryParams, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, given.getlist(name))))


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
