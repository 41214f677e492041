"""Experiments on their way through a cluster: tickets, their table, and how their jobs ended."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock
from time import time
from typing import Literal

from zenturio.errors import PlaceError
from zenturio.execute.executor import CancellableFuture
from zenturio.execute.slurm.job_script import JobDemand
from zenturio.execute.slurm.session_folder import SlurmSession
from zenturio.execute.slurm_commands import CLUSTER_FAULTS, ArrayTask, SlurmJob
from zenturio.experiment import Experiment, Outcome, Status

LossBlame = Literal["nobody", "place", "experiment"]
"""Whose fault it may be that a job was lost."""


def cancelled_outcome(digest: str, stored: Outcome | None) -> Outcome:
    """The outcome of an experiment that was to end before its time, and may have been over."""
    if stored is None:
        now = time()
        return Outcome(digest, "cancelled", "cancelled", started=now, ended=now)
    return (
        stored if stored.status == "ok" else replace(stored, status="cancelled", cause="cancelled")
    )


def job_outcome(
    digest: str, job: SlurmJob | None, stored: Outcome | None, *, begun: bool
) -> Outcome | None:
    """The outcome of an experiment whose *job* has ended and *stored* something, or nothing.

    None stands for a job that was lost. *begun* says whether its last start began the experiment:
    else nothing that happened to the job is an outcome.
    """
    state = job.state if job else ""
    if state in ("TIMEOUT", "DEADLINE") and begun:
        return _outcome_with(digest, job, stored, "timeout", "time limit of its Slurm job")
    if state == "OUT_OF_MEMORY" and begun:
        return _outcome_with(digest, job, stored, "failed", "out of memory in its Slurm job")
    if stored is not None and stored.status != "cancelled" and not (job and job.taken):
        return stored
    return None


def loss_blame(job: SlurmJob | None, *, begun: bool) -> LossBlame:
    """Whose fault it may be that *job* was lost.

    The experiment is suspected only where it had begun and its worker died by itself.
    """
    if job is not None and job.state in CLUSTER_FAULTS:
        return "nobody"
    if job is None or not begun or job.taken:
        return "place"
    return "experiment"


def worker_died_outcome(digest: str, job: SlurmJob | None, times: int) -> Outcome:
    """Return the outcome of an experiment whose worker died each time that it began."""
    return _outcome_with(digest, job, None, "failed", f"its worker died {times} times")


def loss_message(job: SlurmJob | None) -> str:
    """Return why there is no outcome, in words."""
    if job is None:
        return "its Slurm job vanished"
    where = f" on {job.node}" if job.node else ""
    return f"its Slurm job ended{where} as {job.state}"


def _outcome_with(
    digest: str, job: SlurmJob | None, stored: Outcome | None, status: Status, cause: str
) -> Outcome:
    if stored is not None:
        return replace(stored, status=status, cause=cause)
    now, host = time(), job.node if job else ""
    return Outcome(digest, status, cause, host=host, started=now, ended=now)


class SlurmTicket(CancellableFuture):
    """The future of an experiment; cancelling it takes its job off the queue, or kills it."""

    def __init__(
        self, experiment: Experiment, session: SlurmSession, wake: Callable[[], None]
    ) -> None:
        super().__init__()
        self.experiment = experiment
        self.digest = experiment.digest
        self.demand = JobDemand.of(experiment)
        self.session = session
        """Where its parcel lies; of another driver, if its job was found again."""
        self.adopted = False
        """Whether the driver that submitted its job was another one."""
        self.task: ArrayTask | None = None
        """Which job it is, as soon as that may have been submitted."""
        self.began = False
        """Whether the queue has shown it running."""
        self.cancel_sent = False
        """Whether Slurm was asked to end it."""
        self.losses: Counter[LossBlame] = Counter()
        """How many of its jobs were lost, by whose fault that may be."""
        self.fault: PlaceError | None = None
        """What its job could not do: the place's fault."""
        self.gone_since: float | None = None
        """When its job disappeared from the queue, by the monotonic clock."""
        self.recalled = False
        """Whether Slurm was asked to take it off if it has not begun: a pilot is to have it."""
        self.alone = False
        """Whether it is to have a job of its own: a pilot could not see it to its end."""
        self._pilot: Future[Outcome] | None = None
        self._wake = wake
        self._is_started = False

    def restart(self) -> None:
        """Its job was lost, and another one is to run it."""
        self.task = self.gone_since = self.fault = None
        self.began = self.cancel_sent = self.recalled = False

    def start(self) -> bool:
        """Return whether it may be submitted; from now on its end is for Slurm to bring about."""
        if not self._is_started:
            self._is_started = self.set_running_or_notify_cancel()
        return self._is_started

    def running(self) -> bool:
        """Return whether it runs, as far as the queue was looked at; what waits there does not."""
        if self._pilot is not None:
            return self._pilot.running() and not self.done()
        return self.began and not self.done()

    def delegate(self, pilot: Future[Outcome] | None) -> None:
        """From now on it is what a worker that stays makes of it; or Slurm has it again."""
        self._pilot = pilot
        self.recalled = self.began = False
        if self.cancel_requested:
            self.stop()

    def cancel(self) -> bool:
        """Take it off, or kill it; false where it is over already."""
        is_cancelled = super().cancel()
        if self.cancelled():
            self._wake()
        return is_cancelled

    def stop(self) -> None:
        if self._pilot is not None:
            self._pilot.cancel()
        else:
            self._wake()


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
            accepted: list[SlurmTicket] = []
            skipped: list[SlurmTicket] = []
            while self._waiting and len(accepted) < room:
                ticket = self._waiting.popleft()
                if accepted and ticket.demand != accepted[0].demand:
                    skipped.append(ticket)
                elif ticket.start():
                    accepted.append(ticket)
                else:  # it was cancelled
                    ticket.session.drop(ticket.digest)
            self._waiting.extendleft(reversed(skipped))
            return accepted

    def take_matching(self, chosen: Callable[[SlurmTicket], bool]) -> list[SlurmTicket]:
        """Return all that wait and are *chosen*, and were not cancelled."""
        with self._lock:
            accepted: list[SlurmTicket] = []
            skipped: deque[SlurmTicket] = deque()
            for ticket in self._waiting:
                if not chosen(ticket):
                    skipped.append(ticket)
                elif ticket.start():
                    accepted.append(ticket)
                else:  # it was cancelled
                    ticket.session.drop(ticket.digest)
            self._waiting = skipped
            return accepted

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
