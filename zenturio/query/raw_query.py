"""SQL that a user wrote: tables of CSV files that it may name, and hints where a name is wrong."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from zenturio.errors import InputError, Passage, did_you_mean
from zenturio.query.catalog import open_snapshot, read_catalog
from zenturio.query.raw_databases import QueryLimits
from zenturio.query.result_table import ResultTable
from zenturio.query.sql_fragments import quote_name as quoted
from zenturio.record import Repository
from zenturio.record.sql_names import FACTS, plain_view, with_parts

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
        raise InputError(f"{path} is too large for a query", hint="leave out what is not asked for")
    names = ", ".join('"' + column.replace('"', '""') + '"' for column in header)
    return f"{name} ({names}) AS (VALUES {values})"


def _read(path: Path) -> list[list[str]]:
    """All rows that are not empty."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}", hint="a file of CSV") from error
    if not rows:
        raise InputError(f"{path} is empty", hint="its first line has the names of its columns")
    return [[cell.strip() for cell in rows[0]], *rows[1:]]


def _literals(cells: Sequence[str]) -> list[str]:
    """A column as SQL writes it."""
    filled = [cell for cell in cells if cell]
    for form in (_WHOLE, _NUMBER):
        if filled and all(form.fullmatch(cell) for cell in filled):
            return [cell or "NULL" for cell in cells]
    return ["'" + cell.replace("'", "''") + "'" if cell else "NULL" for cell in cells]


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
    """*text* for SQLite, where a name in double quotes that nothing has is taken for a text.

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
    """*error* with a hint, where it is about a column or a table that there is not."""
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
    asked = text.casefold()
    with open_snapshot(repository) as reader:
        for study in repository.studies():
            plain = plain_view(study.view)
            if study.view.casefold() in asked or plain.casefold() in asked:
                if last in FACTS:
                    view = study.view_all
                    view = view if plain_view(view) == view else quoted(view)
                    return f"{view} has it, with the other facts of each result"
                catalog = read_catalog(reader, study.name)
                columns |= dict.fromkeys(column.view for column in catalog.columns.values())
    hint = _in_quotes(last, columns) or did_you_mean(last, columns)
    in_quotes = any(match["name"] == last for match in _QUOTED.finditer(text))
    if in_quotes and hint.startswith("there is"):  # nothing is near
        return "a text stands in single quotes: '" + last.replace("'", "''") + "'"
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
    """The answer to *text*, one SELECT.

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
            from zenturio.query.raw_databases import run_in_sqlite  # noqa: PLC0415

            names, rows = run_in_sqlite(
                repository.location, with_names_in_backticks(expanded), limits
            )
            names = [written_head(head, statement) for head in names]
        else:
            from zenturio.query.raw_databases import run_in_postgresql as ask_server  # noqa: PLC0415

            names, rows = ask_server(
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
