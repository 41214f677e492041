"""Saving what can be read of a damaged SQLite file.

The file is read page by page, and the tables are recognised by their rows, so no page that is
destroyed takes another one's rows along, the schema's own pages included. The schema in the file is
not believed; it is asked only where the rows of a tree would fit several tables. Then the
invariants are restored: an experiment whose row or outcome is lost waits again, so a run of the
study completes it. Names that are lost are taken from their copies in other rows.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any

from sqlalchemy import Column, Numeric, Table
from sqlalchemy.dialects import sqlite

from zenturio.errors import RecordError
from zenturio.record import schema_version, sql_names, studies
from zenturio.record.codec import SLOTTED, Form, unescape
from zenturio.record.database import Transaction
from zenturio.record.entities import OUTCOME_STATES, Field
from zenturio.record.field_layout import (
    FieldDeclaration,
    FieldLayout,
    FieldLocation,
    Role,
    StoredField,
)
from zenturio.record.schema import ADDED_COLUMNS, tables_of
from zenturio.record.sql_names import COMMON, SLOT_NAMES
from zenturio.record.sqlite import SQLite
from zenturio.record.sqlite_pages import PageRow, SQLitePages

_ROLES: tuple[tuple[Role, str], ...] = (("parameter", "parameters"), ("metric", "metrics"))
_OWNED = ("results", "attempts", "definitions")
"""Tables from which a version is known to have been there."""


def restore_names(transaction: Transaction) -> None:
    """Give every version with any remains a study with a name and all its fields."""
    _restore_versions(transaction)
    for (number,) in transaction.sql("SELECT id FROM studies ORDER BY id"):
        _restore_fields(transaction, number)
    for version, study in transaction.sql("SELECT id, study FROM versions ORDER BY id"):
        _restore_members(transaction, version, study)
        _restore_definition(transaction, version)


def _restore_versions(transaction: Transaction) -> None:
    parts = " UNION ".join(
        f"SELECT version FROM {table} WHERE version <> {studies.NO_VERSION}" for table in _OWNED
    )
    present = {number for (number,) in transaction.sql("SELECT id FROM versions")}
    for (number,) in transaction.sql(f"{parts} ORDER BY 1"):
        if number not in present:
            study = _study_of(transaction, number)
            transaction.sql(
                "INSERT INTO versions (id, study, number, created, edits, members) SELECT ?, ?,"
                " 1 + max(coalesce(max(number), 0), coalesce(-(SELECT current FROM studies"
                " WHERE id = ?), 0)), ?, 0, '{}' FROM versions WHERE study = ?",
                (number, study, study, transaction.now, study),
            )
    for (number,) in transaction.sql(
        "SELECT study FROM versions WHERE study NOT IN (SELECT id FROM studies)"
        " UNION SELECT study FROM fields WHERE study NOT IN (SELECT id FROM studies)"
    ):
        _add_study(transaction, number)
    transaction.sql(
        "UPDATE studies SET current = (SELECT max(id) FROM versions WHERE study = studies.id)"
        " WHERE current > 0"
        " AND current NOT IN (SELECT id FROM versions WHERE study = studies.id)"
    )


def _study_of(transaction: Transaction, version: int) -> int:
    """Return the study that a version belongs to: a new one, where nothing tells of another.

    It is the one whose current version it is, or that has the fields which its definitions name.
    """
    rows = transaction.sql("SELECT id FROM studies WHERE current = ?", (version,))
    if len(rows) == 1:
        return int(rows[0][0])
    names = {(role, field.name) for role, field in _declared_fields(transaction, [version])}
    fields: dict[int, set[tuple[str, str]]] = {}
    for study, role, name in transaction.sql("SELECT study, role, name FROM fields"):
        fields.setdefault(study, set()).add((role, unescape(name)))
    fitting = [study for study, field_names in fields.items() if names and names <= field_names]
    if fitting:
        return min(fitting, key=lambda study: (len(fields[study]), study))
    ((last,),) = transaction.sql(
        "SELECT max(coalesce((SELECT max(id) FROM studies), 0),"
        " coalesce((SELECT max(study) FROM fields), 0),"
        " coalesce((SELECT max(study) FROM versions), 0))"
    )
    return int(last) + 1


def _add_study(transaction: Transaction, number: int) -> None:
    name = f"salvaged-{number}"
    view_names = [view for (view,) in transaction.sql("SELECT sql_name FROM studies")]
    transaction.sql(
        "INSERT INTO studies (id, project, name, sql_name, current, revision, opened, pinned)"
        " VALUES (?, ?, ?, ?, (SELECT max(id) FROM versions WHERE study = ?), 1, ?, 0)",
        (number, COMMON, name, sql_names.study_view(name, view_names), number, transaction.now),
    )


def _declared_fields(
    transaction: Transaction, versions: Iterable[int]
) -> Iterator[tuple[Role, Field]]:
    """Yield the fields that the definitions of *versions* name, in their order."""
    for version in versions:
        for (document,) in transaction.sql(
            "SELECT document FROM definitions WHERE version = ? ORDER BY id", (version,)
        ):
            with suppress(ValueError, KeyError, TypeError):  # what is not ours tells nothing
                read = json.loads(document)
                fields = [(role, Field(**entry)) for role, part in _ROLES for entry in read[part]]
                yield from fields


def _restore_fields(transaction: Transaction, study: int) -> None:
    """Fields that are missing: places are given in the order of their declaration.

    What stands in a slot that no declared field has is a metric without a name.
    """
    rows = transaction.sql("SELECT id FROM versions WHERE study = ? ORDER BY id", (study,))
    versions = [version for (version,) in rows]
    before = _read_fields(transaction, study)
    layout = FieldLayout("sqlite", study, 0, 0, before)
    if not before:
        for role, field in _declared_fields(transaction, versions):
            layout = layout.declared(role, [field])
    used_slots = {slot for stored in layout.fields for slot in stored.place.slots}
    fields = list(layout.fields)
    for slot in _filled(transaction, versions):
        if slot not in used_slots:
            number = 1 + max((stored.number for stored in fields), default=-1)
            name = f"field_{slot}"
            fields.append(
                StoredField(number, "metric", Field(name), name, FieldLocation((slot,)), Form(0))
            )
    # Of a field that was lost nobody knows which forms its values have.
    new = [replace(stored, forms=SLOTTED | Form.SERIES) for stored in fields[len(before) :]]
    transaction.insert(
        "fields",
        studies.FIELD_COLUMNS,
        [studies.field_row(study, stored) for stored in new],
    )


def _read_fields(transaction: Transaction, study: int) -> tuple[StoredField, ...]:
    rows = transaction.sql(
        f"SELECT {', '.join(studies.FIELD_COLUMNS[1:])} FROM fields WHERE study = ?"
        " ORDER BY number",
        (study,),
    )
    return tuple(studies.field_of(row) for row in rows)


def _filled(transaction: Transaction, versions: Sequence[int]) -> list[str]:
    """Return the slots that any result of *versions* has a value in."""
    slots = SLOT_NAMES["sqlite"]
    counts = [0] * len(slots)
    for version in versions:
        ((*version_counts,),) = transaction.sql(
            f"SELECT {', '.join(f'count({slot})' for slot in slots)} FROM results"
            " WHERE version = ?",
            (version,),
        )
        counts = [sum(pair) for pair in zip(counts, version_counts, strict=True)]
    return [slot for slot, count in zip(slots, counts, strict=True) if count]


def _restore_members(transaction: Transaction, version: int, study: int) -> None:
    """Give a version without fields those of its study, measured as its definitions say."""
    ((text,),) = transaction.sql("SELECT members FROM versions WHERE id = ?", (version,))
    with suppress(ValueError):
        if isinstance(stored := json.loads(text), dict) and stored:
            return
    declared: Mapping[Any, Field] = {
        (role, field.name): field for role, field in _declared_fields(transaction, [version])
    }
    members = {
        # Which forms its values have is not known: any that the study's have.
        f.number: FieldDeclaration.of(declared.get((f.role, f.field.name), f.field), f.forms)
        for f in _read_fields(transaction, study)
    }
    transaction.sql(
        "UPDATE versions SET members = ? WHERE id = ?", (studies.members_text(members), version)
    )


def _restore_definition(transaction: Transaction, version: int) -> None:
    """Give a version without definitions one with its fields."""
    if transaction.sql("SELECT 1 FROM definitions WHERE version = ? LIMIT 1", (version,)):
        return
    restored = studies.versions_by_id(transaction, [version])[version]
    document: dict[str, Any] = {"goals": [], "provenance": {}, "notes": {}, "sources": {}}
    layout = studies.read_layout(transaction, restored)
    for role, part in _ROLES:
        document[part] = [
            {"name": f.field.name, "type": f.field.type, "unit": f.field.unit,
             "kind": f.field.kind, "how": f.field.how}
            for f in layout.own_fields if f.role == role
        ]  # fmt: skip
    transaction.insert(
        "definitions",
        ("version", "at", "document"),
        [(version, transaction.now, json.dumps(document))],
    )


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
    added: int = 0
    """How many of the last columns came with upgrades: rows of before end earlier."""

    def fits(self, row: PageRow) -> bool:
        values, width = row.values, len(self.kinds)
        return width - self.added <= len(values) <= width and all(
            type(value) in kinds for value, kinds in zip(values, self.kinds, strict=False)
        )

    def is_shortened(self, row: PageRow) -> bool:
        """Return whether *row* lacks the columns of later upgrades."""
        return len(row.values) < len(self.kinds)

    def read(self, row: PageRow) -> list[Any]:
        """Return the values of *row* in the order of the columns, NULL for later ones."""
        values = list(row.values) + [None] * (len(self.kinds) - len(row.values))
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
    names = tuple(column.name for column in table.columns)
    upgrades = ADDED_COLUMNS.values()
    added = {
        name for tables in upgrades for of, some in tables if of == table.name for name in some
    }
    last = next((at for at, name in enumerate(reversed(names)) if name not in added), len(names))
    return TableShape(table.name, names, tuple(kinds), key, last)


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
        in_schema = [shape for shape in fitting if shape.table in roots]
        if len(in_schema) == 1:
            return in_schema[0]
        # What fits a narrower shape fits wider ones, too; shortened rows fit more than whole ones.
        sample = list(islice(self._rows(top), SAMPLE))
        return min(
            fitting,
            key=lambda shape: (any(map(shape.is_shortened, sample)), sum(map(len, shape.kinds))),
        )

    def _fitting(self, top: int) -> list[TableShape]:
        """Return the shapes that fit all rows of a sample of a tree."""
        sample = list(islice(self._rows(top), SAMPLE))
        return [s for s in self._known if sample and all(map(s.fits, sample))]

    def _rows(self, top: int, *, counting: bool = False) -> Iterator[PageRow]:
        for number in self.pages.tree(top):
            for row in self.pages.rows(number):
                if row is not None:
                    yield row
                elif counting:
                    self.unreadable += 1


@dataclass(frozen=True, slots=True)
class Salvage:
    """What was saved, and what was not."""

    target: Path
    rows: dict[str, int]
    """How many rows of each table were read."""
    pages: int
    """How many pages are destroyed that others name."""
    unreadable: int
    """How many rows of other pages cannot be read."""
    waiting: int
    """How many experiments have to run again."""


def salvage_file(source: SQLite, target: SQLite) -> Salvage:
    """Read *source*, writes *target*, which is a sound repository then."""
    with tempfile.TemporaryDirectory(dir=target.path.parent) as folder:
        pages = SQLitePages(_copied(source, Path(folder)))
    reading = _Reading(RecognisedTables(pages, shapes()))
    if not reading.file.trees.keys() - {"hosts"}:
        raise RecordError(
            f"nothing can be read from {source.location}", hint="restore a copy of it"
        )
    database = schema_version.connect(target, 0)
    try:
        database.write(reading.copy)
        lost = database.write(_mend)
    finally:
        database.close()
    file = reading.file
    return Salvage(target.path, dict(reading.rows), file.destroyed, file.unreadable, lost)


def _copied(source: SQLite, folder: Path) -> Path:
    """Return a copy to be read: where a transaction was cut off, it is undone in the copy."""
    for name in (source.path.name, f"{source.path.name}-wal", f"{source.path.name}-journal"):
        if source.path.with_name(name).exists():
            shutil.copy(source.path.with_name(name), folder)
    copy = folder / source.path.name
    if copy.with_name(f"{copy.name}-journal").exists():
        connection = SQLite(copy, 0).connect()
        with suppress(connection.Error, UnicodeDecodeError):
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        connection.close()
    return copy


class _Reading:
    """A damaged file, while it is copied into a sound one."""

    def __init__(self, file: RecognisedTables) -> None:
        self.file = file
        self.rows: Counter[str] = Counter()

    def copy(self, transaction: Transaction) -> None:
        """Everything that can be read, table by table."""
        self.rows.clear()
        for shape in shapes():
            if shape.table not in _NOT_COPIED:
                rows = map(shape.read, self.file.rows(shape.table))
                self._insert(transaction, shape.table, shape.columns, rows)

    def _insert(
        self, transaction: Transaction, table: str, names: tuple[str, ...], rows: Iterator[Any]
    ) -> None:
        marks = ", ".join("?" * len(names))
        # One row after the other: a few of them may hold more than fits into memory.
        transaction.sql_many(
            f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})",
            self._counted(table, rows),
        )

    def _counted(self, table: str, rows: Iterator[Any]) -> Iterator[Any]:
        for row in rows:
            self.rows[table] += 1
            yield row


_NOT_COPIED = ("counters", "claims", "edits", "upgrade")
"""What is counted anew, and what only living drivers and caches need."""
_STATES = ", ".join(f"'{state}'" for state in sorted(OUTCOME_STATES))
_TRIED = "SELECT id FROM results UNION SELECT id FROM attempts UNION SELECT source FROM copies"
_IMPOSSIBLE = (
    "DELETE FROM studies WHERE name = '' OR instr(name, char(0)) OR id < 1",
    "DELETE FROM versions WHERE number < 1",
    (
        "DELETE FROM fields WHERE role NOT IN ('parameter', 'metric') OR name = ''"
        " OR number NOT BETWEEN 0 AND 1000000 OR forms NOT BETWEEN 0 AND 63"
        " OR place GLOB '*[^bcv:,0-9]*'"
    ),
    f"DELETE FROM results WHERE status NOT IN ({_STATES}) OR length(digest) <> 16 OR attempt < 1",
    "DELETE FROM attempts WHERE id IN (SELECT id FROM results)",
)
"""Rows that no program of ours wrote: single bytes of a page may be wrong."""
_MENDED = (
    "UPDATE studies SET view_revision = NULL",  # views are made anew
    "UPDATE leases SET ended = until WHERE ended IS NULL",
    (  # one without an owner: its studies belong to all
        "INSERT INTO projects (id, uuid, owner, name, created)"
        " SELECT DISTINCT project, 'lost-' || project, '', 'lost-' || project, 0 FROM studies"
        " WHERE project NOT IN (SELECT id FROM projects)"
    ),
    *(
        f"DELETE FROM {table} WHERE version NOT IN (SELECT id FROM versions)"
        for table in ("leases", "recipes", "events", "rounds")
    ),
    *(
        f"DELETE FROM {table} WHERE result NOT IN (SELECT id FROM results)"
        for table in ("chunks", "aliases")
    ),
    (
        "DELETE FROM copies WHERE result NOT IN"
        " (SELECT id FROM results UNION SELECT id FROM attempts)"
    ),
    *(
        f"DELETE FROM {table} WHERE attempt NOT IN ({_TRIED})"
        for table in ("logs", "artifacts", "conditions")
    ),
    # The file is in the store under its hash.
    "INSERT OR IGNORE INTO contents (digest, size) SELECT content, size FROM artifacts",
    (
        "DELETE FROM sources WHERE content NOT IN (SELECT digest FROM contents)"
        " OR definition NOT IN (SELECT id FROM definitions)"
    ),
    (
        "INSERT OR IGNORE INTO hosts (id, name, machine, kernel, memory)"
        " SELECT host, 'lost-' || host, 0, '', 0 FROM results UNION"
        " SELECT host, 'lost-' || host, 0, '', 0 FROM attempts"
    ),
    (
        "INSERT OR IGNORE INTO machines (id, digest, label, cpu, cores, accelerators, setup,"
        " assumed) SELECT DISTINCT machine, CAST('lost' || machine AS BLOB), 'lost', '', 0, '[]',"
        " '', 1 FROM results WHERE machine <> 0"
    ),
    (
        "INSERT INTO counters (version, machine, round, status, count)"
        " SELECT version, machine, round, status, count(*) FROM results GROUP BY 1, 2, 3, 4"
    ),
    (
        f"INSERT INTO upgrade (step, done, at) SELECT '{schema_version.FORMER}', 0, 0"
        " WHERE EXISTS (SELECT 1 FROM results WHERE key IS NULL)"
    ),
    "DELETE FROM sqlite_sequence WHERE name = 'claims'",
    f"INSERT INTO sqlite_sequence SELECT 'claims', max(id) FROM ({_TRIED})",
)


def _mend(transaction: Transaction) -> int:
    """Make the laws hold again; return how many experiments were begun and have no result."""
    for statement in _IMPOSSIBLE:
        transaction.sql(statement)
    restore_names(transaction)
    for statement in _MENDED:
        transaction.sql(statement)
    ((waiting,),) = transaction.sql(
        "SELECT count(DISTINCT digest) FROM attempts"
        " WHERE digest NOT IN (SELECT digest FROM results)"
    )
    return int(waiting)
