"""SQL that a user wrote: run read-only and within limits, with CSV files as tables."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zenturio.errors import InputError, Passage, SafetyError, ZenError, did_you_mean
from zenturio.query.catalog import open_snapshot, read_catalog
from zenturio.query.result_table import ResultTable
from zenturio.query.sql_fragments import quote_name as quoted
from zenturio.query.sql_writer import register_functions
from zenturio.record import Repository
from zenturio.record.database_roles import POWERS, check_powers
from zenturio.record.sql_names import FACTS, plain_view, with_parts
from zenturio.record.sqlite import read_only_uri, sqlite_module

if TYPE_CHECKING:
    from types import ModuleType

    import psycopg


# Execution, where the database itself denies everything but reading
#
# SQLite: the file is opened for reading, an authoriser allows SELECT alone, a progress handler ends
# what takes too long, and the heap is limited. PostgreSQL: a read-only transaction, one statement
# behind a cursor, a time limit of the server, and a login role that may only read these tables.


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """How much an answer may be."""

    rows: int = 10_000
    """What comes behind them is cut off, and that is said."""
    size: int = 64 * 1024 * 1024
    """Bytes; a larger answer is refused."""
    seconds: float = 10.0


def collect_rows(rows: Iterable[tuple[Any, ...]], limits: QueryLimits) -> list[tuple[Any, ...]]:
    """Rows up to one more than the limit; SafetyError once they are too large."""
    collected: list[tuple[Any, ...]] = []
    bytes_left = limits.size
    for row in rows:
        # Counted while reading, so that an answer that is too large never stands in memory.
        bytes_left -= sum(len(v) if isinstance(v, str | bytes) else 8 for v in row)
        if bytes_left < 0:
            raise too_large_error(limits)
        collected.append(tuple(map(_plain, row)))
        if len(collected) > limits.rows:
            break
    return collected


def _plain(value: Any) -> Any:
    """Return a value that can be shown and written as JSON: bytes as digits, dates as text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.hex()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def too_large_error(limits: QueryLimits) -> SafetyError:
    return SafetyError(
        f"the result is larger than {limits.size / 1e6:.0f} MB",
        hint="select fewer columns or rows: … LIMIT 1000",
    )


def too_slow_error(limits: QueryLimits) -> SafetyError:
    return SafetyError(
        f"the query was stopped after {limits.seconds:g} seconds",
        hint="select less: add a condition, or use fewer joins",
    )


def denied_error(reason: str) -> SafetyError:
    return SafetyError(
        f"refused: {reason}", hint="one SELECT that reads tables and views is allowed"
    )


HEAP_BYTES = 256 * 1024 * 1024
"""Bytes that SQLite may allocate in this process once SQL of a user has run in it.

A single value may have a gigabyte otherwise, before any row is seen.
"""

STEPS_BETWEEN_LOOKS = 10_000
"""Instructions of SQLite's machine between two looks at the clock."""

REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
"""Functions that reach beyond the database."""


def run_in_sqlite(
    path: str, text: str, limits: QueryLimits
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the answer's columns, and its rows up to one more than the limit."""
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
        # Last, so that the settings above are not refused by it.
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
        message = str(error)
        if self._denied:
            return denied_error(f"{message} ({self._denied})")
        return denied_error(message) if "one statement" in message else InputError(message)


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
    connection: Any, user_text: str, text: str, limits: QueryLimits
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the answer's columns, and its rows up to one more than the limit.

    *text* is *user_text* behind what the views are that it names. *connection* has the login of a
    reader, and is closed.
    """
    import psycopg  # noqa: PLC0415 - an extra

    try:
        if match := _BEYOND.search(user_text):
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
        raise _explained(error, user_text, len(text) - len(user_text), limits) from error
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
    from psycopg import errors  # noqa: PLC0415 - an extra

    message = str(error.diag.message_primary or error)
    if _MARK in message:
        return SafetyError(
            f"a row of the result is larger than {_ROW / 1e6:.0f} MB",
            hint="ask for a part of it: left(…, 1000)",
        )
    match error:
        case errors.QueryCanceled():
            return too_slow_error(limits)
        case (
            errors.ReadOnlySqlTransaction()
            | errors.InsufficientPrivilege()
            | errors.FeatureNotSupported()
        ):
            return denied_error(message)
    if re.search("multiple commands|not allowed", message) or not re.match(
        r"(?i)\s*(select|values|with|table|\()", text
    ):
        return denied_error(message)
    at = int(error.diag.statement_position or 0) - len(_DECLARE) - 1 - before
    place = Passage.of(text, "<sql>").place(at) if 0 <= at < len(text) else None
    return InputError(message, place=place, hint=error.diag.message_hint or "")


# CSV files as tables

MOST_CHARACTERS = 1 << 19
"""Characters of rows: SQLite reads a million of a query."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def with_csv_tables(text: str, files: Mapping[str, Path]) -> str:
    """*text*, one query, in which each name of *files* is a table: the rows of a CSV file.

    The first line of a file has the names of its columns. What is a number in all rows is one,
    and what is empty, or lacks at the end of a row, is NULL.
    """
    if not files:
        return text
    return with_parts(text, [_table(name, path) for name, path in files.items()])


def _table(name: str, path: Path) -> str:
    if not name.isidentifier():
        raise InputError(f"--table {name}={path}", hint="a name of letters: --table optima=o.csv")
    header, *rows = _read(path)
    if len(set(header)) < len(header) or not all(header):
        raise InputError(
            f"{path}: two columns have the same name, or one has none",
            hint="give each column a name of its own, in the first line",
        )
    wrong = next((i for i, row in enumerate(rows, 2) if len(row) > len(header)), None)
    if wrong is not None or not rows:
        reason = f"row {wrong} has more cells than there are columns" if rows else "no rows"
        raise InputError(f"{path}: {reason}", hint="its first line names all columns")
    rows = [row + [""] * (len(header) - len(row)) for row in rows]
    columns = [_literals([row[i].strip() for row in rows]) for i in range(len(header))]
    values = ", ".join(f"({', '.join(cells)})" for cells in zip(*columns, strict=True))
    if len(values) > MOST_CHARACTERS:
        raise InputError(
            f"{path} is too large for a query",
            hint="leave out columns and rows that the query does not need",
        )
    names = ", ".join('"' + column.replace('"', '""') + '"' for column in header)
    return f"{name} ({names}) AS (VALUES {values})"


def _read(path: Path) -> list[list[str]]:
    """Return all rows that are not empty."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}", hint="a file of CSV") from error
    if not rows:
        raise InputError(f"{path} is empty", hint="its first line has the names of its columns")
    return [[cell.strip() for cell in rows[0]], *rows[1:]]


def _literals(cells: Sequence[str]) -> list[str]:
    """Return a column as SQL writes it."""
    filled = [cell for cell in cells if cell]
    for form in (_WHOLE, _NUMBER):
        if filled and all(form.fullmatch(cell) for cell in filled):
            return [cell or "NULL" for cell in cells]
    return ["'" + cell.replace("'", "''") + "'" if cell else "NULL" for cell in cells]


# Names in a query, and hints where one is wrong

_QUOTED = re.compile(
    r"""'(?:[^']|'')*+' | --[^\n]*+ | /\*.*?(?:\*/|\Z) | \[[^\]]*+\] | `(?:[^`]|``)*+`
      | "(?P<name>(?:[^"]|"")*+)" """,
    re.DOTALL | re.VERBOSE,
)
"""Texts, comments and names in quotes, each as a whole."""

_NO_COLUMN = re.compile(
    r"""no\ such\ column:\ (?P<sqlite>.+) | column\ "?(?P<postgresql>.+?)"?\ does\ not\ exist""",
    re.VERBOSE,
)
_NO_TABLE = re.compile(
    r"""no\ such\ table:\ (?P<sqlite>.+) | relation\ "(?P<postgresql>.+)"\ does\ not\ exist""",
    re.VERBOSE,
)


def with_names_in_backticks(text: str) -> str:
    """Return *text* for SQLite, where a name in double quotes that nothing has is taken for a text.

    In backticks it is an error. Nothing else in *text* is touched.
    """
    return _QUOTED.sub(_backticked, text)


def _backticked(match: re.Match[str]) -> str:
    name = match["name"]
    if name is None:
        return match[0]
    return "`" + name.replace('""', '"').replace("`", "``") + "`"


def written_head(head: str, text: str) -> str:
    """The name of an answer's column, which SQLite takes from the query, as *text* has it."""
    written = head.replace("`", '"')
    return head if head in text else written


def with_name_hint(error: InputError, repository: Repository, text: str) -> InputError:
    """Return *error* with a hint, where it is about a column or a table that there is not."""
    (diagnostic, *_) = error.diagnostics
    for pattern, hint_of in ((_NO_COLUMN, _column_hint), (_NO_TABLE, _table_hint)):
        if match := pattern.search(diagnostic.message):
            unknown = match["sqlite"] or match["postgresql"]
            if hint := hint_of(unknown, repository, text) or diagnostic.hint:
                return InputError(diagnostic.message, place=diagnostic.place, hint=hint)
    return error


def _column_hint(unknown: str, repository: Repository, text: str) -> str:
    last = unknown.rpartition(".")[2].strip('"')
    columns: dict[str, None] = {}
    lowered = text.casefold()
    with open_snapshot(repository) as reader:
        for study in repository.studies():
            plain = plain_view(study.view)
            if study.view.casefold() in lowered or plain.casefold() in lowered:
                if last in FACTS:
                    view = study.view_all
                    view = view if plain_view(view) == view else quoted(view)
                    return f"{view} has it, with the other facts of each result"
                catalog = read_catalog(reader, study.name)
                columns |= dict.fromkeys(column.view for column in catalog.columns.values())
    hint = _in_quotes(last, columns) or did_you_mean(last, columns)
    in_quotes = any(match["name"] == last for match in _QUOTED.finditer(text))
    if in_quotes and hint.startswith("there is"):  # nothing is near
        return "write a text in single quotes: '" + last.replace("'", "''") + "'"
    return hint


def _table_hint(unknown: str, repository: Repository, text: str) -> str:  # noqa: ARG001 - as for columns
    views = [view for study in repository.studies() for view in (study.view, study.view_all)]
    return _in_quotes(unknown, views) or did_you_mean(unknown, views)


def _in_quotes(unknown: str, names: Iterable[str]) -> str:
    """The hint for a name that is there, and must stand in quotes for a dot or its capitals."""
    exact_name = next((name for name in names if name.casefold() == unknown.casefold()), None)
    return f"write it in double quotes: {quoted(exact_name)}" if exact_name else ""


DEFAULT_LIMITS = QueryLimits()


def raw(repository: Repository, text: str, limits: QueryLimits = DEFAULT_LIMITS) -> ResultTable:
    """Return the answer to *text*, one SELECT.

    InputError with the database's words if it is wrong, SafetyError if it is denied or too much.
    """
    engine = getattr(repository, "engine", None)
    if engine is None:
        raise InputError(f"{repository.location} is not a database: nothing can be queried there")
    statement = text.strip().rstrip(";").rstrip()
    if not statement:
        raise InputError("the query is empty", hint='such as: zen sql "SELECT * FROM study_matmul"')
    if "\0" in statement:
        place = Passage.of(statement, "<sql>").place(statement.index("\0"))
        raise InputError("a query cannot hold a NUL byte", place=place)
    expanded: str = repository.expand_views(statement)  # type: ignore[attr-defined] # a database has it
    try:
        if engine.dialect.name == "sqlite":
            names, rows = run_in_sqlite(
                repository.location, with_names_in_backticks(expanded), limits
            )
            names = [written_head(head, statement) for head in names]
        else:
            names, rows = run_in_postgresql(
                repository.connect_reader(),  # type: ignore[attr-defined] # a database has it
                statement,
                expanded,
                limits,
            )
    except InputError as error:
        raise with_name_hint(error, repository, statement) from error
    cut = len(rows) > limits.rows
    notes = (f"cut after {limits.rows:,} rows: there are more",) if cut else ()
    shown = tuple(rows[: limits.rows])
    return ResultTable(tuple(names), shown, found=len(shown), notes=notes, sql=text)
