"""Work that a person waits for only so long."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeIsUp(BaseException):
    """The time for a piece of work is over; no ``except Exception`` on the way keeps it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let the block work for so many *seconds*, then raise TimeIsUp in it.

    Where no alarm can be set (outside the main thread, on Windows), the block takes its time.
    """
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ring(_number: int, _frame: FrameType | None) -> None:
    raise TimeIsUp
