"""SQL that somebody writes, in SQLite."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zenturio.errors import InputError, ZenError
from zenturio.query.functions import register_functions
from zenturio.query.raw_limits import (
    QueryLimits,
    collect_rows,
    denied_error,
    too_large_error,
    too_slow_error,
)
from zenturio.record.sqlite import read_only_uri, sqlite_module

if TYPE_CHECKING:
    from types import ModuleType

HEAP_BYTES = 256 * 1024 * 1024
"""Bytes that SQLite may hold in this process once somebody's own SQL has run in it.

A single value may have a gigabyte otherwise, before any row is seen.
"""

STEPS_BETWEEN_LOOKS = 10_000
"""Instructions of SQLite's machine between two looks at the clock."""

REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
"""Functions that reach beyond the database."""


def run_in_sqlite(
    path: str, text: str, limits: QueryLimits
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names of the answer's columns, and its rows up to one more than the limit."""
    sqlite = sqlite_module()
    uri = read_only_uri(Path(path)) or f"{Path(path).as_uri()}?mode=ro"
    try:
        connection = sqlite.connect(uri, uri=True, timeout=limits.seconds)
    except sqlite.Error as error:
        raise InputError(f"{path}: {error}") from error
    guard = _Guard(sqlite, limits)
    try:
        guard.stand_before(connection)
        cursor = connection.execute(text)
        names = [head[0] for head in cursor.description or ()]
        return names, collect_rows(cursor, limits)
    except sqlite.Warning as error:  # what Python 3.11 calls a second statement
        raise denied_error(str(error)) from error
    except (sqlite.Error, MemoryError) as error:
        raise guard.explain(error) from error
    finally:
        connection.close()


class _Guard:
    """What is denied, and how long it may take."""

    def __init__(self, sqlite: ModuleType, limits: QueryLimits) -> None:
        self._allowed = {
            sqlite.SQLITE_SELECT,
            sqlite.SQLITE_READ,
            sqlite.SQLITE_FUNCTION,
            sqlite.SQLITE_RECURSIVE,
        }
        self._sqlite = sqlite
        self._limits = limits
        self._deadline = time.monotonic() + limits.seconds
        self._denied = ""
        self._late = False

    def stand_before(self, connection: Any) -> None:
        connection.execute(f"PRAGMA hard_heap_limit = {HEAP_BYTES}")
        register_functions(connection)
        connection.set_progress_handler(self._look_at_clock, STEPS_BETWEEN_LOOKS)
        connection.set_authorizer(self._authorise)

    def _authorise(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        function = (second or "").casefold()
        if action in self._allowed and not (
            action == self._sqlite.SQLITE_FUNCTION and function in REFUSED_FUNCTIONS
        ):
            return int(self._sqlite.SQLITE_OK)
        self._denied = self._denied or " ".join(filter(None, (first, second))) or "no SELECT"
        return int(self._sqlite.SQLITE_DENY)

    def _look_at_clock(self) -> int:
        self._late = time.monotonic() > self._deadline
        return self._late

    def explain(self, error: BaseException) -> ZenError:
        if self._late:
            return too_slow_error(self._limits)
        if isinstance(error, MemoryError) or "too big" in str(error):
            return too_large_error(self._limits)
        said = str(error)
        if self._denied:
            return denied_error(f"{said} ({self._denied})")
        return denied_error(said) if "one statement" in said else InputError(said)
