"""An experiment on its way through a cluster."""

from __future__ import annotations

from collections.abc import Callable

from zenturio.execute.slurm.queue import Task
from zenturio.execute.slurm.script import Demand
from zenturio.execute.slurm.session import Session
from zenturio.execute.stoppable import Stoppable
from zenturio.experiment import Outcome


class Ticket(Stoppable):
    """The future of an experiment; cancelling it takes its job off the queue, or kills it."""

    def __init__(
        self, digest: str, demand: Demand, session: Session, stir: Callable[[], None]
    ) -> None:
        super().__init__()
        self.digest = digest
        self.demand = demand
        self.session = session
        """Where its parcel lies; of another driver, if its job was found again."""
        self.adopted = False
        """Whether the driver that submitted its job was another one."""
        self.task: Task | None = None
        """Which job it is, as soon as that may have been submitted."""
        self.began = False
        """Whether the queue has shown it running."""
        self.told = False
        """Whether Slurm was asked to end it."""
        self.held: Outcome | None = None
        """What came out, if that depends on why the job ended."""
        self.gone: float | None = None
        """Since when its job is no more, by the monotonic clock."""
        self._stir = stir
        self._left = False

    def leave(self) -> bool:
        """Whether it may be submitted; from now on its end is for Slurm to bring about."""
        if not self._left:
            self._left = self.set_running_or_notify_cancel()
        return self._left

    def running(self) -> bool:
        """Whether it runs, as far as the queue was looked at; what waits there does not."""
        return self.began and not self.done()

    def cancel(self) -> bool:
        """Takes it off, or kills it; false where it is over already."""
        found = super().cancel()
        if self.cancelled():
            self._stir()
        return found

    def stop(self) -> None:
        self._stir()
