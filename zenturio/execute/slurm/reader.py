"""The thread that reads what jobs have left, as soon as it is seen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from zenturio.errors import PlaceError, ZenError
from zenturio.execute.parcel import unpack_outcome
from zenturio.execute.slurm.desk import Desk
from zenturio.execute.slurm.fates import doubtful, stopped
from zenturio.execute.slurm.session import Session
from zenturio.experiment import Outcome

_LARGEST = 2**32
"""Bytes of one outcome with all of its artifacts: it is read as a whole."""
MOST = 1.0
"""Seconds between two looks at the folder, at the most."""


class Reader:
    """Looks into the folders of *sessions* for outcomes of tickets at the *desk*."""

    def __init__(
        self,
        desk: Desk,
        sessions: list[Session],
        outputs: Path,
        poll: float,
        heard: Callable[[Outcome], None],
        doubted: Callable[[], None],
    ) -> None:
        """*heard* gets each outcome; *doubted* is called where the queue must say what it means."""
        self._desk = desk
        self._sessions = sessions
        self._outputs = outputs
        self._pause = max(min(poll / 5, MOST), 0.02)
        self._heard = heard
        self._doubted = doubted
        self._closed = Event()
        self._thread = Thread(target=self._drive, name="zenturio-slurm-reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _drive(self) -> None:
        while not self._closed.wait(self._pause):
            self.read()

    def read(self) -> None:
        """Settles what has an outcome."""
        for session in list(self._sessions):
            for digest in session.ended():
                self._take(session, digest)

    def outcome(self, session: Session, digest: str) -> Outcome | None:
        """What can be read of that experiment; raises what its worker could not do."""
        with suppress(OSError):  # a shared disk may show it a moment later
            path = session.outcome(digest)
            if path.stat().st_size > _LARGEST:
                raise PlaceError(f"{path} has more than {_LARGEST} B", cure="what wrote it?")
            return unpack_outcome(path.read_bytes(), digest, self._outputs)
        return None

    def _take(self, session: Session, digest: str) -> None:
        ticket = self._desk.find(digest)
        if ticket is None or ticket.session is not session or ticket.held is not None:
            return
        try:
            outcome = self.outcome(session, digest)
        except ZenError as error:
            self._desk.settle(ticket, error)
            session.drop(digest)
            return
        if outcome is None:
            return
        if ticket.stopped:
            outcome = stopped(digest, outcome)
        elif doubtful(outcome):
            ticket.held = outcome
            self._doubted()
            return
        self._heard(outcome)
        self._desk.settle(ticket, outcome)
