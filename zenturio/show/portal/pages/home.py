"""The home page: every study and its progress, and the event stream that keeps pages up to date."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from zenturio.show.portal.page_templates import attribute_name
from zenturio.show.portal.state import Portal, portal_of
from zenturio.show.portal.watch import StudySnapshot

if TYPE_CHECKING:
    from starlette.requests import Request

PAGE_STUDIES = 100
"""Studies on a page; of more, the stream begins with those that have a driver."""
KEEPALIVE_SECONDS = 15.0
"""Between two comments in a stream without events, so that proxies keep it open."""


def home(request: Request) -> Response:
    """Return the page of all studies, the running ones first."""
    portal = portal_of(request)
    rank = {"running": 0, "silent": 1, "stopped": 2, "empty": 3, "done": 3}
    studies = sorted(portal.watch.poll(), key=lambda s: (rank[s.state], -s.last_active, s.name))
    error = portal.watch.database_error
    status = 503 if error else 200
    pages = max(-(-len(studies) // PAGE_STUDIES), 1)
    number = request.query_params.get("page", "1")
    page = min(max(int(number) if number.isascii() and number.isdecimal() else 1, 1), pages)
    shown = studies[(page - 1) * PAGE_STUDIES : page * PAGE_STUDIES]
    return portal.page(
        request, "home.html", status, studies=shown, total=len(studies), page=page, pages=pages,
        database_error=error,
    )  # fmt: skip


async def live(request: Request) -> Response:
    """Return server-sent events: for each study that has changed, its part of a page."""
    portal = portal_of(request)
    headers = {"X-Accel-Buffering": "no"}  # nginx would hold back events
    return StreamingResponse(_events(portal), media_type="text/event-stream", headers=headers)


async def _events(portal: Portal) -> AsyncIterator[str]:
    watch = portal.watch
    sent: Sequence[StudySnapshot] = ()
    with watch.listening():
        while True:
            if watch.latest != sent:
                are_many = len(watch.latest) > PAGE_STUDIES
                before = {snapshot.name: snapshot for snapshot in sent}
                changed = [
                    snapshot
                    for snapshot in watch.latest
                    if snapshot is not (old := before.get(snapshot.name))
                    and snapshot != old
                    and (sent or not are_many or snapshot.state in ("running", "silent"))
                ]
                sent = watch.latest
                parts = {
                    attribute_name(snapshot.name): portal.render(
                        "_progress.html", snapshot=snapshot
                    )
                    for snapshot in changed
                }
                studies = [attribute_name(s.name) for s in sent] if not are_many else None
                news = {"studies": studies, "count": len(sent), "news": parts}
                yield f"data: {json.dumps(news)}\n\n"
            elif not await watch.wait_for_change(KEEPALIVE_SECONDS):
                yield ": keep-alive\n\n"
