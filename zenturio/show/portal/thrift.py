"""What keeps the portal small: memory that is free goes back, and what nobody needs stays out."""

from __future__ import annotations

import asyncio
import ctypes
import sys
from collections.abc import Callable
from functools import cache
from importlib.abc import MetaPathFinder

import anyio.to_thread

EVERY = 5.0
"""Seconds between two looks whether something was done."""


class WithoutArrow(MetaPathFinder):
    """Lets pandas do without pyarrow, which it loads wherever it is installed.

    That is 40 MB, for columns that no chart has. Whoever else wants pyarrow gets it.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Nothing, so that others look for it; or an error, as if there were none."""
        if name == "pyarrow" and _begins("pandas"):
            raise ModuleNotFoundError("pandas shall do without it", name=name)


def _begins(name: str) -> bool:
    """Whether a module is being loaded at this moment."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def spare_arrow() -> None:
    """From now on pandas is loaded without pyarrow, in this process."""
    if not any(isinstance(finder, WithoutArrow) for finder in sys.meta_path):
        sys.meta_path.insert(0, WithoutArrow())


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
