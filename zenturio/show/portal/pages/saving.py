"""Tables as files: all their rows, not those of a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from zenturio.errors import InputError, did_you_mean
from zenturio.query import export
from zenturio.query.catalog import Column
from zenturio.query.listing import Listing, listed
from zenturio.query.streaming import STREAMED, Part, streamed
from zenturio.query.wanted import Wanted
from zenturio.show.portal.asked import Asked
from zenturio.show.portal.pages.asking import SAVED, answer
from zenturio.show.portal.state import Portal, portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

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
        content = export(answer(portal, given["query"], SAVED), kind, spreadsheet=spreadsheet)
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
