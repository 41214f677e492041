"""Where a password is asked for, if there is one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import anyio.to_thread
from starlette.responses import RedirectResponse, Response

from zenturio.errors import NotFoundError
from zenturio.show.portal.state import portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from zenturio.show.portal.keys import Keys

PENALTY = 1.0
"""Seconds for each wrong password; one after the other, whoever tries."""
LONGEST = 4096
"""Bytes of a form."""
_turn = asyncio.Lock()


async def show(request: Request) -> Response:
    """The form."""
    _password_of(request)
    return portal_of(request).page(request, "login.html", wrong=False)


async def enter(request: Request) -> Response:
    """In, if the password is right."""
    keys = _password_of(request)
    text = await typed(request)
    async with _turn:
        assert keys.password is not None, "which was looked at"
        if await anyio.to_thread.run_sync(keys.password.matches, text):
            headers = {"Set-Cookie": keys.set_cookie(keys.session())}
            return RedirectResponse("/", 303, headers)
        await asyncio.sleep(PENALTY)
    return portal_of(request).page(request, "login.html", 401, wrong=True)


async def typed(request: Request) -> str:
    """What was typed, of a form that is no larger than one is."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            return ""
    return parse_qs(body.decode("utf-8", "replace")).get("password", [""])[0]


def _password_of(request: Request) -> Keys:
    keys: Keys = request.app.state.keys
    if keys.password is None:
        raise NotFoundError("this portal asks for no password", cure="open it by its link")
    return keys
