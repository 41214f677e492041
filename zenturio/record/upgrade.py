"""Upgrade of a repository: a new one is filled from the old one and takes its place.

It may be killed at any moment: the next call goes on, or sees that all is done. What was there
stays as it is until the new repository is complete and was compared with it, and a copy of it is
kept. A repository whose tables only lack a column gets it where it is, in one transaction.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain, count
from pathlib import Path

from zenturio.errors import ConflictError, PlaceError, RecordError
from zenturio.failpoints import Failpoint
from zenturio.files import FileLock
from zenturio.record import schema, schema_version
from zenturio.record.artifact_store import ArtifactStore
from zenturio.record.database import Database, DatabaseDialect, Transaction
from zenturio.record.entities import DriverProcess
from zenturio.record.migration import Migrator
from zenturio.record.postgresql import PostgreSQL
from zenturio.record.schema_version import (
    FILLED_ANEW,
    MIGRATING,
    OLD_TABLES,
    RECORDED,
    LegacyRepositoryReader,
    original_revision,
)
from zenturio.record.sql_names import REVISIONS
from zenturio.record.sqlite import SQLite
from zenturio.system.file_systems import sync_path

_log = logging.getLogger(__name__)

COPIED = Failpoint("upgrade.copied")
MARKED = Failpoint("upgrade.marked")
FENCED = Failpoint("upgrade.fenced")
REPLACED = Failpoint("upgrade.replaced")

BEFORE_KEYS = "0004"
"""The last revision with digests of format 1."""
_FENCED = ("studies", "leases")
"""No program writes without looking into these: renamed, they keep old programs that are still
running from writing to a file that will not be read again."""
_STATES = ", ".join(f"'{state}'" for state in RECORDED)


def upgrade_older(
    kind: DatabaseDialect, store: ArtifactStore, patience: float, revision: str
) -> str | None:
    """Upgrade the repository to this revision; return where the copy of the old one is, if any."""
    _log.info(
        "upgrading %s from %s to %s", kind.location, original_revision(revision), REVISIONS[-1]
    )
    if original_revision(revision) not in FILLED_ANEW:
        return _upgrade_in_place(kind, patience)
    if isinstance(kind, SQLite):
        return str(_upgrade_file(kind, store, patience))
    assert isinstance(kind, PostgreSQL), "there is no other kind"
    return _upgrade_server(kind, store, patience)


# In place


def _upgrade_in_place(kind: DatabaseDialect, patience: float) -> str | None:
    """Add the columns that an earlier revision lacks; a file is copied first."""

    def work(transaction: Transaction) -> str | None:
        revision = _revision(transaction)
        if revision == REVISIONS[-1]:  # another process was faster
            return None
        _refuse_drivers(transaction, "JOIN versions v ON v.id = l.version", "v.study")
        copy = None
        if isinstance(kind, SQLite):
            copy = str(_keep_copy(kind, revision))
        for later in REVISIONS[REVISIONS.index(revision) + 1 :]:
            for table, names in schema.ADDED_COLUMNS[later]:
                _add_columns(transaction, table, names)
        if revision == BEFORE_KEYS:
            schema_version.mark_upgraded(transaction)
        mark = transaction.dialect.mark
        newest = (REVISIONS[-1],)
        transaction.sql(f"UPDATE alembic_version SET version_num = {mark}", newest)
        return copy

    database = Database(kind, patience)
    try:
        with _only_one(kind.path) if isinstance(kind, SQLite) else nullcontext():
            database.settle()
            return database.write(work)
    finally:
        database.close()


def _add_columns(transaction: Transaction, table: str, names: tuple[str, ...]) -> None:
    """Add columns to *table*, empty in every row."""
    dialect = transaction.dialect.name
    (described,) = (
        definition for definition in schema.tables_of(dialect) if definition.name == table
    )
    for name in names:
        kind = described.columns[name].type.compile(dialect=schema.dialect(dialect))
        transaction.sql(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
    # SQLite leaves rows as they are, and salvage tells them by the number of their values.
    if dialect == "sqlite":
        transaction.sql(f"UPDATE {table} SET {names[0]} = NULL")


# Files


def _upgrade_file(kind: SQLite, store: ArtifactStore, patience: float) -> Path:
    path = kind.path
    target = path.with_name(f"{path.name}.new")
    with _only_one(path):
        old = Database(kind, patience)
        try:
            old.settle()
            copy = _begin_file(old, kind)
            if not _is_fenced(old):
                _fill(old, SQLite(target, patience), store, patience, _fence_file)
            FENCED()
            _checkpoint(old, kind)
        finally:
            old.close()
        # The log of the old file must not be applied to the new one, which takes its name.
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        # The one moment at which the file changes: before it the old one counts, after it the new.
        target.replace(path)
        REPLACED()
        _log.info("%s is upgraded; the file of before is %s", path, copy)
        sync_path(path.parent)
    return copy


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Keep other processes from upgrading the same file; ConflictError if one does."""
    name = path.with_name(f"{path.name}.upgrade")
    try:
        lock = FileLock.try_acquire(name, mode=0o666)
    except OSError as error:
        raise PlaceError(f"cannot write {name}: {error.strerror}") from error
    if lock is None:
        raise ConflictError(
            f"another process is upgrading {path}", hint="wait until it has finished"
        )
    with lock:
        yield
        lock.remove()


def _begin_file(old: Database, kind: SQLite) -> Path:
    """Keep a copy of the file as it is, and marks it, so that older programs refuse it."""

    def begin(transaction: Transaction) -> Path:
        revision = _revision(transaction)
        name = f"{kind.path.name}.{original_revision(revision)}"
        every = chain([name], (f"{name}-{number}" for number in count(2)))
        if revision.endswith(MIGRATING):  # the copy was made when the mark was
            copies = list(_until(every, kind.path.parent))
            return kind.path.with_name(copies[-1] if copies else name)
        _refuse_drivers(transaction)
        copy = _keep_copy(kind, revision)
        _mark(transaction, revision)
        kind.path.with_name(f"{kind.path.name}.new").unlink(missing_ok=True)
        return copy

    result = old.write(begin)
    MARKED()
    return result


def _keep_copy(kind: SQLite, revision: str) -> Path:
    """Copy the file, as it was before this transaction, to the first name that is free."""
    name = f"{kind.path.name}.{revision}"
    every = chain([name], (f"{name}-{number}" for number in count(2)))
    copy = kind.path.with_name(_first_free(every, kind.path.parent))
    part = copy.with_name(f"{copy.name}.part")
    kind.copy(part)
    sync_path(part)
    part.replace(copy)
    COPIED()
    return copy


def _until(names: Iterator[str], folder: Path) -> Iterator[str]:
    for name in names:
        if not (folder / name).exists():
            return
        yield name


def _first_free(names: Iterator[str], folder: Path) -> str:
    return next(name for name in names if not (folder / name).exists())


def _is_fenced(old: Database) -> bool:
    names = {name for (name,) in old.read(lambda t: t.sql(t.dialect.tables))}
    return f"{_FENCED[0]}_moved" in names


def _fence_file(transaction: Transaction) -> None:
    for table in _FENCED:
        transaction.sql(f"ALTER TABLE {table} RENAME TO {table}_moved")


def _checkpoint(old: Database, kind: SQLite) -> None:
    """Write the whole log of the old database into its file, should that be needed again."""
    connection = kind.connect()
    try:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.close()
        old.close()
    if busy:
        raise ConflictError(
            f"{kind.location} is being read by another process",
            hint="let it end, and upgrade again",
        )


# Servers


def _upgrade_server(kind: PostgreSQL, store: ArtifactStore, patience: float) -> str:
    old = Database(kind, patience)
    try:
        ((old_schema,),) = old.read(lambda t: t.sql("SELECT current_schema()"))
        beside = f"{old_schema}_new"

        def begin(transaction: Transaction) -> str:
            begun_from = _revision(transaction)
            # The mark in the old schema stands first: killed after it, the next call goes on
            # filling the new schema instead of beginning again, and no driver opens the old one
            # meanwhile.
            if not begun_from.endswith(MIGRATING):
                _refuse_drivers(transaction)
                transaction.sql(f"DROP SCHEMA IF EXISTS {_quoted(beside)} CASCADE")
                transaction.sql(f"CREATE SCHEMA {_quoted(beside)}")
                _mark(transaction, begun_from)
            return begun_from

        begun_from = old.write(begin)
        MARKED()
        old_copy = _free_schema(old, f"{old_schema}_{original_revision(begun_from)}")
        _fill(
            old,
            kind.within(beside),
            store,
            patience,
            lambda t: _exchange(t, old_schema, beside, old_copy),
        )
        REPLACED()
    finally:
        old.close()
    return f"schema {old_copy}"


def _free_schema(old: Database, name: str) -> str:
    query = "SELECT nspname FROM pg_namespace"
    schemas = {schema_name for (schema_name,) in old.read(lambda t: t.sql(query))}
    return next(
        schema_name
        for schema_name in chain([name], (f"{name}_{n}" for n in count(2)))
        if schema_name not in schemas
    )


def _exchange(transaction: Transaction, old_schema: str, beside: str, old_copy: str) -> None:
    """Move the old tables and views to schema *old_copy*, and the new ones to their place."""
    FENCED()
    views = transaction.sql("SELECT view FROM studies UNION SELECT view_all FROM studies")
    numbers = transaction.sql("SELECT id FROM studies")
    tables = transaction.sql(transaction.dialect.tables)
    ours = {*OLD_TABLES, *(f"values_{number}" for (number,) in numbers)}
    present = {name for (name,) in transaction.sql(transaction.dialect.views)}
    transaction.sql(f"CREATE SCHEMA {_quoted(old_copy)}")
    for (view,) in views:
        if view in present:
            transaction.sql(
                f"ALTER VIEW {_quoted(old_schema)}.{_quoted(view)} SET SCHEMA {_quoted(old_copy)}"
            )
    for (table,) in tables:
        if table in ours:
            _move(transaction, table, old_schema, old_copy)
    new = transaction.sql("SELECT tablename FROM pg_tables WHERE schemaname = %s", (beside,))
    for (table,) in new:
        _move(transaction, table, beside, old_schema)
    transaction.sql(f"DROP SCHEMA {_quoted(beside)}")
    revision = original_revision(
        transaction.sql(f"SELECT version_num FROM {_quoted(old_copy)}.alembic_version")[0][0]
    )
    # Whoever goes back moves the tables to where they were.
    transaction.sql(f"UPDATE {_quoted(old_copy)}.alembic_version SET version_num = %s", (revision,))


def _move(transaction: Transaction, table: str, source: str, target: str) -> None:
    transaction.sql(f"ALTER TABLE {_quoted(source)}.{_quoted(table)} SET SCHEMA {_quoted(target)}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Both


def _revision(transaction: Transaction) -> str:
    ((revision,),) = transaction.sql("SELECT version_num FROM alembic_version")
    return str(revision)


def _mark(transaction: Transaction, revision: str) -> None:
    mark = transaction.dialect.mark
    transaction.sql(f"UPDATE alembic_version SET version_num = {mark}", (revision + MIGRATING,))


def _refuse_drivers(transaction: Transaction, between: str = "", study: str = "l.study") -> None:
    """Raise ConflictError while a driver is alive: what it records would be lost.

    *between* and *study* say how a lease leads to its study.
    """
    for name, host, pid, born, until in transaction.sql(
        f"SELECT s.name, l.host, l.pid, l.born, l.until FROM leases l {between}"
        f" JOIN studies s ON s.id = {study} WHERE l.ended IS NULL"
    ):
        if until > transaction.now and not DriverProcess(host, pid, born).has_exited():
            raise ConflictError(
                f"study {name!r} is being run by process {pid} on {host}",
                hint="upgrade when it has ended",
            )


def _fill(
    old: Database,
    target: DatabaseDialect,
    store: ArtifactStore,
    patience: float,
    finish: Callable[[Transaction], None],
) -> None:
    """Fill the new repository, compare both, and call *finish* while nobody can write.

    All of it may be run again after a crash: the migration goes on behind its last mark.
    """
    new = Database(target, patience)
    try:
        if schema_version.schema_revision(new) is None:
            schema_version.create(new)
        else:
            new.settle()
        Migrator(LegacyRepositoryReader(old), new, store).run()
        _log.info("all results are in %s; comparing both", target.location)
        store.sync()
        if isinstance(target, SQLite):
            _close_file(target, new)

        def compare(transaction: Transaction) -> None:
            _refuse_drivers(transaction)
            if isinstance(target, PostgreSQL):
                transaction.sql("LOCK TABLE experiments, attempts, events IN EXCLUSIVE MODE")
            before = _contents(transaction, older=True)
            after = new.read(lambda other: _contents(other, older=False))
            if before != after:
                raise RecordError(
                    f"{old.dialect.location} was changed while it was upgraded",
                    hint="let the other programs end, and upgrade again",
                )
            new.close()
            finish(transaction)

        try:
            old.write(compare)
        except RecordError:
            _forget(old, target)
            raise
    finally:
        new.close()


def _close_file(target: SQLite, new: Database) -> None:
    """Make the new file complete without its log, and flush it to the disk."""
    new.close()
    connection = target.connect()
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    finally:
        connection.close()
    sync_path(target.path)


def _forget(old: Database, target: DatabaseDialect) -> None:
    """Remove what an upgrade that failed has filled: the next one starts from nothing."""

    def unmark(transaction: Transaction) -> None:
        mark = transaction.dialect.mark
        revision = original_revision(_revision(transaction))
        transaction.sql(f"UPDATE alembic_version SET version_num = {mark}", (revision,))

    old.write(unmark)
    if isinstance(target, SQLite):
        with suppress(OSError):
            target.path.unlink()


def _contents(transaction: Transaction, *, older: bool) -> dict[int | str, tuple[int, int]]:
    """Return number and checksum of the results of each study, and how many definitions exist."""
    summaries: dict[int | str, tuple[int, int]] = {}
    if older:
        numbers = [number for (number,) in transaction.sql("SELECT id FROM studies")]
        query = (
            "SELECT e.digest, e.state, e.attempt FROM experiments e JOIN values_{n} v"
            f" ON v.experiment = e.id WHERE e.state IN ({_STATES})"
        )
    else:
        numbers = [number for (number,) in transaction.sql("SELECT id FROM versions")]
        query = "SELECT digest, status, attempt FROM results WHERE version = {n}"
    for number in numbers:
        rows = transaction.sql(query.replace("{n}", str(number)))
        hashes = (
            hashlib.blake2b(b"%b %b %d" % (bytes(digest), state.encode(), attempt), digest_size=16)
            for digest, state, attempt in rows
        )
        summaries[number] = (
            len(rows),
            sum(int.from_bytes(row_hash.digest(), "big") for row_hash in hashes),
        )
    for table in ("definitions", "leases"):
        ((rows_of,),) = transaction.sql(f"SELECT count(*) FROM {table}")
        summaries[table] = int(rows_of), 0
    return summaries


def is_older(revision: str | None) -> bool:
    """Return whether ``upgrade_older`` upgrades a repository of that revision."""
    return revision is not None and original_revision(revision) in REVISIONS[:-1]


def room_for(path: Path) -> None:
    """Raise PlaceError unless the disk has room for the copy and the new file."""
    needed = 2 * path.stat().st_size + 2**20
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise PlaceError(
            f"an upgrade of {path} needs {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free",
            hint="make room on the disk",
        )
