"""Who may come to a portal that several people use, as whom, and what they may do.

Named users have a password, or a proxy before the portal tells who asks. Who comes by a link that
the owner of the process handed out is the owner, who may do everything.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from starlette.datastructures import Headers

from zenturio.errors import InputError
from zenturio.show.portal.keys import Guest, Password
from zenturio.study.house import User

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
        if self.is_proxy(scope, headers):
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


def hashed(secret: str) -> str:
    """What zenturio.toml keeps of a secret that was drawn at random."""
    return "sha256:" + hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
