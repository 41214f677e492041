"""Saves what can be read of a damaged SQLite file.

The file is read page by page, and the tables are known by their rows, so no page that is destroyed
takes another one's rows along, the schema's own pages included. Then the laws are restored: an
experiment whose row or outcome is lost waits again, so a run of the study completes it. Names that
are lost are taken from what repeats them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zenturio.errors import RecordError
from zenturio.record import restoring, schema, studies, upgrade, views
from zenturio.record.database import Transaction
from zenturio.record.facts import STATES
from zenturio.record.layout import Layout
from zenturio.record.pages import Pages, Row
from zenturio.record.recognition import Recognised, in_chunks, shapes
from zenturio.record.sqlite import SQLite

CHUNK = 1000


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
    """Reads *source*, writes *target*, which is a sound repository then."""
    with tempfile.TemporaryDirectory(dir=target.path.parent) as folder:
        pages = Pages(_copied(source, Path(folder)))
    reading = _Reading(Recognised(pages, [*shapes(schema.metadata), restoring.VALUES]))
    if not reading.file.trees.keys() - {"hosts"}:
        raise RecordError(f"nothing can be read of {source.place}", cure="go back to a copy of it")
    database = upgrade.connect(target, 0)
    try:
        database.write(reading.copy)
        lost = database.write(_mend)
    finally:
        database.close()
    file = reading.file
    return Salvage(target.path, dict(reading.rows), file.destroyed, file.unreadable, lost)


def _copied(source: SQLite, folder: Path) -> Path:
    """A copy to be read: where a transaction was cut off, it is undone in the copy."""
    for name in (source.path.name, f"{source.path.name}-wal", f"{source.path.name}-journal"):
        if source.path.with_name(name).exists():
            shutil.copy(source.path.with_name(name), folder)
    copy = folder / source.path.name
    if copy.with_name(f"{copy.name}-journal").exists():
        connection = SQLite(copy, 0).connect()
        with suppress(connection.Error):
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        connection.close()
    return copy


class _Reading:
    """A damaged file, while it is copied into a sound one."""

    def __init__(self, file: Recognised) -> None:
        self.file = file
        self.rows: Counter[str] = Counter()

    def copy(self, transaction: Transaction) -> None:
        """Everything that can be read, table by table."""
        self.rows.clear()
        for shape in shapes(schema.metadata):
            # Counted anew from the rows.
            rows = self.file.rows(shape.table) if shape.table != "counters" else iter(())
            self._insert(transaction, shape.table, shape.columns, map(shape.read, rows))
        for statement in _IMPOSSIBLE:
            transaction.sql(statement)
        restoring.restore_studies(transaction, self.file)
        layouts = {
            layout.study: layout
            for study in studies.all_studies(transaction)
            for layout in [studies.read_layout(transaction, study.name)]
        }
        for layout in layouts.values():
            _make_table(transaction, layout)
        self._copy_values(transaction, layouts)

    def _insert(
        self, transaction: Transaction, table: str, names: tuple[str, ...], rows: Iterator[Any]
    ) -> None:
        marks = ", ".join("?" * len(names))
        for chunk in in_chunks(rows, CHUNK):
            self.rows[table] += len(chunk)
            transaction.sql_many(
                f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})",  # noqa: S608
                chunk,
            )

    def _copy_values(self, transaction: Transaction, layouts: dict[int, Layout]) -> None:
        """The rows of the studies' tables; an experiment says whose it is, or a share."""
        owners: dict[int, list[int]] = {}
        for experiment, study in transaction.sql(
            "SELECT id, study FROM experiments UNION ALL SELECT experiment, study FROM shares"
        ):
            owners.setdefault(experiment, []).append(study)
        columns = {n: restoring.columns_of(self.file, layout) for n, layout in layouts.items()}
        rows: dict[int, list[list[Any]]] = {n: [] for n in layouts}
        for study, row in self._owned(owners, layouts):
            names = columns.get(study, ())
            if restoring.fits(names, row):
                values = [row.number, *row.values[1:]]
                rows[study].append(values + [None] * (len(names) - len(values)))
            else:
                self.file.unreadable += 1
        for study, found in rows.items():
            self._insert(transaction, layouts[study].table, columns[study], iter(found))
            # Where the shares are lost, the rows of those who shared say them.
            transaction.sql(
                f"INSERT OR IGNORE INTO shares SELECT v.experiment, {study}"  # noqa: S608
                f" FROM {layouts[study].table} v JOIN experiments e ON e.id = v.experiment"
                f" WHERE e.study <> {study}"
            )

    def _owned(
        self, owners: dict[int, list[int]], layouts: dict[int, Layout]
    ) -> Iterator[tuple[int, Row]]:
        """Each row and the study that it is of."""
        named = {row[3]: row[1] for row in self.file.schema if row[0] == "table"}
        for top in self.file.trees.get(restoring.VALUES.table, ()):
            name = named.get(top, "")
            said = int(name[7:]) if name.startswith("values_") and name[7:].isdigit() else None
            for row in self.file.tree_rows(top):
                left = owners.get(row.number, [])
                if said in left:
                    left.remove(said)
                    yield said, row
                elif said in layouts:
                    yield said, row
                elif left:
                    yield left.pop(0), row


def _make_table(transaction: Transaction, layout: Layout) -> None:
    """The table of a study, with all columns that its fields have."""
    studies.create_table(transaction, layout)
    for slot in layout.slots:
        for form, column in slot.columns.items():
            kind = transaction.flavour.types[form]
            transaction.sql(f"ALTER TABLE {layout.table} ADD COLUMN {column} {kind}")


_STATES = ", ".join(f"'{state}'" for state in STATES)
_IMPOSSIBLE = (
    "DELETE FROM studies WHERE name = '' OR instr(name, char(0)) OR id < 1",
    (
        "DELETE FROM fields WHERE role NOT IN ('parameter', 'metric') OR name = ''"
        " OR position NOT BETWEEN 0 AND 1000000 OR forms NOT BETWEEN 0 AND 127"
        " OR type NOT IN ('int', 'real', 'str', 'bool')"
    ),
    (
        f"DELETE FROM experiments WHERE state NOT IN ({_STATES}) OR length(digest) <> 16"  # noqa: S608
        " OR state NOT IN ('waiting', 'running') AND (attempt < 1 OR driver IS NULL)"
    ),
)
"""Rows that no program of ours wrote: single bytes of a page may be wrong."""
_ENDED = (
    "DELETE FROM counters",
    "UPDATE leases SET ended = until WHERE ended IS NULL",
    "UPDATE experiments SET state = 'waiting' WHERE state = 'running'",
    "DELETE FROM shares WHERE experiment NOT IN (SELECT id FROM experiments)",
)
_OF_STUDIES = (
    "DELETE FROM shares WHERE study = {study} AND experiment NOT IN ({rows})",
    # An experiment of which only others still have a row is theirs.
    (
        "UPDATE experiments SET study = (SELECT min(study) FROM shares WHERE experiment = id)"
        " WHERE study = {study} AND id NOT IN ({rows}) AND id IN (SELECT experiment FROM shares)"
    ),
    (
        "DELETE FROM shares WHERE study = {study}"
        " AND experiment IN (SELECT id FROM experiments WHERE study = {study})"
    ),
    "DELETE FROM experiments WHERE study = {study} AND id NOT IN ({rows})",
    (
        "DELETE FROM values_{study} WHERE experiment NOT IN"
        " (SELECT id FROM experiments WHERE study = {study}"
        " UNION SELECT experiment FROM shares WHERE study = {study})"
    ),
)
"""Rows and experiments that have lost each other go; each for all studies before the next."""
_OWNED = tuple(
    f"DELETE FROM {table} WHERE experiment NOT IN (SELECT id FROM experiments)"  # noqa: S608
    for table in ("attempts", "logs", "artifacts")
)


def _mend(transaction: Transaction) -> int:
    """Makes the laws hold again; how many experiments wait."""
    every = studies.all_studies(transaction)
    layouts = {study: studies.read_layout(transaction, study.name) for study in every}
    for statement in _ENDED:
        transaction.sql(statement)
    for statement in _OF_STUDIES:
        for layout in layouts.values():
            rows = f"SELECT experiment FROM {layout.table}"  # noqa: S608
            transaction.sql(statement.format(study=layout.study, rows=rows))
    for statement in _OWNED:
        transaction.sql(statement)
    for study, layout in layouts.items():
        found = transaction.sql(
            "SELECT e.state, count(*) FROM experiments e"  # noqa: S608
            f" JOIN {layout.table} v ON v.experiment = e.id GROUP BY e.state"
        )
        counted = dict.fromkeys(STATES, 0) | dict(found)
        rows_of = [(layout.study, state, count) for state, count in counted.items()]
        transaction.insert("counters", ("study", "state", "count"), rows_of)
        views.create(transaction, study, layout)
    ((waiting,),) = transaction.sql("SELECT count(*) FROM experiments WHERE state = 'waiting'")
    return int(waiting)
