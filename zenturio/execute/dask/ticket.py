"""An experiment on its way through a cluster, and the task that it travels in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import time

from zenturio.execute.cancellable_future import CancellableFuture
from zenturio.experiment import Experiment, Outcome


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
        """The place failed, not the experiment."""
        if not self.done():
            self.set_exception(error)

    def finish_cancelled(self) -> None:
        """It was cancelled, and nothing of it is alive."""
        self.finish(self._ended("cancelled", "cancelled"))

    def lost(self) -> None:
        """Its worker died each time that it was begun."""
        self.finish(self._ended("failed", f"its worker died {self.deaths} times"))

    def taken(self) -> None:
        """Its worker was lost, and somebody else is to run it."""
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
    """Who is to run it, if that is still there."""
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
