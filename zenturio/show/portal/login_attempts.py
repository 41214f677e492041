"""Limits on login attempts: guessing passwords is slow, and slows nobody else down.

After some failed attempts, an address is blocked for that user name; each further failure doubles
the time. Hashing a password is expensive on purpose, so few are hashed at a time, one per address,
and addresses with failed attempts wait behind the others. If too many wait, attempts are refused.
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

CONCURRENT_HASHES = 2
"""Passwords that are hashed at a time; each takes 16 MB and about 50 ms."""
MOST_WAITING = 64
MOST_WAITING_PER_ADDRESS = 8
"""Waiting attempts, of all addresses and of one."""
FREE_ATTEMPTS = 3
"""Failed attempts without consequences: people mistype."""
LONGEST_BLOCK_SECONDS = 60.0
"""For which an address is blocked after many failures."""
FORGET_SECONDS = 900.0
"""After which a failure no longer counts."""
MOST_REMEMBERED = 10_000
"""Entries that are kept: pushing one out takes longer than its block lasts."""


class TooManyAttemptsError(ConflictError):
    """A refused attempt; *seconds* says when to try again."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, round(seconds))
        unit = "second" if self.seconds == 1 else "seconds"
        super().__init__(f"too many attempts; try again in {self.seconds} {unit}")


@dataclass
class _FailedAttempts:
    """Failed attempts of an address, or of an address for a user name."""

    count: int = 0
    last: float = 0.0

    def blocked_until(self) -> float:
        if self.count <= FREE_ATTEMPTS:
            return 0.0
        # The exponent is bounded: a thousand attempts would overflow a float.
        return self.last + min(
            2.0 ** min(self.count - FREE_ATTEMPTS - 1, 30), LONGEST_BLOCK_SECONDS
        )


@dataclass(order=True)
class _QueuedAttempt:
    """A waiting attempt; addresses with the fewest failures go first."""

    failures: int
    number: int
    turn: asyncio.Future[None] = field(compare=False)
    address: str = field(compare=False)


class LoginAttempts:
    """Decides which login attempt is checked when. Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_name: OrderedDict[tuple[str, str], _FailedAttempts] = OrderedDict()
        self._by_address: OrderedDict[str, _FailedAttempts] = OrderedDict()
        self._waiting: list[_QueuedAttempt] = []
        self._hashing: list[str] = []
        self._number = 0
        self._threads: anyio.CapacityLimiter | None = None

    async def check(self, client: str, name: str, verify: Callable[[], T | None]) -> T | None:
        """Return what *verify* returns, called in a thread; None is a failed attempt.

        Raise TooManyAttemptsError if the address is blocked for that name, or too many wait.
        """
        address = network(client)
        key = address, sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
        self._check_block(key)
        await self._take_turn(address)
        try:
            self._check_block(key)  # other attempts may have failed in the meantime
            user = await anyio.to_thread.run_sync(verify, limiter=self._limiter())
        finally:
            self._hashing.remove(address)
            self._next()
        if user is None:
            _count_failure(self._by_name, key, self._clock())
            _count_failure(self._by_address, address, self._clock())
        else:
            self._by_name.pop(key, None)
        return user

    def _check_block(self, key: tuple[str, str]) -> None:
        wait = self._failures(self._by_name, key).blocked_until() - self._clock()
        if wait > 0:
            raise TooManyAttemptsError(wait)

    def _failures(self, entries: OrderedDict[T, _FailedAttempts], key: T) -> _FailedAttempts:
        failures = entries.get(key)
        if failures is not None and self._clock() - failures.last > FORGET_SECONDS:
            del entries[key]
            failures = None
        return failures or _FailedAttempts()

    async def _take_turn(self, address: str) -> None:
        """Wait for a thread, ahead of all addresses with more failed attempts."""
        of_address = sum(attempt.address == address for attempt in self._waiting)
        if of_address >= MOST_WAITING_PER_ADDRESS:
            raise TooManyAttemptsError(1)
        self._number += 1
        turn = asyncio.get_running_loop().create_future()
        failures = self._failures(self._by_address, address).count
        attempt = _QueuedAttempt(failures, self._number, turn, address)
        self._waiting.append(attempt)
        self._waiting.sort()
        for refused in self._waiting[MOST_WAITING:]:
            refused.turn.set_exception(TooManyAttemptsError(1))
        del self._waiting[MOST_WAITING:]
        self._next()
        try:
            await turn
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._waiting.remove(attempt)
            if turn.done() and not turn.cancelled():  # its turn came at this very moment
                self._hashing.remove(address)
                self._next()
            raise

    def _next(self) -> None:
        """Start the attempts that can be checked now: one per address at a time."""
        for attempt in list(self._waiting):
            if len(self._hashing) >= CONCURRENT_HASHES:
                return
            if attempt.address not in self._hashing:
                self._waiting.remove(attempt)
                self._hashing.append(attempt.address)
                attempt.turn.set_result(None)

    def _limiter(self) -> anyio.CapacityLimiter:
        """Return threads of their own, so that pages do not wait for passwords."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(CONCURRENT_HASHES)
        return self._threads


def network(client: str) -> str:
    """Return the address; of an IPv6 address the /64 network, which usually has one user."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)


def _count_failure(entries: OrderedDict[T, _FailedAttempts], key: T, now: float) -> None:
    failures = entries.setdefault(key, _FailedAttempts())
    failures.count, failures.last = failures.count + 1, now
    entries.move_to_end(key)
    while len(entries) > MOST_REMEMBERED:
        entries.popitem(last=False)
