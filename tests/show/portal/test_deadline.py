"""Whatever a page does: who asked for it is answered."""

import asyncio
import threading

import anyio.to_thread
import pytest

from show.portal.loops import run
from zenturio.show.portal import server
from zenturio.show.portal.server import DeadlineMiddleware

SCOPE = {"type": "http", "path": "/"}
START = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body", "body": b"whole"}


async def receive():
    return {"type": "http.request", "body": b"", "more_body": False}


def asked(app, seconds=0.05, over=None):
    """What is answered, and how many pages are left and stuck then, or when they are *over*."""

    async def ask():
        found = []

        async def send(message):
            found.append(message)

        pages = DeadlineMiddleware(app, lambda _scope: b"late", seconds)
        await pages(SCOPE, receive, send)
        if over:
            over.set()
            await asyncio.wait(pages._late_since)
            await asyncio.sleep(0)
        return found, (len(pages._late_since), pages.stuck())

    return run(ask())


def test_a_page_in_time_is_answered_by_itself():
    async def page(_scope, _receive, send):
        await send(START)
        await asyncio.sleep(0.1)
        await send(BODY)

    found, left = asked(page, seconds=60)
    assert found == [START, BODY]
    assert left == (0, 0)


def test_a_page_that_is_late_is_answered_for_and_not_heard_any_more():
    over = asyncio.Event()

    async def page(_scope, _receive, send):
        await over.wait()
        await send(START)
        await send(BODY)

    found, left = asked(page, over=over)
    assert [each.get("status") for each in found] == [503, None]
    assert found[1]["body"] == b"late"
    assert left == (0, 0)


def test_late_pages_leave_threads_to_the_others():
    free = threading.Event()

    async def ask():
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = 2

        async def page(scope, _receive, send):
            if scope["path"] == "/slow":
                await anyio.to_thread.run_sync(free.wait)
            else:
                await anyio.to_thread.run_sync(int)
            await send(START)
            await send(BODY)

        found = []

        async def send(message):
            found.append(message)

        pages = DeadlineMiddleware(page, lambda _scope: b"late", 0.05)
        for _ in range(3):
            await pages({"type": "http", "path": "/slow"}, receive, send)
        assert limiter.total_tokens == 5
        pages._seconds = 240
        found.clear()
        await pages(SCOPE, receive, send)
        assert found == [START, BODY]
        free.set()
        await asyncio.wait(pages._late_since)
        await asyncio.sleep(0)
        assert limiter.total_tokens == 2

    run(ask())


def test_what_never_ends_is_counted_as_stuck(monkeypatch):
    monkeypatch.setattr(server, "STUCK_SECONDS", -1)

    async def page(_scope, _receive, _send):
        await asyncio.Event().wait()

    found, left = asked(page)
    assert found[0]["status"] == 503
    assert left == (1, 1)


def test_an_error_of_a_page_is_raised_as_it_was():
    async def page(_scope, _receive, _send):
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        asked(page)


def test_a_late_error_is_nobodys():
    over = asyncio.Event()

    async def page(_scope, _receive, _send):
        await over.wait()
        raise ValueError("wrong")

    found, left = asked(page, over=over)
    assert found[0]["status"] == 503
    assert left == (0, 0)
