"""Progress of all studies, polled once for everybody: another open page costs nothing."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Literal

from zenturio.errors import RecordError, ZenError
from zenturio.record import Lease, Repository
from zenturio.record.entities import StudyStanding
from zenturio.study.overview import StudyStatus
from zenturio.system.processes import process_birth

StudyState = Literal["running", "silent", "stopped", "done", "empty"]
"""It has a driver; its driver is gone or silent; experiments are left and there is no driver; all
experiments are finished; it has no experiments."""

RATE_SECONDS = 20.0
"""Over which a rate is averaged."""
CLOCK_SKEW_SECONDS = 5.0
"""That our clock may differ from the database's."""
POLL_SECONDS = 1.0
IDLE_POLL_SECONDS = 5.0
"""While no page listens."""
SHARED_SECONDS = 0.3
"""For which one poll serves all requests."""
MOST_IDLE_POLLED = 50
"""Studies without a driver in one poll; the others are in the next ones."""


@dataclass(frozen=True)
class StudySnapshot:
    """The progress of one study at one moment."""

    standing: StudyStatus
    rate: float = 0.0
    """Experiments that finish per second, lately."""
    last_active: float = 0.0
    """Seconds since 1970."""
    state: StudyState = "done"

    @property
    def name(self) -> str:
        return self.standing.study

    @property
    def seconds_left(self) -> float | None:
        """An estimate by the rate; None if there is none."""
        return self.standing.left / self.rate if self.rate > 0 and self.standing.left else None

    @property
    def finished(self) -> int:
        return self.standing.ok + self.standing.warmup + self.standing.failed

    @property
    def expected(self) -> int:
        """How many experiments the study will have."""
        return max(self.standing.planned, self.standing.total)


Poll = Callable[[], tuple[StudySnapshot, ...]]


@dataclass
class _History:
    """What is kept of a study between two polls."""

    snapshot: StudySnapshot
    drivers: tuple[int, ...]
    samples: deque[tuple[float, int]] = field(default_factory=deque)
    """Times, and how many results there were then."""

    def add_sample(self, now: float, finished: int) -> float:
        """Return the rate with one more sample."""
        if self.samples and self.samples[-1][1] > finished:  # failed ones are run again
            self.samples.clear()
        self.samples.append((now, finished))
        while len(self.samples) > 2 and now - self.samples[0][0] > RATE_SECONDS:
            self.samples.popleft()
        start, before = self.samples[0]
        return (finished - before) / (now - start) if now > start else 0.0


class StudyWatcher:
    """Polls all studies, and wakes the pages that wait for changes.

    `poll` may be called from any thread; everything else belongs to the event loop.
    """

    def __init__(self, repository: Callable[[], Repository]) -> None:
        self._repository = repository
        self._last_repository: Repository | None = None
        self._histories: dict[str, _History] = {}
        self._first_idle = 0
        self._lock = Lock()
        self._polled_at = -SHARED_SECONDS
        self._newest: tuple[StudySnapshot, ...] = ()
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._listeners = 0
        self.latest: tuple[StudySnapshot, ...] = ()
        """The result of the latest poll of `poll_forever`."""
        self.database_error = ""
        """Why the database does not answer now; empty if it does."""

    def poll(self, *, anew: bool = False) -> tuple[StudySnapshot, ...]:
        """Return all studies; none while there is no repository.

        Unless *anew*, the result of another poll of just now may be returned.
        """
        with self._lock:
            if anew or time.monotonic() - self._polled_at > SHARED_SECONDS:
                self._newest = self._poll()
                self._polled_at = time.monotonic()
            return self._newest

    def _poll(self) -> tuple[StudySnapshot, ...]:
        try:
            repository = self._repository()
            if repository is not self._last_repository:
                self._histories.clear()
                self._last_repository = repository
            studies = repository.studies()
            self.database_error = ""
        except RecordError as error:  # it may come back: keep showing the last state
            self.database_error = str(error)
            return self._newest
        except ZenError:
            self._histories.clear()
            self.database_error = ""
            return ()
        names = {study.name for study in studies}
        skipped = self._skipped([study.name for study in studies])
        for standing in repository.standings(names - skipped):
            self._poll_study(standing)
        self._histories = {n: history for n, history in self._histories.items() if n in names}
        histories = (self._histories.get(study.name) for study in studies)
        return tuple(history.snapshot for history in histories if history is not None)

    def _skipped(self, names: list[str]) -> set[str]:
        """Return the idle studies that have to wait for a later poll."""
        idle = [n for n in names if n in self._histories and not self._has_driver(n)]
        skipped = {
            idle[(self._first_idle + i) % len(idle)] for i in range(len(idle) - MOST_IDLE_POLLED)
        }
        self._first_idle += MOST_IDLE_POLLED
        return skipped

    def _has_driver(self, name: str) -> bool:
        return self._histories[name].snapshot.state in ("running", "silent")

    def _poll_study(self, recorded: StudyStanding) -> None:
        name, counts, drivers = recorded.info.name, recorded.counts, recorded.leases
        results = recorded.results
        numbers = tuple(lease.number for lease in drivers)
        history = self._histories.get(name)
        if (
            history is not None
            and not numbers
            and not history.drivers
            and history.snapshot.standing.counts == counts
            and history.snapshot.standing.results == results
        ):
            return
        planned = int(recorded.notes.get("experiments", 0))
        created = recorded.info.created
        standing = StudyStatus(name, created, counts, planned, drivers, results=results)
        if history is None:
            history = _History(StudySnapshot(standing), numbers)
        history.drivers = numbers
        history.snapshot = replace(
            history.snapshot,
            standing=standing,
            rate=history.add_sample(time.monotonic(), sum(result.count for result in results)),
            last_active=_last_active(standing, history.snapshot, recorded.last_event),
            state=state_of(standing),
        )
        self._histories[name] = history

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Poll often while in this context."""
        self._listeners += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._listeners -= 1

    async def poll_forever(
        self, run: Callable[[Poll], Awaitable[tuple[StudySnapshot, ...]]]
    ) -> None:
        """Poll until cancelled; *run* calls a poll in a thread."""
        while True:
            snapshots = await run(self.poll)
            if snapshots != self.latest:
                self.latest = snapshots
                # Whoever waits has the old event; later ones wait for the next change.
                self._changed.set()
                self._changed = asyncio.Event()
            if self._listeners:
                await asyncio.sleep(POLL_SECONDS)
            else:
                self._wanted.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), IDLE_POLL_SECONDS)

    async def wait_for_change(self, seconds: float) -> bool:
        """Return True after a change, or False if there was none for *seconds*."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        return True


def state_of(standing: StudyStatus) -> StudyState:
    """Return the state of a study."""
    if any(not is_gone(lease) for lease in standing.drivers):
        return "running"
    if standing.drivers and standing.left:
        return "silent"
    if standing.left:
        return "stopped"
    return "done" if standing.total else "empty"


def is_gone(lease: Lease) -> bool:
    """Return whether a driver has certainly ended, or its lease has expired."""
    if lease.until + CLOCK_SKEW_SECONDS < time.time():
        return True
    return lease.host == socket.gethostname() and process_birth(lease.pid) is None


def _last_active(standing: StudyStatus, before: StudySnapshot, last_event: float) -> float:
    """Return when a driver renewed its lease last, or the time of the study's last event."""
    if standing.drivers:
        return max(lease.until - lease.seconds for lease in standing.drivers)
    is_same = before.standing.counts == standing.counts and not before.standing.drivers
    if before.last_active and is_same:
        return before.last_active
    return last_event
