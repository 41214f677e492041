"""Who may look: every request is judged before any page sees it.

A page of somebody else's in the same browser must not read or do anything here: requests from
other origins are refused, and so are names that somebody's name server points to this machine
(rebinding). Who comes with the link that was printed gets a cookie; the link is good once.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from zenturio.show.portal.access import Keys, People

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

RULES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "style-src-attr": "'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "font-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
POLICY = "; ".join(f"{what} {whence}" for what, whence in RULES.items())
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with that, browsers hide the origin of a form that is sent.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
MOST_BODY = 1_000_000
"""Bytes of a form: the longest is a report, of which each byte may be written with three."""
SAFE = frozenset({"GET", "HEAD"})
OPEN = ("/static/", "/login", "/logout")
"""What everybody may ask for: files of the package, a way in, and a way out."""

OURS = ("same-origin", "none")
"""Where requests come from that are our pages', or typed."""
AGAIN = "again"
"""What a page is told that asks once more from here: for links on other pages browsers keep the
cookie back."""


def loopback(host: str) -> bool:
    """Whether *host* is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Names:
    """By which names this machine may be called."""

    known: frozenset[str]
    wide: bool
    """Whether it listens beyond itself, so that any of its addresses may be meant."""

    @classmethod
    def of(cls, host: str, others: Iterable[str] = ()) -> Names:
        """The names of who listens at *host*, and *others* by which a proxy calls it."""
        more = {name.lower() for name in others}
        if loopback(host):
            return cls(frozenset({"localhost", host.lower()} | more), wide=False)
        own = {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        return cls(frozenset({"localhost"} | own | more), wide=True)

    def has(self, host: str) -> bool:
        """Whether a Host header names us; no name server stands behind a plain address."""
        name = host.lower()
        if not name.endswith("]"):
            head, colon, port = name.rpartition(":")
            if colon and not (port.isascii() and port.isdigit()):
                return False
            name = head if colon else name
        if name in self.known:
            return True
        try:
            address = ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return address.is_loopback or self.wide


class Gate:
    """Stands before the application."""

    def __init__(
        self,
        app: App,
        keys: Keys,
        names: Names,
        refuse: Callable[[Scope, int, str], bytes],
        used: Callable[[], None] = lambda: None,
        people: People | None = None,
    ) -> None:
        self._app = app
        self._keys = keys
        self._names = names
        self._refuse = refuse
        self._used = used
        self._people = people or People()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            with suppress(ClientDisconnect):  # nobody is there any more to be answered
                await self._judge(scope, _bounded(receive), _hardened(send))

    async def _judge(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        state = scope.setdefault("state", {})
        state["address"] = self._people.client(scope, headers)
        state["encrypted"] = _is_encrypted(headers)
        if _is_long(headers.get("content-length", "0")):
            await self._answer(scope, send, 413, f"a form of more than {MOST_BODY:,} bytes")
        elif why := self._foreign(headers, scope["method"]):
            await self._answer(scope, send, 403, why)
        elif session := self._redeemed(scope):
            await self._let_in(scope, send, session)
        else:
            await self._admit(scope, receive, send, headers)

    async def _admit(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        """On to the page, for those who may see it."""
        told = self._people.told(scope, headers)
        session = self._keys.guest(headers.get("cookie", "")) if told is None else None
        guest = told if told is not None else session
        scope["state"]["session"] = session
        asked = self._keys.password is not None or self._people.asked
        if isinstance(guest, str):
            await self._answer(scope, send, 403, guest)
        elif scope["path"].startswith(OPEN):
            await self._app(scope, receive, send)
        elif guest is not None and scope["method"] not in SAFE and guest.role != "run":
            await self._answer(scope, send, 403, f"{guest.name} may look, and change nothing")
        elif guest is not None:
            scope["state"]["guest"] = guest
            await self._app(scope, receive, send)
        elif headers.get("sec-fetch-site", "none") not in OURS:  # by a link, without the cookie
            await self._answer(scope, send, 401, AGAIN)
        elif asked and scope["method"] in SAFE:
            await _redirect(send, _login(scope))
        else:
            await self._answer(scope, send, 401, "")

    def _foreign(self, headers: Headers, method: str) -> str:
        """Why a request is not one of our own pages', or of somebody who typed the address."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._names.has(hosts[0]):
            return "this machine is not known by that name"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in _origins(hosts[0]):
            return "the request comes from another site"
        site = headers.get("sec-fetch-site", "none")
        if site not in OURS and not _walks_in(headers, method):
            return "the request comes from another site"
        if method not in SAFE and origin is None and site != "same-origin":
            return "a request that changes something must say where it comes from"
        return ""

    def _redeemed(self, scope: Scope) -> str | None:
        if scope["method"] != "GET":
            return None
        given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        return self._keys.redeem(given["token"]) if "token" in given else None

    async def _let_in(self, scope: Scope, send: Send, session: str) -> None:
        """On to the same page, with a cookie and without the token in its address."""
        self._used()
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        rest = urlencode([(name, value) for name, value in pairs if name != "token"])
        path = "/" + scope["raw_path"].decode("latin-1").partition("?")[0].lstrip("/")
        target = path + (f"?{rest}" if rest else "")
        cookie = self._keys.set_cookie(session, secure=scope["state"]["encrypted"])
        await _redirect(send, target, cookie)

    async def _answer(self, scope: Scope, send: Send, status: int, why: str) -> None:
        body = self._refuse(scope, status, why)
        headers = [(b"content-type", b"text/html; charset=utf-8"),
                   (b"content-length", str(len(body)).encode()),
                   (b"cache-control", b"no-store")]  # fmt: skip
        await send({"type": "http.response.start", "status": status, "headers": headers})
        shown = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": shown})


def _login(scope: Scope) -> str:
    """Where a password is asked for, which leads on to what is asked for now."""
    path, query = scope["raw_path"].partition(b"?")[0], scope["query_string"]
    target = (path + (b"?" + query if query else b"")).decode("latin-1")
    return "/login" if target == "/" else f"/login?{urlencode({'next': target})}"


def _origins(host: str) -> tuple[str, str]:
    return f"http://{host.lower()}", f"https://{host.lower()}"


def _is_long(length: str) -> bool:
    return not (length.isascii() and length.isdigit() and int(length[:20]) <= MOST_BODY)


def _bounded(receive: Receive) -> Receive:
    """A body that is no longer than a form is, whatever was said of its length."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_BODY:
            raise HTTPException(413, f"a form of more than {MOST_BODY:,} bytes")
        return message

    return bounded


def _is_encrypted(headers: Headers) -> bool:
    """Whether the browser came by TLS, which a proxy speaks before us.

    Who lies about it only keeps a cookie back from themselves.
    """
    forwarded = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    return forwarded == "https" or headers.get("origin", "").lower().startswith("https://")


def _walks_in(headers: Headers, method: str) -> bool:
    """Whether somebody followed a link to here: that shows a page, and changes nothing."""
    return (
        method in SAFE
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


async def _redirect(send: Send, target: str, cookie: str = "") -> None:
    headers = [(b"location", target.encode("latin-1")), (b"content-length", b"0"),
               (b"cache-control", b"no-store")]  # fmt: skip
    if cookie:
        headers.append((b"set-cookie", cookie.encode()))
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _hardened(send: Send) -> Send:
    """Every answer says what a browser may do with it."""

    async def hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return hardened
