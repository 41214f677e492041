"""Copying a repository into another database, of the same kind or the other one.

Rows go table by table, in steps that are committed with their mark: a copy that was interrupted
goes on behind the last one. Between kinds of database the values of results are read and written
again, for their slots differ; all other rows keep their numbers. At the end both are compared,
value by value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from zenturio.errors import ConflictError, InputError, RecordError
from zenturio.failpoints import Failpoint
from zenturio.record import codec, result_rows, studies
from zenturio.record.artifact_store import ArtifactStore, in_store
from zenturio.record.database import Database, Transaction
from zenturio.record.schema import KEY, tables_of
from zenturio.record.study_context import RepositoryCache, StudyContext

COPIED = Failpoint("copy.copied")
STEP_ROWS = 5000
_MARK = "copy "
_LEFT_OUT = ("claims", "upgrade")
"""What living drivers alone need; the marks of this program."""
_VALUES = ("results", "chunks")
_FACTS = (
    "id", "version", "recipe", "digest", "position", "repeat", "round", "machine", "newest",
    "status", "attempt", "lease", "host", "started", "ended", "exit", "cause", KEY,
)  # fmt: skip
_DRAWN = (
    "projects", "studies", "versions", "definitions", "recipes", "machines", "hosts", "leases",
    "events", "submissions",
)  # fmt: skip
"""Tables whose numbers the database draws."""

_Row = tuple[tuple[Any, ...], result_rows.StoredResult]
"""The facts of a result as they are stored, and all that it says."""

Progress = Callable[[str, int], None]
"""Hears the name of a table and how many of its rows are there."""


@dataclass(frozen=True, slots=True)
class DatabaseCopyResult:
    """What a copy came to."""

    rows: dict[str, int]
    """By table."""
    digest: str
    """Of all results with their values, the same for both databases."""


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
        self._caches = RepositoryCache(), RepositoryCache()

    def run(self) -> DatabaseCopyResult:
        """Copy what is missing, and compare; a copy that is whole already is only compared.

        ConflictError while a study is run, RecordError where the databases differ at the end.
        """
        self._source.read(_refuse_drivers)
        self._refuse_others()
        for table in tables_of(self._source.dialect.name):
            if table.name not in (*_LEFT_OUT, *_VALUES):
                self._copy_table(table.name, [column.name for column in table.columns])
        if self._same_kind:
            names = {
                t.name: [c.name for c in t.columns] for t in tables_of(self._target.dialect.name)
            }
            for table_name in _VALUES:
                self._copy_table(table_name, names[table_name])
        else:
            self._copy_results()
        self._target.write(self._finish)
        return self._compare()

    # Steps

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

    def _mark_of(self, step: str) -> int:
        """Return up to which number a step has come; below 0 if it was not begun."""
        mark = self._target.dialect.mark
        query = f"SELECT done FROM upgrade WHERE step = {mark}"
        rows = _select(self._target, query, (_MARK + step,))
        return int(rows[0][0]) if rows else -1

    @staticmethod
    def _set_mark(transaction: Transaction, step: str, done: int) -> None:
        mark = transaction.dialect.mark
        transaction.sql(
            f"INSERT INTO upgrade (step, done, at) VALUES ({mark}, {mark}, {mark})"
            " ON CONFLICT (step) DO UPDATE SET done = excluded.done, at = excluded.at",
            (_MARK + step, done, transaction.now),
        )

    def _copy_table(self, table: str, columns: Sequence[str]) -> None:
        """Copy rows in the order of the table's first column, if that is a number."""
        key = columns[0]
        by_steps = key in ("id", "attempt", "result")
        listed = ", ".join(self._read_as(table, name) for name in columns)
        last, count = self._mark_of(table), 0
        if not by_steps and last >= 0:
            return
        while True:
            condition, values, end = "", list[int](), 0
            if by_steps:
                end = self._end_of_step(table, key, last)
                if end < 0:
                    return
                mark = self._source.dialect.mark
                condition, values = f" WHERE {key} > {mark} AND {key} <= {mark}", [last, end]
            query = f"SELECT {listed} FROM {table}{condition}"
            rows = _select(self._source, query, values)
            last = end
            self._target.write(partial(self._write_table, table, columns, rows, last))
            COPIED()
            count += len(rows)
            self._progress(table, count)
            if not by_steps:
                return

    def _write_table(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        last: int,
        transaction: Transaction,
    ) -> None:
        converted = [self._converted(table, columns, row) for row in rows]
        transaction.insert(table, columns, converted)
        self._set_mark(transaction, table, last)

    def _end_of_step(self, table: str, key: str, last: int) -> int:
        """Return the last number of the next rows; below 0 if there are none."""
        mark = self._source.dialect.mark
        query = (
            f"SELECT max(k) FROM (SELECT DISTINCT {key} AS k FROM {table}"
            f" WHERE {key} > {mark} ORDER BY k LIMIT {STEP_ROWS}) q"
        )
        ((end,),) = _select(self._source, query, (last,))
        return -1 if end is None else int(end)

    def _read_as(self, table: str, column: str) -> str:
        # Read as JSON, a document would lose how its numbers are written.
        is_json = (table, column) == ("chunks", "doc")
        return (
            f"{column}::text" if is_json and self._source.dialect.name == "postgresql" else column
        )

    def _converted(self, table: str, columns: Sequence[str], row: Sequence[Any]) -> list[Any]:
        """Return a row as the other database takes it."""
        values = dict(zip(columns, row, strict=True))
        if values.get("position") is not None:
            values["position"] = self._position(values["position"])
        if table == "fields" and not self._same_kind:
            values |= {"place": "", "forms": 0}  # given anew, as values come
        elif table == "studies":
            values["view_revision"] = None
        elif table == "leases" and values["ended"] is None:
            values["ended"] = values["until"]
        elif table == "contents":
            values["foreign_path"] = self._file_of(values)
        return [values[name] for name in columns]

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
        for version in self._source.read(studies.all_versions):
            step = f"results of {version.id}"
            last, count = self._mark_of(step), 0
            while rows := self._rows(self._source, version.id, last):
                last = rows[-1][0][0]
                self._target.write(partial(self._write_results, version.id, rows, step, last))
                COPIED()
                count += len(rows)
                self._progress(version.name, count)

    def _rows(self, database: Database, version: int, last: int) -> list[_Row]:
        """Return the next results of a version: their facts as stored, and what they say."""
        cache = self._caches[database is self._target]

        def read(t: Transaction) -> list[_Row]:
            (described,) = studies.versions_by_id(t, [version]).values()
            layout = StudyContext.at(t, described, cache).layout
            mark = t.dialect.mark
            limits = f"AND e.id > {mark} ORDER BY e.id LIMIT {STEP_ROWS}"
            stored = result_rows.read_results(t, layout, limits, (last,))
            facts = t.sql(
                f"SELECT {', '.join(_FACTS)} FROM results e WHERE version = {mark} {limits}",
                (version, last),
            )
            return list(zip(facts, stored, strict=True))

        return database.read(read)

    def _write_results(
        self,
        version: int,
        rows: Sequence[_Row],
        step: str,
        last: int,
        transaction: Transaction,
    ) -> None:
        (described,) = studies.versions_by_id(transaction, [version]).values()
        context = StudyContext.at(transaction, described, self._caches[True])
        numbers = [facts[0] for facts, _ in rows]
        spread = context.spread(
            [stored.record.values for _, stored in rows], [s.outcome.metrics for _, s in rows]
        )
        position = _FACTS.index("position")
        facts = [
            (*f[:position], self._position(f[position]), *f[position + 1 :], remarks)
            for (f, _), remarks in zip(rows, spread.remarks, strict=True)
        ]
        cells: Iterator[tuple[Any, ...]] = (
            zip(*spread.columns.values(), strict=True) if spread.columns else iter([()] * len(rows))
        )
        table = [(*fact, *cell) for fact, cell in zip(facts, cells, strict=True)]
        transaction.insert("results", (*_FACTS, "remarks", *spread.columns), table)
        chunks = [(numbers[row], chunk, doc) for row, chunk, doc in spread.chunks]
        transaction.insert("chunks", ("result", "chunk", "doc"), chunks)
        self._set_mark(transaction, step, last)
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

    # Comparison

    def _compare(self) -> DatabaseCopyResult:
        before, after = (self._contents(d) for d in (self._source, self._target))
        if before != after:
            differing = sorted(n for n, count in before.rows.items() if after.rows.get(n) != count)
            where = ", ".join(differing) or "the values of results"
            places = f"{self._source.dialect.location} and {self._target.dialect.location}"
            raise RecordError(
                f"{places} differ in {where}",
                hint="was the first one used meanwhile? empty the second one, and copy again",
            )
        return after

    def _contents(self, database: Database) -> DatabaseCopyResult:
        """Return the number of rows of each table, and a digest over all results."""
        rows = {}
        for table in tables_of(database.dialect.name):
            if table.name not in (*_LEFT_OUT, "chunks"):
                query = f"SELECT count(*) FROM {table.name}"
                ((rows[table.name],),) = _select(database, query)
        total = hashlib.blake2b(digest_size=16)
        index = database.dialect.index
        position = _FACTS.index("position")
        for version in database.read(studies.all_versions):
            last = -1
            while batch := self._rows(database, version.id, last):
                last = batch[-1][0][0]
                for facts, stored in batch:
                    plain = [bytes(f) if isinstance(f, memoryview) else f for f in facts]
                    plain[position] = index(plain[position])
                    values = codec.dump_values(stored.record.values)
                    metrics = codec.dump_values(stored.outcome.metrics)
                    total.update(repr((plain, values, metrics)).encode())
        return DatabaseCopyResult(rows, total.hexdigest())


def _select(database: Database, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    return database.read(lambda transaction: transaction.sql(query, values))


def _refuse_drivers(transaction: Transaction) -> None:
    """Raise ConflictError while a study is run: it would be copied in the middle."""
    query = (
        "SELECT l.id FROM leases l WHERE l.ended IS NULL AND l.until >"
        f" {transaction.dialect.now} LIMIT 1"
    )
    if transaction.sql(query):
        raise ConflictError("a study is being run", hint="copy when it has ended")
