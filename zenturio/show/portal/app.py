"""The application: its pages, its errors, the gate before it."""

from __future__ import annotations

import asyncio
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
from zenturio.record.damage import damage
from zenturio.show.portal.access import Keys, People
from zenturio.show.portal.deadline import DEADLINE_SECONDS, Deadline
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
from zenturio.show.portal.security import Gate, Names, Scope
from zenturio.show.portal.state import THREADS, Portal

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
    Route("/queue/submit", queue.submit, methods=["POST"]),
    Route("/queue/cancel", queue.cancel, methods=["POST"]),
    Route("/login", login.show),
    Route("/login", login.enter, methods=["POST"]),
    Route("/logout", login.leave, methods=["POST"]),
    Route("/study", study.study),
    Route("/study/found", study.found),
    Route("/study/failures", failing.failures),
    Route("/study/parameters", study.parameters),
    Route("/experiment/{digest}", experiment.experiment),
    Route("/experiment/{digest}/said", experiment.said),
    Route("/experiment/{digest}/files", experiment.files),
    Route("/experiment/{digest}/log/{stream}", experiment.log),
    *left.ROUTES,
)


def create_app(
    portal: Portal,
    keys: Keys,
    names: Names,
    used: Callable[[], None] = lambda: None,
    people: People | None = None,
) -> tuple[Gate, Deadline]:
    """The pages of *portal* behind their gate, and what knows which of them are late.

    *used* hears of each link that was used up.
    """
    static = Route("/static/{name}", portal.assets.answer)
    app = Starlette(
        routes=[*ROUTES, static],
        exception_handlers={
            ZenError: _explained,
            HTTPException: _turned_away,
            Exception: _unforeseen,
        },
        lifespan=partial(_alive, portal),
    )
    app.state.portal = portal
    app.state.keys = keys
    app.state.people = people or People()
    app.state.attempts = LoginAttempts()
    pages = Deadline(app, partial(_late, portal))
    return Gate(pages, keys, names, partial(_refusal, portal), used, people), pages


@asynccontextmanager
async def _alive(portal: Portal, _app: Starlette) -> AsyncIterator[None]:
    """Bound the threads of pages, and poll the studies while the portal is open."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    polling = asyncio.create_task(portal.watch.go_on(anyio.to_thread.run_sync))
    try:
        yield
    finally:
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        portal.close()


def _explained(request: Request, error: Exception) -> Response:
    """What somebody asked for is not right, or not there: in the words of the command line."""
    assert isinstance(error, ZenError)
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    return _failed(request, status, str(error))


def _turned_away(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is no such page", 405: "that cannot be asked for in this way"}
    what = said.get(error.status_code, error.detail)
    return _failed(request, error.status_code, what, error.headers)


def _unforeseen(request: Request, _error: Exception) -> Response:
    """The server prints what it was, and where."""
    if diagnostics := damage():
        return _failed(request, 503, str(diagnostics[0]))
    return _failed(request, 500, "this is a mistake of the portal's; the terminal tells more")


def _failed(
    request: Request, status: int, said: str, headers: Mapping[str, str] | None = None
) -> Response:
    portal: Portal = request.app.state.portal
    return portal.page(request, "error.html", status, headers, code=status, said=said)


def _late(portal: Portal, _scope: Scope) -> bytes:
    said = f"this page took longer than {DEADLINE_SECONDS:g} seconds: ask for less"
    return portal.render("refused.html", status=503, why=said).encode()


def _refusal(portal: Portal, _scope: Scope, status: int, why: str) -> bytes:
    """For those who are not let in: nothing of any study is on it."""
    return portal.render("refused.html", status=status, why=why).encode()
