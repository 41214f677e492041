"""What places hand out: the future of an outcome."""

from __future__ import annotations

from concurrent.futures import Future

from zenturio.experiment import Outcome


class Stoppable(Future[Outcome]):
    """The future of an experiment; cancelling it while it runs kills the experiment."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = False
        """Whether it is to end before its time."""

    def cancel(self) -> bool:
        """Takes it off, or kills it; false where it is over already."""
        if super().cancel():
            return True
        if self.done():
            return False
        self.stopped = True
        self.stop()
        return True

    def stop(self) -> None:
        """Ends what runs for it now, if anything does."""
        raise NotImplementedError
