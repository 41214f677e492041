"""The chart builder, whose address is a `ChartQuery`; the SQL page; downloads of tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from zenturio.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    Passage,
    RecordError,
    SafetyError,
    ZenError,
    did_you_mean,
)
from zenturio.expression import parse
from zenturio.query import QueryLimits, ResultTable, export, raw
from zenturio.query.aggregates import AGGREGATES
from zenturio.query.catalog import StudyColumn
from zenturio.query.listing import ExperimentRow, Listing, query_listing
from zenturio.query.result_table import STREAMED_FORMATS, Part, stream_table
from zenturio.query.sql_fragments import quote_name as quoted
from zenturio.query.study_table import TableQuery
from zenturio.record import Field
from zenturio.show.charts.chart_query import KINDS, ChartKind, ChartQuery
from zenturio.show.charts.study_charts import draw_charts
from zenturio.show.portal.chart_json import figure_json, selection_meaning
from zenturio.show.portal.page_templates import StudyQuery
from zenturio.show.portal.security import origins_offered
from zenturio.show.portal.state import Portal, portal_of

if TYPE_CHECKING:
    from starlette.requests import Request


EXCERPT_ROWS = 12
"""Rows of the table below a chart."""
EXTRA_COLUMNS = ("repeat", "host")
"""Columns that every experiment has and that may be on an axis."""


@dataclass(frozen=True)
class ChartColumns:
    """The columns that a form offers: those of all studies in the chart."""

    parameters: Sequence[Field]
    metrics: Sequence[Field]

    @property
    def types(self) -> Mapping[str, str | None]:
        types = {field.name: field.type for field in (*self.parameters, *self.metrics)}
        return {"repeat": "int", "host": "str"} | types


@dataclass(frozen=True)
class TableExcerpt:
    """The first rows of the experiments behind a chart."""

    study: str
    condition: str
    columns: Sequence[StudyColumn]
    rows: Sequence[ExperimentRow]
    row_count: int
    """Rows that meet the condition."""
    total: int
    """Experiments that succeeded."""


def chart(request: Request) -> Response:
    """Return the page; its figures are loaded later, for they may take a moment."""
    portal = portal_of(request)
    query, names = _query_of(portal, request), _study_names(portal)
    if not query.studies and names:
        query = replace(query, studies=(_latest_study(portal) or names[-1],))
    for name in query.studies:
        if name not in names:
            hint = did_you_mean(name, names)
            raise NotFoundError(f"there is no study {name!r}", hint=hint)
    pinned = replace(query, studies=tuple(map(portal.pinned, query.studies)))
    return portal.page(
        request,
        "chart.html",
        query=query,
        address_values=pinned.to_address(),
        versions={name: portal.pinned(name) for name in names},
        columns=_columns_of(portal, query),
        origins=origins_offered(portal, query.studies),
        kind_groups=_kind_groups(),
        kinds_with=_kinds_with,
        kinds_with_log=lambda letter: " ".join(
            k.name for k in KINDS.values() if letter in k.log_axes
        ),
        aggregates=AGGREGATES,
        extra_columns=EXTRA_COLUMNS,
    )


def _kind_groups() -> list[tuple[str, list[ChartKind]]]:
    groups = groupby(KINDS.values(), lambda kind: kind.group)
    return [(group, list(kinds)) for group, kinds in groups]


def _kinds_with(option: str, *without: str) -> str:
    """Return the kinds that have an *option* and none of those *without*, for a form."""
    return " ".join(
        kind.name
        for kind in KINDS.values()
        if option in kind.options and not kind.options & set(without)
    )


def figure(request: Request) -> Response:
    """Return the figures of a query for plotly.js, their SQL, and the columns that were chosen."""
    portal, parameters = portal_of(request), request.query_params
    dark, narrow = parameters.get("dark") == "1", parameters.get("narrow") == "1"
    try:
        query = _query_of(portal, request)
        text = _cached_answer(portal, query, dark=dark, narrow=narrow)
    except ZenError as error:
        return JSONResponse({"error": str(error)}, status_of(error))
    return Response(text, media_type="application/json")


def status_of(error: ZenError) -> int:
    """Return the HTTP status of an error: not found, refused, bad request, or not possible now."""
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, SafetyError):
        return 403
    return 400 if isinstance(error, InputError) else 503


def chart_file(request: Request) -> Response:
    """Return one of the query's charts as a file."""
    portal = portal_of(request)
    query = _query_of(portal, request)
    number = request.query_params.get("number", "0")

    def draw(file_format: str) -> bytes:
        from zenturio.show.report_store import chart_bytes  # noqa: PLC0415 - only for files

        results = draw_charts(portal.repository, query)
        chosen = min(int(number), len(results) - 1) if number.isdecimal() else 0
        return chart_bytes(results[chosen].chart, file_format)

    return file_response(request, draw, "-".join((*query.studies, query.kind)))


def file_response(request: Request, draw: Callable[[str], bytes], name: str) -> Response:
    """Return what *draw* makes of the format in the address, as a download."""
    file_format = request.path_params["format"]
    types = {"html": "text/html; charset=utf-8", "png": "image/png",
             "svg": "image/svg+xml", "pdf": "application/pdf"}  # fmt: skip
    if file_format not in types:
        hint = did_you_mean(file_format, types)
        raise NotFoundError(f"there is no chart format {file_format!r}", hint=hint)
    headers = {"Content-Disposition": attachment(f"{name}.{file_format}")}
    return Response(draw(file_format), headers=headers, media_type=types[file_format])


def attachment(name: str) -> str:
    """Return the header that makes a browser save an answer; *name* may contain anything."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-._") else "-" for c in name)
    return f'attachment; filename="{plain[-120:]}"'


def rows(request: Request) -> Response:
    """Return the experiments behind a chart, or those of them that were selected in it."""
    portal = portal_of(request)
    query = _query_of(portal, request)
    table, diagnostic = None, ""
    try:
        if not query.studies:
            raise InputError("no study to draw", hint="choose a study")
        table = _excerpt(portal, query)
    except ZenError as error:
        diagnostic = str(error)
    text = portal.render("_rows.html", query=query, diagnostic=diagnostic, table=table)
    return Response(text, 400 if diagnostic else 200, media_type="text/html")


def _excerpt(portal: Portal, query: ChartQuery) -> TableExcerpt:
    study = query.studies[0]
    conditions = [str(condition) for condition in (query.where, query.rows) if condition]
    for condition in conditions:
        # Each by itself: together, the brackets of one could hide an error in the other.
        parse(Passage.of(condition, "filter"))
    joined = " and ".join(f"({c})" for c in conditions) if len(conditions) > 1 else ""
    condition = joined or "".join(conditions)
    where = parse(Passage.of(condition, "filter")) if condition else None
    table_query = TableQuery(study, where, ("ok",), rows=query.row_choice, own_first=True)

    def read(listing: Listing) -> TableExcerpt:
        total = listing.catalog.counts["ok"]
        if where is None:
            count, first = total, listing.first(EXCERPT_ROWS)
        elif page := listing.page(EXCERPT_ROWS):
            count, first = page.total, listing.those(page.numbers)
        else:
            numbers = portal.row_order(table_query).value
            count, first = len(numbers), listing.those(numbers[:EXCERPT_ROWS])
        return TableExcerpt(study, condition, listing.columns, first, count, total)

    return query_listing(portal.repository, table_query, read)


def _query_of(portal: Portal, request: Request) -> ChartQuery:
    """Return the query of an address, with the studies that its names stand for now."""
    query = ChartQuery.from_address(request.query_params.multi_items())
    return replace(query, studies=tuple(dict.fromkeys(map(portal.resolve_study, query.studies))))


def _cached_answer(portal: Portal, query: ChartQuery, *, dark: bool, narrow: bool) -> str:
    """Return the answer to a query, computed once for all who look at it."""
    if not query.studies:
        raise InputError("no study to draw", hint="choose a study")
    query = replace(query, rows="")
    key = ("chart", repr(query.to_address()), dark, narrow)
    others = tuple(portal.repository.count_results(name) for name in query.studies[1:])
    return portal.cached(
        query.studies[0], (*key, others), lambda: _answer(portal, query, dark=dark, narrow=narrow)
    ).value


def _answer(portal: Portal, query: ChartQuery, *, dark: bool, narrow: bool) -> str:
    types = _columns_of(portal, query).types
    results = draw_charts(portal.repository, query)
    chosen = results[0].query
    figures = [
        figure_json(result.chart, dark=dark, narrow=narrow)
        | {"selection": selection_meaning(result, types)}
        for result in results
    ]
    values: dict[str, Any] = {
        "figures": figures,
        "sql": "\n\n".join(dict.fromkeys(result.sql for result in results)),
        "chosen": {"x": chosen.x, "y": chosen.y_column, "z": chosen.z, "color": chosen.colour,
                   "facet": chosen.facet},
    }  # fmt: skip
    return json.dumps(values)


def _study_names(portal: Portal) -> list[str]:
    """Return all studies; none before anything was run."""
    try:
        return [study.name for study in portal.repository.studies()]
    except NotFoundError:
        return []


def _latest_study(portal: Portal) -> str:
    """Return the study with results that was active last; empty if there is none."""
    snapshots = [snapshot for snapshot in portal.watch.poll() if snapshot.standing.ok]
    return max(snapshots, key=lambda snapshot: snapshot.last_active).name if snapshots else ""


def _columns_of(portal: Portal, query: ChartQuery) -> ChartColumns:
    # Reversed, so that the first study's columns come last and win.
    definitions = [portal.definition(name) for name in query.studies][::-1]
    parameters = {field.name: field for d in definitions for field in d.parameters}
    metrics = {field.name: field for d in definitions for field in d.metrics}
    return ChartColumns(list(parameters.values()), list(metrics.values()))


ROUTES = (
    Route("/chart", chart),
    Route("/chart/figure", figure),
    Route("/chart/rows", rows),
    Route("/chart/file.{format}", chart_file),
)


# The SQL page, and downloads of whole tables
#
# A query can only read, for a limited time, and a limited number of rows.

PAGE_LIMITS = QueryLimits(rows=500, size=8_000_000, seconds=10.0)
DOWNLOAD_LIMITS = QueryLimits(rows=200_000, size=64_000_000, seconds=60.0)
_slots = BoundedSemaphore(2)
"""Queries that run at a time: other pages need threads too."""
QUEUE_SECONDS = 2.0
"""For which a query waits for a slot."""
LONGEST_QUERY = 20_000
"""Characters of a query in an address."""
CHUNK_ROWS = 1000
"""Rows of a download that are read at a time: other requests get their turn in between."""
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


@dataclass(frozen=True)
class SqlExample:
    """A query of one study, to start from."""

    study: str
    query: str


def page(request: Request) -> Response:
    """Return the page with a query and its result."""
    portal, query = portal_of(request), request.query_params.get("query", "")
    result: ResultTable | None = None
    diagnostic, status = "", 200
    if query.strip():
        try:
            result = run_query(portal, query, PAGE_LIMITS)
        except ZenError as error:
            diagnostic = str(error)
            status = 429 if isinstance(error, ConflictError) else status_of(error)
    return portal.page(
        request,
        "sql.html",
        status,
        query=query,
        result=result,
        diagnostic=diagnostic,
        examples=_examples(portal),
    )


def run_query(portal: Portal, query: str, limits: QueryLimits) -> ResultTable:
    """Return the result of *query*.

    Raise InputError if it is too long, and ConflictError if too many queries are running.
    """
    if len(query) > LONGEST_QUERY:
        raise InputError(
            f"the query has {len(query):,} characters; an address can hold {LONGEST_QUERY:,}",
            hint="use zen sql in a terminal",
        )
    with _slot():
        return raw(portal.repository, query, limits)


@contextmanager
def _slot() -> Iterator[None]:
    if not _slots.acquire(timeout=QUEUE_SECONDS):
        raise ConflictError("too many queries are running", hint="try again in a few seconds")
    try:
        yield
    finally:
        _slots.release()


def _examples(portal: Portal) -> list[SqlExample]:
    try:
        studies = portal.repository.studies()
    except (NotFoundError, RecordError):
        return []
    return [
        SqlExample(study.name, f"SELECT * FROM {quoted(study.view)} LIMIT 100")  # noqa: S608
        for study in studies
    ]


def download(request: Request) -> Response:
    """Return a whole table of a study, or the result of a query, as a file."""
    portal, parameters = portal_of(request), request.query_params
    file_format = parameters.get("format", "csv")
    if file_format not in STREAMED_FORMATS:
        hint = did_you_mean(file_format, STREAMED_FORMATS)
        raise InputError(f"there is no format {file_format!r}", hint=hint)
    spreadsheet = parameters.get("spreadsheet") == "yes"
    media_type = MEDIA_TYPES[file_format]
    if "query" in parameters:
        result = run_query(portal, parameters["query"], DOWNLOAD_LIMITS)
        content = export(result, file_format, spreadsheet=spreadsheet)
        headers = _download_headers(f"answer.{file_format}")
        return Response(content, headers=headers, media_type=media_type)
    query = StudyQuery.from_address(parameters, portal.resolve_study)
    table = query.table_query(repeats=portal.has_repeats(query.name))
    chunks = _chunks(portal, table)
    columns = query_listing(portal.repository, table, _columns)
    rows = stream_table(columns, chunks, file_format, spreadsheet=spreadsheet)
    headers = _download_headers(f"{query.name}.{file_format}")
    return StreamingResponse(rows, headers=headers, media_type=media_type)


def _columns(listing: Listing) -> list[StudyColumn]:
    facts = listing.catalog.facts
    return [facts["digest"], facts["status"], *listing.columns]


def _chunks(portal: Portal, table: TableQuery) -> Iterator[Part]:
    """Yield every row. Each chunk is read by itself, so that no transaction lasts for long."""
    numbers = portal.row_order(table).value
    for start in range(0, len(numbers), CHUNK_ROWS):
        chunk = numbers[start : start + CHUNK_ROWS]
        rows = query_listing(portal.repository, table, lambda listing: listing.those(chunk))  # noqa: B023
        yield [(row.digest, row.status, *row.cells) for row in rows]


def _download_headers(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
