"""What opens the portal: a link that is good once, then a cookie; or a password."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie


@dataclass(frozen=True)
class Password:
    """A password, of which only a hash is kept."""

    salt: bytes
    hash: bytes

    @classmethod
    def of(cls, text: str) -> Password:
        salt = secrets.token_bytes(16)
        return cls(salt, _hash(text, salt))

    def matches(self, text: str) -> bool:
        return hmac.compare_digest(_hash(text, self.salt), self.hash)


def _hash(text: str, salt: bytes) -> bytes:
    return hashlib.scrypt(text.encode(), salt=salt, n=2**14, r=8, p=1)


@dataclass
class Keys:
    """Links that were not used yet, and the cookies of those who came by one."""

    cookie: str = "zenturio"
    password: Password | None = None
    _links: set[str] = field(default_factory=set)
    _sessions: set[str] = field(default_factory=set)

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

    def session(self) -> str:
        """A new session."""
        session = secrets.token_urlsafe(24)
        self._sessions.add(session)
        return session

    def admits(self, header: str) -> bool:
        """Whether a Cookie header holds a session."""
        try:
            found = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return False
        return found is not None and found.value in self._sessions

    def set_cookie(self, session: str) -> str:
        return f"{self.cookie}={session}; Path=/; HttpOnly; SameSite=Strict"
