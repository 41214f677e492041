"""What Ctrl-C, SIGTERM and a lost terminal mean to a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GENTLE = (signal.SIGINT,)
AT_ONCE = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls *stop* once, SIGTERM and SIGHUP twice.

    What is ignored stays ignored: ``nohup zen run`` outlives its terminal, and a run in the
    background of a script its Ctrl-C. Only the main thread hears signals; elsewhere nothing
    is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def gently(_number: int, _frame: object) -> None:
        stop()

    def at_once(_number: int, _frame: object) -> None:
        stop()
        stop()

    handlers = dict.fromkeys(GENTLE, gently) | dict.fromkeys(AT_ONCE, at_once)
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield
    finally:
        for number, each in before.items():
            signal.signal(number, each)
