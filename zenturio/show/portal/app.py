"""The application: routes, error pages, a deadline for each request, and other middleware."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from zenturio.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    RecordError,
    SafetyError,
    ZenError,
)
from zenturio.record.consistency_check import damage_of_opened_files
from zenturio.show.portal.access import SessionStore, UserDirectory
from zenturio.show.portal.login_attempts import LoginAttempts
from zenturio.show.portal.pages import artifacts as left
from zenturio.show.portal.pages import (
    chart,
    experiment,
    home,
    login,
    queue,
    report,
    schedule,
    study,
)
from zenturio.show.portal.pages import experiment as comparing
from zenturio.show.portal.pages import run as running
from zenturio.show.portal.pages import sql as asking
from zenturio.show.portal.pages import sql as saving
from zenturio.show.portal.pages import study as failing
from zenturio.show.portal.security import (
    METRICS_PATH,
    AccessMiddleware,
    App,
    HostNames,
    Message,
    Receive,
    Scope,
    Send,
)
from zenturio.show.portal.state import THREADS, Portal

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
    Route("/", home.home),
    Route("/live", home.live),
    *chart.ROUTES,
    *report.ROUTES,
    *schedule.ROUTES,
    Route("/compare", comparing.compare),
    Route("/sql", asking.page),
    Route("/download", saving.download),
    Route("/run", running.page),
    Route("/run/runs", running.runs),
    Route("/run/plan", running.options),
    Route("/run/plan", running.plan, methods=["POST"]),
    Route("/run/start", running.start, methods=["POST"]),
    Route("/run/{what}", running.change, methods=["POST"]),
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
    Route("/study/failures", failing.failures),
    Route("/study/parameters", study.parameters),
    Route("/experiment/{digest}", experiment.experiment),
    Route("/experiment/{digest}/said", experiment.output),
    Route("/experiment/{digest}/files", experiment.files),
    Route("/experiment/{digest}/log/{stream}", experiment.log),
    *left.ROUTES,
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
