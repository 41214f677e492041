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
from zenturio.record import former_digests, name_recovery, schema_version
from zenturio.record.database import Transaction
from zenturio.record.entities import OUTCOME_STATES
from zenturio.record.sqlite import SQLite
from zenturio.record.sqlite_pages import SQLitePages
from zenturio.record.table_recognition import RecognisedTables, shapes


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
            f"nothing can be read of {source.location}", hint="go back to a copy of it"
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
        with suppress(connection.Error):
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
    "UPDATE leases SET ended = until WHERE ended IS NULL",
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
        f"INSERT INTO upgrade (step, done, at) SELECT '{former_digests.FORMER}', 0, 0"
        " WHERE EXISTS (SELECT 1 FROM results WHERE key IS NULL)"
    ),
    "DELETE FROM sqlite_sequence WHERE name = 'claims'",
    f"INSERT INTO sqlite_sequence SELECT 'claims', max(id) FROM ({_TRIED})",
)


def _mend(transaction: Transaction) -> int:
    """Make the laws hold again; return how many experiments were begun and have no result."""
    for statement in _IMPOSSIBLE:
        transaction.sql(statement)
    name_recovery.restore_names(transaction)
    for statement in _MENDED:
        transaction.sql(statement)
    ((waiting,),) = transaction.sql(
        "SELECT count(DISTINCT digest) FROM attempts"
        " WHERE digest NOT IN (SELECT digest FROM results)"
    )
    return int(waiting)
