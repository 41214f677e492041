"""Accounts of the portal: single-use links, sessions, passwords, users, and a trusted proxy.

Named users have a password, or a proxy in front of the portal names them. Whoever comes by a link
that the owner of the process handed out is the owner, who may do everything.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from starlette.datastructures import Headers

from zenturio.errors import ConflictError, InputError
from zenturio.study.service.service_config import ServiceUser


@dataclass(frozen=True)
class PortalUser:
    """A user who is logged in."""

    name: str = ""
    """Empty for the owner of the process."""
    role: str = "run"
    """``look``, or ``run``: may also change things."""


@dataclass(frozen=True)
class PasswordHash:
    """A password, of which only a hash is kept."""

    salt: bytes
    hash: bytes

    @classmethod
    def of(cls, text: str) -> PasswordHash:
        salt = secrets.token_bytes(16)
        return cls(salt, _hash(text, salt))

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """Return the hash that `text` wrote; raise InputError if it is not one."""
        kind, _, rest = text.partition(":")
        try:
            salt, digest = (base64.b64decode(part, validate=True) for part in rest.split(":"))
        except ValueError:
            kind = ""
        if kind != "scrypt":
            raise InputError(
                "this is not a hashed password", hint="create one with zen serve --hash"
            )
        return cls(salt, digest)

    @property
    def text(self) -> str:
        """``scrypt:SALT:HASH``, as files keep it."""
        return ":".join(["scrypt", *(base64.b64encode(p).decode() for p in (self.salt, self.hash))])

    def matches(self, text: str) -> bool:
        return hmac.compare_digest(_hash(text, self.salt), self.hash)


def _hash(text: str, salt: bytes) -> bytes:
    return hashlib.scrypt(text.encode(), salt=salt, n=2**14, r=8, p=1)


OWNER = PortalUser()


SESSION_SECONDS = 7 * 86400.0
"""After which users have to log in again."""
IDLE_SECONDS = 12 * 3600.0
"""The same for a session that is not used."""
MOST_SESSIONS = 10_000
MOST_LINKS = 1000


@dataclass
class BrowserSession:
    """The session of a browser."""

    user: PortalUser
    started: float
    last_used: float

    def is_expired(self, now: float) -> bool:
        return now - self.started > SESSION_SECONDS or now - self.last_used > IDLE_SECONDS


@dataclass
class SessionStore:
    """Single-use links that are not used yet, and the sessions of browsers."""

    cookie: str = "zenturio"
    password: PasswordHash | None = None
    clock: Callable[[], float] = time.monotonic
    _links: dict[str, None] = field(default_factory=dict)
    _sessions: OrderedDict[str, BrowserSession] = field(default_factory=OrderedDict)

    def new_link(self) -> str:
        """Return a token that works once."""
        token = secrets.token_urlsafe(24)
        self._links[token] = None
        while len(self._links) > MOST_LINKS:
            # The oldest link goes.
            del self._links[next(iter(self._links))]
        return token

    def redeem(self, token: str) -> str | None:
        """Return a session for a token, which is then used up; None if it is not valid."""
        if token not in self._links:  # random, and looked up by its hash
            return None
        del self._links[token]
        return self.new_session()

    def new_session(self, user: PortalUser = OWNER) -> str:
        """Return the cookie of a new session; too many end the least recently used one."""
        session, now = secrets.token_urlsafe(24), self.clock()
        self._sessions[session] = BrowserSession(user, now, now)
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def user(self, header: str) -> PortalUser | None:
        """Return the user of a Cookie header; None if the session has expired or never existed."""
        cookie, now = self._cookie_value(header), self.clock()
        session = self._sessions.get(cookie)
        if session is None:
            return None
        if session.is_expired(now):
            del self._sessions[cookie]
            return None
        session.last_used = now
        # Kept in the order of use, so that the first one is the one to end.
        self._sessions.move_to_end(cookie)
        return session.user

    def end(self, header: str) -> None:
        """End the session of a Cookie header."""
        self._sessions.pop(self._cookie_value(header), None)

    def _cookie_value(self, header: str) -> str:
        try:
            cookie = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return ""
        return cookie.value if cookie is not None else ""

    def set_cookie(self, session: str, *, secure: bool) -> str:
        """Return the header that sets the cookie; *secure*: browsers send it over TLS only."""
        suffix = "; Secure" if secure else ""
        return f"{self.cookie}={session}; Path=/; HttpOnly; SameSite=Strict{suffix}"

    def clear_cookie(self) -> str:
        """Return the header that removes the cookie."""
        return f"{self.cookie}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"


USER = "user:"
"""Prefix of the address of a client at a Unix socket, before its user id."""
PROXY_HEADER = "X-Zenturio-Proxy"
"""In which a proxy sends its secret."""
UNKNOWN_USER_PASSWORD = PasswordHash.of("")
"""Compared with the password of an unknown user, so that the answer takes as long."""


@dataclass(frozen=True)
class UserDirectory:
    """The users of a portal, by name."""

    users: Mapping[str, ServiceUser] = field(default_factory=dict)
    header: str = ""
    """In which a proxy names the user."""
    proxy_secret: str = ""
    """The hash of what the proxy sends with each request."""
    proxies: tuple[str, ...] = ()
    """Addresses that it may have; any address if empty."""
    metrics_token: str = ""
    """The hash of the token with which Prometheus may read ``/metrics``, and nothing else."""
    at_socket: bool = False
    """Whether the proxy comes by a Unix socket, where the kernel says that it is the proxy."""

    def __post_init__(self) -> None:
        """Raise InputError if a password hash is malformed, or anybody could send the header."""
        if self.header and not self.proxy_secret and not self.at_socket:
            raise InputError(
                f"any process on this machine could send {self.header}",
                hint="share a secret with the proxy; create one with zen serve --proxy-secret",
            )
        for user in self.users.values():
            if user.password:
                try:
                    PasswordHash.parse(user.password)
                except InputError as error:
                    raise InputError(f"password of {user.name!r}: {error}") from None

    @property
    def has_passwords(self) -> bool:
        """Whether any user has a password."""
        return any(user.password for user in self.users.values())

    @property
    def has_logins(self) -> bool:
        """Whether users can log in by other means than the owner's link."""
        return bool(self.users) and (self.has_passwords or bool(self.header))

    def log_in(self, name: str, password: str) -> PortalUser | None:
        """Return the user if the password is right, after the same time for any name."""
        user = self.users.get(name)
        password_hash = (
            PasswordHash.parse(user.password)
            if user is not None and user.password
            else UNKNOWN_USER_PASSWORD
        )
        is_right = password_hash.matches(password)
        if user is None or not user.password or not is_right:
            return None
        return PortalUser(user.name, user.role)

    def proxy_user(self, scope: Mapping[str, Any], headers: Headers) -> PortalUser | str | None:
        """Return the user that the proxy names, or why not as a text; None if it names none."""
        if not self.header:
            return None
        names = headers.getlist(self.header)
        if not names:
            return None
        if not self.is_proxy(scope, headers):
            return f"only the proxy may send {self.header}, with its secret"
        if len(names) > 1 or names[0] not in self.users:
            return "this user may not use the portal"
        user = self.users[names[0]]
        return PortalUser(user.name, user.role)

    def may_read_metrics(self, headers: Headers) -> bool:
        """Return whether a request brings the token for metrics."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not self.metrics_token:
            return False
        return hmac.compare_digest(hash_secret(token.strip()), self.metrics_token)

    def is_proxy(self, scope: Mapping[str, Any], headers: Headers) -> bool:
        """Return whether a request comes through the proxy.

        It knows the secret; where there is none, it connects to the Unix socket.
        """
        if not self.proxy_secret:
            return self.at_socket and _is_socket_user(scope)
        sent = headers.getlist(PROXY_HEADER)
        if len(sent) != 1:
            return False
        if not hmac.compare_digest(hash_secret(sent[0]), self.proxy_secret):
            return False
        client = scope.get("client") or ("", 0)
        return not self.proxies or self._is_allowed_proxy(str(client[0]))

    def client(self, scope: Mapping[str, Any], headers: Headers) -> str:
        """Return the address of the client; a proxy names it last in the header."""
        if self.is_proxy(scope, headers) or _is_socket_user(scope):
            # The last address is the one that the proxy itself added; those before it anybody can
            # send.
            forwarded = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
            if forwarded:
                return forwarded[:100]
        return str((scope.get("client") or ("", 0))[0])

    def _is_allowed_proxy(self, client: str) -> bool:
        try:
            address = ip_address(client)
        except ValueError:
            return False
        # A socket for both families shows 10.0.0.7 as ::ffff:10.0.0.7.
        mapped = getattr(address, "ipv4_mapped", None)
        return any(ip_address(proxy) in (address, mapped) for proxy in self.proxies)


def _is_socket_user(scope: Mapping[str, Any]) -> bool:
    """Return whether a request comes by the Unix socket, where only the proxy may connect."""
    return str((scope.get("client") or ("", 0))[0]).startswith(USER)


def hash_secret(secret: str) -> str:
    """Return what zenturio.toml keeps of a random secret."""
    return "sha256:" + hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


# Limits on login attempts: guessing passwords is slow, and slows nobody else down
#
# After some failed attempts, an address is blocked for that user name; each further failure
# doubles the time. Hashing a password is expensive on purpose, so few are hashed at a time, one
# per address, and addresses with failed attempts wait behind the others. If too many wait,
# attempts are refused.

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
