"""Calls that may hang, and whoever waits for them no longer than he has time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def call_with_timeout(seconds: float, function: Callable[[], T]) -> T:
    """Return what *function* returns, or raise what it raises.

    TimeoutError where it takes longer than so many *seconds*: it goes on then, in a thread that
    ends with the process at the latest.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
            result.set_exception(error)

    # A daemon thread cannot be stopped, but does not keep the process alive either.
    Thread(target=run, name="zenturio-within", daemon=True).start()
    return result.result(seconds)
