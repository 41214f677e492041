"""Experiments that wait for a cluster of Dask: settings, tickets, and how many make one task."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from time import time
from typing import Literal

from zenturio.errors import InputError
from zenturio.execute.executor import CancellableFuture
from zenturio.experiment import Experiment, Outcome
from zenturio.settings.schema import setting

# Settings of a place that is a cluster of Dask

AUTO = "auto"
LARGEST_BATCH = 500
"""Experiments in one task, at the most."""


@dataclass(frozen=True)
class DaskOptions:
    """Where the workers are, or how they are started; nothing of it: on this machine."""

    address: str = setting("", "address of the scheduler: dask://host:8786, or tls://host:8786")
    batch: str = setting(
        AUTO, "maximum number of short experiments sent together; auto: by their measured times"
    )
    grace: float = setting(
        2.0, "seconds between the request to end a cancelled experiment and its SIGKILL", low=0
    )
    patience: float = setting(60.0, "seconds to wait for the scheduler, and for workers", low=1)
    ca: str = setting("", "tls: the file with the CA certificate")
    cert: str = setting("", "tls: the file with your certificate")
    key: str = setting("", "tls: the file with your key")
    insecure: bool = setting(False, "allow an address on another machine without tls")
    cluster: Literal["slurm"] | None = setting(None, "batch system that runs the workers as jobs")
    nodes: int = setting(1, "number of jobs", low=1, high=100_000)
    cores: int = setting(1, "CPUs of each job", low=1, high=4096)
    memory: str = setting("2GB", "memory of each job")
    walltime: str = setting("01:00:00", "time limit of each job")
    queue: str = setting("", "queue or partition of the jobs")
    account: str = setting("", "account or project of the jobs")
    lines: str = setting(
        "", "further options for the head of the script, such as --qos=long", executes=True
    )
    prologue: str = setting("", "shell commands to run before the worker starts", executes=True)
    interface: str = setting("", "network interface through which workers reach the scheduler: ib0")
    python: str = setting("", "Python of the workers; default: this one", executes=True)

    @property
    def together(self) -> int | None:
        """How many experiments make a task; none if that is to be found out."""
        if self.batch == AUTO:
            return None
        if not self.batch.isdecimal() or not 1 <= int(self.batch) <= LARGEST_BATCH:
            raise InputError(
                f"batch={self.batch} is not possible",
                hint=f"auto, or a number from 1 to {LARGEST_BATCH}",
            )
        return int(self.batch)


# Tickets, and tasks that run several of them


class DaskTicket(CancellableFuture):
    """The future of an experiment; cancelling it while it runs kills the experiment."""

    def __init__(
        self, experiment: Experiment, slots: int, stop: Callable[[DaskTicket], None]
    ) -> None:
        """For a cluster with so many *slots*; *stop* hears that it is to be killed."""
        super().__init__()
        self.experiment = experiment
        self.cpus = min(experiment.cpus, slots)
        self.number = 0
        """Its number in the task that it is in: another one each time."""
        self.is_suspect = False
        """Whether it is suspected, for a worker died: then no other suspect is in its worker."""
        self.deaths = 0
        """How many workers have died under it alone."""
        self.expired = 0
        """How often the time of its worker's job was over."""
        self._stop = stop

    def stop(self) -> None:
        self._stop(self)

    def fits_with(self, other: DaskTicket) -> bool:
        """Return whether both may be in one task."""
        return self.cpus == other.cpus and not self.is_suspect and not other.is_suspect

    def try_start(self) -> bool:
        """Return whether it is to be sent, for the first time or again: nobody took it off."""
        return self.running() or (not self.done() and self.set_running_or_notify_cancel())

    def finish(self, outcome: Outcome) -> None:
        """Set the outcome, once."""
        if not self.done():
            self.set_result(outcome)

    def fail(self, error: Exception) -> None:
        """Settle a ticket with an error of the place."""
        if not self.done():
            self.set_exception(error)

    def finish_cancelled(self) -> None:
        """Settle a cancelled ticket whose processes are all dead."""
        self.finish(self._ended("cancelled", "cancelled"))

    def lost(self) -> None:
        """Settle a ticket whose worker died each time."""
        self.finish(self._ended("failed", f"its worker died {self.deaths} times"))

    def taken(self) -> None:
        """Hand a ticket of a lost worker back, for another driver."""
        self.finish(self._ended("cancelled", "worker lost"))

    def _ended(self, status: str, cause: str) -> Outcome:
        now = time()
        return Outcome(self.experiment.digest, status, cause, started=now, ended=now)  # type: ignore[arg-type]


@dataclass(frozen=True)
class TaskBatch:
    """A task of Dask: experiments that travel together."""

    tickets: Sequence[DaskTicket]
    with_files: bool = False
    """Whether large files go with it."""
    worker: str = ""
    """The worker that is to run it, if it is still there."""
    eligible_workers: tuple[str, ...] = ()
    """Those of whom one is to run it; any, if none is named."""
    is_running: bool = False
    """Whether its experiments run already."""

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(ticket.number for ticket in self.tickets)

    @property
    def cpus(self) -> int:
        """CPUs that it takes."""
        return max(ticket.cpus for ticket in self.tickets)


TASK_SECONDS = 0.25
"""Seconds that a task takes at least, about: a hundred times what it costs Dask."""
PREFETCH_SECONDS = 1.0
"""What takes longer does not mind waiting for the way of a task, and can still be taken off."""


class BatchSizer:
    """Learns how long experiments take; *together* says it instead."""

    def __init__(self, together: int | None) -> None:
        self._together = together
        self._seconds: float | None = None

    @property
    def size(self) -> int:
        """How many make a task now."""
        if self._together is not None:
            return self._together
        if self._seconds is None:
            return 1
        return min(max(int(TASK_SECONDS / max(self._seconds, 1e-4)), 1), LARGEST_BATCH)

    @property
    def sends_ahead(self) -> bool:
        """Whether the next are sent before the last are back, for the way takes its time."""
        return self.size > 1 or (self._seconds is not None and self._seconds < PREFETCH_SECONDS)

    def observe(self, seconds: float) -> None:
        """One took so long: one that fills a task is believed at once, others when they are many.

        Short ones vary by several times with what else the machine does, and add up all the same.
        """
        average = self._seconds
        if average is None or seconds >= TASK_SECONDS:
            self._seconds = seconds
        else:
            self._seconds = average * 0.9 + seconds * 0.1

    def next_size(self, waiting: int, places: int) -> int:
        """Return how many of those *waiting* go now, where there is room for so many tasks."""
        return min(self.size, ceil(waiting / max(places, 1)))


class TicketQueue:
    """Tickets in the order in which they came; for one thread at a time.

    Short ones travel together. Suspects of having killed a worker go alone, each to a worker that
    has no other suspect.
    """

    def __init__(self, batches: BatchSizer) -> None:
        self._batches = batches
        self._waiting: deque[DaskTicket] = deque()
        self._suspects: deque[DaskTicket] = deque()
        self._ready: deque[TaskBatch] = deque()
        """Parcels that go first: they are about what was sent before."""
        self.workers: Mapping[str, int] = {}
        """How many CPUs each worker has, by its address."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._suspects) + len(self._ready)

    def put(self, ticket: DaskTicket) -> None:
        """Append a ticket."""
        self._waiting.append(ticket)

    def put_first(self, batch: TaskBatch) -> None:
        """About what was sent before: it goes before all else."""
        self._ready.append(batch)

    def put_back(self, tickets: Collection[DaskTicket]) -> None:
        """Put tickets that did not finish in front of all others."""
        self._suspects.extend(ticket for ticket in tickets if ticket.is_suspect)
        # extendleft turns the order round, and the oldest is to be the first again.
        self._waiting.extendleft(t for t in reversed(list(tickets)) if not t.is_suspect)

    def remove(self, ticket: DaskTicket) -> bool:
        """Take one off; false if it does not wait."""
        for queue in (self._waiting, self._suspects):
            with suppress(ValueError):
                queue.remove(ticket)
                return True
        return False

    def drain(self) -> list[DaskTicket]:
        """Return all that wait, taken off."""
        ready = [ticket for batch in self._ready for ticket in batch.tickets]
        waiting = [*ready, *self._waiting, *self._suspects]
        for queue in (self._ready, self._waiting, self._suspects):
            queue.clear()
        return waiting

    def fits(self, sent: Collection[TaskBatch], slots: int) -> bool:
        """Whether something can go to a cluster of so many *slots*, beside what is *sent*."""
        if self._ready:
            return True
        if self._worker_for_suspect(sent):
            first = self._suspects[0]
        elif self._waiting:
            first = self._waiting[0]
        else:
            return False
        # Sent ahead is one task more for each slot: it waits in the worker while results travel. A
        # ticket that is wider than what a shrunk cluster has left goes alone rather than never.
        busy_cpus = sum(batch.cpus for batch in sent)
        return busy_cpus == 0 or busy_cpus + first.cpus <= slots * (
            2 if self._batches.sends_ahead else 1
        )

    def next(self, sent: Collection[TaskBatch], slots: int) -> TaskBatch | None:
        """Return what goes now, taken off."""
        if not self.fits(sent, slots):
            return None
        if self._ready:
            return self._ready.popleft()
        if worker := self._worker_for_suspect(sent):
            return TaskBatch([self._suspects.popleft()], eligible_workers=(worker,))
        first = self._waiting.popleft()
        tickets = [first]
        # Spread over all free places: the last few would else be one long task beside idle workers.
        most = self._batches.next_size(len(self._waiting) + 1, 2 * slots - len(sent))
        while self._waiting and len(tickets) < most and first.fits_with(self._waiting[0]):
            tickets.append(self._waiting.popleft())
        return TaskBatch(tickets)

    def lingers(self, sent: int, slots: int) -> bool:
        """Return whether more are worth waiting for a moment: all are busy, and few are here."""
        few = 0 < len(self._waiting) < self._batches.size
        return few and not self._ready and sent >= slots

    def _worker_for_suspect(self, sent: Iterable[TaskBatch]) -> str:
        """Return a worker for the first suspect that waits, wide enough and without another one."""
        if not self._suspects:
            return ""
        suspect_workers = {
            worker for p in sent if p.tickets[0].is_suspect for worker in p.eligible_workers
        }
        cpus = min(self._suspects[0].cpus, max(self.workers.values(), default=1))
        free = (
            w for w, count in self.workers.items() if w not in suspect_workers and count >= cpus
        )
        return next(free, "")
