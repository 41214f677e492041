"""Logging in with a password, if the portal has any, and logging out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.responses import RedirectResponse, Response

from zenturio.errors import NotFoundError
from zenturio.show.portal.access import OWNER, LoginAttempts, PortalUser, TooManyAttemptsError
from zenturio.show.portal.state import portal_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from zenturio.show.portal.access import SessionStore, UserDirectory

MOST_FORM_BYTES = 96 * 1024


async def login_page(request: Request) -> Response:
    """Return the form."""
    _sessions_with_password(request)
    return _form(request, request.query_params.get("next", ""))


async def log_in(request: Request) -> Response:
    """Start a session if the password is right, and redirect to the page that was requested."""
    sessions = _sessions_with_password(request)
    name, password, target = await read_form(request)
    attempts: LoginAttempts = request.app.state.attempts
    check = partial(_check_password, request, name, password)
    try:
        user = await attempts.check(request.state.address, name, check)
    except TooManyAttemptsError as error:
        return _form(request, target, 429, str(error), {"Retry-After": str(error.seconds)})
    if user is None:
        return _form(request, target, 401, "Wrong name or password.")
    cookie = sessions.set_cookie(sessions.new_session(user), secure=request.state.encrypted)
    # An address that starts with two slashes would lead to another machine.
    return RedirectResponse("/" + target.lstrip("/\\"), 303, {"Set-Cookie": cookie})


async def log_out(request: Request) -> Response:
    """End the session."""
    sessions: SessionStore = request.app.state.sessions
    sessions.end(request.headers.get("cookie", ""))
    cookie = {"Set-Cookie": sessions.clear_cookie()}
    if sessions.password is not None or _users_of(request).has_passwords:
        return RedirectResponse("/login", 303, cookie)
    message = "You are logged out. The terminal of the portal shows a link to open it again."
    return portal_of(request).page(request, "logged_out.html", 200, cookie, message=message)


def _form(
    request: Request,
    target: str,
    status: int = 200,
    diagnostic: str = "",
    headers: dict[str, str] | None = None,
) -> Response:
    """Return the form; *target* is where to go after logging in."""
    return portal_of(request).page(
        request,
        "login.html",
        status,
        headers,
        diagnostic=diagnostic,
        has_names=_users_of(request).has_passwords,
        target=target,
    )


def _check_password(request: Request, name: str, password: str) -> PortalUser | None:
    """Return the user with that password, or the owner if it is that of the process."""
    sessions, users = _sessions_with_password(request), _users_of(request)
    if users.has_passwords and name:
        return users.log_in(name, password)
    if sessions.password is not None and sessions.password.matches(password):
        return OWNER
    return None


async def read_form(request: Request) -> tuple[str, str, str]:
    """Return the name, the password and the target of a form; all empty if it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_FORM_BYTES:
            return "", "", ""
    values = parse_qs(body.decode("utf-8", "replace"))
    name, password, target = (values.get(field, [""])[0] for field in ("name", "password", "next"))
    return name, password, target


def _sessions_with_password(request: Request) -> SessionStore:
    """Return the sessions; raise NotFoundError if nobody has a password."""
    sessions: SessionStore = request.app.state.sessions
    if sessions.password is None and not _users_of(request).has_passwords:
        raise NotFoundError("this portal has no password", hint="open it by its link")
    return sessions


def _users_of(request: Request) -> UserDirectory:
    users: UserDirectory = request.app.state.users
    return users
