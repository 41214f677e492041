"""Experiments at a place, or in the driver's own thread: submitted, finished, cancelled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from signal import Signals
from time import time

from zenturio.errors import PlaceError
from zenturio.execute.executor import AdaptsToRuntime, EmitsMessages, Executor, Resumable
from zenturio.experiment import Experiment, MachineKind, Outcome
from zenturio.experiment.experiment import as_counted
from zenturio.failpoints import Failpoint
from zenturio.study.driver.experiment_states import (
    LOOK_UPS,
    Finished,
    Pair,
    Returned,
    StopRequested,
    TrackedExperiment,
)
from zenturio.study.driver.stop_requests import AT_ONCE, GENTLE
from zenturio.study.driver.study_records import OptimisticRecords

SUBMITTED = Failpoint("study.submitted")
ENDED = Failpoint("study.ended")


@dataclass(frozen=True, slots=True)
class Completed:
    """The future of an experiment is done: with an outcome, an error, or by cancellation."""

    tracked: TrackedExperiment
    future: Future[Outcome]


@dataclass(frozen=True, slots=True)
class ExperimentsAvailable:
    """The source may have new experiments: the driver asks it at once."""


Inbox = SimpleQueue[Completed | StopRequested | ExperimentsAvailable]
"""What other threads and signal handlers tell a driver; ``put`` may interrupt itself."""
Arrival = Finished | Returned | StopRequested


class InFlight:
    """The experiments that an executor has.

    Their futures complete in threads of the executor; these only write to the *inbox*.
    """

    signals: tuple[Signals, ...] = GENTLE + AT_ONCE
    """What asks the run to stop, instead of what it does else."""

    def __init__(self, executor: Executor, inbox: Inbox) -> None:
        self.judge: Callable[[Experiment, Outcome], Outcome] = lambda _experiment, outcome: outcome
        """Has the last word on what an outcome is."""
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

    @property
    def is_running(self) -> bool:
        """Whether experiments run while the driver does something else."""
        return bool(self._futures)

    def request_stop(self) -> None:
        """Ask the driver to stop; a signal handler may call it in any line of the driver."""
        self._inbox.put(StopRequested())

    def submit(self, tracked: TrackedExperiment) -> None:
        """Submit an experiment; its completion is put into the inbox."""
        future = self._executor.submit(tracked.experiment)
        self._futures[tracked.experiment.digest] = future
        # The callback runs in a thread of the executor, or here if the future is completed already.
        inbox = self._inbox
        future.add_done_callback(lambda completed: inbox.put(Completed(tracked, completed)))
        SUBMITTED()

    def restore(self, tracked: TrackedExperiment, outcome: Outcome) -> None:
        """Take in an experiment that ran for an earlier driver, which could not record it."""
        future: Future[Outcome] = Future()
        future.set_result(outcome)
        self._futures[tracked.experiment.digest] = future
        self._inbox.put(Completed(tracked, future))

    def arrivals(self, seconds: float) -> Iterator[Arrival]:
        """Wait for a message; yield what it and those behind it say, as far as they are there.

        It may be left at any time. PlaceError where the place itself failed.
        """
        try:
            message = self._inbox.get(timeout=max(seconds, 0.0))
            while True:
                if isinstance(message, Completed):
                    yield self._take_in(message)
                elif isinstance(message, StopRequested):
                    yield message
                message = self._inbox.get_nowait()
        except Empty:
            return

    def _take_in(self, completed: Completed) -> Finished | Returned:
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
        outcome = self.judge(tracked.experiment, outcome)
        return Finished([(tracked, as_counted(outcome, tracked.experiment.repeat))])

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


class SynchronousExecutor(ABC):
    """Runs experiments in the thread that asks for it: each costs less than a message would."""

    slots = 1
    wants = 0
    """How many experiments it likes to have at a time."""

    @abstractmethod
    def submit(self, experiment: Experiment) -> None:
        """Take an experiment, to be run by one of the next calls of `advance`."""

    @abstractmethod
    def advance(self) -> Iterator[tuple[Experiment, Outcome]]:
        """Run what was submitted; yield each outcome at once. The caller may leave it there."""


class Calls(SynchronousExecutor):
    """Experiments that are calls of a function, one after the other."""

    wants = LOOK_UPS

    def __init__(
        self, call: Callable[[Experiment], Outcome], machine: MachineKind | None = None
    ) -> None:
        self.machine = machine
        self._call = call
        self._queue: deque[Experiment] = deque()

    def submit(self, experiment: Experiment) -> None:
        self._queue.append(experiment)

    def advance(self) -> Iterator[tuple[Experiment, Outcome]]:
        while self._queue:
            experiment = self._queue.popleft()
            yield experiment, self._call(experiment)


class SynchronousInFlight(InFlight):
    """The experiments of a synchronous executor, which runs them while the driver waits.

    Each outcome is told to *records* at once, and to the driver when a commit is due: the next
    experiment may last for hours, and what has ended is safe before.
    """

    # Whoever runs a function in a process of his own decides what its other signals do.
    signals = GENTLE

    def __init__(
        self, executor: SynchronousExecutor, inbox: Inbox, records: OptimisticRecords
    ) -> None:
        self.slots = executor.slots
        self._calls = executor
        self._records = records
        self._inbox = inbox
        self._tracked: dict[str, TrackedExperiment] = {}
        self._finished: list[Pair] = []
        self._is_over = self._is_calling = False

    def __len__(self) -> int:
        return len(self._tracked) + len(self._finished)

    @property
    def wants(self) -> int:
        return self._calls.wants

    @property
    def is_running(self) -> bool:
        return False

    def request_stop(self) -> None:
        # Only a call may be interrupted in any line: the driver would lose count of experiments.
        if self._is_calling:
            raise KeyboardInterrupt
        super().request_stop()

    def submit(self, tracked: TrackedExperiment) -> None:
        self._tracked[tracked.experiment.digest] = tracked
        self._calls.submit(tracked.experiment)

    def restore(self, tracked: TrackedExperiment, outcome: Outcome) -> None:
        """Take in an experiment that ran for an earlier driver, which could not record it."""
        outcome = replace(outcome, attempt=tracked.attempt)
        self._records.add(tracked.experiment, outcome)
        self._finished.append((tracked, outcome))

    def arrivals(self, seconds: float) -> Iterator[Arrival]:
        """Run experiments until a commit is due; yield what came of them."""
        for arrival in super().arrivals(0.0 if self._tracked else seconds):
            self._is_over |= isinstance(arrival, StopRequested)
            yield arrival
        if self._tracked and not self._is_over:
            self._run()
        if self._finished:
            finished, self._finished = self._finished, []
            yield Finished(finished)
        while self._is_over and self._tracked:
            yield Returned(self._tracked.popitem()[1], time())

    def _run(self) -> None:
        self._is_calling = True
        try:
            for experiment, outcome in self._calls.advance():
                self._records.add(experiment, outcome)
                self._finished.append((self._tracked.pop(experiment.digest), outcome))
                if self._records.is_due:
                    return
        finally:
            self._is_calling = False

    def cancel(self, digest: str) -> None:
        """Do nothing: what runs, runs in the thread that asks for this."""

    def cancel_queued(self) -> None:
        """Run nothing more; `arrivals` returns it."""
        self._is_over = True

    def cancel_all(self) -> None:
        self._is_over = True

    def forget(self, digest: str) -> None:
        """Nothing is kept of an experiment."""

    def learn(self, outcome: Outcome) -> None:
        """Do nothing: it does not use run times."""

    def remarks(self) -> tuple[str, ...]:
        return ()
