"""An experiment on its way through a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future

from zenturio.errors import PlaceError
from zenturio.execute.cancellable_future import CancellableFuture
from zenturio.execute.slurm.job_exit import LossBlame
from zenturio.execute.slurm.job_script import JobDemand
from zenturio.execute.slurm.session_folder import SlurmSession
from zenturio.execute.slurm_commands import ArrayTask
from zenturio.experiment import Experiment, Outcome


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
        self.gone: float | None = None
        """Since when its job is no more, by the monotonic clock."""
        self.recalled = False
        """Whether Slurm was asked to take it off if it has not begun: a pilot is to have it."""
        self.alone = False
        """Whether it is to have a job of its own: a pilot could not see it to its end."""
        self._pilot: Future[Outcome] | None = None
        self._wake = wake
        self._is_started = False

    def restart(self) -> None:
        """Its job was lost, and another one is to run it."""
        self.task = self.gone = self.fault = None
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
