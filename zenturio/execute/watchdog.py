"""
A thread that looks after launchers: one that is stopped, or overdue, is killed and so replaced.

An experiment can stop its launcher (SIGSTOP), which then keeps neither TIMEOUT nor an order to end,
and a driver that waits for its reply would wait for ever.
"""

from __future__ import annotations

from threading import Event, Lock, Thread
from typing import Protocol

LOOK_SECONDS = 0.5


class Watchable(Protocol):
    """Something that kills what it depends on, if that does not go on any more."""

    def check(self) -> None: ...


class Watchdog:
    """Looks at all that it watches, twice a second; its thread begins with the first of them."""

    def __init__(self) -> None:
        self._watched: set[Watchable] = set()
        self._turn = Lock()
        self._closed = Event()
        self._thread: Thread | None = None

    def watch(self, watched: Watchable) -> None:
        """From now on."""
        with self._turn:
            self._watched.add(watched)
            if self._thread is None and not self._closed.is_set():
                self._thread = Thread(target=self._drive, name="zenturio-watchdog", daemon=True)
                self._thread.start()

    def leave(self, watched: Watchable) -> None:
        """No longer."""
        with self._turn:
            self._watched.discard(watched)

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _drive(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            with self._turn:
                # Outside of the lock: a check may end a launcher, which leaves the watchdog.
                watched = list(self._watched)
            for launcher in watched:
                launcher.check()
