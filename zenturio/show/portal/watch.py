"""Where studies stand, looked at now and then for everybody: a page more costs nothing."""

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
from zenturio.record.driver import born
from zenturio.study.look import Standing

Life = Literal["running", "silent", "stopped", "done", "empty"]
"""Somebody drives it; its driver is gone or silent; something is left and nobody drives; nothing
is left; nothing was ever added."""

WINDOW = 20.0
"""Seconds over which a rate is taken."""
SLACK = 5.0
"""Seconds that our clock may differ from the database's."""
OFTEN = 1.0
SELDOM = 5.0
"""Seconds between two looks: while somebody looks on, and while nobody does."""
JUST = 0.3
"""Seconds within which one look serves all who ask."""
IDLE = 50
"""Studies without a driver that are looked at in one go; the others have their turn next."""


@dataclass(frozen=True)
class Seen:
    """One study at one moment."""

    standing: Standing
    rate: float = 0.0
    """Experiments that end each second, lately."""
    active: float = 0.0
    """When something happened in it last."""
    life: Life = "done"

    @property
    def name(self) -> str:
        return self.standing.study

    @property
    def left(self) -> float | None:
        """Seconds that it may still take."""
        return self.standing.left / self.rate if self.rate > 0 and self.standing.left else None

    @property
    def done(self) -> int:
        return self.standing.ok + self.standing.failed

    @property
    def whole(self) -> int:
        """As many experiments as it is to have."""
        return max(self.standing.planned, self.standing.total)


Look = Callable[[], tuple[Seen, ...]]


@dataclass
class _Memory:
    """What is remembered of a study between two looks."""

    seen: Seen
    drivers: tuple[int, ...]
    ended: deque[tuple[float, int]] = field(default_factory=deque)

    def rate(self, now: float, done: int) -> float:
        """The rate, with one more look."""
        if self.ended and self.ended[-1][1] > done:  # somebody runs the failed ones again
            self.ended.clear()
        self.ended.append((now, done))
        while len(self.ended) > 2 and now - self.ended[0][0] > WINDOW:
            self.ended.popleft()
        began, before = self.ended[0]
        return (done - before) / (now - began) if now > began else 0.0


class Watch:
    """Looks at all studies, and wakes those who wait for what is new."""

    def __init__(self, repository: Callable[[], Repository]) -> None:
        self._repository = repository
        self._last: Repository | None = None
        self._known: dict[str, _Memory] = {}
        self._turn = 0
        self._one = Lock()
        self._looked = -JUST
        self._newest: tuple[Seen, ...] = ()
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._listeners = 0
        self.now: tuple[Seen, ...] = ()
        """The newest look."""
        self.away = ""
        """Why the database does not answer now."""

    def look(self, *, anew: bool = False) -> tuple[Seen, ...]:
        """Look once more; nothing at all while there is no repository.

        Unless *anew*, somebody else's look of just now will do.
        """
        with self._one:
            if anew or time.monotonic() - self._looked > JUST:
                self._newest = self._look()
                self._looked = time.monotonic()
            return self._newest

    def _look(self) -> tuple[Seen, ...]:
        try:
            repository = self._repository()
            if repository is not self._last:
                self._known.clear()
                self._last = repository
            studies = repository.studies()
            self.away = ""
        except RecordError as error:  # it may come back: what was seen last still stands there
            self.away = str(error)
            return self._newest
        except ZenError:
            self._known.clear()
            self.away = ""
            return ()
        idle = [s.name for s in studies if s.name in self._known and not self._lively(s.name)]
        rest = {idle[(self._turn + i) % len(idle)] for i in range(len(idle) - IDLE)}
        self._turn += IDLE
        for study in studies:
            if study.name not in rest:
                with suppress(ZenError):  # it went meanwhile
                    self._look_at(repository, study.name, study.created)
        names = {study.name for study in studies}
        self._known = {name: each for name, each in self._known.items() if name in names}
        return tuple(self._known[s.name].seen for s in studies if s.name in self._known)

    def _lively(self, name: str) -> bool:
        return self._known[name].seen.life in ("running", "silent")

    def _look_at(self, repository: Repository, name: str, created: float) -> None:
        counts, drivers = repository.counts(name), repository.drivers(name)
        results = repository.result_counts(name)
        numbers = tuple(lease.number for lease in drivers)
        known = self._known.get(name)
        if (
            known is not None
            and not numbers
            and not known.drivers
            and known.seen.standing.counts == counts
            and known.seen.standing.results == results
        ):
            return
        if known is None or known.drivers != numbers:
            planned = int(repository.definition(name).notes.get("experiments", 0))
        else:
            planned = known.seen.standing.planned
        standing = Standing(name, created, counts, planned, drivers, results=results)
        if known is None:
            known = _Memory(Seen(standing), numbers)
        known.drivers = numbers
        rate = known.rate(time.monotonic(), sum(each.count for each in results))
        life = life_of(standing)
        active = _active(repository, standing, known.seen)
        known.seen = replace(known.seen, standing=standing, rate=rate, active=active, life=life)
        self._known[name] = known

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While somebody listens, looks are frequent."""
        self._listeners += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._listeners -= 1

    async def go_on(self, ask: Callable[[Look], Awaitable[tuple[Seen, ...]]]) -> None:
        """Look for ever; *ask* takes a look in a thread."""
        while True:
            found = await ask(self.look)
            if found != self.now:
                self.now = found
                self._changed.set()
                self._changed = asyncio.Event()
            if self._listeners:
                await asyncio.sleep(OFTEN)
            else:
                self._wanted.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), SELDOM)

    async def changed(self, patience: float) -> bool:
        """Wait until something is new; false if nothing was for so many seconds."""
        try:
            await asyncio.wait_for(self._changed.wait(), patience)
        except TimeoutError:
            return False
        return True


def life_of(standing: Standing) -> Life:
    """How it is with a study."""
    if any(not gone(lease) for lease in standing.drivers):
        return "running"
    if standing.drivers and standing.left:
        return "silent"
    if standing.left:
        return "stopped"
    return "done" if standing.total else "empty"


def gone(lease: Lease) -> bool:
    """Whether a driver has certainly ended or has been silent for longer than it may."""
    if lease.until + SLACK < time.time():
        return True
    return lease.host == socket.gethostname() and born(lease.pid) is None


def _active(repository: Repository, standing: Standing, before: Seen) -> float:
    """When something happened last: a driver's heartbeat, or what stands in the study's book."""
    if standing.drivers:
        return max(lease.until - lease.seconds for lease in standing.drivers)
    if before.active and before.standing.counts == standing.counts and not before.standing.drivers:
        return before.active
    events = repository.events(standing.study)
    return events[-1].at if events else standing.created
