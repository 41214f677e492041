"""Rows of files beside the studies: tables that somebody's own SQL can name."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from zenturio.errors import InputError
from zenturio.record.sql_text import with_parts

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
        raise InputError(f"{path}: each column has a name of its own", hint="in its first line")
    wrong = next((i for i, row in enumerate(rows, 2) if len(row) > len(header)), None)
    if wrong is not None or not rows:
        said = f"row {wrong} has more cells than there are columns" if rows else "no rows"
        raise InputError(f"{path}: {said}", hint="its first line names all columns")
    rows = [row + [""] * (len(header) - len(row)) for row in rows]
    columns = [_literals([row[i].strip() for row in rows]) for i in range(len(header))]
    values = ", ".join(f"({', '.join(cells)})" for cells in zip(*columns, strict=True))
    if len(values) > MOST_CHARACTERS:
        raise InputError(f"{path} is too large for a query", hint="leave out what is not asked for")
    names = ", ".join('"' + each.replace('"', '""') + '"' for each in header)
    return f"{name} ({names}) AS (VALUES {values})"


def _read(path: Path) -> list[list[str]]:
    """All rows that are not empty."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            found = [row for row in csv.reader(file) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}", hint="a file of CSV") from error
    if not found:
        raise InputError(f"{path} is empty", hint="its first line has the names of its columns")
    return [[cell.strip() for cell in found[0]], *found[1:]]


def _literals(cells: Sequence[str]) -> list[str]:
    """A column as SQL writes it."""
    known = [cell for cell in cells if cell]
    for form in (_WHOLE, _NUMBER):
        if known and all(form.fullmatch(cell) for cell in known):
            return [cell or "NULL" for cell in cells]
    return ["'" + cell.replace("'", "''") + "'" if cell else "NULL" for cell in cells]
