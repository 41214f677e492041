"""The SQL page, and downloads of whole tables."""

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
from zenturio.query import Limits, Result, export, raw
from zenturio.query.catalog import Column
from zenturio.query.fragments import name as quoted
from zenturio.query.listing import Listing, listed
from zenturio.query.streaming import STREAMED, Part, streamed
from zenturio.query.wanted import Wanted
from zenturio.show.portal.pages.chart import status_of
from zenturio.show.portal.state import Portal, portal_of
from zenturio.show.portal.study_query import Asked

if TYPE_CHECKING:
    from starlette.requests import Request


PAGE_LIMITS = Limits(rows=500, size=8_000_000, seconds=10.0)
"""What a page shows."""
DOWNLOAD_LIMITS = Limits(rows=200_000, size=64_000_000, seconds=60.0)
"""What is sent as a file."""
_AT_ONCE = BoundedSemaphore(2)
"""Questions that are answered at a time: pages have threads left."""
TURN = 2.0
"""Seconds that a question waits for its turn."""
LONGEST = 20_000
"""Characters of a question in an address."""


@dataclass(frozen=True)
class Source:
    """A view that may be asked."""

    study: str
    example: str


def page(request: Request) -> Response:
    """The question, and its answer."""
    portal, query = portal_of(request), request.query_params.get("query", "")
    found: Result | None = None
    diagnostic, status = "", 200
    if query.strip():
        try:
            found = answer(portal, query, PAGE_LIMITS)
        except ZenError as error:
            diagnostic = str(error)
            status = 429 if isinstance(error, ConflictError) else status_of(error)
    return portal.page(
        request,
        "sql.html",
        status,
        query=query,
        found=found,
        diagnostic=diagnostic,
        sources=_sources(portal),
    )


def answer(portal: Portal, query: str, limits: Limits) -> Result:
    """What the database answers; refused, where it would be too much."""
    if len(query) > LONGEST:
        raise InputError(
            f"a query of {len(query):,} characters: an address holds {LONGEST:,}", hint="zen sql"
        )
    with _turn():
        return raw(portal.repository, query, limits)


@contextmanager
def _turn() -> Iterator[None]:
    if not _AT_ONCE.acquire(timeout=TURN):
        raise ConflictError("others are asking at this moment", hint="ask again in a few seconds")
    try:
        yield
    finally:
        _AT_ONCE.release()


def _sources(portal: Portal) -> list[Source]:
    try:
        studies = portal.repository.studies()
    except (NotFoundError, RecordError):
        return []
    return [
        Source(study.name, f"SELECT * FROM {quoted(study.view)} LIMIT 100")  # noqa: S608
        for study in studies
    ]


PART = 1000
"""Rows that are fetched at a time: others have their turn in between."""
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


def download(request: Request) -> Response:
    """A table of a study, or the answer to a question, as a file."""
    portal, given = portal_of(request), request.query_params
    kind = given.get("format", "csv")
    if kind not in STREAMED:
        hint = did_you_mean(kind, STREAMED)
        raise InputError(f"no format is called {kind!r}", hint=hint)
    spreadsheet = given.get("spreadsheet") == "yes"
    if "query" in given:
        content = export(
            answer(portal, given["query"], DOWNLOAD_LIMITS), kind, spreadsheet=spreadsheet
        )
        return Response(content, headers=_named(f"answer.{kind}"), media_type=TYPES[kind])
    asked = Asked.of(given, portal.named)
    wanted = asked.wanted(repeats=portal.repeated(asked.name))
    parts = _parts(portal, wanted)
    columns = listed(portal.repository, wanted, _columns)
    rows = streamed(columns, parts, kind, spreadsheet=spreadsheet)
    name = _named(f"{asked.name}.{kind}")
    return StreamingResponse(rows, headers=name, media_type=TYPES[kind])


def _columns(found: Listing) -> list[Column]:
    facts = found.known.facts
    return [facts["digest"], facts["status"], *found.columns]


def _parts(portal: Portal, wanted: Wanted) -> Iterator[Part]:
    """Every row; each part is as of its own moment, so that no transaction is held for long."""
    numbers = portal.order(wanted).value
    for start in range(0, len(numbers), PART):
        some = numbers[start : start + PART]
        rows = listed(portal.repository, wanted, lambda found: found.those(some))  # noqa: B023
        yield [(row.digest, row.status, *row.cells) for row in rows]


def _named(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
