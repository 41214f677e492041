"""Recognition of the table that a tree of pages belongs to, by its rows.

The schema in the file is not believed: the tables that a repository has are known here. It is
asked only where the rows of a tree would fit several tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import NoneType
from typing import Any

from sqlalchemy import Column, Numeric, Table
from sqlalchemy.dialects import sqlite

from zenturio.record.schema import tables_of
from zenturio.record.sqlite_pages import PageRow, SQLitePages

_DIALECT = sqlite.dialect()
SAMPLE = 200
"""So many rows of a tree are looked at to tell whose they are."""
SCHEMA = "sqlite_master"
_Kinds = frozenset[type]
_KINDS: Mapping[str, _Kinds] = {
    "INTEGER": frozenset([int]),
    "TEXT": frozenset([str]),
    "BLOB": frozenset([bytes]),
    # A real without a fraction is stored as an integer.
    "DOUBLE": frozenset([int, float]),
    "REAL": frozenset([int, float]),
    "": frozenset([int, float, str, bytes, NoneType]),
}
_INDEX: _Kinds = frozenset([int, str])
"""A point's index of any size."""
_EMPTY: _Kinds = frozenset([NoneType])
_NO: _Kinds = frozenset()


@dataclass(frozen=True, slots=True)
class TableShape:
    """What rows of a table look like."""

    table: str
    columns: tuple[str, ...]
    kinds: tuple[frozenset[type], ...]
    key: str | None = None
    """The column that is the row's number, and is empty in the row itself."""

    def fits(self, row: PageRow) -> bool:
        values = row.values
        return len(values) == len(self.kinds) and all(
            type(value) in kinds for value, kinds in zip(values, self.kinds, strict=True)
        )

    def read(self, row: PageRow) -> list[Any]:
        """Return the values of *row* in the order of the columns."""
        values = list(row.values)
        if self.key is not None:
            values[self.columns.index(self.key)] = row.number
        return values


def shape_of(table: Table) -> TableShape:
    """Return what the rows of one of our tables look like."""
    keys = list(table.primary_key.columns)
    key = keys[0].name if len(keys) == 1 and _declared(keys[0]) == "INTEGER" else None
    kinds = [
        _EMPTY if column.name == key else _kinds(column) | (_EMPTY if column.nullable else _NO)
        for column in table.columns
    ]
    return TableShape(table.name, tuple(column.name for column in table.columns), tuple(kinds), key)


def _declared(column: Column[Any]) -> str:
    declared = str(column.type.compile(dialect=_DIALECT))
    return "INTEGER" if declared in {"BIGINT", "SMALLINT"} else declared


def _kinds(column: Column[Any]) -> _Kinds:
    return _INDEX if isinstance(column.type, Numeric) else _KINDS[_declared(column)]


def shapes() -> list[TableShape]:
    """Return those of all tables that a repository has."""
    return [shape_of(table) for table in tables_of("sqlite")]


_TEXT, _NUMBER = frozenset([str]), frozenset([int])
_SCHEMA = TableShape(
    SCHEMA,
    ("type", "name", "tbl_name", "rootpage", "sql"),
    (_TEXT, _TEXT, _TEXT, _NUMBER, frozenset([str, NoneType])),
)
_TYPES = frozenset(("table", "index", "view", "trigger"))


class RecognisedTables:
    """The trees of a file by the tables that they are parts of."""

    def __init__(self, pages: SQLitePages, shapes: Sequence[TableShape]) -> None:
        self.pages = pages
        self._known = [*shapes, _SCHEMA]
        self.unreadable = 0
        """How many rows could not be read so far."""

    @cached_property
    def trees(self) -> dict[str, list[int]]:
        """The topmost pages of what is left of each table; whole trees stand first."""
        tops_by_table: dict[str, list[int]] = {}
        for top in self.pages.tops:
            shape = self._recognise(top)
            if shape is not None:
                tops_by_table.setdefault(shape.table, []).append(top)
        return {
            name: sorted(tops, key=self.pages.is_broken) for name, tops in tops_by_table.items()
        }

    @cached_property
    def destroyed(self) -> int:
        """How many pages are named by others and are no pages any more."""
        below = {child for children in self.pages.children.values() for child in children}
        roots = {row[3] for row in self.schema if row[0] == "table"}
        pages = self.pages.leaves | self.pages.children.keys()
        return len((below | roots | {1}) - pages - self._of_indexes)

    @cached_property
    def _of_indexes(self) -> set[int]:
        numbers = range(1, self.pages.count + 1)
        kinds = ((number, self.pages.pointers(number)) for number in numbers)
        return {number for number, header in kinds if header and header[0] in {2, 10}}

    @cached_property
    def schema(self) -> list[tuple[Any, ...]]:
        """What is left of the schema's rows; nothing in them is to be believed."""
        tops = [top for top in self.pages.tops if self._fitting(top) == [_SCHEMA]]
        rows = (row for top in tops for row in self._rows(top))
        return [row.values for row in rows if _SCHEMA.fits(row) and row.values[0] in _TYPES]

    def rows(self, table: str) -> Iterator[PageRow]:
        """Yield the rows that are left of *table*; what does not look like one is left out."""
        shape = next(candidate for candidate in self._known if candidate.table == table)
        for top in self.trees.get(table, ()):
            yield from (row for row in self._rows(top, counting=True) if shape.fits(row))

    def _recognise(self, top: int) -> TableShape | None:
        fitting = self._fitting(top)
        if len(fitting) < 2:
            return fitting[0] if fitting else None
        roots = {row[1] for row in self.schema if row[0] == "table" and row[3] == top}
        named = [shape for shape in fitting if shape.table in roots]
        if len(named) == 1:
            return named[0]
        # What fits a narrower shape fits wider ones, too.
        return min(fitting, key=lambda shape: sum(map(len, shape.kinds)))

    def _fitting(self, top: int) -> list[TableShape]:
        """Return the shapes that all rows of a tree have, as far as they are looked at."""
        sample = list(islice(self._rows(top), SAMPLE))
        return [s for s in self._known if sample and all(map(s.fits, sample))]

    def _rows(self, top: int, *, counting: bool = False) -> Iterator[PageRow]:
        for number in self.pages.tree(top):
            for row in self.pages.rows(number):
                if row is not None:
                    yield row
                elif counting:
                    self.unreadable += 1
