"""Guesses of passwords: what they cost whoever guesses, and nobody else.

After some wrong guesses the way of that address to that name is closed for a while, which doubles
with each further one. Hashing a
password takes a processor long, on purpose: so few are hashed at a time, one of each address, and
addresses that guessed wrong wait behind those that did not. What cannot wait is refused at once.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

import anyio
import anyio.to_thread

from zenturio.errors import ConflictError

T = TypeVar("T")

AT_ONCE = 2
"""Passwords that are hashed at a time; each takes 16 MB and some 50 ms."""
MOST_WAITING = 64
MOST_OF_ONE = 8
"""Guesses that wait, of all addresses and of one."""
FREE = 3
"""Wrong guesses that cost nothing: people mistype."""
LONGEST_SECONDS = 60.0
"""For which a way is closed after many wrong guesses."""
FORGOTTEN_SECONDS = 900.0
"""After which a wrong guess does not count any longer."""
MOST_KNOWN = 10_000
"""Ways that are remembered: to push one out of memory takes longer than it is closed."""


class TooManyGuessesError(ConflictError):
    """Not now; *seconds* says when again."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, round(seconds))
        unit = "second" if self.seconds == 1 else "seconds"
        super().__init__(f"too many guesses: try again in {self.seconds} {unit}")


@dataclass
class _Wrong:
    """Wrong guesses."""

    count: int = 0
    last: float = 0.0

    def closed_until(self) -> float:
        if self.count <= FREE:
            return 0.0
        # Not a power of any size: who guesses a thousand times would overflow it.
        return self.last + min(2.0 ** min(self.count - FREE - 1, 30), LONGEST_SECONDS)


@dataclass(order=True)
class _Waiting:
    """A guess that waits: those with the fewest wrong ones of their address go first."""

    wrong: int
    number: int
    turn: asyncio.Future[None] = field(compare=False)
    address: str = field(compare=False)


class LoginAttempts:
    """Who may guess when; of one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ways: OrderedDict[tuple[str, str], _Wrong] = OrderedDict()
        self._addresses: OrderedDict[str, _Wrong] = OrderedDict()
        self._waiting: list[_Waiting] = []
        self._hashing: list[str] = []
        self._number = 0
        self._threads: anyio.CapacityLimiter | None = None

    async def check(self, client: str, name: str, verify: Callable[[], T | None]) -> T | None:
        """Return what *verify* finds out in a thread; None is a wrong guess.

        TooManyGuessesError if the way of this address to the name is closed, or too many wait.
        """
        address = network(client)
        way = address, sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
        self._open(way)
        await self._take_turn(address)
        try:
            self._open(way)  # others of the same way may have guessed wrong meanwhile
            found = await anyio.to_thread.run_sync(verify, limiter=self._limiter())
        finally:
            self._hashing.remove(address)
            self._next()
        if found is None:
            _count(self._ways, way, self._clock())
            _count(self._addresses, address, self._clock())
        else:
            self._ways.pop(way, None)
        return found

    def _open(self, way: tuple[str, str]) -> None:
        wait = self._wrong(self._ways, way).closed_until() - self._clock()
        if wait > 0:
            raise TooManyGuessesError(wait)

    def _wrong(self, known: OrderedDict[T, _Wrong], key: T) -> _Wrong:
        wrong = known.get(key)
        if wrong is not None and self._clock() - wrong.last > FORGOTTEN_SECONDS:
            del known[key]
            wrong = None
        return wrong or _Wrong()

    async def _take_turn(self, address: str) -> None:
        """Wait for a thread; in front of all whose addresses have guessed wrong more often."""
        mine = sum(each.address == address for each in self._waiting)
        if mine >= MOST_OF_ONE:
            raise TooManyGuessesError(1)
        self._number += 1
        turn = asyncio.get_running_loop().create_future()
        wrong = self._wrong(self._addresses, address).count
        waiting = _Waiting(wrong, self._number, turn, address)
        self._waiting.append(waiting)
        self._waiting.sort()
        for late in self._waiting[MOST_WAITING:]:
            late.turn.set_exception(TooManyGuessesError(1))
        del self._waiting[MOST_WAITING:]
        self._next()
        try:
            await turn
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._waiting.remove(waiting)
            if turn.done() and not turn.cancelled():  # it was given its turn in this very moment
                self._hashing.remove(address)
                self._next()
            raise

    def _next(self) -> None:
        """Give those their turn who can have it: one guess of each address at a time."""
        for waiting in list(self._waiting):
            if len(self._hashing) >= AT_ONCE:
                return
            if waiting.address not in self._hashing:
                self._waiting.remove(waiting)
                self._hashing.append(waiting.address)
                waiting.turn.set_result(None)

    def _limiter(self) -> anyio.CapacityLimiter:
        """Threads of their own: pages wait for no password."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(AT_ONCE)
        return self._threads


def network(client: str) -> str:
    """Whoever has an IPv6 address has the 2^64 beside it, too: they count as one."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)


def _count(known: OrderedDict[T, _Wrong], key: T, now: float) -> None:
    wrong = known.setdefault(key, _Wrong())
    wrong.count, wrong.last = wrong.count + 1, now
    known.move_to_end(key)
    while len(known) > MOST_KNOWN:
        known.popitem(last=False)
