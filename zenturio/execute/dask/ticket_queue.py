"""What waits to be sent to a cluster, and which of it goes next."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from zenturio.execute.dask.batch_size import BatchSizer
from zenturio.execute.dask.ticket import DaskTicket, TaskBatch


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
        """One more, behind all others."""
        self._waiting.append(ticket)

    def put_first(self, batch: TaskBatch) -> None:
        """About what was sent before: it goes before all else."""
        self._ready.append(batch)

    def put_back(self, tickets: Collection[DaskTicket]) -> None:
        """Those that were not run, or not to their end: they are the next to go."""
        self._suspects.extend(ticket for ticket in tickets if ticket.is_suspect)
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
        taken = sum(batch.cpus for batch in sent)
        return taken == 0 or taken + first.cpus <= slots * (2 if self._batches.sends_ahead else 1)

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
        most = self._batches.next_size(len(self._waiting) + 1, 2 * slots - len(sent))
        while self._waiting and len(tickets) < most and first.fits_with(self._waiting[0]):
            tickets.append(self._waiting.popleft())
        return TaskBatch(tickets)

    def lingers(self, sent: int, slots: int) -> bool:
        """Return whether more are worth waiting for a moment: all are busy, and few are here."""
        few = 0 < len(self._waiting) < self._batches.size
        return few and not self._ready and sent >= slots

    def _worker_for_suspect(self, sent: Iterable[TaskBatch]) -> str:
        """A worker for the first suspect that waits, wide enough and without another one."""
        if not self._suspects:
            return ""
        taken = {worker for p in sent if p.tickets[0].is_suspect for worker in p.eligible_workers}
        cpus = min(self._suspects[0].cpus, max(self.workers.values(), default=1))
        free = (w for w, count in self.workers.items() if w not in taken and count >= cpus)
        return next(free, "")
