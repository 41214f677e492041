"""One moment of the database, seen through the studies' views."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from zenturio.errors import ExpressionError, InputError, Place, RecordError
from zenturio.expression import Value
from zenturio.query.fragments import Dialect, Fragment, quote_name
from zenturio.query.functions import register_functions
from zenturio.record import Repository
from zenturio.record.sql_text import with_parts

if TYPE_CHECKING:
    from zenturio.record.connection_pool import Connections

_BEGIN: dict[Dialect, str] = {
    "sqlite": "BEGIN",
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}

_OUT_OF_RANGE = "22003"
"""SQLSTATE of numbers that are too large, or too small."""
_FETCHED = 5000
"""Rows that are taken from the database at a time."""


class SnapshotReader:
    """Answers questions, all about the same moment."""

    def __init__(self, cursor: Any, dialect: Dialect, repository: Any) -> None:
        self.dialect = dialect
        self.repository = repository
        """Says what the fields of a study are: one in a database."""
        self.views: dict[str, Callable[[str], str]] = {}
        """What the views are that statements may name, for a statement."""
        self._cursor = cursor
        self._place = repository.location

    def rows(self, statement: Fragment) -> list[tuple[Any, ...]]:
        """What *statement* answers."""
        text, values = statement.bound(self.dialect)
        return self.fetch(text, values, statement.place)

    def fetch(
        self, text: str, values: Sequence[Value] = (), place: Place | None = None
    ) -> list[tuple[Any, ...]]:
        """What *text* answers, with *values* at its marks; *place* is of the expression in it."""
        text = self._with_views(text, escaped=bool(values))
        with self._explaining(place):
            self._cursor.execute(text, *([values] if values else []))
            found: list[tuple[Any, ...]] = self._cursor.fetchall()
        return found

    def each(self, statement: Fragment) -> Iterator[tuple[Any, ...]]:
        """What *statement* answers, row by row: not all of it is held at once."""
        text, values = statement.bound(self.dialect)
        text = self._with_views(text, escaped=bool(values))
        with self._explaining(statement.place):
            self._cursor.execute(text, *([values] if values else []))
            while rows := self._cursor.fetchmany(_FETCHED):
                yield from rows

    def _with_views(self, text: str, *, escaped: bool) -> str:
        """*text* behind what the views are that it names: the database need not have them."""
        parts = []
        for view, source in self.views.items():
            doubled = escaped and self.dialect == "postgresql"
            written = quote_name(view).replace("%", "%%") if doubled else quote_name(view)
            if written in text:
                rows = source(text)
                rows = rows.replace("%", "%%") if doubled else rows
                parts.append(f"{written} AS NOT MATERIALIZED ({rows})")
        return with_parts(text, parts)

    @contextmanager
    def _explaining(self, place: Place | None) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not isinstance(error, _driver_errors()):
                raise
            if place is not None and getattr(error, "sqlstate", None) == _OUT_OF_RANGE:
                raise ExpressionError(
                    f"for some experiment this leaves the numbers of PostgreSQL: {_said(error)}",
                    place=place,
                    hint="test the operands first, as in x < 1e100 and x * x > 1",
                ) from error
            raise RecordError(f"{self._place}: {_said(error)}") from error


def connections_of(repository: Repository) -> Connections:
    """The connections of *repository*; InputError if that keeps its rows in no database."""
    connections: Connections | None = getattr(repository, "connections", None)
    if connections is None:
        raise InputError(
            f"{repository.location} is no database: nothing can be queried there",
            hint="run with a database: ZENTURIO_DB=path/to/file.db",
        )
    return connections


@contextmanager
def open_snapshot(repository: Repository) -> Iterator[SnapshotReader]:
    """A reader of *repository*; InputError if that keeps its rows in no database."""
    connection = connections_of(repository).raw_connection()
    dialect: Dialect = cast("Any", repository).dialect
    try:
        cursor = connection.cursor()
        if dialect == "sqlite":
            register_functions(connection.driver_connection)
        cursor.execute(_BEGIN[dialect])
        yield SnapshotReader(cursor, dialect, repository)
    finally:
        with suppress(Exception):
            connection.cursor().execute("ROLLBACK")
        connection.close()


def _driver_errors() -> tuple[type[Exception], ...]:
    """What the drivers raise, for those that are loaded."""
    modules = ("sqlite3", "pysqlite3.dbapi2", "psycopg")
    return tuple(sys.modules[name].Error for name in modules if name in sys.modules)


def _said(error: Exception) -> str:
    return " ".join(str(error).split())
