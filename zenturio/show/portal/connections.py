"""Connections of browsers, bounded: how many there are, and how long each may keep us waiting.

Anybody who reaches the port may open connections, before it is known who they are. Where there are
too many, the one that has been idle longest makes room: who really asks is answered at once, and so
is not idle.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from zenturio.show.portal.access import USER
from zenturio.show.portal.login_attempts import network
from zenturio.show.portal.unix_socket import peer

MOST = 1024
RESERVED = 256
"""Descriptors for files, databases and processes: connections take the others."""
BACKLOG = 64
"""Connections that are accepted in one go: these take descriptors before they are counted."""
HEAD_SECONDS = 10.0
"""For the head of a request, and until the first one."""
BODY_SECONDS = 30.0
"""For its body."""
STALLED_SECONDS = 60.0
"""For which a browser may take nothing of what it asked for."""


def most_connections(descriptors: int | None = None) -> int:
    """How many connections leave enough of the *descriptors* that this process may have."""
    soft = descriptors or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return MOST
    return min(MOST, max(soft - RESERVED, soft // 2))


class ConnectionTable:
    """The connections there are; from one address at most half of what all may have."""

    def __init__(self, most: int, users: frozenset[int] = frozenset()) -> None:
        """At a Unix socket, *users* of this machine alone are let in."""
        self.most = most
        self.users = users
        self.most_of_one = max(most // 2, 1)
        self._connections: dict[BoundedProtocol, None] = {}
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._connections)

    def admit(self, new: BoundedProtocol) -> bool:
        """Count *new* in, and close an idle one where there are too many; False if none is."""
        if self._of[new.address] >= self.most_of_one:
            admitted = self._make_room(new.address)
        elif len(self) >= self.most:
            admitted = self._make_room(self._of.most_common(1)[0][0])
        else:
            admitted = True
        if admitted:
            self._connections[new] = None
            self._of[new.address] += 1
        return admitted

    def renew(self, connection: BoundedProtocol) -> None:
        """It has asked for something: it is the last to go."""
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def remove(self, connection: BoundedProtocol) -> None:
        """It is closed."""
        if connection in self._connections:
            del self._connections[connection]
            self._of[connection.address] -= 1
            if not self._of[connection.address]:
                del self._of[connection.address]

    def _make_room(self, address: str) -> bool:
        for each in self._connections:
            if each.address == address and not each.is_busy:
                self.remove(each)
                each.transport.abort()
                return True
        return False


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with deadlines."""

    def __init__(self, table: ConnectionTable, **more: Any) -> None:
        super().__init__(**more)
        self._table = table
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.address = ""

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        user = peer(transport.get_extra_info("socket"))
        if user is not None:
            self.client = (f"{USER}{user}", 0)
        self.address = network(self.client[0]) if self.client else ""
        if (user is None or user in self._table.users) and self._table.admit(self):
            self._watch()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._stop("body")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("stalled", STALLED_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("stalled")

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        super().connection_lost(exc)
        for name in list(self._timers):
            self._stop(name)

    def _watch(self) -> None:
        """Wait for a head, or for the rest of a body, for a while; bytes do not prolong it."""
        if not self.is_busy:
            self._start("head", HEAD_SECONDS)
            return
        self._table.renew(self)
        self._stop("head")
        if self.cycle.more_body:
            self._start("body", BODY_SECONDS)
        else:
            self._stop("body")

    def _start(self, name: str, seconds: float) -> None:
        if name not in self._timers and not self.transport.is_closing():
            self._timers[name] = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
