"""Accounts of the portal: single-use links, sessions, passwords, users and a proxy's header."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any

from starlette.datastructures import Headers

from zenturio.errors import InputError
from zenturio.study.house import User


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


USER = "user:"
"""Begins the address of who connected to a Unix socket; their number follows."""
PROXY_HEADER = "X-Zenturio-Proxy"
"""How a proxy sends its secret."""
NOBODY = Password.of("")
"""What passwords of users are compared with who are not there: that takes as long."""


@dataclass(frozen=True)
class People:
    """The users of a portal, by their names."""

    users: Mapping[str, User] = field(default_factory=dict)
    header: str = ""
    """How a proxy tells who asks."""
    proxy_secret: str = ""
    """By what the proxy is known: the hash of what it sends with each request."""
    proxies: tuple[str, ...] = ()
    """From where alone it may come; from anywhere, if there is none."""

    def __post_init__(self) -> None:
        """InputError where a password could never be right: not first when somebody types it.

        And where a header would be believed of whoever sends it.
        """
        if self.header and not self.proxy_secret:
            raise InputError(
                f"anybody on this machine could send {self.header}",
                hint="share a secret with the proxy: zen serve --proxy-secret makes one",
            )
        for user in self.users.values():
            if user.password:
                try:
                    Password.read(user.password)
                except InputError as error:
                    raise InputError(f"the password of {user.name!r}: {error}") from None

    @property
    def asked(self) -> bool:
        """Whether anybody has a password."""
        return any(user.password for user in self.users.values())

    @property
    def known(self) -> bool:
        """Whether there is a way to come in other than by the owner's link."""
        return bool(self.users) and (self.asked or bool(self.header))

    def enter(self, name: str, password: str) -> Guest | None:
        """Who that is, if the password is right; it takes as long if it is not."""
        user = self.users.get(name)
        kept = Password.read(user.password) if user is not None and user.password else NOBODY
        right = kept.matches(password)
        if user is None or not user.password or not right:
            return None
        return Guest(user.name, user.role)

    def told(self, scope: Mapping[str, Any], headers: Headers) -> Guest | str | None:
        """Whom the proxy tells of; in words why not, or nothing if it tells of nobody."""
        if not self.header:
            return None
        names = headers.getlist(self.header)
        if not names:
            return None
        if not self.is_proxy(scope, headers):
            return "who asks is told by the proxy alone, which has to send its secret"
        if len(names) > 1 or names[0] not in self.users:
            return "nobody of that name may come here"
        user = self.users[names[0]]
        return Guest(user.name, user.role)

    def is_proxy(self, scope: Mapping[str, Any], headers: Headers) -> bool:
        """Whether a request comes through the proxy: it knows the secret."""
        sent = headers.getlist(PROXY_HEADER)
        if not self.proxy_secret or len(sent) != 1:
            return False
        if not hmac.compare_digest(hashed(sent[0]), self.proxy_secret):
            return False
        client = scope.get("client") or ("", 0)
        return not self.proxies or self._listed(str(client[0]))

    def client(self, scope: Mapping[str, Any], headers: Headers) -> str:
        """The address of who asks; the proxy says for whom it asks last of all."""
        if self.is_proxy(scope, headers) or _is_user(scope):
            forwarded = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
            if forwarded:
                return forwarded[:100]
        return str((scope.get("client") or ("", 0))[0])

    def _listed(self, client: str) -> bool:
        try:
            address = ip_address(client)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any(ip_address(proxy) in (address, mapped) for proxy in self.proxies)


def _is_user(scope: Mapping[str, Any]) -> bool:
    """Whether a request comes by the Unix socket, at which none but the proxy and we are let in."""
    return str((scope.get("client") or ("", 0))[0]).startswith(USER)


def hashed(secret: str) -> str:
    """What zenturio.toml keeps of a secret that was drawn at random."""
    return "sha256:" + hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
