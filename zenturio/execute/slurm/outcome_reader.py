"""The thread that reads what jobs have left, as soon as it is seen."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from zenturio.errors import PlaceError, ZenError
from zenturio.execute.experiment_codec import unpack_outcome
from zenturio.execute.slurm.job_exit import cancelled_outcome
from zenturio.execute.slurm.session_folder import SlurmSession
from zenturio.execute.slurm.ticket_table import TicketTable
from zenturio.execute.worker import is_from_signal
from zenturio.experiment import Outcome

_log = logging.getLogger(__name__)

CLOSING_SECONDS = 10.0
"""Seconds that closing waits for a disk that does not answer."""
LONGEST_PAUSE_SECONDS = 1.0
"""Seconds between two looks at the folder, at the most."""


class OutcomeReader:
    """Looks into the folders of *sessions* for outcomes of tickets at the *desk*."""

    def __init__(
        self,
        desk: TicketTable,
        sessions: list[SlurmSession],
        incoming: Path,
        poll: float,
        heard: Callable[[Outcome], None],
    ) -> None:
        """*heard* gets each outcome."""
        self._desk = desk
        self._sessions = sessions
        self._incoming = incoming
        self._pause = max(min(poll / 5, LONGEST_PAUSE_SECONDS), 0.02)
        self._heard = heard
        self._closed = Event()
        self._thread = Thread(target=self._drive, name="zenturio-slurm-reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(CLOSING_SECONDS)

    def _drive(self) -> None:
        while not self._closed.wait(self._pause):
            self.read()

    def read(self) -> None:
        """Settle what has an outcome."""
        for session in list(self._sessions):
            for digest in session.ended():
                self._take(session, digest)

    def outcome(self, session: SlurmSession, digest: str) -> Outcome | None:
        """Return what can be read of that experiment; raises what its worker could not do."""
        with suppress(OSError):  # a shared disk may show it a moment later
            return self.unpacked(session.content(session.outcome(digest)), digest)
        return None

    def unpacked(self, data: bytes, digest: str) -> Outcome:
        """Return what a worker wrote of that experiment.

        PlaceError where that is no outcome of it.
        """
        return unpack_outcome(data, digest, self._incoming)

    def _take(self, session: SlurmSession, digest: str) -> None:
        ticket = self._desk.find(digest)
        if ticket is None or ticket.session is not session:
            return
        try:
            outcome = self.outcome(session, digest)
        except PlaceError as error:  # another job may be luckier
            ticket.fault = error
            _log.info("outcome of %.12s cannot be used: %s", digest, error)
            session.outcome(digest).unlink(missing_ok=True)
            return
        except ZenError as error:
            self._desk.settle(ticket, error)
            session.drop(digest)
            return
        if outcome is None:
            return
        if ticket.cancel_requested:
            outcome = cancelled_outcome(digest, outcome)
        # A job that is cancelled or preempted gets SIGTERM: that says nothing of the experiment.
        elif is_from_signal(outcome):  # of a job that an earlier version submitted
            session.outcome(digest).unlink(missing_ok=True)
            return
        _log.debug("outcome of %.12s read: %s", digest, outcome.status)
        self._heard(outcome)
        self._desk.settle(ticket, outcome)
