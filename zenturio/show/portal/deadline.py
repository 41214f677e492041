"""Pages that take too long are answered for: nobody waits for ever, whatever a page does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import anyio.to_thread

from zenturio.show.portal.security import App, Message, Receive, Scope, Send

DEADLINE_SECONDS = 90.0
"""Until an answer begins: longer than any limit of a page itself."""
STUCK_SECONDS = 60.0
"""After the deadline: what still works then will not end."""
MOST_LENT = 16
"""Threads that other pages get in place of those that late ones hold."""


class Deadline:
    """Stands before the pages, and answers in their place when time is up."""

    def __init__(
        self, app: App, late: Callable[[Scope], bytes], seconds: float = DEADLINE_SECONDS
    ) -> None:
        """*late* makes the page that says so."""
        self._app = app
        self._late = late
        self._seconds = seconds
        self._left: dict[asyncio.Task[None], float] = {}
        self._lent = 0

    def stuck(self) -> int:
        """How many pages go on long after their deadline, and hold a thread each."""
        now = time.monotonic()
        return sum(now - since > STUCK_SECONDS for since in self._left.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = asyncio.Event()
        is_over = False

        async def forward(message: Message) -> None:
            if not is_over:
                begun.set()
                await send(message)

        # A thread cannot be stopped: the page goes on, but nobody hears it any more.
        task = asyncio.ensure_future(self._app(scope, receive, forward))
        task.add_done_callback(lambda _: begun.set())
        try:
            await asyncio.wait_for(begun.wait(), self._seconds)
        except TimeoutError:
            is_over = True
            self._left[task] = time.monotonic()
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
        del self._left[task]
        self._lend()
        if not task.cancelled():
            task.exception()  # it was looked at: nobody is left whom it would concern

    def _lend(self) -> None:
        """As many threads more as late pages hold, so that the others go on."""
        wanted = min(len(self._left), MOST_LENT)
        anyio.to_thread.current_default_thread_limiter().total_tokens += wanted - self._lent
        self._lent = wanted

    async def _answer(self, scope: Scope, send: Send) -> None:
        body = self._late(scope)
        headers = [(b"content-type", b"text/html; charset=utf-8"),
                   (b"content-length", str(len(body)).encode()),
                   (b"connection", b"close")]  # fmt: skip
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})
