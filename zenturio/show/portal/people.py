"""Who may come to a portal that several people use, as whom, and what they may do.

Named users have a password, or a proxy before the portal tells who asks. Who comes by a link that
the owner of the process handed out is the owner, who may do everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from starlette.datastructures import Headers

from zenturio.errors import InputError
from zenturio.show.portal.keys import Guest, Password
from zenturio.study.house import User

NOBODY = Password.of("")
"""What passwords of users are compared with who are not there: that takes as long."""


@dataclass(frozen=True)
class People:
    """The users of a portal, by their names."""

    users: Mapping[str, User] = field(default_factory=dict)
    header: str = ""
    """How a proxy tells who asks."""
    proxies: tuple[str, ...] = ()
    """From where that is believed."""

    def __post_init__(self) -> None:
        """InputError where a password could never be right: not first when somebody types it."""
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
        client = scope.get("client") or ("", 0)
        if not self._believed(str(client[0])):
            return "who asks is told by the proxy alone"
        if len(names) > 1 or names[0] not in self.users:
            return "nobody of that name may come here"
        user = self.users[names[0]]
        return Guest(user.name, user.role)

    def _believed(self, client: str) -> bool:
        try:
            address = ip_address(client)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any(ip_address(proxy) in (address, mapped) for proxy in self.proxies)
