"""What asks a run to stop, or to cancel an experiment: signals, and files in the project."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from zenturio import trust
from zenturio.execute.file_staging import disk_errors
from zenturio.files import make_folder, refuse_link

GENTLE = (signal.SIGINT,)
AT_ONCE = (signal.SIGTERM, signal.SIGHUP)
_Handler = Callable[[int, object], None]


@contextmanager
def stop_on_signals(
    stop: Callable[[], None], signals: Collection[signal.Signals] = GENTLE + AT_ONCE
) -> Iterator[None]:
    """Call *stop* once at Ctrl-C, and twice at SIGTERM and SIGHUP, which kills what runs.

    Signals that are ignored stay ignored: ``nohup zen run`` outlives its terminal, and a run in
    the background of a script its Ctrl-C.
    """
    # Python delivers signals to the main thread alone; the threads of a service are stopped by it.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    # *stop* may only put a message into a queue, or interrupt a user's function: a handler
    # interrupts any line of the driver, also one within a transaction.
    def gently(_number: int, _frame: object) -> None:
        stop()

    def at_once(_number: int, _frame: object) -> None:
        stop()
        stop()

    handlers = dict.fromkeys(GENTLE, gently) | dict.fromkeys(AT_ONCE, at_once)
    asking = (number for number in handlers if number in signals)
    with _handled({n: handlers[n] for n in asking if signal.getsignal(n) != signal.SIG_IGN}):
        yield


@contextmanager
def interrupt_at_end_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt the block as Ctrl-C does, where they would kill.

    ``zen cancel`` sends SIGTERM to whoever holds the lease of a study, also while its driver does
    not listen yet or no longer: the lease is given back then, too, and the place closed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with _handled({n: interrupt for n in AT_ONCE if signal.getsignal(n) == signal.SIG_DFL}):
        yield


@contextmanager
def _handled(handlers: Mapping[signal.Signals, _Handler]) -> Iterator[None]:
    """Let *handlers* handle their signals, and those before them afterwards.

    Where a handler that was set by something other than Python was there, none takes its place.
    """
    before = {n: h for n in handlers if (h := signal.getsignal(n)) is not None}
    try:  # a signal may interrupt this, too
        for number in before:
            signal.signal(number, handlers[number])
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


UNWANTED = "unwanted"


class CancelRequests:
    """Experiments that users want cancelled: empty files ``unwanted/DIGEST`` below *folder*.

    Files, for whoever asks and whoever drives are different processes that may begin in any order.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / UNWANTED

    def ask(self, digest: str) -> None:
        """Ask the driver that runs the experiment to cancel it."""
        with disk_errors(self._folder):
            trust.begin(self._folder.parent)
            make_folder(self._folder.parent, self._folder.name)
            refuse_link(self._folder / digest)
            (self._folder / digest).touch()

    def take_back(self, digest: str) -> None:
        """Remove a request: it was answered, or is not wanted any more."""
        (self._folder / digest).unlink(missing_ok=True)

    def asked(self, digest: str) -> bool:
        """Return whether a request is not answered yet."""
        return (self._folder / digest).exists()

    def unwanted(self) -> list[str]:
        """Return the digests of all requests."""
        with suppress(OSError):
            return os.listdir(self._folder)  # noqa: PTH208 - looked at often
        return []
