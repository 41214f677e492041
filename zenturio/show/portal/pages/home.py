"""Home: every study and where it stands, and the stream that keeps such pages alive."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from zenturio.show.portal.page_templates import mark
from zenturio.show.portal.state import Portal, portal_of
from zenturio.show.portal.watch import Seen

if TYPE_CHECKING:
    from starlette.requests import Request

QUIET = 15.0
"""Seconds after which a stream says that it is still there."""


def home(request: Request) -> Response:
    """All studies, those that are at work first."""
    portal = portal_of(request)
    rank = {"running": 0, "silent": 1, "stopped": 2, "empty": 3, "done": 3}
    studies = sorted(portal.watch.look(), key=lambda s: (rank[s.life], -s.active, s.name))
    away = portal.watch.away
    return portal.page(request, "home.html", 503 if away else 200, studies=studies, away=away)


async def live(request: Request) -> Response:
    """Server-sent events: for each study that changed, what pages show of it."""
    portal = portal_of(request)
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_told(portal), media_type="text/event-stream", headers=headers)


async def _told(portal: Portal) -> AsyncIterator[str]:
    watch = portal.watch
    seen: Sequence[Seen] = ()
    with watch.listening():
        while True:
            if watch.now != seen:
                news = [each for each in watch.now if each not in seen]
                seen = watch.now
                parts = {mark(s.name): portal.render("_standing.html", seen=s) for s in news}
                studies = [mark(each.name) for each in seen]
                yield f"data: {json.dumps({'studies': studies, 'news': parts})}\n\n"
            elif not await watch.changed(QUIET):
                yield ": still here\n\n"
