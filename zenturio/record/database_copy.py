"""Copying a repository into another database, of the same kind or the other one.

Rows go table by table, in steps that are committed with their mark: a copy that was interrupted
goes on behind the last one. Between kinds of database the values of results are read and written
again, for their slots differ, field by field for many rows at once; all other rows keep their
numbers. At the end both are compared, value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Table

from zenturio.errors import ConflictError, InputError, RecordError
from zenturio.failpoints import Failpoint
from zenturio.record import codec, studies
from zenturio.record.artifact_store import ArtifactStore, in_store
from zenturio.record.database import Database, Row, Transaction
from zenturio.record.database_digest import (
    LEFT_OUT,
    RESULT_FACTS,
    VALUE_TABLES,
    DatabaseDigest,
    Progress,
    ResultPage,
    digest_database,
    read_result_page,
    read_steps,
    versions_with_results,
)
from zenturio.record.postgresql import PostgreSQL
from zenturio.record.schema import tables_of
from zenturio.record.study_context import RepositoryCache, StudyContext

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
        context = StudyContext.at(transaction, described, self._target_cache)
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
