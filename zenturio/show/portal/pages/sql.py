"""The SQL page, and downloads of whole tables.

A query can only read, for a limited time, and a limited number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from zenturio.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    RecordError,
    ZenError,
    did_you_mean,
)
from zenturio.query import QueryLimits, ResultTable, export, raw
from zenturio.query.catalog import StudyColumn
from zenturio.query.listing import Listing, query_listing
from zenturio.query.result_table import STREAMED_FORMATS, Part, stream_table
from zenturio.query.sql_fragments import quote_name as quoted
from zenturio.query.study_table import TableQuery
from zenturio.show.portal.pages.chart import status_of
from zenturio.show.portal.state import Portal, portal_of
from zenturio.show.portal.study_query import StudyQuery

if TYPE_CHECKING:
    from starlette.requests import Request

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
