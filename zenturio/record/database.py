"""Transactions: begun, retried where the line broke, committed, and their errors explained."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from zenturio.errors import RecordError, ZenError
from zenturio.failpoints import Failpoint
from zenturio.record.connection_pool import Connections
from zenturio.record.dialect import Cursor, DatabaseDialect

if TYPE_CHECKING:
    from sqlalchemy import Engine

BEGUN = Failpoint("record.begun")
WRITTEN = Failpoint("record.written")
COMMITTED = Failpoint("record.committed")

CONFLICTS = 3
"""How often a transaction is done again that somebody else's row stood in the way of."""

Result = TypeVar("Result")
Row = tuple[Any, ...]


class Transaction:
    """Statements that become true together, at the speed of the driver.

    Rows go to the driver as they are, for nothing in them needs converting and a Python object for
    each cell would cost more than the database does.
    """

    def __init__(self, dialect: DatabaseDialect, cursor: Cursor, *, careful: bool = False) -> None:
        self.dialect = dialect
        self._cursor = cursor
        self._now: float | None = None
        self.careful = careful
        """Whether a unique index refused what was tried before: somebody else was faster."""
        self.after_commit: list[Callable[[], None]] = []
        """What is to be done once the transaction is committed, and only then."""

    def insert(self, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """New rows, the fastest way there is."""
        if rows:
            self.dialect.insert(self._cursor, table, names, rows)

    def sql(self, text: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """What *text* answers: for tables and views that belong to a study."""
        return self._fetched(text, parameters)

    def changed(self, text: str, parameters: Sequence[Any] = ()) -> int:
        """How many rows *text* changed."""
        self._fetched(text, parameters)
        return int(self._cursor.rowcount)

    def among_sql(
        self, template: str, column: str, keys: Sequence[Any], before: Sequence[Any] = ()
    ) -> list[Row]:
        """What *template* answers; ``{among}`` in it says that *column* is one of *keys*.

        *before*: what stands for the marks before that condition; there are none behind it.
        """
        rows: list[Row] = []
        for shape, values in self.dialect.parts(keys):
            text = template.replace("{among}", self.dialect.among_sql(column, shape))
            rows += self._fetched(text, [*before, *values.values()])
        return rows

    def insert_new(self, table: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Those of *rows* that no unique index refuses."""
        if rows:
            self.dialect.insert_new(self._cursor, table, names, rows)

    def numbers(self, count: int) -> list[int]:
        """So many numbers of attempts that nobody else has."""
        return self.dialect.draw(self._cursor, count) if count else []

    def sql_many(self, text: str, rows: Iterable[Sequence[Any]]) -> None:
        """*text* for each of *rows*."""
        if rows:
            self._cursor.executemany(text, rows)

    @property
    def now(self) -> float:
        """Seconds since 1970 by the database's clock, when it was asked first."""
        if self._now is None:
            ((now,),) = self.sql(f"SELECT {self.dialect.now}")
            self._now = float(now)
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        self._now = now

    def _fetched(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        # Without parameters psycopg leaves per cent signs alone: they may stand in a name.
        self._cursor.execute(sql, *([parameters] if parameters else []))
        return self._cursor.fetchall() if self._cursor.description else []


_opened: WeakSet[Database] = WeakSet()


def opened_databases() -> tuple[Database, ...]:
    """The databases that this process has used and not forgotten."""
    return tuple(_opened)


class Database:
    """Connections to one place."""

    def __init__(self, dialect: DatabaseDialect, patience: float) -> None:
        self.dialect = dialect
        self.connections: Connections = dialect.connections()
        self._patience = patience
        _opened.add(self)

    @cached_property
    def engine(self) -> Engine:
        """The same place for those who use SQLAlchemy; its connections are its own."""
        return self.dialect.engine()

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        """What *work* answers, seeing one moment."""
        return self._patiently(self.dialect.begin_read, work)

    def write(self, work: Callable[[Transaction], Result]) -> Result:
        """What *work* answers, once it is committed.

        Where the line broke it is done again on a new one, whether or not the first commit went
        through: so *work* must be such that a second time changes nothing.
        """
        return self._patiently(self.dialect.begin_write, work)

    def write_briefly(self, work: Callable[[Transaction], Result]) -> Result:
        """The same for what nobody misses when the machine goes down with all its drivers."""
        return self._patiently(self.dialect.begin_brief, work)

    def close(self) -> None:
        self.connections.dispose()
        if "engine" in vars(self):
            self.engine.dispose()

    def _patiently(self, begin: Sequence[str], work: Callable[[Transaction], Result]) -> Result:
        deadline = time.monotonic() + self._patience
        pause = 0.05
        conflicts = 0
        while True:
            try:
                return self._once(begin, work, careful=conflicts > 0)
            except UnicodeDecodeError as error:  # names or messages of a file that is damaged
                raise RecordError(
                    f"{self.dialect.location} is damaged: it holds text that is not UTF-8",
                    hint="see what `zen db check` says; `zen db salvage` saves what can be read",
                ) from error
            except self.dialect.errors as error:
                cause = getattr(error, "orig", None) or error
                if self.dialect.conflicts(cause) and conflicts < CONFLICTS:
                    conflicts += 1
                    continue
                if not self.dialect.lost(cause) or time.monotonic() + pause > deadline:
                    raise self.dialect.explain(cause) from error
            self.connections.dispose()
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _once(
        self, begin: Sequence[str], work: Callable[[Transaction], Result], *, careful: bool
    ) -> Result:
        writing = begin is not self.dialect.begin_read
        connection = self.connections.raw_connection()
        try:
            cursor = connection.cursor()
            for statement in begin:
                cursor.execute(statement)
            if writing:
                BEGUN()
            transaction = Transaction(self.dialect, cursor, careful=careful)
            result = work(transaction)
            if writing:
                WRITTEN()
            cursor.execute("COMMIT")
            if writing:
                COMMITTED()
        except BaseException as error:
            self._undo(connection, error)
            raise
        connection.close()
        for done in transaction.after_commit:
            done()
        return result

    def _undo(self, connection: Any, error: BaseException) -> None:
        """Back to before the transaction; a connection that cannot even do this is dropped."""
        if not isinstance(error, ZenError):
            connection.invalidate()
            return
        with suppress(*self.dialect.errors):
            connection.cursor().execute("ROLLBACK")
        connection.close()
