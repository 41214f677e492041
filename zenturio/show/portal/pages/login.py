"""Where a password is asked for, if there is one, and where somebody leaves again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.responses import RedirectResponse, Response

from zenturio.errors import NotFoundError
from zenturio.show.portal.access import OWNER, Guest
from zenturio.show.portal.login_attempts import LoginAttempts, TooManyGuessesError
from zenturio.show.portal.state import portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from zenturio.show.portal.access import Keys, People

LONGEST = 96 * 1024
"""Bytes of a form."""


async def show(request: Request) -> Response:
    """The form."""
    _password_of(request)
    return _form(request, request.query_params.get("next", ""))


async def enter(request: Request) -> Response:
    """In, if the password is right, and on to what was asked for."""
    keys = _password_of(request)
    name, text, target = await typed(request)
    attempts: LoginAttempts = request.app.state.attempts
    try:
        guest = await attempts.check(
            request.state.address, name, partial(_guest, request, name, text)
        )
    except TooManyGuessesError as error:
        return _form(request, target, 429, str(error), {"Retry-After": str(error.seconds)})
    if guest is None:
        return _form(request, target, 401, "That is not the password.")
    cookie = keys.set_cookie(keys.session(guest), secure=request.state.encrypted)
    # Of this portal: an address that began with two slashes would be another machine's.
    return RedirectResponse("/" + target.lstrip("/\\"), 303, {"Set-Cookie": cookie})


async def leave(request: Request) -> Response:
    """End the session; the cookie is worth nothing any more."""
    keys: Keys = request.app.state.keys
    keys.end(request.headers.get("cookie", ""))
    asked = keys.password is not None or _people_of(request).asked
    cookie = {"Set-Cookie": keys.no_cookie()}
    if asked:
        return RedirectResponse("/login", 303, cookie)
    said = "You have logged out. The terminal of the portal shows a link that opens it again."
    return portal_of(request).page(request, "left.html", 200, cookie, said=said)


def _form(
    request: Request,
    target: str,
    status: int = 200,
    diagnostic: str = "",
    headers: dict[str, str] | None = None,
) -> Response:
    """Asks for a password; *target* is where that leads."""
    return portal_of(request).page(
        request,
        "login.html",
        status,
        headers,
        diagnostic=diagnostic,
        named=_people_of(request).asked,
        target=target,
    )


def _guest(request: Request, name: str, text: str) -> Guest | None:
    """Who knows that password: a user, or whoever has the one of the process."""
    keys, people = _password_of(request), _people_of(request)
    if people.asked and name:
        return people.enter(name, text)
    return OWNER if keys.password is not None and keys.password.matches(text) else None


async def typed(request: Request) -> tuple[str, str, str]:
    """The name, the password, and where to, in a form that is no larger than one is."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            return "", "", ""
    found = parse_qs(body.decode("utf-8", "replace"))
    name, password, target = (found.get(each, [""])[0] for each in ("name", "password", "next"))
    return name, password, target


def _password_of(request: Request) -> Keys:
    keys: Keys = request.app.state.keys
    if keys.password is None and not _people_of(request).asked:
        raise NotFoundError("this portal asks for no password", hint="open it by its link")
    return keys


def _people_of(request: Request) -> People:
    people: People = request.app.state.people
    return people
