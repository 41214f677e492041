"""One moment of the database, seen through the studies' views."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from zenturio.errors import ExpressionError, InputError, Place, RecordError
from zenturio.expression import Value
from zenturio.query.fragments import Dialect, Fragment
from zenturio.query.functions import register
from zenturio.record import Repository

if TYPE_CHECKING:
    from sqlalchemy import Engine

_BEGIN: dict[Dialect, str] = {
    "sqlite": "BEGIN",
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}

_OUT_OF_RANGE = "22003"
"""SQLSTATE of numbers that are too large, or too small."""
_FETCHED = 5000
"""Rows that are taken from the database at a time."""


class Reader:
    """Answers questions, all about the same moment."""

    def __init__(self, cursor: Any, dialect: Dialect, place: str) -> None:
        self.dialect = dialect
        self._cursor = cursor
        self._place = place

    def rows(self, statement: Fragment) -> list[tuple[Any, ...]]:
        """What *statement* answers."""
        text, values = statement.bound(self.dialect)
        return self.fetch(text, values, statement.place)

    def fetch(
        self, text: str, values: Sequence[Value] = (), place: Place | None = None
    ) -> list[tuple[Any, ...]]:
        """What *text* answers, with *values* at its marks; *place* is of the expression in it."""
        with self._explaining(place):
            self._cursor.execute(text, *([values] if values else []))
            found: list[tuple[Any, ...]] = self._cursor.fetchall()
        return found

    def each(self, statement: Fragment) -> Iterator[tuple[Any, ...]]:
        """What *statement* answers, row by row: not all of it is held at once."""
        text, values = statement.bound(self.dialect)
        with self._explaining(statement.place):
            self._cursor.execute(text, *([values] if values else []))
            while rows := self._cursor.fetchmany(_FETCHED):
                yield from rows

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
                    cure="test the operands first, as in x < 1e100 and x * x > 1",
                ) from error
            raise RecordError(f"{self._place}: {_said(error)}") from error


@contextmanager
def reading(repository: Repository) -> Iterator[Reader]:
    """A reader of *repository*; InputError if that keeps its rows in no database."""
    engine: Engine | None = getattr(repository, "engine", None)
    if engine is None:
        raise InputError(
            f"{repository.place} is no database: nothing can be queried there",
            cure="run with a database: ZENTURIO_DB=path/to/file.db",
        )
    dialect = cast("Dialect", engine.dialect.name)
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        if dialect == "sqlite":
            register(connection.driver_connection)
        cursor.execute(_BEGIN[dialect])
        yield Reader(cursor, dialect, repository.place)
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
