"""The tickets of a place: which wait, which are in the queue, and which have come back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from threading import Lock

from zenturio.execute.slurm.session_folder import SlurmSession
from zenturio.execute.slurm.ticket import SlurmTicket
from zenturio.experiment import Outcome


class TicketTable:
    """For any number of threads; a ticket is settled once. At most *slots* are in the queue."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._lock = Lock()
        self._waiting: deque[SlurmTicket] = deque()
        self._queued: dict[str, SlurmTicket] = {}
        self._settled: dict[str, SlurmSession] = {}
        self._sharing: Counter[tuple[SlurmSession, str]] = Counter()
        """How many tickets of a job array are in the queue."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._queued)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> int:
        return self._slots - len(self._queued)

    def queued(self) -> list[SlurmTicket]:
        """Return those whose jobs may have been submitted, and are not settled."""
        with self._lock:
            return list(self._queued.values())

    def find(self, digest: str) -> SlurmTicket | None:
        """Return the ticket of that experiment, if its job may have been submitted."""
        return self._queued.get(digest)

    def add(self, ticket: SlurmTicket) -> None:
        """One more waits."""
        with self._lock:
            self._waiting.append(ticket)

    def take(self, most: int) -> list[SlurmTicket]:
        """Return the first of those that wait, and others that ask for the same; what fits in."""
        with self._lock:
            room = min(most, self.room)
            taken: list[SlurmTicket] = []
            others: list[SlurmTicket] = []
            while self._waiting and len(taken) < room:
                ticket = self._waiting.popleft()
                if taken and ticket.demand != taken[0].demand:
                    others.append(ticket)
                elif ticket.start():
                    taken.append(ticket)
                else:  # it was cancelled
                    ticket.session.drop(ticket.digest)
            self._waiting.extendleft(reversed(others))
            return taken

    def take_matching(self, chosen: Callable[[SlurmTicket], bool]) -> list[SlurmTicket]:
        """Return all that wait and are *chosen*, and were not cancelled."""
        with self._lock:
            taken: list[SlurmTicket] = []
            others: deque[SlurmTicket] = deque()
            for ticket in self._waiting:
                if not chosen(ticket):
                    others.append(ticket)
                elif ticket.start():
                    taken.append(ticket)
                else:  # it was cancelled
                    ticket.session.drop(ticket.digest)
            self._waiting = others
            return taken

    def withdraw(self, ticket: SlurmTicket) -> bool:
        """Its job will not run it; false where it is settled."""
        with self._lock:
            if self._queued.pop(ticket.digest, None) is not ticket:
                return False
            self._release(ticket)
            ticket.task = None
            return True

    def enter(self, tickets: Iterable[SlurmTicket]) -> None:
        """From now on their jobs may be in the queue."""
        with self._lock:
            for ticket in tickets:
                assert ticket.task is not None
                self._queued[ticket.digest] = ticket
                self._sharing[ticket.session, ticket.task[0]] += 1

    def put_back(self, tickets: Iterable[SlurmTicket]) -> None:
        """Those that were not submitted after all: they wait again, before all others."""
        with self._lock:
            for ticket in reversed(list(tickets)):
                if self._queued.pop(ticket.digest, None) is ticket:
                    self._release(ticket)
                    ticket.task = None
                    self._waiting.appendleft(ticket)

    def settle(self, ticket: SlurmTicket, result: Outcome | Exception) -> None:
        """It is over. An outcome stays on the disk until it is forgotten.

        So does what the place could not see to the end: its job may still do so.
        """
        with self._lock:
            if self._queued.pop(ticket.digest, None) is not ticket:
                return
            if isinstance(result, Outcome) and result.status != "cancelled":
                self._settled[ticket.digest] = ticket.session
            elif isinstance(result, Outcome):
                ticket.session.drop(ticket.digest)
            self._release(ticket)
        if isinstance(result, Outcome):
            ticket.set_result(result)
        else:
            ticket.set_exception(result)

    def keep(self, digest: str, session: SlurmSession) -> None:
        """An outcome that was there before its experiment was asked for."""
        self._settled[digest] = session

    def forget(self, digest: str) -> None:
        """What is left of an experiment that is settled is not wanted any more."""
        session = self._settled.pop(digest, None)
        if session is not None:
            session.drop(digest)

    def drain(self) -> list[SlurmTicket]:
        """Return all that wait, taken off."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        return waiting

    def _release(self, ticket: SlurmTicket) -> None:
        """Its job array has one ticket less; the files of one that has none left go."""
        assert ticket.task is not None
        key = (ticket.session, ticket.task[0])
        self._sharing[key] -= 1
        if not self._sharing[key]:
            del self._sharing[key]
            if not ticket.adopted:
                ticket.session.forget(ticket.task[0])
