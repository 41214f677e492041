"""What opens the portal: a link that is good once, then a cookie; or a password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
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
            raise InputError("that is no hashed password", cure="zen serve --hash makes one")
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


@dataclass
class Keys:
    """Links that were not used yet, and the cookies of those who came by one."""

    cookie: str = "zenturio"
    password: Password | None = None
    _links: set[str] = field(default_factory=set)
    _sessions: dict[str, Guest] = field(default_factory=dict)

    def link(self) -> str:
        """A token that is good once."""
        token = secrets.token_urlsafe(24)
        self._links.add(token)
        return token

    def redeem(self, token: str) -> str | None:
        """A session for a token, which is used up."""
        if token not in self._links:  # random, and looked up by its hash
            return None
        self._links.discard(token)
        return self.session()

    def session(self, guest: Guest = OWNER) -> str:
        """A new session."""
        session = secrets.token_urlsafe(24)
        self._sessions[session] = guest
        return session

    def guest(self, header: str) -> Guest | None:
        """Whose session a Cookie header holds."""
        try:
            found = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return None
        return self._sessions.get(found.value) if found is not None else None

    def set_cookie(self, session: str) -> str:
        return f"{self.cookie}={session}; Path=/; HttpOnly; SameSite=Strict"
