"""The seam between what would be run and where it runs."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from zenturio.experiment import Experiment, Outcome


class Executor(Protocol):
    """A place where experiments run; *slots* says how many at once.

    The future fails only if the place itself does (PlaceError): what a program does is an outcome.
    Cancelling a future that waits takes it off; cancelling one that runs kills the experiment,
    whose outcome then has the status ``cancelled``.
    """

    slots: int

    def submit(self, experiment: Experiment) -> Future[Outcome]: ...

    def close(self) -> None:
        """Kills what runs, cancels what waits, and leaves no process and no file behind."""
        ...
