"""Connections to a SQLite file, kept open between transactions.

SQLAlchemy has such a pool, and takes a tenth of a second to load: as long as everything else that
``zen status`` does. This one offers the same methods for what transactions need.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

MOST_IDLE = 5
"""Connections that are kept while nobody uses them; any number may be in use."""


class PooledConnection(Protocol):
    """A connection on loan: ``close`` gives it back."""

    @property
    def driver_connection(self) -> Any:
        """The driver's own connection."""
        ...

    def cursor(self) -> Any: ...

    def close(self) -> None: ...

    def invalidate(self) -> None:
        """Close the connection for good: it is not given to anybody else."""
        ...


class Connections(Protocol):
    """Where connections come from: an Engine of SQLAlchemy is one, too."""

    def raw_connection(self) -> PooledConnection: ...

    def dispose(self) -> None:
        """Close idle connections; those in use are closed when they come back."""
        ...


class ConnectionPool:
    """Connections that *connect* opens; safe to share among threads, and after a fork."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._pid = os.getpid()
        self._idle: deque[Any] = deque()  # its methods are atomic: no lock is needed

    def raw_connection(self) -> _Loan:
        if self._pid != os.getpid():
            # SQLite forbids to use, and even to close, a connection of the process that forked.
            self._pid, self._inherited = os.getpid(), self._idle
            self._idle = deque()
        idle = self._idle
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._connect()
        return _Loan(connection, lambda: self._give_back(connection, idle))

    def _give_back(self, connection: Any, idle: deque[Any]) -> None:
        if connection.in_transaction:
            connection.rollback()
        if idle is self._idle and len(idle) < MOST_IDLE:
            idle.append(connection)
        else:
            connection.close()

    def dispose(self) -> None:
        """Close idle connections; those in use are closed when they come back."""
        idle, self._idle = self._idle, deque()
        while idle:
            idle.pop().close()


class _Loan:
    """A connection in use."""

    def __init__(self, connection: Any, give_back: Callable[[], None]) -> None:
        self.driver_connection = connection
        self._give_back: Callable[[], None] | None = give_back

    def cursor(self) -> Any:
        return self.driver_connection.cursor()

    def close(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def invalidate(self) -> None:
        if self._give_back is not None:
            self._give_back = None
            self.driver_connection.close()
