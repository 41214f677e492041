"""A deadline for all pages: a request gets an answer, whatever its page does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import anyio.to_thread

from zenturio.show.portal.security import App, Message, Receive, Scope, Send

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
