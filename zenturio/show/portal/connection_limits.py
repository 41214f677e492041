"""Connections of the portal: limits, Unix sockets, addresses."""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from zenturio.errors import NotFoundError
from zenturio.record import ResultCount
from zenturio.show.portal.access import USER
from zenturio.show.portal.login_attempts import network
from zenturio.show.portal.state import Portal
from zenturio.study.overview import by_machine, by_round
from zenturio.system.unix_socket import peer

MOST_CONNECTIONS = 1024
RESERVED_DESCRIPTORS = 256
"""Descriptors that connections leave for files, databases and processes."""
BACKLOG = 64
"""Connections that are accepted at once: they take descriptors before they are counted."""
HEAD_SECONDS = 10.0
"""For the head of a request, and from the connection to the first request."""
BODY_SECONDS = 30.0
"""For the body of a request."""
STALLED_SECONDS = 60.0
"""For which a browser may read nothing of an answer."""


def most_connections(descriptors: int | None = None) -> int:
    """Return how many connections leave enough of the *descriptors* of this process."""
    soft = descriptors or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, max(soft - RESERVED_DESCRIPTORS, soft // 2))


class ConnectionTable:
    """The open connections; one address has at most half of them."""

    def __init__(self, most: int, users: frozenset[int] = frozenset()) -> None:
        """Only *users* of this machine may connect to a Unix socket."""
        self.most = most
        self.users = users
        self.most_of_one = max(most // 2, 1)
        self._connections: dict[BoundedProtocol, None] = {}
        self._per_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._connections)

    def admit(self, new: BoundedProtocol) -> bool:
        """Count *new*, closing an idle connection if there are too many; False if none is."""
        # Room is made among the connections of the same address: one client cannot push out
        # others.
        if self._per_address[new.address] >= self.most_of_one:
            admitted = self._make_room(new.address)
        elif len(self) >= self.most:
            admitted = self._make_room(self._per_address.most_common(1)[0][0])
        else:
            admitted = True
        if admitted:
            self._connections[new] = None
            self._per_address[new.address] += 1
        return admitted

    def renew(self, connection: BoundedProtocol) -> None:
        """Note that a connection was used: it is closed last."""
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def remove(self, connection: BoundedProtocol) -> None:
        """Forget a closed connection."""
        if connection in self._connections:
            del self._connections[connection]
            self._per_address[connection.address] -= 1
            if not self._per_address[connection.address]:
                del self._per_address[connection.address]

    def _make_room(self, address: str) -> bool:
        for connection in self._connections:
            if connection.address == address and not connection.is_busy:
                self.remove(connection)
                connection.transport.abort()
                return True
        return False


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with time limits for reading requests and writing answers."""

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
        """Limit the wait for a head, or for the rest of a body; single bytes do not extend it."""
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


@dataclass(frozen=True)
class OriginsOffered:
    """Results of some studies by kind of machine and by round; empty where there is one alone."""

    machines: Mapping[str, int]
    rounds: Mapping[int, int]


def origins_offered(portal: Portal, studies: Sequence[str]) -> OriginsOffered:
    """Return what there is to choose among the results of *studies*."""
    counts = [counts_of_study for name in studies for counts_of_study in _counts(portal, name)]
    machines, rounds = by_machine(counts), by_round(counts)
    return OriginsOffered(machines if len(machines) > 1 else {}, rounds if len(rounds) > 1 else {})


def _counts(portal: Portal, name: str) -> tuple[ResultCount, ...]:
    try:
        return portal.repository.count_results(name)
    except NotFoundError:  # it went meanwhile
        return ()
