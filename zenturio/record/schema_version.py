"""The revision of a database's schema: checked whenever it is opened; a new one is created.

A file that others made must not run code when it is used. A trigger is executed by our own writes,
a generated column or a CHECK by reads and writes of its table, an index of an expression by writes.
Our tables have none of these, so a file whose tables do was not made by zenturio. Views are left
alone: nothing of ours reads one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from zenturio.errors import RecordError, ZenError
from zenturio.failpoints import Failpoint
from zenturio.record import old_revisions
from zenturio.record.database import Database, DatabaseDialect, Transaction
from zenturio.record.schema_names import REVISIONS, TABLES

_PARTS = (
    "SELECT type, name, tbl_name, substr(sql, 1, 100000) FROM sqlite_master"
    " WHERE type <> 'view' AND sql IS NOT NULL"
)
_GENERATED = re.compile(r"\b(GENERATED|AS|VIRTUAL)\b", re.IGNORECASE)
_CODE_IN_TABLE = re.compile(
    r"\b(CHECK|GENERATED|AS|DEFAULT|COLLATE|REFERENCES|CONFLICT|WITHOUT|VIRTUAL)\b", re.IGNORECASE
)
"""Words of a CREATE TABLE behind which functions, or what others define, may stand."""
_PLAIN_INDEX = re.compile(
    r'CREATE (?:UNIQUE )?INDEX (?:"[^"]*"|\w+) ON (?:"[^"]*"|\w+) \(["\w, ]*\)', re.IGNORECASE
)


def check_schema(
    transaction: Transaction, tables: frozenset[str], place: str, *, is_newest: bool
) -> None:
    """Raise RecordError if *tables* of a SQLite file execute something when they are used.

    Those of earlier revisions had references, checks and partial indexes.
    """
    code = _CODE_IN_TABLE if is_newest else _GENERATED
    for kind, name, table, text in transaction.sql(_PARTS):
        if table not in tables:
            continue
        sql = str(text)
        if kind == "trigger":
            what = f"the trigger {name!r} on the table {table}"
        elif kind == "table" and (match := code.search(sql)):
            what = f"{match[0].upper()} in the table {table}"
        elif is_newest and kind == "index" and not _PLAIN_INDEX.fullmatch(" ".join(sql.split())):
            what = f"an expression in the index {name!r} of the table {table}"
        else:
            continue
        raise RecordError(
            f"{place} was changed by another program: it has {what}",
            hint="remove that from the file if it is yours; `zen db salvage` copies the rows alone",
        )


_log = logging.getLogger(__name__)

CREATED = Failpoint("record.created")

_VERSION_TABLE = "alembic_version"
_OWN_TABLES = TABLES | frozenset(old_revisions.TABLES) | {_VERSION_TABLE}


def connect(dialect: DatabaseDialect, patience: float) -> Database:
    """Return the database, whose schema is the one that this program knows.

    An empty one gets the schema. RecordError if it has any other one; then nothing is changed.
    """
    is_missing = dialect.missing()
    if is_missing:
        dialect.prepare()
    database = Database(dialect, patience)
    with _closed_on_error(database):
        # Looked at first, and with modes untouched: the file may belong to another program.
        revision = None if is_missing else _checked_revision(database)
        if revision is None:
            if create(database):
                _log.info("created a database at %s", dialect.location)
                return database
            _checked_revision(database)  # of whoever was faster
        else:
            _settle(database)
    _log.debug("opened the database at %s", dialect.location)
    return database


def _checked_revision(database: Database) -> str | None:
    """Return the revision of the schema, this program's, or None for an empty database."""
    revision = schema_revision(database)
    if revision not in {None, REVISIONS[-1]}:
        raise _wrong_revision(database.dialect.location, str(revision))
    return revision


@contextmanager
def _closed_on_error(database: Database) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.close()
        raise


def _settle(database: Database) -> None:
    """Let connections change the modes of the file, now that it is known to be ours."""
    database.dialect.settle()
    database.connections.dispose()
    database.connect()


def schema_revision(database: Database) -> str | None:
    """Return the revision of the schema; None for an empty database.

    RecordError if the tables are not those of a repository.
    """
    return database.read(lambda transaction: _version(transaction, database))


def _version(transaction: Transaction, database: Database) -> str | None:
    names = _tables(transaction)
    if not names:
        return None
    rows = (
        transaction.sql(f"SELECT version_num FROM {_VERSION_TABLE}")
        if _VERSION_TABLE in names
        else []
    )
    row = rows[0] if rows else None
    if transaction.dialect.name == "sqlite":
        is_newest = row is not None and row[0] == REVISIONS[-1]
        check_schema(transaction, _OWN_TABLES, database.dialect.location, is_newest=is_newest)
    if row is None and names - {_VERSION_TABLE}:
        raise RecordError(
            f"{database.dialect.location} is a database, but not one of zenturio's",
            hint="choose another one with ZENTURIO_DB; in PostgreSQL a schema of its own will do:"
            " postgresql://…?options=-csearch_path%3DNAME",
        )
    if row is not None and row[0] == REVISIONS[-1]:
        _check_tables(names, database.dialect.location)
    return None if row is None else str(row[0])


def _check_tables(names: set[str], place: str) -> None:
    """Raise RecordError unless each table is one: a view in its place may never finish."""
    missing = sorted(TABLES - names)
    if missing:
        raise RecordError(
            f"{place} is damaged: it has no table {', '.join(missing)}",
            hint="`zen db salvage` saves what can be read; or restore a copy",
        )


def _tables(transaction: Transaction) -> set[str]:
    return {name for (name,) in transaction.sql(transaction.dialect.tables)}


def _create(transaction: Transaction) -> bool:
    """Create the whole schema; return false if another process has created it meanwhile."""
    # Of two processes at a time the server lets one create the first table; the other one waits
    # for its commit, is refused, and comes here once more. No lock that others could hold.
    if _tables(transaction) - {_VERSION_TABLE}:
        return False
    from zenturio.record import schema  # noqa: PLC0415 - it loads SQLAlchemy, for new databases alone

    for statement in schema.create_statements(transaction.dialect.name):
        transaction.sql(statement)
    CREATED()
    # Earlier versions used Alembic: its table keeps its name, so that they refuse this revision.
    transaction.sql(
        "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL,"
        " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    transaction.sql("DELETE FROM alembic_version")
    transaction.insert("alembic_version", ("version_num",), [(REVISIONS[-1],)])
    return True


def _wrong_revision(place: str, present: str) -> ZenError:
    newest = REVISIONS[-1]
    if old_revisions.original(present) in REVISIONS[:-1]:
        begun = " (an upgrade was cut off)" if present.endswith(old_revisions.MIGRATING) else ""
        revision = f"{old_revisions.original(present)}{begun}"
        return RecordError(
            f"{place} has the schema {revision}, and this program needs {newest}",
            hint="`zen db upgrade` brings it up to date and keeps a copy of it as it is",
        )
    return RecordError(
        f"{place} has the schema {present}, and this program supports schemas up to {newest}",
        hint="use the zenturio that wrote it, or a newer one; to go back to this one, restore"
        " the copy that the upgrade made",
    )


def upgradable_revision(dialect: DatabaseDialect, patience: float) -> str | None:
    """Return the revision of a database that can be upgraded; RecordError if it cannot."""
    database = Database(dialect, patience)
    with _closed_on_error(database):
        revision = schema_revision(database)
        if revision is not None and old_revisions.original(revision) not in REVISIONS:
            raise _wrong_revision(dialect.location, revision)
    database.close()
    return revision


def create(database: Database) -> bool:
    """Create the tables of this revision in an empty database; return false if it has tables."""
    _settle(database)
    return database.write(_create)
