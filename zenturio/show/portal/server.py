"""The portal as a process: application, socket, the link that opens it, and shutdown."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from zlib import crc32

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from zenturio.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    PlaceError,
    RecordError,
    SafetyError,
    ZenError,
)
from zenturio.record.consistency_check import damage_of_opened_files
from zenturio.show.portal.access import LoginAttempts, PasswordHash, SessionStore, UserDirectory
from zenturio.show.portal.pages import chart, experiment, login, queue, report, study
from zenturio.show.portal.security import (
    BACKLOG,
    METRICS_PATH,
    AccessMiddleware,
    App,
    ConnectionTable,
    HostNames,
    Message,
    Receive,
    Scope,
    Send,
    TimeLimitedProtocol,
    is_loopback,
    most_connections,
)
from zenturio.show.portal.state import THREADS, Portal, PortalSettings

# The application: routes, error pages, a deadline for each request, and other middleware

DEADLINE_SECONDS = 90.0
"""Until an answer starts: longer than any limit of a page itself."""
STUCK_SECONDS = 60.0
"""After the deadline: a page that still runs then will not end."""
MOST_EXTRA_THREADS = 16
"""Threads that are added in place of those that late pages hold."""


class DeadlineMiddleware:
    """ASGI middleware that answers in place of pages that take too long."""

    def __init__(
        self, app: App, late: Callable[[Scope], bytes], seconds: float = DEADLINE_SECONDS
    ) -> None:
        """*late* makes the page that is sent then."""
        self._app = app
        self._late_page = late
        self._seconds = seconds
        self._late_since: dict[asyncio.Task[None], float] = {}
        self._extra_threads = 0

    def stuck(self) -> int:
        """Return how many pages still run long after their deadline, each in a thread."""
        now = time.monotonic()
        return sum(now - since > STUCK_SECONDS for since in self._late_since.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = asyncio.Event()
        is_over = False

        async def forward(message: Message) -> None:
            if not is_over:
                has_started.set()
                await send(message)

        # A thread cannot be stopped: the page goes on, but its answer is discarded.
        task = asyncio.ensure_future(self._app(scope, receive, forward))
        task.add_done_callback(lambda _: has_started.set())
        try:
            await asyncio.wait_for(has_started.wait(), self._seconds)
        except TimeoutError:
            is_over = True
            self._late_since[task] = time.monotonic()
            task.add_done_callback(self._forget)
            self._lend()
            await self._answer(scope, send)
            return
        except asyncio.CancelledError:
            task.cancel()
            raise
        try:
            await task
        except asyncio.CancelledError:
            task.cancel()
            raise

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._late_since[task]
        self._lend()
        if not task.cancelled():
            task.exception()  # mark it as retrieved, or asyncio logs it

    def _lend(self) -> None:
        """Add as many threads as late pages hold, so that other pages are not delayed."""
        extra = min(len(self._late_since), MOST_EXTRA_THREADS)
        anyio.to_thread.current_default_thread_limiter().total_tokens += extra - self._extra_threads
        self._extra_threads = extra

    async def _answer(self, scope: Scope, send: Send) -> None:
        body = self._late_page(scope)
        headers = [(b"content-type", b"text/html; charset=utf-8"),
                   (b"content-length", str(len(body)).encode()),
                   (b"connection", b"close")]  # fmt: skip
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})


STATUS: tuple[tuple[type[ZenError], int], ...] = (
    (NotFoundError, 404), (InputError, 400), (SafetyError, 403), (ConflictError, 409),
    (RecordError, 503),
)  # fmt: skip

ROUTES = (
    Route("/", study.home),
    Route("/live", study.live),
    *chart.ROUTES,
    *report.ROUTES,
    *report.SCHEDULE_ROUTES,
    Route("/compare", experiment.compare),
    Route("/sql", chart.page),
    Route("/download", chart.download),
    Route("/run", queue.run_page),
    Route("/run/runs", queue.runs),
    Route("/run/plan", queue.options),
    Route("/run/plan", queue.plan, methods=["POST"]),
    Route("/run/start", queue.start, methods=["POST"]),
    Route("/run/{what}", queue.change, methods=["POST"]),
    Route("/queue", queue.page),
    Route("/queue/waiting", queue.waiting),
    Route(METRICS_PATH, queue.metrics),
    Route("/queue/submit", queue.submit, methods=["POST"]),
    Route("/queue/cancel", queue.cancel, methods=["POST"]),
    Route("/login", login.login_page),
    Route("/login", login.log_in, methods=["POST"]),
    Route("/logout", login.log_out, methods=["POST"]),
    Route("/study", study.study),
    Route("/study/found", study.row_count),
    Route("/study/failures", study.failures),
    Route("/study/parameters", study.parameters),
    Route("/experiment/{digest}", experiment.experiment),
    Route("/experiment/{digest}/said", experiment.output),
    Route("/experiment/{digest}/files", experiment.files),
    Route("/experiment/{digest}/log/{stream}", experiment.log),
    *experiment.ROUTES,
)


def create_app(
    portal: Portal,
    sessions: SessionStore,
    names: HostNames,
    on_link_used: Callable[[], None] = lambda: None,
    users: UserDirectory | None = None,
) -> tuple[AccessMiddleware, DeadlineMiddleware]:
    """Return the application behind its access control, and the middleware that knows late pages.

    *on_link_used* is called when a single-use link was used.
    """
    static = Route("/static/{name}", portal.assets.answer)
    app = Starlette(
        routes=[*ROUTES, static],
        exception_handlers={
            ZenError: _known_error,
            HTTPException: _http_error,
            Exception: _internal_error,
        },
        lifespan=partial(_lifespan, portal),
    )
    app.state.portal = portal
    app.state.sessions = sessions
    app.state.users = users or UserDirectory()
    app.state.attempts = LoginAttempts()
    pages = DeadlineMiddleware(app, partial(_late_page, portal))
    refuse = partial(_refusal_page, portal)
    return AccessMiddleware(pages, sessions, names, refuse, on_link_used, users), pages


@asynccontextmanager
async def _lifespan(portal: Portal, _app: Starlette) -> AsyncIterator[None]:
    """Bound the threads of pages, and poll the studies while the portal is open."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    polling = asyncio.create_task(portal.watch.poll_forever(anyio.to_thread.run_sync))
    try:
        yield
    finally:
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        portal.close()


def _known_error(request: Request, error: Exception) -> Response:
    """Return the page of an error of the user, with the text that the command line has."""
    assert isinstance(error, ZenError)
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    return _error_page(request, status, str(error))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    messages = {404: "this page does not exist", 405: "this page does not allow that method"}
    message = messages.get(error.status_code, error.detail)
    return _error_page(request, error.status_code, message, error.headers)


def _internal_error(request: Request, _error: Exception) -> Response:
    """Return the page of a bug; the server prints the traceback."""
    if diagnostics := damage_of_opened_files():
        return _error_page(request, 503, str(diagnostics[0]))
    return _error_page(
        request, 500, "this is a bug of the portal; its terminal shows the traceback"
    )


def _error_page(
    request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    portal: Portal = request.app.state.portal
    return portal.page(request, "error.html", status, headers, code=status, message=message)


def _late_page(portal: Portal, _scope: Scope) -> bytes:
    text = f"It took longer than {DEADLINE_SECONDS:g} seconds. Request less, or try again later."
    return portal.render("refused.html", status=503, why=text).encode()


def _refusal_page(portal: Portal, _scope: Scope, status: int, why: str) -> bytes:
    """Return the page for requests that are refused; it contains nothing about any study."""
    return portal.render("refused.html", status=status, why=why).encode()


# The server

SHUTDOWN_SECONDS = 1
"""That unfinished answers have when the portal stops."""


@dataclass(frozen=True)
class ListenAddress:
    """Where a portal listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}/" if self.port == 80 else f"http://{host}:{self.port}/"


class PortalServer:
    """A portal that listens as soon as it is created, and answers while `run` runs."""

    def __init__(
        self,
        settings: PortalSettings,
        host: str = "127.0.0.1",
        port: int = 0,
        password: str = "",
        on_link_used: Callable[[str], None] = lambda _link: None,
        users: UserDirectory | None = None,
        names: Iterable[str] = (),
        *,
        listening: socket.socket | None = None,
        system_users: frozenset[int] = frozenset(),
    ) -> None:
        """Listen at *host* and *port*, or on a socket that listens already.

        *users* may log in; *names* are those by which a proxy addresses this machine.
        *on_link_used* is called with a new link when one was used. Only *system_users* may connect
        to a Unix socket.
        """
        check_access_control(settings, host, password, users)
        self._on_link_used = on_link_used
        self._socket = listening or open_socket(host, port)
        socket_name = self._socket.getsockname()
        is_unix = isinstance(socket_name, str)
        self.listen_address = ListenAddress(host, 80 if is_unix else socket_name[1])
        # Cookies ignore ports: two portals on one machine must not share a cookie.
        suffix = f"{crc32(socket_name.encode()):08x}" if is_unix else self.listen_address.port
        self._sessions = SessionStore(
            f"zenturio-{suffix}", PasswordHash.of(password) if password else None
        )
        self.portal = Portal(settings)
        app, self._pages = create_app(
            self.portal, self._sessions, HostNames.of(host, names), self._report_used_link, users
        )
        self.connections = ConnectionTable(most_connections(), system_users)
        config = uvicorn.Config(
            app,
            http=cast("Any", partial(TimeLimitedProtocol, self.connections)),
            backlog=BACKLOG,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            h11_max_incomplete_event_size=64 * 1024,
        )
        self._server = uvicorn.Server(config)

    def link(self) -> str:
        """Return an address that opens the portal once."""
        return f"{self.listen_address.url}?token={self._sessions.new_link()}"

    def _report_used_link(self) -> None:
        self._on_link_used(self.link())

    @property
    def cookie(self) -> str:
        """The name of the cookie."""
        return self._sessions.cookie

    @property
    def is_started(self) -> bool:
        return self._server.started

    def run(self, heartbeat: Callable[[int], None] | None = None, interval: float = 1.0) -> None:
        """Answer requests until `stop` is called.

        Call *heartbeat* every *interval* seconds, with the number of pages that will never end.
        """
        if heartbeat is not None:
            pages = self._pages

            async def notify() -> None:
                heartbeat(pages.stuck())

            self._server.config.callback_notify = notify
            self._server.config.timeout_notify = interval  # type: ignore[assignment]
        with self._socket:
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Make `run` return."""
        self._server.should_exit = True


def check_access_control(
    settings: PortalSettings, host: str, password: str, users: UserDirectory | None
) -> None:
    """Raise SafetyError if other machines could use the portal without logging in."""
    if is_loopback(host) or password or (users and users.has_logins):
        return
    raise SafetyError(
        f"other machines can reach {host}, and nobody would have to log in",
        hint=(
            "add users to [serve.users] in zenturio.toml, or listen on this"
            if settings.serves
            else "set ZENTURIO_PORTAL_PASSWORD, or listen on this"
        )
        + " machine only and connect with ssh -L 8600:localhost:8600",
    )


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise PlaceError if the address cannot be used."""
    try:
        # With its protocol: asyncio sets TCP_NODELAY only on sockets that name TCP.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
            listening.listen(512)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise PlaceError(
            f"cannot listen at {host}, port {port}: {error.strerror}",
            hint="choose another --port; --port 0 takes a free one",
        ) from error
    return listening
