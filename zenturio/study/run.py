"""Drive a study to its end: keep the place busy, record in groups, survive what happens."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from time import monotonic

from zenturio.annotate import Goal
from zenturio.errors import Interrupted
from zenturio.execute import Executor
from zenturio.experiment import Experiment, Outcome
from zenturio.expression import Value
from zenturio.record import Lease, Repository
from zenturio.study.goal import Best
from zenturio.study.progress import Failures, Meter, Progress, Summary
from zenturio.study.supply import Only, Ready, Supply

GROUP = 256
"""Outcomes that are committed together at the most."""
WAIT = 0.05
"""Seconds that an outcome waits for others at the most before it is committed."""
AHEAD = 0.25
"""Seconds of work that are claimed ahead: enough for the place never to wait."""
LEASE = 60.0
ELSEWHERE = 1.0
"""Seconds between two looks at what other drivers hold."""

Listener = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run behaves."""

    fail_fast: bool = False
    retry: int | None = None
    """Attempts beyond the first; what the RUN line says, if none is given."""


PLAIN = Settings()


@dataclass
class _Counts:
    """What a run has counted so far."""

    known: int = 0
    ok: int = 0
    failed: int = 0


class Run:
    """One driver at one study, from its first claim to its last commit."""

    def __init__(
        self,
        study: str,
        lease: Lease,
        repository: Repository,
        executor: Executor,
        experiments: Iterator[Experiment],
        total: int,
        *,
        only: frozenset[Only] = frozenset({"missing"}),
        goals: tuple[Goal, ...] = (),
        settings: Settings = PLAIN,
        listener: Listener = lambda _progress: None,
    ) -> None:
        self._study = study
        self._lease = lease
        self._repository = repository
        self._executor = executor
        self._total = total
        self._settings = settings
        self._listener = listener
        self._best = Best(goals)
        self._counts = _Counts()
        self._failures: dict[str, Failures] = {}
        self._meter = Meter()
        self._done: SimpleQueue[tuple[Ready, Future[Outcome]] | None] = SimpleQueue()
        self._again: deque[Ready] = deque()
        self._running: dict[str, Future[Outcome]] = {}
        self._ended: list[tuple[Ready, Outcome]] = []
        self._oldest = 0.0
        self._stops = 0
        self._failed_fast = False
        self._supply = Supply(study, lease.number, repository, experiments, only, self._recalled)

    def look_ahead(self) -> tuple[int, int]:
        """Make the first batch; how many experiments it had, and how many of them are known."""
        made = self._supply.look_ahead()
        return made, self._counts.known

    def drive(self) -> Summary:
        """Run until nothing is left, or until somebody stops it."""
        began = monotonic()
        with self._signals():
            try:
                self._loop()
            finally:
                self._commit()
        summary = Summary(
            self._study,
            self._total,
            self._counts.known,
            self._counts.ok,
            self._counts.failed,
            self._total - self._counts.known - self._counts.ok - self._counts.failed,
            monotonic() - began,
            interrupted=self._stops > 0 and not self._failed_fast,
            failures=tuple(sorted(self._failures.values(), key=lambda f: -f.count)),
            best=self._best.found,
        )
        self._tell(force=True)
        return summary

    def stop(self) -> None:
        """Take nothing more; asked again, kill what runs."""
        self._stops += 1
        self._done.put(None)

    # The loop

    def _loop(self) -> None:
        next_beat = monotonic() + self._lease.seconds / 3
        next_look = 0.0
        while True:
            if monotonic() >= next_beat:
                self._lease = self._repository.beat(self._lease)
                next_beat = monotonic() + self._lease.seconds / 3
            if self._stops == 0:
                self._fill()
                if self._supply.exhausted and self._supply.elsewhere and monotonic() >= next_look:
                    self._supply.look_elsewhere()
                    next_look = monotonic() + ELSEWHERE
            elif self._stops > 1:
                raise Interrupted(f"study {self._study} was stopped; what ran was killed")
            else:
                self._take_back()
            if not self._running and self._nothing_comes():
                return
            self._hear(min(next_beat - monotonic(), WAIT if self._ended else ELSEWHERE))
            if self._ended and (
                len(self._ended) >= GROUP or monotonic() - self._oldest >= WAIT or self._idle()
            ):
                self._commit()
            self._tell()

    def _nothing_comes(self) -> bool:
        if self._stops:
            return True
        return (
            self._supply.exhausted
            and not self._supply.elsewhere
            and not self._again
            and not self._ended
        )

    def _idle(self) -> bool:
        """Whether the place waits for what a commit may bring: a retry, or the end."""
        return not self._running

    def _fill(self) -> None:
        """Give the place what it has room for, and a little more, so that it never waits."""
        ahead = int(self._meter.rate * AHEAD)
        room = max(self._executor.slots * 2, min(ahead, GROUP)) - len(self._running)
        if room <= 0 or (len(self._running) > self._executor.slots and room < ahead // 4):
            return
        while self._again and room > 0:
            self._submit(self._again.popleft())
            room -= 1
        for ready in self._supply.take(room) if room > 0 else ():
            self._submit(ready)

    def _take_back(self) -> None:
        """Take off what the place has not begun; it waits again when the lease is given back."""
        for future in list(self._running.values()):
            if not future.running():
                future.cancel()

    def _submit(self, ready: Ready) -> None:
        future = self._executor.submit(ready.experiment)
        self._running[ready.experiment.digest] = future
        future.add_done_callback(lambda done: self._done.put((ready, done)))

    def _hear(self, seconds: float) -> None:
        """Wait until something has ended, and take all that has."""
        try:
            heard = self._done.get(timeout=max(seconds, 0.0))
            while True:
                if heard is not None:
                    self._take(*heard)
                heard = self._done.get_nowait()
        except Empty:
            return

    def _take(self, ready: Ready, future: Future[Outcome]) -> None:
        self._running.pop(ready.experiment.digest, None)
        if future.cancelled():
            return
        outcome = replace(future.result(), attempt=ready.attempt)
        if outcome.status == "cancelled":
            return  # by our own stop: it waits again, as what was taken off does
        if not self._ended:
            self._oldest = monotonic()
        self._ended.append((ready, outcome))

    # What came out

    def _commit(self) -> None:
        """Record what has ended; only then is it counted, and only then may it be retried."""
        group, self._ended = self._ended, []
        last: list[tuple[Ready, Outcome]] = []
        retried: list[tuple[Ready, Outcome]] = []
        for each in group:
            (retried if self._retries(*each) else last).append(each)
        if last:
            self._repository.record(self._study, self._lease.number, [o for _, o in last])
        for ready, outcome in last:
            self._count(ready.experiment, outcome)
        if retried:
            outcomes = [outcome for _, outcome in retried]
            self._repository.record(self._study, self._lease.number, outcomes, final=False)
            again = {ready.experiment.digest: ready.experiment for ready, _ in retried}
            granted = self._repository.claim(self._study, self._lease.number, list(again))
            self._again += (Ready(again[digest], number) for digest, number in granted.items())

    def _retries(self, ready: Ready, outcome: Outcome) -> bool:
        if outcome.status == "ok" or self._stops:
            return False
        allowed = self._settings.retry
        if allowed is None:
            allowed = max((step.retry for step in ready.experiment.steps), default=0)
        return ready.attempt <= allowed

    def _count(self, experiment: Experiment, outcome: Outcome) -> None:
        self._meter.add(1)
        if outcome.status == "ok":
            self._counts.ok += 1
            self._best.see(experiment.values, outcome)
            return
        self._counts.failed += 1
        self._fails(experiment.digest, experiment.values, outcome)
        if self._settings.fail_fast and not self._stops:
            self._failed_fast = True
            self.stop()

    def _recalled(self, experiment: Experiment, outcome: Outcome) -> None:
        self._counts.known += 1
        if outcome.status == "ok":
            self._best.see(experiment.values, outcome)
        else:
            self._fails(experiment.digest, experiment.values, outcome)

    def _fails(self, digest: str, values: Mapping[str, Value], outcome: Outcome) -> None:
        cause = outcome.cause or outcome.status
        seen = self._failures.get(cause)
        self._failures[cause] = (
            replace(seen, count=seen.count + 1) if seen else Failures(cause, 1, digest, values)
        )

    def _tell(self, *, force: bool = False) -> None:
        counts = self._counts
        left = self._total - counts.known - counts.ok - counts.failed
        rate = self._meter.rate
        self._listener(
            Progress(
                self._total,
                counts.known,
                counts.ok,
                counts.failed,
                0 if force else len(self._running),
                rate,
                left / rate if rate > 0 else None,
                self._best.name,
                self._best.last,
                self._best.found.value if self._best.found else None,
            )
        )

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C stops in order; SIGTERM and a lost terminal do it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def gently(_number: int, _frame: object) -> None:
            self.stop()

        def at_once(_number: int, _frame: object) -> None:
            self.stop()
            self.stop()

        handlers = {signal.SIGINT: gently, signal.SIGTERM: at_once, signal.SIGHUP: at_once}
        before = {number: signal.signal(number, each) for number, each in handlers.items()}
        try:
            yield
        finally:
            for number, each in before.items():
                signal.signal(number, each)
