"""Transactions: begun, committed, repeated where a connection broke; connections and dialects.

Connections to SQLite come from a pool of our own: SQLAlchemy has one, but takes a tenth of a second
to load, as long as everything else that ``zen status`` does.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from weakref import WeakSet

from zenturio.errors import Diagnostic, RecordError, ZenError
from zenturio.failpoints import Failpoint
from zenturio.record.codec import Form
from zenturio.record.sql_names import Project

if TYPE_CHECKING:
    from sqlalchemy import Engine


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
    """Where connections come from."""

    def raw_connection(self) -> PooledConnection: ...

    def dispose(self) -> None:
        """Close idle connections; those in use are closed when they come back."""
        ...


class ConnectionPool:
    """Connections that *connect* opens; safe to share among threads, and after a fork.

    *is_idle* tells whether one that comes back is in no transaction.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        is_idle: Callable[[Any], bool] = lambda connection: not connection.in_transaction,
    ) -> None:
        self._connect = connect
        self._is_idle = is_idle
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
        try:
            if not self._is_idle(connection):
                connection.rollback()
        except Exception:  # noqa: BLE001 - whatever broke it, the next one gets another
            connection.close()
            return
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


Cursor = Any
"""A cursor as PEP 249 has it."""
Position = int | str
"""An experiment's index as the database orders it."""


def not_utf8(location: str) -> RecordError:
    """Return the error of a file whose names, texts or messages are damaged."""
    return RecordError(
        f"{location} is damaged: it holds text that is not UTF-8",
        hint="`zen db check` lists the damage; `zen db salvage` saves all readable data",
    )


class DatabaseDialect(Protocol):
    """One kind of database."""

    name: Literal["sqlite", "postgresql"]
    location: str
    """Where it is, without a password."""
    mark: str
    """The placeholder of a parameter in SQL."""
    row_lock: str
    """Suffix of a SELECT: keeps others from changing these rows until the transaction ends."""
    lease_lock: str
    """Suffix of a SELECT of leases ``l``: others may renew, not end them."""
    begin_write: Sequence[str]
    """Begins a transaction that writes; once the database is settled, its commit is on the disk
    when it returns."""
    begin_brief: Sequence[str]
    """Begins one that writes what only living drivers need: who kills it by cutting the power
    kills them too."""
    end_brief: Sequence[str]
    """Ends what ``begin_brief`` changed for the connection."""
    begin_read: Sequence[str]
    """Begins a transaction that sees one moment."""
    tables: str
    """Names all tables."""
    views: str
    """Names all views."""
    view_texts: str
    """The views of this program, as a statement names them, and what each is."""
    self_check: str
    """What the database finds wrong with itself, or ``ok``."""
    now: str
    """An expression: seconds since 1970 by the database's clock."""
    secrets: tuple[str, ...]
    """What lets others log in."""
    session_user: str
    """An expression: who logged in to the server; empty where nobody does."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What statements and connecting raise."""
        ...

    def connections(self) -> Connections:
        """Return connections; nothing is opened yet."""
        ...

    def engine(self) -> Engine:
        """Return the same as an engine of SQLAlchemy."""
        ...

    def missing(self) -> bool:
        """Return whether there is no database yet, and nothing to be read."""
        ...

    def prepare(self) -> None:
        """Make room for a new database, a folder for its file."""
        ...

    def settle(self, connection: Any) -> None:
        """Set the options of the file, now that the database is known to be ours."""
        ...

    def limit_cache(self, kib: int) -> None:
        """Let new connections keep so much of the database in memory."""
        ...

    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return what a user should know about this place."""
        ...

    def insert(
        self, cursor: Cursor, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Add many rows, the fastest way there is."""
        ...

    def insert_new(
        self, cursor: Cursor, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Add those of many rows that no unique index refuses."""
        ...

    def draw(self, cursor: Cursor, count: int) -> list[int]:
        """Return numbers of attempts, as claims draw them."""
        ...

    def parts(self, keys: Sequence[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Parameters for the condition that a column is one of *keys*, in parts, with their shapes.

        Conditions of the same shape are the same SQL.
        """
        ...

    def among_sql(self, column: str, shape: int) -> str:
        """Return the condition itself."""
        ...

    def position(self, index: int) -> Position:
        """Return how an index of any size is written."""
        ...

    def index(self, position: Any) -> int:
        """Return what ``position`` was given."""
        ...

    def index_sql(self, column: str) -> str:
        """Return the index in a view."""
        ...

    def hex_sql(self, column: str) -> str:
        """Bytes as lower case digits in a view."""
        ...

    def holds_sql(self, column: str, kind: Literal["text", "bytes", "json"]) -> str:
        """That a column has a mark's text or bytes somewhere inside."""
        ...

    def remark_sql(self, remarks: str, key: str, part: str) -> str:
        """That *part* of a remark, as a text in a view; NULL where it has none."""
        ...

    def chunk_sql(self, result: str, chunk: int, at: int) -> str:
        """Return a value beyond the slots, in a view; PostgreSQL has it as text."""
        ...

    def value_sql(self, forms: Form, sql: Mapping[str, str]) -> tuple[str, str]:
        """Return the value of a field in a view, and its type.

        ``bigint``, ``numeric``, ``double precision``, ``text``, ``boolean``; or ``none`` where it
        is not known yet.

        *sql*: what its slots hold by their letter, its ``chunk``, and of its remarks ``int`` and
        ``series``; only what there is.
        """
        ...

    def read_clock(self, cursor: Cursor) -> float:
        """Return ``now``."""
        ...

    def conflicts(self, error: Exception) -> bool:
        """Return whether a unique index refused a row."""
        ...

    def lost(self, error: Exception) -> bool:
        """Return whether the connection broke: the same transaction may succeed on a new one."""
        ...

    def explain(self, error: Exception) -> ZenError:
        """Return the error as one of ours, with a hint."""
        ...


_log = logging.getLogger(__name__)

BEGUN = Failpoint("record.begun")
WRITTEN = Failpoint("record.written")
COMMITTED = Failpoint("record.committed")

CONFLICTS = 3
"""How often a transaction is repeated after another one has inserted the same key."""

STEPS_BETWEEN_SIGNALS = 1_000_000
"""Of SQLite's machine: some hundredths of a second."""

Result = TypeVar("Result")
Row = tuple[Any, ...]


class Transaction:
    """Statements that become true together, at the speed of the driver.

    Rows go to the driver as they are, for nothing in them needs converting and a Python object for
    each cell would cost more than the database does.
    """

    def __init__(
        self, dialect: DatabaseDialect, cursor: Cursor, project: Project, *, careful: bool = False
    ) -> None:
        self.dialect = dialect
        self.project = project
        """Whose study a name means."""
        self._cursor = cursor
        self._now: float | None = None
        self.careful = careful
        """Whether the last try failed because another transaction had inserted the same key."""
        self.clock_offset = 0.0
        """Seconds by which the database's clock is ahead of ours, as far as that was measured."""
        self.after_commit: list[Callable[[], None]] = []
        """Actions to run only after the transaction is committed."""

    def insert(self, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """New rows, the fastest way there is."""
        if rows:
            self.dialect.insert(self._cursor, table, names, rows)

    def sql(self, text: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return what *text* answers."""
        # Without parameters psycopg leaves per cent signs alone: they may stand in a name.
        self._cursor.execute(text, *([parameters] if parameters else []))
        return self._cursor.fetchall() if self._cursor.description else []

    def batches(self, text: str, size: int) -> Iterator[list[Row]]:
        """Yield what *text* answers, *size* rows at a time; nothing else is asked meanwhile."""
        self._cursor.execute(text)
        while rows := self._cursor.fetchmany(size):
            yield rows

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a KeyboardInterrupt end long statements of the block, in which SQLite hears nothing.

        psycopg hears it by itself.
        """
        connection: Any = getattr(self._cursor, "connection", None)
        if self.dialect.name != "sqlite" or connection is None:
            yield
            return
        # Signals arrive where Python code runs: SQLite calls this every so many steps.
        connection.set_progress_handler(lambda: 0, STEPS_BETWEEN_SIGNALS)
        try:
            yield
        except self.dialect.errors as error:
            if str(error) == "interrupted":
                raise KeyboardInterrupt from error
            raise
        finally:
            connection.set_progress_handler(None, 0)

    def changed(self, text: str, parameters: Sequence[Any] = ()) -> int:
        """Return how many rows *text* changed."""
        self.sql(text, parameters)
        return int(self._cursor.rowcount)

    def among_sql(
        self, template: str, column: str, keys: Sequence[Any], before: Sequence[Any] = ()
    ) -> list[Row]:
        """Return what *template* answers; ``{among}`` in it says that *column* is one of *keys*.

        *before*: what stands for the marks before that condition; there are none behind it.
        """
        rows: list[Row] = []
        for shape, values in self.dialect.parts(keys):
            text = template.replace("{among}", self.dialect.among_sql(column, shape))
            rows += self.sql(text, [*before, *values.values()])
        return rows

    def insert_new(self, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Those of *rows* that no unique index refuses."""
        if rows:
            self.dialect.insert_new(self._cursor, table, names, rows)

    def numbers(self, count: int) -> list[int]:
        """Return *count* new ids of attempts."""
        return self.dialect.draw(self._cursor, count) if count else []

    def sql_many(self, text: str, rows: Iterable[Sequence[Any]]) -> None:
        """*text* for each of *rows*."""
        if rows:
            self._cursor.executemany(text, rows)

    def log(
        self, logger: logging.Logger, message: str, *values: Any, level: int = logging.DEBUG
    ) -> None:
        """Log once the transaction is committed: what is undone, or run again, did not happen."""
        if logger.isEnabledFor(level):
            self.after_commit.append(partial(logger.log, level, message, *values))

    @property
    def now(self) -> float:
        """Seconds since 1970 by the database's clock, at the first call in the transaction."""
        if self._now is None:
            self._now = self.dialect.read_clock(self._cursor)
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        self._now = now


_opened: WeakSet[Database] = WeakSet()


def opened_databases() -> tuple[Database, ...]:
    """Return the databases that this process has used and not forgotten."""
    return tuple(_opened)


class Database:
    """Connections to one place."""

    def __init__(self, dialect: DatabaseDialect, patience: float) -> None:
        self.dialect = dialect
        self.connections: Connections = dialect.connections()
        self.project = Project()
        self.has_former_digests = False
        """Whether results may be there under digests of an earlier format."""
        self._patience = patience
        _opened.add(self)

    @cached_property
    def engine(self) -> Engine:
        """The same place for those who use SQLAlchemy; its connections are its own."""
        return self.dialect.engine()

    def settle(self) -> None:
        """Let connections change the modes of the file, now that it is known to be ours."""
        self.repeat(self._settle)

    def _settle(self, _careful: bool) -> None:
        connection = self.connections.raw_connection()
        try:
            self.dialect.settle(connection.driver_connection)
        except BaseException:
            connection.invalidate()
            raise
        connection.close()

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Return what *work* returns; it sees the database as it is at one moment."""
        result: Result = self.repeat(self.transact, self.dialect.begin_read, work)
        return result

    def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Return what *work* returns, once it is committed and on the disk.

        Where the connection breaks, *work* runs again on a new one, whether or not the first
        commit went through: a second run must change nothing.
        """
        result: Result = self.repeat(self.transact, self.dialect.begin_write, work)
        return result

    def write_briefly(self, work: Callable[[Transaction], Result]) -> Result:
        """Do as ``write``, but do not wait for the disk.

        For what is worthless once the machine and all its drivers have gone down: claims, beats.
        """
        result: Result = self.repeat(self.transact, self.dialect.begin_brief, work)
        return result

    def close(self) -> None:
        self.connections.dispose()
        if "engine" in vars(self):
            self.engine.dispose()

    def repeat(self, attempt: Callable[..., Result], /, *args: Any, **options: Any) -> Result:
        """Return what *attempt* returns; repeat it where that may help.

        Its first argument says whether another transaction has inserted the same key before it.
        """
        deadline = time.monotonic() + self._patience
        pause = 0.05
        conflicts = 0
        while True:
            try:
                return attempt(conflicts > 0, *args, **options)
            except UnicodeDecodeError as error:
                raise not_utf8(self.dialect.location) from error
            except MemoryError as error:
                raise RecordError(
                    f"{self.dialect.location}: the result does not fit into memory",
                    hint="select fewer rows or columns; `zen db check` finds too large values",
                ) from error
            except self.dialect.errors as error:
                cause = getattr(error, "orig", None) or error
                # Two transactions inserted the same key. Once more, and carefully: then *work*
                # looks first which rows the other one has left for it.
                if self.dialect.conflicts(cause) and conflicts < CONFLICTS:
                    conflicts += 1
                    _log.debug("transaction repeated: another one inserted the same key")
                    continue
                if not self.dialect.lost(cause) or time.monotonic() + pause > deadline:
                    raise self.dialect.explain(cause) from error
                location = self.dialect.location
                _log.info("no connection to %s, next attempt in %.2g s: %s", location, pause, cause)
            # All idle connections are suspect: a server that restarted has closed each of them.
            self.connections.dispose()
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def transact(
        self,
        careful: bool,
        begin: Sequence[str],
        work: Callable[..., Result],
        /,
        *args: Any,
        **options: Any,
    ) -> Result:
        """Return what *work* returns, in a transaction that begins with the statements *begin*."""
        writing = begin is not self.dialect.begin_read
        restore = self.dialect.end_brief if begin is self.dialect.begin_brief else ()
        connection = self.connections.raw_connection()
        try:
            cursor = connection.cursor()
            for statement in begin:
                cursor.execute(statement)
            if writing:
                BEGUN()
            transaction = Transaction(self.dialect, cursor, self.project, careful=careful)
            result = work(transaction, *args, **options)
            if writing:
                WRITTEN()
            cursor.execute("COMMIT")
            if writing:
                COMMITTED()
            for statement in restore:
                cursor.execute(statement)
        except BaseException as error:
            # An error that we raised ourselves left the connection sound. After any other one, an
            # interrupt among them, a statement may still be running in it.
            self._undo(connection, is_sound=isinstance(error, ZenError) and not restore)
            raise
        connection.close()
        # Only now: caches and log lines must not run ahead of what was committed.
        for done in transaction.after_commit:
            done()
        return result

    def _undo(self, connection: Any, *, is_sound: bool) -> None:
        """Roll back; a connection that may be in an unknown state is closed instead."""
        if not is_sound:
            connection.invalidate()
            return
        with suppress(*self.dialect.errors):
            connection.cursor().execute("ROLLBACK")
        connection.close()
