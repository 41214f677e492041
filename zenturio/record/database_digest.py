"""Counts and digests of all that a repository holds, the same for both kinds of database.

Rows are read in steps, and digested column by column: in a large database nearly all values of a
column have one type, whose bytes cost a tenth of a text for each value.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import REAL, Column, Table

from zenturio.record import codec, result_rows, studies
from zenturio.record.database import Database, Row, Transaction
from zenturio.record.field_layout import ROLES, FieldColumns
from zenturio.record.schema import KEY, tables_of
from zenturio.record.studies import StudyVersion
from zenturio.record.study_context import RepositoryCache, StudyContext

STEP_ROWS = 10_000
_LARGE_ROWS = {"contents": 100, "logs": 500, "definitions": 100}
"""How many rows a step has where each may be a hundred kilobytes."""
_FIRST_KEYS: dict[str, Any] = {"id": -1, "attempt": -1, "result": -1, "digest": b""}
"""What comes before all keys of tables that are read in steps, by their first column. The other
tables are small, and read in one."""
LEFT_OUT = ("claims", "upgrade")
"""What living drivers alone need; the marks of copies and upgrades."""
VALUE_TABLES = ("results", "chunks")
"""Their rows differ between kinds of database, for their slots do; their values do not."""
_OF_A_DATABASE = {
    "contents": {"foreign_path"}, "fields": {"place", "forms"}, "leases": {"ended"},
    "studies": {"view_revision", "revision", "opened"}, "versions": {"members"},
}  # fmt: skip
"""By table, columns that say something of the database in which they stand: where values and files
lie there, which forms of values came so far, what was opened."""
RESULT_FACTS = (
    "id", "version", "recipe", "digest", "position", "repeat", "round", "machine", "newest",
    "status", "attempt", "lease", "host", "started", "ended", "exit", "cause", KEY,
)  # fmt: skip

Progress = Callable[[str, int], None]
"""Hears the name of a step and how many of its rows are done."""


@dataclass(frozen=True, slots=True)
class DatabaseDigest:
    """What a repository holds: equal for two that say the same."""

    rows: dict[str, int]
    """By table."""
    digests: dict[str, str]
    """By table; that of ``results`` covers all values."""

    @property
    def digest(self) -> str:
        """Of all tables."""
        return hashlib.blake2b(repr(self.digests).encode(), digest_size=16).hexdigest()


def digest_database(
    database: Database, progress: Progress = lambda _table, _rows: None
) -> DatabaseDigest:
    """Return counts and digests of all tables but those of living drivers."""
    rows, digests = {}, {}
    for table in tables_of(database.dialect.name):
        name = table.name
        if name in (*LEFT_OUT, "chunks"):
            continue
        digest = _results_digest if name == "results" else _table_digest
        rows[name], digests[name] = digest(database, table, progress)
    return DatabaseDigest(rows, digests)


# Results


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Results of a version that follow each other, column by column."""

    facts: Sequence[Sequence[Any]]
    """``RESULT_FACTS`` as they are stored."""
    fields: FieldColumns

    @property
    def numbers(self) -> Sequence[int]:
        return self.facts[0]


def versions_with_results(database: Database) -> list[StudyVersion]:
    """Return the versions that have results: each of the others would cost journeys for nothing."""
    numbers = {number for (number,) in _select(database, "SELECT DISTINCT version FROM results")}
    return [v for v in database.read(studies.all_versions) if v.id in numbers]


def read_result_page(
    transaction: Transaction, version: int, cache: RepositoryCache, after: int
) -> ResultPage | None:
    """Return the next results of a version whose numbers are above *after*; None at the end."""
    (described,) = studies.versions_by_id(transaction, [version]).values()
    reader = StudyContext.at(transaction, described, cache).layout.reader
    mark = transaction.dialect.mark
    names = ", ".join(f"e.{name}" for name in (*RESULT_FACTS, "remarks", *reader.slots))
    limit = max(1, STEP_ROWS // (1 + len(reader.chunks)))  # rows with many chunks are large
    rows = transaction.sql(
        f"SELECT {names} FROM results e WHERE e.version = {mark} AND e.id > {mark}"
        f" ORDER BY e.id LIMIT {limit}",
        (version, after),
    )
    if not rows:
        return None
    columns = list(zip(*rows, strict=True))
    facts, (remarks, *slots) = columns[: len(RESULT_FACTS)], columns[len(RESULT_FACTS) :]
    by_result = result_rows.chunks_of(transaction, reader.chunks, facts[0])
    chunks = [by_result.get(number, {}) for number in facts[0]]
    with codec.decoding():
        fields = {role: reader.columns(role, remarks, slots, chunks) for role in ROLES}
    return ResultPage(facts, fields)


def _results_digest(database: Database, _table: Table, progress: Progress) -> tuple[int, str]:
    """Return how many results there are, and the digest of their facts and values."""
    total, count = hashlib.blake2b(digest_size=16), 0
    cache, index = RepositoryCache(), database.dialect.index
    position = RESULT_FACTS.index("position")
    for version in versions_with_results(database):
        last = -1
        while page := database.read(
            lambda t, v=version.id, n=last: read_result_page(t, v, cache, n)  # type: ignore[misc]
        ):
            last = page.numbers[-1]
            facts = list(page.facts)
            facts[position] = list(map(index, facts[position]))
            for values in facts:
                total.update(column_bytes(values))
            for role, columns in page.fields.items():
                for name, values in columns.items():
                    total.update(f"{role}:{name!r}".encode())
                    total.update(column_bytes(values))
            count += len(page.numbers)
            progress("comparing results", count)
    return count, total.hexdigest()


# Other tables


def read_steps(
    database: Database, table: Table, after: Any = None
) -> Iterator[tuple[Any, list[Row]]]:
    """Yield the rows of a table in steps, each with the last key: the next step begins behind it.

    Rows of a step are in no particular order.
    """
    names = [column.name for column in table.columns]
    listed = ", ".join(_read_as(database, table.name, name) for name in names)
    if names[0] not in _FIRST_KEYS:
        if after is None:
            rows = _select(database, f"SELECT {listed} FROM {table.name}")
            if rows:
                yield 0, rows
        return
    last = _FIRST_KEYS[names[0]] if after is None else after
    while True:
        step = _next_step(database, table, listed, last)
        if step is None:
            return
        last = step[0]
        yield step


def _next_step(
    database: Database, table: Table, listed: str, last: Any
) -> tuple[Any, list[Row]] | None:
    key, mark = table.columns.keys()[0], database.dialect.mark
    limit = min(STEP_ROWS, _LARGE_ROWS.get(table.name, STEP_ROWS))
    ends = _select(
        database,
        f"SELECT k FROM (SELECT DISTINCT {key} AS k FROM {table.name} WHERE {key} > {mark}"
        f" ORDER BY k LIMIT {limit}) q ORDER BY k DESC LIMIT 1",
        (last,),
    )
    if not ends:
        return None
    ((end,),) = ends
    query = f"SELECT {listed} FROM {table.name} WHERE {key} > {mark} AND {key} <= {mark}"
    return end, _select(database, query, (last, end))


def _read_as(database: Database, table: str, column: str) -> str:
    # Read as JSON, a document would lose how its numbers are written.
    is_json = (table, column) == ("chunks", "doc") and database.dialect.name == "postgresql"
    return f"{column}::text" if is_json else column


def _table_digest(database: Database, table: Table, progress: Progress) -> tuple[int, str]:
    """Return how many rows a table has, and the digest of what says the same everywhere."""
    total, count = hashlib.blake2b(digest_size=16), 0
    keys = len(table.primary_key.columns)  # these come first
    for _, rows in read_steps(database, table):
        # Databases order texts in ways of their own.
        rows.sort(key=lambda row: repr(row[:keys]))
        for column, stored in zip(table.columns, zip(*rows, strict=True), strict=True):
            if column.name not in _OF_A_DATABASE.get(table.name, ()):
                total.update(column_bytes(_portable(database, column, stored)))
        count += len(rows)
        progress(f"comparing {table.name}", count)
    return count, total.hexdigest()


def _portable(database: Database, column: Column[Any], stored: Sequence[Any]) -> Sequence[Any]:
    """Return the values of a column as both kinds of database have them."""
    if column.name == "position":
        return list(map(database.dialect.index, stored))
    if isinstance(column.type, REAL):  # SQLite has 64 bits
        return [None if value is None else array("f", [value])[0] for value in stored]
    return stored


def _select(database: Database, query: str, values: Sequence[Any] = ()) -> list[Row]:
    return database.read(lambda transaction: transaction.sql(query, values))


def column_bytes(values: Sequence[Any]) -> bytes:
    """Return bytes that are equal for equal values of equal types alone; NaN equals itself."""
    kinds = set(map(type, values))
    nulls = b""
    if type(None) in kinds:
        nulls = bytes([value is None for value in values])
        values = [value for value in values if value is not None]
        kinds.discard(type(None))
    if kinds == {float}:
        body = array("d", values).tobytes()
    elif kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        body = array("q", values).tobytes()
    elif kinds == {bytes}:
        body = array("q", map(len, values)).tobytes() + b"".join(values)
    elif kinds <= {int, float, bool, str}:
        body = repr(list(values)).encode()
    else:
        body = repr([_plain(value) for value in values]).encode()
    types = ",".join(sorted(kind.__name__ for kind in kinds))
    return f"{types} {len(nulls)} {len(body)} ".encode() + nulls + body


def _plain(value: Any) -> Any:
    """Return a value as something that has one text."""
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    return value if isinstance(value, int | float | str) else codec.to_json(value)
