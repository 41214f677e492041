"""The portal as a process: its socket, the link that opens it, and its shutdown."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from zlib import crc32

import uvicorn

from zenturio.errors import PlaceError, SafetyError
from zenturio.show.portal.access import Keys, Password, People
from zenturio.show.portal.app import create_app
from zenturio.show.portal.connections import (
    BACKLOG,
    BoundedProtocol,
    ConnectionTable,
    most_connections,
)
from zenturio.show.portal.security import Names, loopback
from zenturio.show.portal.state import Portal, Settings

LAST = 1
"""Seconds that answers under way have in the end."""


@dataclass(frozen=True)
class Door:
    """Where a portal listens."""

    host: str
    port: int

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}/" if self.port == 80 else f"http://{host}:{self.port}/"


class Service:
    """A portal that listens, as soon as it is made, and answers once it runs."""

    def __init__(
        self,
        settings: Settings,
        host: str = "127.0.0.1",
        port: int = 0,
        password: str = "",
        told: Callable[[str], None] = lambda _link: None,
        people: People | None = None,
        names: Iterable[str] = (),
        *,
        listening: socket.socket | None = None,
        users: frozenset[int] = frozenset(),
    ) -> None:
        """*people* may come besides; *names* are those by which a proxy calls this machine.

        *listening* is a socket that listens there already; to a Unix socket, *users* alone may
        connect.
        """
        check_guarded(settings, host, password, people)
        self._told = told
        self._socket = listening or listen(host, port)
        where = self._socket.getsockname()
        at_path = isinstance(where, str)
        self.door = Door(host, 80 if at_path else where[1])
        # Cookies do not know of ports: two portals of one machine must not share one.
        mark = f"{crc32(where.encode()):08x}" if at_path else self.door.port
        self._keys = Keys(f"zenturio-{mark}", Password.of(password) if password else None)
        self.portal = Portal(settings)
        app, self._pages = create_app(
            self.portal, self._keys, Names.of(host, names), self._used, people
        )
        self.connections = ConnectionTable(most_connections(), users)
        config = uvicorn.Config(
            app,
            http=cast("Any", partial(BoundedProtocol, self.connections)),
            backlog=BACKLOG,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=LAST,
            h11_max_incomplete_event_size=64 * 1024,
        )
        self._server = uvicorn.Server(config)

    def link(self) -> str:
        """An address that opens the portal once."""
        return f"{self.door.address}?token={self._keys.link()}"

    def _used(self) -> None:
        self._told(self.link())

    @property
    def cookie(self) -> str:
        """What the cookie is called."""
        return self._keys.cookie

    @property
    def started(self) -> bool:
        return self._server.started

    def run(self, beat: Callable[[int], None] | None = None, every: float = 1.0) -> None:
        """Answer until somebody stops it.

        As long as it answers, *beat* is called *every* so many seconds, with the number of pages
        that will never end.
        """
        if beat is not None:
            pages = self._pages

            async def notify() -> None:
                beat(pages.stuck())

            self._server.config.callback_notify = notify
            self._server.config.timeout_notify = every  # type: ignore[assignment]
        with self._socket:
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Let ``run`` come to its end."""
        self._server.should_exit = True


def check_guarded(settings: Settings, host: str, password: str, people: People | None) -> None:
    """SafetyError if other machines see it, and nobody would be asked who they are."""
    if loopback(host) or password or (people and people.known):
        return
    raise SafetyError(
        f"{host} is seen by other machines, and nobody would be asked who they are",
        hint=(
            "name those who may come: [serve.users] in zenturio.toml; or stay on this"
            if settings.serves
            else "set ZENTURIO_PORTAL_PASSWORD; or stay on this"
        )
        + " machine, and come by ssh -L 8600:localhost:8600",
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; PlaceError if that is not possible."""
    try:
        # With its protocol: asyncio sends at once (TCP_NODELAY) on sockets that name TCP alone.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(address)
            found.listen(512)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise PlaceError(
            f"cannot listen at {host}, port {port}: {error.strerror}",
            hint="another --port; --port 0 takes a free one",
        ) from error
    return found
