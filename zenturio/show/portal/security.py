"""Access control: every request is checked before any page sees it.

Pages of other sites in the same browser must not read or do anything here: requests from other
origins are refused, and so are host names that a foreign name server points to this machine (DNS
rebinding). The link that was printed works once, and sets a cookie.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from zenturio.errors import NotFoundError
from zenturio.record import ResultCount
from zenturio.show.portal.access import USER, SessionStore, UserDirectory, network
from zenturio.show.portal.state import Portal
from zenturio.study.overview import by_machine, by_round
from zenturio.system.unix_socket import peer

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CONTENT_SECURITY_RULES = {
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
CONTENT_SECURITY_POLICY = "; ".join(
    f"{what} {whence}" for what, whence in CONTENT_SECURITY_RULES.items()
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with that, browsers hide the origin of a form that is sent.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
MOST_BODY_BYTES = 1_000_000
"""Of a form: the longest is a report, each byte of which may take three."""
SAFE_METHODS = frozenset({"GET", "HEAD"})
METRICS_PATH = "/metrics"
"""What Prometheus reads, with a token of its own."""
PUBLIC_PATHS = ("/static/", "/login", "/logout")
"""Open to everybody: static files, logging in, logging out."""

OWN_SITES = ("same-origin", "none")
"""Sec-Fetch-Site of requests from our own pages, or typed by the user."""
RELOAD = "again"
"""Makes a page load itself again: browsers do not send the cookie with links from other sites."""


def is_loopback(host: str) -> bool:
    """Return whether *host* is this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class HostNames:
    """The names by which requests may address this machine."""

    known: frozenset[str]
    wide: bool
    """Whether it listens to other machines, so that any of its addresses may be used."""

    @classmethod
    def of(cls, host: str, others: Iterable[str] = ()) -> HostNames:
        """Return the names of a server at *host*, and *others* by which a proxy addresses it."""
        extra = {name.lower() for name in others}
        if is_loopback(host):
            return cls(frozenset({"localhost", host.lower()} | extra), wide=False)
        names_of_host = {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        return cls(frozenset({"localhost"} | names_of_host | extra), wide=True)

    def has(self, host: str) -> bool:
        """Return whether a Host header names us; a plain address needs no name server."""
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


class AccessMiddleware:
    """ASGI middleware that lets through only requests of logged-in users, from our own pages."""

    def __init__(
        self,
        app: App,
        sessions: SessionStore,
        names: HostNames,
        refuse: Callable[[Scope, int, str], bytes],
        on_link_used: Callable[[], None] = lambda: None,
        users: UserDirectory | None = None,
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._names = names
        self._refuse = refuse
        self._on_link_used = on_link_used
        self._users = users or UserDirectory()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            with suppress(ClientDisconnect):  # nobody is left to answer
                await self._check(scope, _limit_body(receive), _add_headers(send))

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        state = scope.setdefault("state", {})
        state["address"] = self._users.client(scope, headers)
        state["encrypted"] = _is_encrypted(headers)
        if _is_too_long(headers.get("content-length", "0")):
            await self._answer(
                scope, send, 413, f"the form is longer than {MOST_BODY_BYTES:,} bytes"
            )
        elif why := self._foreign(headers, scope["method"]):
            await self._answer(scope, send, 403, why)
        elif session := self._redeem(scope):
            await self._let_in(scope, send, session)
        else:
            await self._admit(scope, receive, send, headers)

    async def _admit(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        """Pass the request on to the page if its user may see it."""
        proxy_user = self._users.proxy_user(scope, headers)
        session = self._sessions.user(headers.get("cookie", "")) if proxy_user is None else None
        user = proxy_user if proxy_user is not None else session
        scope["state"]["session"] = session
        has_login = self._sessions.password is not None or self._users.has_passwords
        if isinstance(user, str):
            await self._answer(scope, send, 403, user)
        elif scope["path"].startswith(PUBLIC_PATHS) or (
            scope["path"] == METRICS_PATH and self._users.may_read_metrics(headers)
        ):
            await self._app(scope, receive, send)
        elif user is not None and scope["method"] not in SAFE_METHODS and user.role == "look":
            await self._answer(scope, send, 403, f"{user.name} has read-only access")
        elif user is not None:
            scope["state"]["user"] = user
            await self._app(scope, receive, send)
        elif (
            headers.get("sec-fetch-site", "none") not in OWN_SITES
        ):  # a link from another site: the browser holds the cookie back
            await self._answer(scope, send, 401, RELOAD)
        elif has_login and scope["method"] in SAFE_METHODS:
            await _redirect(send, _login_address(scope))
        else:
            await self._answer(scope, send, 401, "")

    def _foreign(self, headers: Headers, method: str) -> str:
        """Return why a request is neither from our pages nor typed; empty if it is either."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._names.has(hosts[0]):
            return "this machine does not have that host name"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in _origins(hosts[0]):
            return "the request comes from another site"
        site = headers.get("sec-fetch-site", "none")
        if site not in OWN_SITES and not _follows_link(headers, method):
            return "the request comes from another site"
        if method not in SAFE_METHODS and origin is None and site != "same-origin":
            return "a request that changes something must have an Origin header"
        return ""

    def _redeem(self, scope: Scope) -> str | None:
        if scope["method"] != "GET":
            return None
        parameters = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        return self._sessions.redeem(parameters["token"]) if "token" in parameters else None

    async def _let_in(self, scope: Scope, send: Send, session: str) -> None:
        """Redirect to the same page, with a cookie and without the token in its address."""
        self._on_link_used()
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        rest = urlencode([(name, value) for name, value in pairs if name != "token"])
        path = "/" + scope["raw_path"].decode("latin-1").partition("?")[0].lstrip("/")
        target = path + (f"?{rest}" if rest else "")
        cookie = self._sessions.set_cookie(session, secure=scope["state"]["encrypted"])
        await _redirect(send, target, cookie)

    async def _answer(self, scope: Scope, send: Send, status: int, why: str) -> None:
        body = self._refuse(scope, status, why)
        headers = [(b"content-type", b"text/html; charset=utf-8"),
                   (b"content-length", str(len(body)).encode()),
                   (b"cache-control", b"no-store")]  # fmt: skip
        await send({"type": "http.response.start", "status": status, "headers": headers})
        content = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": content})


def _login_address(scope: Scope) -> str:
    """Return the login page, which leads on to the requested page."""
    path, query = scope["raw_path"].partition(b"?")[0], scope["query_string"]
    target = (path + (b"?" + query if query else b"")).decode("latin-1")
    return "/login" if target == "/" else f"/login?{urlencode({'next': target})}"


def _origins(host: str) -> tuple[str, str]:
    return f"http://{host.lower()}", f"https://{host.lower()}"


def _is_too_long(length: str) -> bool:
    return not (length.isascii() and length.isdigit() and int(length[:20]) <= MOST_BODY_BYTES)


def _limit_body(receive: Receive) -> Receive:
    """Wrap *receive*: the body is bounded, whatever length was announced."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_BODY_BYTES:
            raise HTTPException(413, f"the form is longer than {MOST_BODY_BYTES:,} bytes")
        return message

    return bounded


def _is_encrypted(headers: Headers) -> bool:
    """Return whether the browser uses TLS, which a proxy in front of us terminates.

    Whoever lies about it only loses their own cookie.
    """
    forwarded = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    return forwarded == "https" or headers.get("origin", "").lower().startswith("https://")


def _follows_link(headers: Headers, method: str) -> bool:
    """Return whether somebody followed a link to here: that shows a page, and changes nothing."""
    return (
        method in SAFE_METHODS
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


def _add_headers(send: Send) -> Send:
    """Wrap *send*: every answer says what a browser may do with it."""

    async def hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return hardened


# Connections: limits, Unix sockets, addresses

MOST_CONNECTIONS = 1024
RESERVED_DESCRIPTORS = 256
"""Descriptors that connections leave for files, databases and processes."""
BACKLOG = 64
"""Connections that are accepted at once: they take descriptors before they are counted."""
HEAD_SECONDS = 10.0
"""For the head of a request, and from the connection to the first request."""
BODY_SECONDS = 30.0
"""For the body of a request."""
STALLED_SECONDS = 60.0
"""For which a browser may read nothing of an answer."""


def most_connections(descriptors: int | None = None) -> int:
    """Return how many connections leave enough of the *descriptors* of this process."""
    soft = descriptors or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, max(soft - RESERVED_DESCRIPTORS, soft // 2))


class ConnectionTable:
    """The open connections; one address has at most half of them."""

    def __init__(self, most: int, users: frozenset[int] = frozenset()) -> None:
        """Only *users* of this machine may connect to a Unix socket."""
        self.most = most
        self.users = users
        self.most_of_one = max(most // 2, 1)
        self._connections: dict[TimeLimitedProtocol, None] = {}
        self._per_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._connections)

    def admit(self, new: TimeLimitedProtocol) -> bool:
        """Count *new*, closing an idle connection if there are too many; False if none is."""
        # Room is made among the connections of the same address: one client cannot push out
        # others.
        if self._per_address[new.address] >= self.most_of_one:
            admitted = self._make_room(new.address)
        elif len(self) >= self.most:
            admitted = self._make_room(self._per_address.most_common(1)[0][0])
        else:
            admitted = True
        if admitted:
            self._connections[new] = None
            self._per_address[new.address] += 1
        return admitted

    def renew(self, connection: TimeLimitedProtocol) -> None:
        """Note that a connection was used: it is closed last."""
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def remove(self, connection: TimeLimitedProtocol) -> None:
        """Forget a closed connection."""
        if connection in self._connections:
            del self._connections[connection]
            self._per_address[connection.address] -= 1
            if not self._per_address[connection.address]:
                del self._per_address[connection.address]

    def _make_room(self, address: str) -> bool:
        for connection in self._connections:
            if connection.address == address and not connection.is_busy:
                self.remove(connection)
                connection.transport.abort()
                return True
        return False


class TimeLimitedProtocol(H11Protocol):
    """HTTP/1.1 with time limits for reading requests and writing answers."""

    def __init__(self, table: ConnectionTable, **more: Any) -> None:
        super().__init__(**more)
        self._table = table
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.address = ""

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        user = peer(transport.get_extra_info("socket"))
        if user is not None:
            self.client = (f"{USER}{user}", 0)
        self.address = network(self.client[0]) if self.client else ""
        if (user is None or user in self._table.users) and self._table.admit(self):
            self._watch()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._stop("body")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("stalled", STALLED_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("stalled")

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        super().connection_lost(exc)
        for name in list(self._timers):
            self._stop(name)

    def _watch(self) -> None:
        """Limit the wait for a head, or for the rest of a body; single bytes do not extend it."""
        if not self.is_busy:
            self._start("head", HEAD_SECONDS)
            return
        self._table.renew(self)
        self._stop("head")
        if self.cycle.more_body:
            self._start("body", BODY_SECONDS)
        else:
            self._stop("body")

    def _start(self, name: str, seconds: float) -> None:
        if name not in self._timers and not self.transport.is_closing():
            self._timers[name] = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


@dataclass(frozen=True)
class MachineRoundChoices:
    """Results of some studies by kind of machine and by round; empty where there is one alone."""

    machines: Mapping[str, int]
    rounds: Mapping[int, int]


def origins_offered(portal: Portal, studies: Sequence[str]) -> MachineRoundChoices:
    """Return what there is to choose among the results of *studies*."""
    counts = [counts_of_study for name in studies for counts_of_study in _counts(portal, name)]
    machines, rounds = by_machine(counts), by_round(counts)
    return MachineRoundChoices(
        machines if len(machines) > 1 else {}, rounds if len(rounds) > 1 else {}
    )


def _counts(portal: Portal, name: str) -> tuple[ResultCount, ...]:
    try:
        return portal.repository.count_results(name)
    except NotFoundError:  # it went meanwhile
        return ()
