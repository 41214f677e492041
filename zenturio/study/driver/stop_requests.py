"""What asks a run to stop, or to cancel an experiment: signals, and files in the project."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zenturio import trust
from zenturio.execute.file_staging import disk_errors

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


UNWANTED = "unwanted"


class CancelRequests:
    """Experiments that are to be cancelled: empty files ``unwanted/DIGEST`` below *folder*."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / UNWANTED

    def ask(self, digest: str) -> None:
        """Have the experiment cancelled by whoever runs it."""
        with disk_errors(self._folder):
            trust.begin(self._folder.parent)
            self._folder.mkdir(exist_ok=True)
            (self._folder / digest).touch()

    def take_back(self, digest: str) -> None:
        """It is not to be cancelled any more, or is."""
        (self._folder / digest).unlink(missing_ok=True)

    def asked(self, digest: str) -> bool:
        """Whether nobody has done it yet."""
        return (self._folder / digest).exists()

    def unwanted(self) -> list[str]:
        """All that are to be cancelled."""
        with suppress(OSError):
            return os.listdir(self._folder)  # noqa: PTH208 - looked at often
        return []
