"""What places hand out: the future of an outcome."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from zenturio.experiment import MachineKind, Outcome


class CancellableFuture(Future[Outcome]):
    """The future of an experiment; cancelling it while it runs kills the experiment."""

    def __init__(self) -> None:
        super().__init__()
        self.cancel_requested = False
        """Whether it is to end before its time."""
        self.setup = ""
        """What the place runs before: a part of the kind of machine that an outcome belongs to."""

    def set_result(self, outcome: Outcome) -> None:
        """What came of it, with what the place ran before."""
        if self.setup:
            machine = replace(outcome.machine or MachineKind(), setup=self.setup)
            outcome = replace(outcome, machine=machine)
        super().set_result(outcome)

    def cancel(self) -> bool:
        """Take it off, or kill it; false where it is over already."""
        # It waits: the executor will see that and drop it. Running ones are asked to end below.
        if super().cancel():
            return True
        if self.done():
            return False
        self.cancel_requested = True
        self.stop()
        return True

    def stop(self) -> None:
        """End what runs for it now, if anything does."""
        raise NotImplementedError
