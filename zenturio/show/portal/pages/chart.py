"""The chart builder: columns become axes; its address is all that there is to know."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zenturio.errors import InputError, NotFoundError, SafetyError, ZenError, did_you_mean
from zenturio.query.listing import Listing, listed
from zenturio.query.wanted import Row, Wanted
from zenturio.record import Field
from zenturio.show.chart import AGGREGATES
from zenturio.show.charts.chart_query import View
from zenturio.show.portal.chart_json import brush, figure_json
from zenturio.show.portal.origins import origins_offered
from zenturio.show.portal.state import Portal, portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from zenturio.query.catalog import Column
    from zenturio.show.charts.study_charts import Drawn

ROWS = 12
"""Rows of the table below a chart."""
FACTS = ("repeat", "host")
"""Of what is known of every experiment, what may stand on an axis."""


class Choice(NamedTuple):
    """A kind of chart in words."""

    kind: str
    name: str


class Sort(NamedTuple):
    """Kinds that are alike."""

    name: str
    choices: tuple[Choice, ...]


SORTS = (
    Sort("by a column", (Choice("line", "line"), Choice("bar", "bar"), Choice("scatter", "scatter"),
                         Choice("box", "box"), Choice("pie", "pie"))),
    Sort("by two", (Choice("heatmap", "heatmap"), Choice("surface", "surface"))),
    Sort("of a search", (Choice("convergence", "convergence"), Choice("importance", "importance"),
                         Choice("slice", "slice"), Choice("pareto", "Pareto front"),
                         Choice("parallel", "parallel axes"))),
    Sort("of the runs", (Choice("gantt", "what ran where"),)),
)  # fmt: skip


@dataclass(frozen=True)
class Offer:
    """What can be chosen, of all studies that are drawn."""

    studies: Sequence[str]
    parameters: Sequence[Field]
    metrics: Sequence[Field]

    @property
    def types(self) -> Mapping[str, str | None]:
        known = {field.name: field.type for field in (*self.parameters, *self.metrics)}
        return {"repeat": "int", "host": "str"} | known


def chart(request: Request) -> Response:
    """The page; its figures come behind, for they may take a moment."""
    portal = portal_of(request)
    view, names = _view(portal, request), _names(portal)
    if not view.studies and names:
        view = replace(view, studies=(_newest(portal) or names[-1],))
    for name in view.studies:
        if name not in names:
            hint = did_you_mean(name, names)
            raise NotFoundError(f"no study is named {name!r}", hint=hint)
    return portal.page(
        request,
        "chart.html",
        view=view,
        given=replace(view, studies=tuple(map(portal.pinned, view.studies))).given,
        versions={name: portal.pinned(name) for name in names},
        offer=_offer(portal, view, names),
        origins=origins_offered(portal, view.studies),
        sorts=SORTS,
        aggregates=AGGREGATES,
        facts=FACTS,
    )


def figure(request: Request) -> Response:
    """The figures of a view as plotly takes them, the SQL behind them, and what was chosen."""
    portal, given = portal_of(request), request.query_params
    dark, narrow = given.get("dark") == "1", given.get("narrow") == "1"
    try:
        view = _view(portal, request)
        text = _kept(portal, view, dark=dark, narrow=narrow)
    except ZenError as error:
        return JSONResponse({"said": str(error)}, status_of(error))
    return Response(text, media_type="application/json")


def status_of(error: ZenError) -> int:
    """Not there, refused, wrong, or not to be answered now."""
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, SafetyError):
        return 403
    return 400 if isinstance(error, InputError) else 503


def picture(request: Request) -> Response:
    """One of the view's charts as a file."""
    portal = portal_of(request)
    view = _view(portal, request)
    kind, number = request.path_params["format"], request.query_params.get("number", "0")

    def draw() -> bytes:
        from zenturio.show.saving import content  # noqa: PLC0415 - matplotlib loads slowly

        found = view.drawn(portal.repository)
        chosen = min(int(number), len(found) - 1) if number.isdecimal() else 0
        return content(found[chosen].chart, kind)

    return sent(kind, draw, "-".join((*view.studies, view.kind)))


def sent(kind: str, draw: Callable[[], bytes], name: str) -> Response:
    """A chart or a scene, as *draw* draws it, as a file to be kept."""
    types = {"html": "text/html; charset=utf-8", "png": "image/png",
             "svg": "image/svg+xml", "pdf": "application/pdf"}  # fmt: skip
    if kind not in types:
        hint = did_you_mean(kind, types)
        raise NotFoundError(f"no format of pictures is called {kind!r}", hint=hint)
    headers = {"Content-Disposition": attached(f"{name}.{kind}")}
    return Response(draw(), headers=headers, media_type=types[kind])


def attached(name: str) -> str:
    """What makes a browser keep an answer under a *name*, which may be anything."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-._") else "-" for c in name)
    return f'attachment; filename="{plain[-120:]}"'


def rows(request: Request) -> Response:
    """The experiments behind a view, or those of them that were brushed."""
    portal = portal_of(request)
    view = _view(portal, request)
    try:
        if not view.studies:
            raise InputError("no study is named")
        found = _rows(portal, view)
    except ZenError as error:
        text = portal.render("_rows.html", view=view, diagnostic=str(error), table=None)
        return Response(text, 400, media_type="text/html")
    text = portal.render("_rows.html", view=view, diagnostic="", table=found)
    return Response(text, media_type="text/html")


@dataclass(frozen=True)
class Rows:
    """The beginning of a table."""

    study: str
    condition: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    found: int
    total: int


def _rows(portal: Portal, view: View) -> Rows:
    from zenturio.errors import Passage  # noqa: PLC0415
    from zenturio.expression import parse  # noqa: PLC0415

    study = view.studies[0]
    parts = [part for part in (view.where, view.rows) if part]
    for part in parts:
        parse(Passage.of(part, "filter"))  # by itself, or brackets could hide what is wrong
    condition = parts[0] if len(parts) == 1 else " and ".join(f"({part})" for part in parts)
    where = parse(Passage.of(condition, "filter")) if condition else None
    wanted = Wanted(study, where, ("ok",), rows=view.choice, own_first=True)
    numbers = None if where is None else portal.order(wanted).value

    def ask(listing: Listing) -> Rows:
        total = listing.known.counts["ok"]
        shown = listing.first(ROWS) if numbers is None else listing.those(numbers[:ROWS])
        found = total if numbers is None else len(numbers)
        return Rows(study, condition, listing.columns, shown, found, total)

    return listed(portal.repository, wanted, ask)


def _view(portal: Portal, request: Request) -> View:
    """What an address shows, of the studies that its names mean now."""
    view = View.of(request.query_params.multi_items())
    return replace(view, studies=tuple(dict.fromkeys(map(portal.named, view.studies))))


def _kept(portal: Portal, view: View, *, dark: bool, narrow: bool) -> str:
    """The answer to a view, found once for all who look at it."""
    if not view.studies:
        raise InputError("nothing to draw", hint="choose a study")
    plain = replace(view, rows="")
    key = ("chart", repr(plain.given), dark, narrow)
    others = tuple(portal.repository.result_counts(name) for name in view.studies[1:])
    return portal.keep(
        view.studies[0], (*key, others), lambda: _answer(portal, plain, dark=dark, narrow=narrow)
    ).value


def _answer(portal: Portal, view: View, *, dark: bool, narrow: bool) -> str:
    types = _offer(portal, view, ()).types
    pictures = view.drawn(portal.repository)
    asked = pictures[0].asked
    return json.dumps({
        "figures": [_one(each, types, dark=dark, narrow=narrow) for each in pictures],
        "sql": "\n\n".join(dict.fromkeys(each.sql for each in pictures)),
        "chosen": {"x": asked.x, "y": asked.y, "z": asked.z, "color": asked.colour,
                   "facet": asked.facet},
    })  # fmt: skip


def _one(
    picture: Drawn, types: Mapping[str, str | None], *, dark: bool, narrow: bool
) -> dict[str, Any]:
    found = figure_json(picture.chart, dark=dark, narrow=narrow)
    return found | {"brush": brush(picture, types)}


def _names(portal: Portal) -> list[str]:
    """All studies; none before anything was run."""
    try:
        return [study.name for study in portal.repository.studies()]
    except NotFoundError:
        return []


def _newest(portal: Portal) -> str:
    """The study in which something happened last, of those that have anything."""
    seen = [each for each in portal.watch.look() if each.standing.ok]
    return max(seen, key=lambda each: each.active).name if seen else ""


def _offer(portal: Portal, view: View, names: Sequence[str]) -> Offer:
    definitions = [portal.definition(name) for name in view.studies]
    parameters = {f.name: f for d in definitions[::-1] for f in d.parameters}
    metrics = {f.name: f for d in definitions[::-1] for f in d.metrics}
    return Offer(names, list(parameters.values()), list(metrics.values()))


ROUTES = (
    Route("/chart", chart),
    Route("/chart/figure", figure),
    Route("/chart/rows", rows),
    Route("/chart/file.{format}", picture),
)
