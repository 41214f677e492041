"""Copying a repository into another database, of the same kind or the other one.

Rows go table by table, in steps that are committed with their mark: a copy that was interrupted
goes on behind the last one. Between kinds of database the values of results are read and written
again, for their slots differ, field by field for many rows at once; all other rows keep their
numbers. At the end both are compared, value by value.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import REAL, Column, Table

from zenturio.errors import ConflictError, InputError, RecordError
from zenturio.failpoints import Failpoint
from zenturio.record import codec, result_rows, studies
from zenturio.record.artifact_store import ArtifactStore, in_store
from zenturio.record.database import Database, Row, Transaction
from zenturio.record.field_layout import ROLES, FieldColumns
from zenturio.record.postgresql import PostgreSQL
from zenturio.record.schema import KEY, tables_of
from zenturio.record.studies import StudyVersion
from zenturio.record.study_transaction import RepositoryCache, StudyTransaction

# Counts and digests of all that a repository holds, the same for both kinds of database
#
# Rows are read in steps, and digested column by column: in a large database nearly all values of a
# column have one type, whose bytes cost a tenth of a text for each value.

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
    reader = StudyTransaction.at(transaction, described, cache).layout.reader
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


def column_bytes(values: Sequence[Any]) -> bytes:
    """Return bytes that are equal only for equal values of equal types; NaN equals itself."""
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


# The copy

COPIED = Failpoint("copy.copied")
_MARK = "copy "
_OWNS_TABLES = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'results'::regclass"
_BY_DIGEST = ("contents", "aliases")
"""Tables that are copied in the order of digests, which no mark can hold: the last one that is
there tells how far they came."""
_DRAWN = (
    "projects", "studies", "versions", "definitions", "recipes", "machines", "hosts", "leases",
    "events", "submissions",
)  # fmt: skip
"""Tables whose numbers the database draws."""


class DatabaseCopy:
    """A repository on its way into another database."""

    def __init__(
        self,
        source: Database,
        target: Database,
        stores: tuple[ArtifactStore, ArtifactStore],
        progress: Progress = lambda _table, _rows: None,
    ) -> None:
        self._source, self._target, self._stores = source, target, stores
        self._progress = progress
        self._same_kind = source.dialect.name == target.dialect.name
        self._source_cache, self._target_cache = RepositoryCache(), RepositoryCache()

    def run(self) -> DatabaseDigest:
        """Copy what is missing, and compare; a copy that is whole already is only compared.

        ConflictError while a study is run; RecordError where the role of a server sees or may
        change only a part, or where the databases differ at the end.
        """
        self._source.read(_refuse_drivers)
        self._check_roles()
        self._refuse_others()
        for table in tables_of(self._source.dialect.name):
            if table.name not in (*LEFT_OUT, *VALUE_TABLES):
                self._copy_table(table)
        if self._same_kind:
            for table in tables_of(self._source.dialect.name):
                if table.name in VALUE_TABLES:
                    self._copy_table(table)
        else:
            self._copy_results()
        self._target.write(self._finish)
        return self._compare()

    # Steps

    def _check_roles(self) -> None:
        """Raise RecordError before anything is copied that would be a part, or be left as one."""
        for database, query, right in (
            (self._source, "SELECT NOT row_security_active('contents')", "see all programs in"),
            (self._target, _OWNS_TABLES, "fill"),
        ):
            if isinstance(database.dialect, PostgreSQL) and not _select(database, query)[0][0]:
                raise RecordError(
                    f"this role may not {right} {database.dialect.location}",
                    hint="let an administrator of its team copy (zen db grant --admin ROLE)",
                )

    def _refuse_others(self) -> None:
        """Raise InputError if the target has studies that no copy has brought."""
        query = f"SELECT count(*) FROM upgrade WHERE step LIKE '{_MARK}%'"
        ((marks,),) = _select(self._target, query)
        ((rows,),) = _select(self._target, "SELECT count(*) FROM studies")
        if rows and not marks:
            raise InputError(
                f"{self._target.dialect.location} has studies already",
                hint="copy into an empty database, or a new schema of one",
            )

    def _mark_of(self, step: str) -> int | None:
        """Return up to which number a step has come; None if it was not begun."""
        mark = self._target.dialect.mark
        query = f"SELECT done FROM upgrade WHERE step = {mark}"
        rows = _select(self._target, query, (_MARK + step,))
        return int(rows[0][0]) if rows else None

    @staticmethod
    def _set_mark(transaction: Transaction, step: str, done: int) -> None:
        mark = transaction.dialect.mark
        transaction.sql(
            f"INSERT INTO upgrade (step, done, at) VALUES ({mark}, {mark}, {mark})"
            " ON CONFLICT (step) DO UPDATE SET done = excluded.done, at = excluded.at",
            (_MARK + step, done, transaction.now),
        )

    def _copy_table(self, table: Table) -> None:
        """Copy the rows of a table that are behind those that were copied before."""
        count = 0
        for last, rows in read_steps(self._source, table, self._begin_of(table.name)):
            self._target.write(partial(self._write_table, table, rows, last))
            COPIED()
            count += len(rows)
            self._progress(table.name, count)

    def _begin_of(self, table: str) -> Any:
        """Return the last key of a table that was copied before; None if there is none."""
        if table not in _BY_DIGEST:
            return self._mark_of(table)
        query = f"SELECT digest FROM {table} ORDER BY digest DESC LIMIT 1"
        rows = _select(self._target, query)
        return bytes(rows[0][0]) if rows else None

    def _write_table(
        self, table: Table, rows: Sequence[Row], last: Any, transaction: Transaction
    ) -> None:
        names = [column.name for column in table.columns]
        convert = self._converter(table.name, names)
        if convert is not None:
            rows = [tuple(convert(dict(zip(names, row, strict=True))).values()) for row in rows]
        transaction.insert(table.name, names, rows)
        self._set_mark(transaction, table.name, 0 if table.name in _BY_DIGEST else last)

    def _converter(
        self, table: str, names: Sequence[str]
    ) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
        """Return what makes a row of the source one of the target; None where they are the same."""
        match table:
            case "fields" if not self._same_kind:
                return lambda row: row | {"place": "", "forms": 0}  # given anew, as values come
            case "studies":
                return lambda row: row | {"view_revision": None}
            case "leases":
                return lambda row: (
                    row | {"ended": row["until"] if row["ended"] is None else row["ended"]}
                )
            case "contents":
                return lambda row: row | {"foreign_path": self._file_of(row)}
        if "position" in names and not self._same_kind:
            return lambda row: row | {"position": self._position(row["position"])}
        return None

    def _position(self, position: Any) -> Any:
        return self._target.dialect.position(self._source.dialect.index(position))

    def _file_of(self, content: dict[str, Any]) -> str | None:
        """Return where the file of a content is, as the target's rows name it."""
        path: str | None = content["foreign_path"]
        source, target = self._stores
        if path is None and content["body"] is None and source.project is not None:
            return (
                None
                if target.root == source.root
                else codec.escape(f"{in_store(self._mode_of(content['digest']))}:{source.root}")
            )
        return path

    def _mode_of(self, digest: bytes) -> int:
        mark = self._source.dialect.mark
        query = f"SELECT mode FROM artifacts WHERE content = {mark} LIMIT 1"
        rows = _select(self._source, query, (digest,))
        return int(rows[0][0]) if rows else 0o644

    def _copy_results(self) -> None:
        """Copy results of each version with their values, which the target's slots take."""
        for version in versions_with_results(self._source):
            step, count = f"results of {version.id}", 0
            mark = self._mark_of(step)
            last = -1 if mark is None else mark
            while page := self._source.read(
                partial(self._read_page, version=version.id, after=last)
            ):
                last = page.numbers[-1]
                self._target.write(partial(self._write_page, version.id, page, step))
                COPIED()
                count += len(page.numbers)
                self._progress(version.name, count)

    def _read_page(self, transaction: Transaction, version: int, after: int) -> ResultPage | None:
        return read_result_page(transaction, version, self._source_cache, after)

    def _write_page(
        self, version: int, page: ResultPage, step: str, transaction: Transaction
    ) -> None:
        (described,) = studies.versions_by_id(transaction, [version]).values()
        context = StudyTransaction.at(transaction, described, self._target_cache)
        numbers = page.numbers
        spread = context.spread_columns(page.fields, len(numbers))
        facts = list(page.facts)
        place = RESULT_FACTS.index("position")
        facts[place] = list(map(self._position, facts[place]))
        rows = list(zip(*facts, spread.remarks, *spread.columns.values(), strict=True))
        transaction.insert("results", (*RESULT_FACTS, "remarks", *spread.columns), rows)
        chunks = [(numbers[row], chunk, doc) for row, chunk, doc in spread.chunks]
        transaction.insert("chunks", ("result", "chunk", "doc"), chunks)
        self._set_mark(transaction, step, numbers[-1])
        transaction.after_commit.append(context.committed)

    def _finish(self, transaction: Transaction) -> None:
        """Let numbers be drawn behind those that there are."""
        tried = "(SELECT id FROM results UNION ALL SELECT id FROM attempts) t"
        ((last,),) = transaction.sql(f"SELECT coalesce(max(id), 0) FROM {tried}")
        if transaction.dialect.name == "sqlite":  # it counts the rows of other tables by itself
            transaction.sql("DELETE FROM sqlite_sequence WHERE name = 'claims'")
            transaction.sql("INSERT INTO sqlite_sequence (name, seq) VALUES ('claims', ?)", (last,))
            return
        transaction.sql("SELECT setval('claims_id_seq', %s)", (last + 1,))
        for table in _DRAWN:
            transaction.sql(
                f"SELECT setval('{table}_id_seq', 1 + (SELECT coalesce(max(id), 0) FROM {table}))"
            )

    def _compare(self) -> DatabaseDigest:
        """Return what both databases hold; RecordError if that is not the same."""
        before, after = (digest_database(d, self._progress) for d in (self._source, self._target))
        if before != after:
            differing = sorted(
                name
                for name, digest in before.digests.items()
                if (digest, before.rows[name]) != (after.digests.get(name), after.rows.get(name))
            )
            places = f"{self._source.dialect.location} and {self._target.dialect.location}"
            raise RecordError(
                f"{places} differ in {', '.join(differing)}",
                hint="was one of them used meanwhile? empty the second one, and copy again",
            )
        return after


def _select(database: Database, query: str, values: Sequence[Any] = ()) -> list[Row]:
    return database.read(lambda transaction: transaction.sql(query, values))


def _refuse_drivers(transaction: Transaction) -> None:
    """Raise ConflictError while a study is run: it would be copied in the middle."""
    query = (
        "SELECT l.id FROM leases l WHERE l.ended IS NULL AND l.until >"
        f" {transaction.dialect.now} LIMIT 1"
    )
    if transaction.sql(query):
        raise ConflictError("a study is being run", hint="copy when it has ended")
