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
from zenturio.show.portal.access import PasswordHash, SessionStore, UserDirectory
from zenturio.show.portal.app import create_app
from zenturio.show.portal.connection_limits import (
    BACKLOG,
    BoundedProtocol,
    ConnectionTable,
    most_connections,
)
from zenturio.show.portal.security import HostNames, is_loopback
from zenturio.show.portal.state import Portal, PortalSettings

SHUTDOWN_SECONDS = 1
"""That unfinished answers have when the portal stops."""


@dataclass(frozen=True)
class ListenAddress:
    """Where a portal listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}/" if self.port == 80 else f"http://{host}:{self.port}/"


class PortalServer:
    """A portal that listens as soon as it is created, and answers while `run` runs."""

    def __init__(
        self,
        settings: PortalSettings,
        host: str = "127.0.0.1",
        port: int = 0,
        password: str = "",
        on_link_used: Callable[[str], None] = lambda _link: None,
        users: UserDirectory | None = None,
        names: Iterable[str] = (),
        *,
        listening: socket.socket | None = None,
        system_users: frozenset[int] = frozenset(),
    ) -> None:
        """Listen at *host* and *port*, or on a socket that listens already.

        *users* may log in; *names* are those by which a proxy addresses this machine.
        *on_link_used* is called with a new link when one was used. Only *system_users* may connect
        to a Unix socket.
        """
        check_access_control(settings, host, password, users)
        self._on_link_used = on_link_used
        self._socket = listening or open_socket(host, port)
        socket_name = self._socket.getsockname()
        is_unix = isinstance(socket_name, str)
        self.listen_address = ListenAddress(host, 80 if is_unix else socket_name[1])
        # Cookies ignore ports: two portals on one machine must not share a cookie.
        suffix = f"{crc32(socket_name.encode()):08x}" if is_unix else self.listen_address.port
        self._sessions = SessionStore(
            f"zenturio-{suffix}", PasswordHash.of(password) if password else None
        )
        self.portal = Portal(settings)
        app, self._pages = create_app(
            self.portal, self._sessions, HostNames.of(host, names), self._report_used_link, users
        )
        self.connections = ConnectionTable(most_connections(), system_users)
        config = uvicorn.Config(
            app,
            http=cast("Any", partial(BoundedProtocol, self.connections)),
            backlog=BACKLOG,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            h11_max_incomplete_event_size=64 * 1024,
        )
        self._server = uvicorn.Server(config)

    def link(self) -> str:
        """Return an address that opens the portal once."""
        return f"{self.listen_address.url}?token={self._sessions.new_link()}"

    def _report_used_link(self) -> None:
        self._on_link_used(self.link())

    @property
    def cookie(self) -> str:
        """The name of the cookie."""
        return self._sessions.cookie

    @property
    def is_started(self) -> bool:
        return self._server.started

    def run(self, heartbeat: Callable[[int], None] | None = None, interval: float = 1.0) -> None:
        """Answer requests until `stop` is called.

        Call *heartbeat* every *interval* seconds, with the number of pages that will never end.
        """
        if heartbeat is not None:
            pages = self._pages

            async def notify() -> None:
                heartbeat(pages.stuck())

            self._server.config.callback_notify = notify
            self._server.config.timeout_notify = interval  # type: ignore[assignment]
        with self._socket:
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Make `run` return."""
        self._server.should_exit = True


def check_access_control(
    settings: PortalSettings, host: str, password: str, users: UserDirectory | None
) -> None:
    """Raise SafetyError if other machines could use the portal without logging in."""
    if is_loopback(host) or password or (users and users.has_logins):
        return
    raise SafetyError(
        f"other machines can reach {host}, and nobody would have to log in",
        hint=(
            "add users to [serve.users] in zenturio.toml, or listen on this"
            if settings.serves
            else "set ZENTURIO_PORTAL_PASSWORD, or listen on this"
        )
        + " machine only and connect with ssh -L 8600:localhost:8600",
    )


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise PlaceError if the address cannot be used."""
    try:
        # With its protocol: asyncio sets TCP_NODELAY only on sockets that name TCP.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
            listening.listen(512)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise PlaceError(
            f"cannot listen at {host}, port {port}: {error.strerror}",
            hint="choose another --port; --port 0 takes a free one",
        ) from error
    return listening
