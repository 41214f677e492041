"""Memory that is free goes back to the system: a chart of a million rows leaves much of it."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from functools import cache

import anyio.to_thread

EVERY = 5.0
"""Seconds between two looks whether something was done."""


@cache
def _trim() -> Callable[[int], int] | None:
    """What gives memory back; none where the C library is not GNU's."""
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found


def give_back() -> None:
    """Give back what is free."""
    trim = _trim()
    if trim is not None:
        trim(0)


async def go_on(done: Callable[[], int]) -> None:
    """Give back for ever, whenever *done* has grown, which counts what took much memory."""
    before = 0
    while True:
        await asyncio.sleep(EVERY)
        now = done()
        if now != before:
            before = now
            await anyio.to_thread.run_sync(give_back)
