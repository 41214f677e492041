"""Saves what can be read of a damaged SQLite file.

Tables are read by ranges of their row numbers; a range that cannot be read is halved until what is
lost is as small as it gets. Then the laws are restored: an experiment whose row or outcome
is lost waits again, so a run of the study completes it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zenturio.errors import RecordError
from zenturio.record import schema, studies, upgrade, views
from zenturio.record.database import Transaction
from zenturio.record.facts import STATES
from zenturio.record.layout import Layout
from zenturio.record.sqlite import SQLite

CHUNK = 1000
MOST_FAULTS = 100_000
"""After so many unreadable ranges of a table the rest of it is given up."""
_LAST_ROW = 2**40
_STUDIES = "SELECT id FROM studies"


@dataclass(frozen=True, slots=True)
class Salvage:
    """What was saved, and what was not."""

    target: Path
    rows: dict[str, int]
    """How many rows of each table were read."""
    faults: dict[str, int]
    """How many row numbers of each table could not be read; they may or may not have been used."""
    waiting: int
    """How many experiments have to run again."""


def salvage_file(source: SQLite, target: SQLite) -> Salvage:
    """Reads *source*, writes *target*, which is a sound repository then."""
    with tempfile.TemporaryDirectory(dir=target.path.parent) as folder:
        # Opening a file may write to it: its journal is played back. So a copy is read.
        for name in (source.path.name, f"{source.path.name}-wal", f"{source.path.name}-journal"):
            if source.path.with_name(name).exists():
                shutil.copy(source.path.with_name(name), folder)
        connection = SQLite(Path(folder, source.path.name), 0).connect()
        connection.text_factory = _text
        database = upgrade.connect(target, 0)
        try:
            reading = _Reading(connection, source.place)
            database.write(reading.copy)
            lost = database.write(_mend)
            return Salvage(target.path, reading.rows, reading.faults, lost)
        finally:
            connection.close()
            database.close()


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


class _Reading:
    """A damaged file, while it is read."""

    def __init__(self, connection: Any, place: str) -> None:
        self.rows: dict[str, int] = {}
        self.faults: dict[str, int] = {}
        self._connection = connection
        self._error = connection.Error
        self._place = place

    def copy(self, transaction: Transaction) -> None:
        """Everything that can be read, table by table."""
        tables = self._tables()
        for table in schema.metadata.sorted_tables:
            if table.name in tables:
                self._copy(transaction, table.name)
        known = [Layout(number, "", 0, ()).table for (number,) in transaction.sql(_STUDIES)]
        for name in known:
            if name in tables:
                transaction.sql(tables[name])
                self._copy(transaction, name)

    def _tables(self) -> dict[str, str]:
        asked = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
        try:
            return dict(self._connection.execute(asked))
        except self._error as error:
            raise RecordError(
                f"nothing can be read of {self._place}: {error}", cure="go back to a copy of it"
            ) from error

    def _copy(self, transaction: Transaction, table: str) -> None:
        names = [row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")]
        marks = ", ".join("?" * len(names))
        self.rows[table] = self.faults[table] = 0
        for rows in self._chunks(table):
            self.rows[table] += len(rows)
            transaction.sql_many(
                f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})",  # noqa: S608
                rows,
            )

    def _chunks(self, table: str) -> Iterator[list[Any]]:
        """The rows that can be read, some thousand at a time."""
        ranges = [(1, self._last(table))]
        while ranges and self.faults[table] < MOST_FAULTS:
            first, end = ranges.pop()
            try:
                rows = self._connection.execute(
                    f"SELECT rowid, * FROM {table} NOT INDEXED"  # noqa: S608
                    " WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?",
                    (first, end, CHUNK),
                ).fetchall()
            except self._error:
                if first == end:
                    self.faults[table] += 1
                else:
                    middle = (first + end) // 2
                    ranges += [(middle + 1, end), (first, middle)]
                continue
            if len(rows) == CHUNK and rows[-1][0] < end:
                ranges.append((rows[-1][0] + 1, end))
            yield [row[1:] for row in rows]

    def _last(self, table: str) -> int:
        try:
            ((last,),) = self._connection.execute(f"SELECT max(rowid) FROM {table}")  # noqa: S608
        except self._error:
            return _LAST_ROW
        return last or 0


_RESTORED = (
    "DELETE FROM counters",
    "DELETE FROM experiments WHERE study NOT IN (SELECT id FROM studies)",
    "UPDATE leases SET ended = until WHERE ended IS NULL",
    "UPDATE experiments SET state = 'waiting' WHERE state = 'running'",
    "DELETE FROM shares WHERE experiment NOT IN (SELECT id FROM experiments)",
    *(
        f"DELETE FROM {table} WHERE experiment NOT IN (SELECT id FROM experiments)"  # noqa: S608
        for table in ("attempts", "logs", "artifacts")
    ),
)


def _mend(transaction: Transaction) -> int:
    """Makes the laws hold again; how many experiments wait."""
    for study in studies.all_studies(transaction):
        _mend_study(transaction, studies.read_layout(transaction, study.name))
    for statement in _RESTORED:
        transaction.sql(statement)
    for study in studies.all_studies(transaction):
        layout = studies.read_layout(transaction, study.name)
        found = transaction.sql(
            "SELECT e.state, count(*) FROM experiments e"  # noqa: S608
            f" JOIN {layout.table} v ON v.experiment = e.id GROUP BY e.state"
        )
        counted = dict.fromkeys(STATES, 0) | dict(found)
        rows = [(layout.study, state, count) for state, count in counted.items()]
        transaction.insert("counters", ("study", "state", "count"), rows)
        views.create(transaction, study, layout)
    ((waiting,),) = transaction.sql("SELECT count(*) FROM experiments WHERE state = 'waiting'")
    return int(waiting)


def _mend_study(transaction: Transaction, layout: Layout) -> None:
    """Rows and experiments of one study that have lost each other go."""
    table, study = layout.table, layout.study
    if (table,) not in transaction.sql(transaction.flavour.tables):
        studies.create_table(transaction, layout)
    has = {row[1] for row in transaction.sql(f"PRAGMA table_info({table})")}
    for slot in layout.slots:
        for form, column in slot.columns.items():
            if column not in has:
                kind = transaction.flavour.types[form]
                transaction.sql(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
    transaction.sql(
        f"CREATE INDEX IF NOT EXISTS {table}_order ON {table} (position, repeat, experiment)"
    )
    rows = f"SELECT experiment FROM {table}"  # noqa: S608
    having = (
        f"SELECT id FROM experiments WHERE study = {study}"  # noqa: S608
        f" UNION SELECT experiment FROM shares WHERE study = {study}"
    )
    for statement in (
        f"DELETE FROM shares WHERE study = {study} AND experiment NOT IN ({rows})",  # noqa: S608
        f"DELETE FROM experiments WHERE study = {study} AND id NOT IN ({rows})",  # noqa: S608
        f"DELETE FROM {table} WHERE experiment NOT IN ({having})",  # noqa: S608
    ):
        transaction.sql(statement)
