"""Experiments at a place: submitted, completed, taken back, cancelled."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, replace
from queue import SimpleQueue
from time import time

from zenturio.errors import PlaceError
from zenturio.execute.executor import AdaptsToRuntime, EmitsMessages, Executor, Resumable
from zenturio.experiment import Outcome
from zenturio.failpoints import Failpoint
from zenturio.study.driver.experiment_states import (
    Finished,
    Returned,
    StopRequested,
    TrackedExperiment,
)

SUBMITTED = Failpoint("study.submitted")
ENDED = Failpoint("study.ended")


@dataclass(frozen=True, slots=True)
class Completed:
    """The future of an experiment is done: it has an outcome, an error, or was cancelled."""

    tracked: TrackedExperiment
    future: Future[Outcome]


@dataclass(frozen=True, slots=True)
class SourceChanged:
    """The source may have new experiments: the driver asks it at once."""


Inbox = SimpleQueue[Completed | StopRequested | SourceChanged]
"""What other threads and signal handlers tell a driver; ``put`` may interrupt itself."""


class InFlight:
    """The experiments that an executor has.

    Their futures complete in threads of the executor; these only write to the *inbox*.
    """

    def __init__(self, executor: Executor, inbox: Inbox) -> None:
        self.slots = executor.slots
        self._executor = executor
        self._resumable = executor if isinstance(executor, Resumable) else None
        self._speaking = executor if isinstance(executor, EmitsMessages) else None
        self._adapting = executor if isinstance(executor, AdaptsToRuntime) else None
        self._futures: dict[str, Future[Outcome]] = {}
        self._inbox = inbox

    def __len__(self) -> int:
        return len(self._futures)

    @property
    def wants(self) -> int:
        """How many experiments the place likes to have, if that is more than usual."""
        return getattr(self._executor, "wants", 0)

    def submit(self, tracked: TrackedExperiment) -> None:
        """Submit an experiment; its completion is put into the inbox."""
        future = self._executor.submit(tracked.experiment)
        self._futures[tracked.experiment.digest] = future
        # The callback runs in a thread of the executor, or here if the future is completed already.
        inbox = self._inbox
        future.add_done_callback(lambda completed: inbox.put(Completed(tracked, completed)))
        SUBMITTED()

    def take_in(self, completed: Completed) -> Finished | Returned:
        """Return what came of an experiment; PlaceError where the place itself failed."""
        tracked, future = completed.tracked, completed.future
        digest = tracked.experiment.digest
        self._futures.pop(digest, None)
        if future.cancelled():
            return Returned(tracked, time())
        try:
            outcome = future.result()
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            raise PlaceError(f"experiment {digest[:12]}: {reason}") from error
        ENDED()
        # Where jobs outlive drivers it may have run for an earlier claim; it counts for this one.
        if outcome.attempt != tracked.attempt:
            outcome = replace(outcome, attempt=tracked.attempt)
        return Finished(tracked, outcome)

    def cancel(self, digest: str) -> None:
        """Cancel an experiment, whether it runs or waits for a slot."""
        if (future := self._futures.get(digest)) is not None:
            future.cancel()

    def cancel_queued(self) -> None:
        """Cancel the experiments that wait for a slot; those that run go on."""
        for future in list(self._futures.values()):
            if not future.running():
                future.cancel()

    def cancel_all(self) -> None:
        """Cancel all experiments, also those that run."""
        for future in list(self._futures.values()):
            future.cancel()

    def forget(self, digest: str) -> None:
        """Let a place whose experiments outlive drivers drop an outcome that is recorded."""
        if self._resumable is not None:
            self._resumable.forget(digest)

    def learn(self, outcome: Outcome) -> None:
        """Let a place that goes by run times know an outcome that was cached."""
        if self._adapting is not None:
            self._adapting.learn(outcome)

    def remarks(self) -> tuple[str, ...]:
        """Return what the place has to say to its user, each remark once."""
        remarks = self._speaking.remarks if self._speaking is not None else ()
        return tuple(remarks.popleft() for _ in range(len(remarks))) if remarks else ()
