"""The portal as a process: a socket, the link that opens it, and its end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import uvicorn

from zenturio.errors import PlaceError, SafetyError
from zenturio.show.portal.app import create_app
from zenturio.show.portal.keys import Keys, Password
from zenturio.show.portal.people import People
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
        return f"http://{host}:{self.port}/"


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
    ) -> None:
        """*people* may come besides; *names* are those by which a proxy calls this machine."""
        if not loopback(host) and not password and not (people and people.known):
            raise SafetyError(
                f"{host} is seen by other machines, and nobody would be asked who they are",
                cure=(
                    "name those who may come: [serve.users] in zenturio.toml; or stay on this"
                    if settings.serves
                    else "set ZENTURIO_PORTAL_PASSWORD; or stay on this"
                )
                + " machine, and come by ssh -L 8600:localhost:8600",
            )
        self._told = told
        self._socket = _listening(host, port)
        self.door = Door(host, self._socket.getsockname()[1])
        # Cookies do not know of ports: two portals of one machine must not share one.
        self._keys = Keys(f"zenturio-{self.door.port}", Password.of(password) if password else None)
        self.portal = Portal(settings)
        app = create_app(self.portal, self._keys, Names.of(host, names), self._used, people)
        config = uvicorn.Config(
            app,
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

    def run(self) -> None:
        """Answer until somebody stops it."""
        with self._socket:
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Let ``run`` come to its end."""
        self._server.should_exit = True


def _listening(host: str, port: int) -> socket.socket:
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
            cure="another --port; --port 0 takes a free one",
        ) from error
    return found
