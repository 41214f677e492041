"""What the place has of a study: submitted, heard of, taken off, or killed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from queue import Empty, SimpleQueue
from time import monotonic, time

from zenturio.errors import PlaceError
from zenturio.execute.executor import EmitsMessages, Executor, Resumable
from zenturio.experiment import Outcome
from zenturio.failpoints import Failpoint
from zenturio.study.driver.work_queue import ClaimedExperiment

SUBMITTED = Failpoint("study.submitted")
ENDED = Failpoint("study.ended")


class InFlight:
    """Experiments that were handed to a place and have not come back."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._lasting = executor if isinstance(executor, Resumable) else None
        self._talking = executor if isinstance(executor, EmitsMessages) else None
        self._away: dict[str, Future[Outcome]] = {}
        self._unwanted: set[str] = set()
        self._back: SimpleQueue[tuple[ClaimedExperiment, Future[Outcome]] | None] = SimpleQueue()

    def __len__(self) -> int:
        return len(self._away)

    def submit(self, ready: ClaimedExperiment) -> None:
        """Hands an experiment to the place."""
        future = self._executor.submit(ready.experiment)
        self._away[ready.experiment.digest] = future
        future.add_done_callback(lambda done: self._back.put((ready, done)))
        SUBMITTED()

    def hear(self, seconds: float) -> Iterator[tuple[ClaimedExperiment, Outcome | None]]:
        """All that has ended, waiting up to *seconds* for the first.

        None stands for an experiment that was not run to its end, for us or for itself.
        PlaceError where the place failed; what else has ended is heard the next time then.
        """
        try:
            heard = self._back.get(timeout=max(seconds, 0.0))
            while True:
                if heard is not None:
                    yield self._landed(*heard)
                heard = self._back.get_nowait()
        except Empty:
            return

    def wake(self) -> None:
        """Ends the waiting of ``hear``; may be called from a signal's handler."""
        self._back.put(None)

    def take_back(self) -> None:
        """Takes off what the place has not begun."""
        for future in list(self._away.values()):
            if not future.running():
                future.cancel()

    def drop(self, digest: str) -> bool:
        """Cancels an experiment for good: that is its outcome. False if the place has it not."""
        future = self._away.get(digest)
        if future is None:
            return False
        self._unwanted.add(digest)
        future.cancel()
        return True

    def kill(self, patience: float) -> Iterator[tuple[ClaimedExperiment, Outcome | None]]:
        """Kills what runs; what ended all the same, until all is back or *patience* is over."""
        for future in list(self._away.values()):
            future.cancel()
        end = monotonic() + patience
        while self._away and monotonic() < end:
            try:
                yield from self.hear(end - monotonic())
            except PlaceError:
                continue  # the first of its sort has ended the run already

    def forget(self, digest: str) -> None:
        """What became of the experiment is recorded: its place need not keep it any longer."""
        if self._lasting is not None:
            self._lasting.forget(digest)

    def remarks(self) -> tuple[str, ...]:
        """What the place has to say; each is handed over once."""
        said = self._talking.remarks if self._talking is not None else ()
        return tuple(said.popleft() for _ in range(len(said))) if said else ()

    def _landed(
        self, ready: ClaimedExperiment, future: Future[Outcome]
    ) -> tuple[ClaimedExperiment, Outcome | None]:
        digest = ready.experiment.digest
        self._away.pop(digest, None)
        unwanted = digest in self._unwanted
        self._unwanted.discard(digest)
        if future.cancelled():
            return ready, _cancelled(ready) if unwanted else None
        try:
            outcome = future.result()
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            raise PlaceError(f"experiment {ready.experiment.digest[:12]}: {reason}") from error
        ENDED()
        if outcome.status == "cancelled" and not unwanted:
            return ready, None
        if outcome.attempt != ready.attempt:
            outcome = replace(outcome, attempt=ready.attempt)
        return ready, outcome


def _cancelled(ready: ClaimedExperiment) -> Outcome:
    """Of one that had not begun."""
    now = time()
    return Outcome(
        ready.experiment.digest,
        "cancelled",
        "cancelled",
        attempt=ready.attempt,
        started=now,
        ended=now,
    )
