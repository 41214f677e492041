"""Where a password is asked for, if there is one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import anyio.to_thread
from starlette.responses import RedirectResponse, Response

from zenturio.errors import NotFoundError
from zenturio.show.portal.keys import OWNER, Guest
from zenturio.show.portal.state import portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from zenturio.show.portal.keys import Keys
    from zenturio.show.portal.people import People

PENALTY = 1.0
"""Seconds for each wrong password; one after the other, whoever tries."""
LONGEST = 4096
"""Bytes of a form."""
_turn = asyncio.Lock()


async def show(request: Request) -> Response:
    """The form."""
    _password_of(request)
    return portal_of(request).page(request, "login.html", wrong=False, named=_named(request))


async def enter(request: Request) -> Response:
    """In, if the password is right."""
    keys = _password_of(request)
    name, text = await typed(request)
    async with _turn:
        guest = await anyio.to_thread.run_sync(_guest, request, name, text)
        if guest is not None:
            headers = {"Set-Cookie": keys.set_cookie(keys.session(guest))}
            return RedirectResponse("/", 303, headers)
        await asyncio.sleep(PENALTY)
    named = _named(request)
    return portal_of(request).page(request, "login.html", 401, wrong=True, named=named)


def _guest(request: Request, name: str, text: str) -> Guest | None:
    """Who knows that password: a user, or whoever has the one of the process."""
    keys, people = _password_of(request), _people_of(request)
    if people.asked and name:
        return people.enter(name, text)
    return OWNER if keys.password is not None and keys.password.matches(text) else None


async def typed(request: Request) -> tuple[str, str]:
    """The name and the password that were typed, in a form that is no larger than one is."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            return "", ""
    found = parse_qs(body.decode("utf-8", "replace"))
    return found.get("name", [""])[0], found.get("password", [""])[0]


def _password_of(request: Request) -> Keys:
    keys: Keys = request.app.state.keys
    if keys.password is None and not _people_of(request).asked:
        raise NotFoundError("this portal asks for no password", cure="open it by its link")
    return keys


def _people_of(request: Request) -> People:
    people: People = request.app.state.people
    return people


def _named(request: Request) -> bool:
    return _people_of(request).asked
