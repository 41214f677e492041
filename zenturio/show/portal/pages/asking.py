"""Somebody's own SQL: it reads, for a while and so much, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from starlette.responses import Response

from zenturio.errors import ConflictError, InputError, NotFoundError, RecordError, ZenError
from zenturio.query import Limits, Result, raw
from zenturio.query.fragments import name as quoted
from zenturio.show.portal.pages.chart import status_of
from zenturio.show.portal.state import Portal, portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

SHOWN = Limits(rows=500, size=8_000_000, seconds=10.0)
"""What a page shows."""
SAVED = Limits(rows=200_000, size=64_000_000, seconds=60.0)
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
            found = answer(portal, query, SHOWN)
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
