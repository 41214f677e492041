"""What opens the portal: a link that is good once, then a cookie; or a password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from zenturio.errors import InputError


@dataclass(frozen=True)
class Guest:
    """Somebody who was let in."""

    name: str = ""
    """Empty: whoever runs the process."""
    role: str = "run"
    """``look``, or ``run``: may change something besides."""


@dataclass(frozen=True)
class Password:
    """A password, of which only a hash is kept."""

    salt: bytes
    hash: bytes

    @classmethod
    def of(cls, text: str) -> Password:
        salt = secrets.token_bytes(16)
        return cls(salt, _hash(text, salt))

    @classmethod
    def read(cls, text: str) -> Password:
        """What `text` said; InputError if it is nothing like it."""
        kind, _, rest = text.partition(":")
        try:
            salt, found = (base64.b64decode(part, validate=True) for part in rest.split(":"))
        except ValueError:
            kind = ""
        if kind != "scrypt":
            raise InputError("that is no hashed password", hint="zen serve --hash makes one")
        return cls(salt, found)

    @property
    def text(self) -> str:
        """As a file keeps it: ``scrypt:SALT:HASH``."""
        return ":".join(["scrypt", *(base64.b64encode(p).decode() for p in (self.salt, self.hash))])

    def matches(self, text: str) -> bool:
        return hmac.compare_digest(_hash(text, self.salt), self.hash)


def _hash(text: str, salt: bytes) -> bytes:
    return hashlib.scrypt(text.encode(), salt=salt, n=2**14, r=8, p=1)


OWNER = Guest()


SESSION_SECONDS = 7 * 86400.0
"""After which somebody has to come in again."""
IDLE_SECONDS = 12 * 3600.0
"""The same for who asked for nothing meanwhile."""
MOST_SESSIONS = 10_000
MOST_LINKS = 1000


@dataclass
class Session:
    """Somebody's cookie."""

    guest: Guest
    began: float
    used: float

    def is_over(self, now: float) -> bool:
        return now - self.began > SESSION_SECONDS or now - self.used > IDLE_SECONDS


@dataclass
class Keys:
    """Links that were not used yet, and the cookies of those who came by one."""

    cookie: str = "zenturio"
    password: Password | None = None
    clock: Callable[[], float] = time.monotonic
    _links: dict[str, None] = field(default_factory=dict)
    _sessions: OrderedDict[str, Session] = field(default_factory=OrderedDict)

    def link(self) -> str:
        """A token that is good once."""
        token = secrets.token_urlsafe(24)
        self._links[token] = None
        while len(self._links) > MOST_LINKS:
            del self._links[next(iter(self._links))]
        return token

    def redeem(self, token: str) -> str | None:
        """A session for a token, which is used up."""
        if token not in self._links:  # random, and looked up by its hash
            return None
        del self._links[token]
        return self.session()

    def session(self, guest: Guest = OWNER) -> str:
        """A new session; the one that was not used for longest goes when there are too many."""
        session, now = secrets.token_urlsafe(24), self.clock()
        self._sessions[session] = Session(guest, now, now)
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def guest(self, header: str) -> Guest | None:
        """Whose session a Cookie header holds, if it is not over."""
        name, now = self._held(header), self.clock()
        session = self._sessions.get(name)
        if session is None:
            return None
        if session.is_over(now):
            del self._sessions[name]
            return None
        session.used = now
        self._sessions.move_to_end(name)
        return session.guest

    def end(self, header: str) -> None:
        """End the session that a Cookie header holds."""
        self._sessions.pop(self._held(header), None)

    def _held(self, header: str) -> str:
        try:
            held = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return ""
        return held.value if held is not None else ""

    def set_cookie(self, session: str, *, secure: bool) -> str:
        """The header that hands out a session; *secure*: browsers send it by TLS alone."""
        rest = "; Secure" if secure else ""
        return f"{self.cookie}={session}; Path=/; HttpOnly; SameSite=Strict{rest}"

    def no_cookie(self) -> str:
        """The header that takes it back."""
        return f"{self.cookie}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
