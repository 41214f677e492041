"""SQL that somebody writes, in PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg

from zenturio.errors import InputError, Passage, SafetyError, ZenError
from zenturio.query.raw_limits import QueryLimits, collect_rows, denied_error, too_slow_error
from zenturio.record.reader_role import POWERS, check_powers

_DECLARE = "DECLARE zen_raw NO SCROLL CURSOR FOR "
_ROW = 2_000_000
"""Bytes of a row: with no limit in the server, a value may have a gigabyte, in our memory, too."""
_FETCH = 16
_MARK = "zen: a row of"
_SIZED = "DECLARE zen_sized NO SCROLL CURSOR FOR SELECT zen.* FROM (SELECT * FROM ("
_GUARD = (
    f"\n) AS raw OFFSET 0) AS zen WHERE CASE WHEN pg_column_size(zen) > {_ROW}"
    f" THEN ('{_MARK} ' || pg_column_size(zen))::int > 0 ELSE true END"
)
"""The server itself stops at a row that is too large: what is no number is an error, known by its
mark. What stands in the brackets was a whole statement before, and is found once (OFFSET)."""

_BEYOND = re.compile(
    r"\b(set_config|query_to_xml\w*|cursor_to_xml\w*|table_to_xml\w*|schema_to_xml\w*"
    r"|database_to_xml\w*|pg_read_\w+|pg_ls_\w+|pg_stat_file|pg_file_\w+|lo_\w+|dblink\w*"
    r"|pg_terminate_backend|pg_cancel_backend|pg_reload_conf|pg_rotate_logfile|pg_advisory\w+"
    r"|pg_try_advisory\w+|pg_switch_wal|pg_notify|ts_stat"
    r"|pg_authid|pg_shadow|pg_user_mapping\w*|pg_subscription|pg_hba_file_rules)\b|\bU&",
    re.IGNORECASE,
)
"""Functions and tables that reach beyond studies, or that run a text as SQL behind our back.

The role is denied most of them anyway; large objects and locks are anybody's.
"""


def run_in_postgresql(
    connection: Any, asked: str, text: str, limits: QueryLimits
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names of the answer's columns, and its rows up to one more than the limit.

    *text* is what was *asked* behind what the views are that it names. *connection* has the login
    of a reader, and is closed.
    """
    try:
        if match := _BEYOND.search(asked):
            raise denied_error(f"{match.group()} reaches beyond the tables")
        cursor: Any = connection.cursor()
        _restrict(cursor, limits)
        # Prepared: the server takes one statement then, and no second one behind a semicolon.
        cursor.execute(_DECLARE + text, prepare=True)
        cursor.execute(_SIZED + text + _GUARD, prepare=True)
        cursor.execute("FETCH 0 FROM zen_sized")
        names = [head.name for head in cursor.description or ()]
        return names, collect_rows(_fetched(cursor, min(limits.rows + 1, _FETCH)), limits)
    except psycopg.Error as error:
        raise _explained(error, asked, len(text) - len(asked), limits) from error
    finally:
        # Whatever was done to the session goes with it.
        connection.close()


def _restrict(cursor: Any, limits: QueryLimits) -> None:
    cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    cursor.execute(POWERS)
    check_powers(cursor.fetchall())
    cursor.execute(f"SET LOCAL statement_timeout = {round(limits.seconds * 1000)}")


def _fetched(cursor: Any, size: int) -> Iterator[tuple[Any, ...]]:
    while True:
        cursor.execute(f"FETCH {size} FROM zen_sized")
        rows = cursor.fetchall()
        yield from rows
        if len(rows) < size:
            return


def _explained(error: psycopg.Error, text: str, before: int, limits: QueryLimits) -> ZenError:
    """The server's words, and its place in the text, *before* which so many characters stood."""
    said = str(error.diag.message_primary or error)
    if _MARK in said:
        return SafetyError(
            f"a row of the answer is larger than {_ROW / 1e6:.0f} MB",
            hint="ask for a part of it: left(…, 1000)",
        )
    match error:
        case psycopg.errors.QueryCanceled():
            return too_slow_error(limits)
        case (
            psycopg.errors.ReadOnlySqlTransaction()
            | psycopg.errors.InsufficientPrivilege()
            | psycopg.errors.FeatureNotSupported()
        ):
            return denied_error(said)
    if re.search("multiple commands|not allowed", said) or not re.match(
        r"(?i)\s*(select|values|with|table|\()", text
    ):
        return denied_error(said)
    at = int(error.diag.statement_position or 0) - len(_DECLARE) - 1 - before
    place = Passage.of(text, "<sql>").place(at) if 0 <= at < len(text) else None
    return InputError(said, place=place, hint=error.diag.message_hint or "")
