"""The schema of a database: looked at before anything else is, made, or brought up to date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zenturio.errors import RecordError, ZenError
from zenturio.failpoints import Failpoint
from zenturio.record import older
from zenturio.record.database import Database, Transaction
from zenturio.record.flavour import Flavour
from zenturio.record.schema_check import check_schema
from zenturio.record.schema_names import REVISIONS, TABLES

CREATED = Failpoint("record.created")

_VERSION_TABLE = "alembic_version"
_OWN_TABLES = TABLES | frozenset(older.TABLES) | {_VERSION_TABLE}


def connect(flavour: Flavour, patience: float) -> Database:
    """A database whose schema is the one that this program knows; a new one where there is none.

    Anything else is a RecordError, and nothing is touched.
    """
    if flavour.missing():
        flavour.prepare()
    with _looked_at(flavour, patience) as (database, found):
        if found not in {None, REVISIONS[-1]}:
            raise _unfit(flavour.place, str(found))
        _settle(database)
        if found is None:
            database.write(_create)
    return database


@contextmanager
def _looked_at(flavour: Flavour, patience: float) -> Iterator[tuple[Database, str | None]]:
    """The database and its revision; closed if that is not what is wanted."""
    database = Database(flavour, patience)
    try:
        yield database, version(database)
    except BaseException:
        database.close()
        raise


def _settle(database: Database) -> None:
    """From now on connections may change how the file is kept."""
    database.flavour.settle()
    database.connections.dispose()
    database.read(_tables)


def version(database: Database) -> str | None:
    """The revision of the schema; none of an empty database, RecordError of somebody else's."""
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
    if transaction.flavour.name == "sqlite":
        is_newest = row is not None and row[0] == REVISIONS[-1]
        check_schema(transaction, _OWN_TABLES, database.flavour.place, is_newest=is_newest)
    if row is None and names - {_VERSION_TABLE}:
        raise RecordError(
            f"{database.flavour.place} is a database, but not one of zenturio's",
            hint="choose another one with ZENTURIO_DB; in PostgreSQL a schema of its own will do:"
            " postgresql://…?options=-csearch_path%3DNAME",
        )
    if row is not None and row[0] == REVISIONS[-1]:
        _check_tables(names, database.flavour.place)
    return None if row is None else str(row[0])


def _check_tables(names: set[str], place: str) -> None:
    """RecordError if a table of the schema is none: a view of that name may never end."""
    missing = sorted(TABLES - names)
    if missing:
        raise RecordError(
            f"{place} is damaged: it has no table {', '.join(missing)}",
            hint="`zen db salvage` saves what can be read; or restore a copy",
        )


def _tables(transaction: Transaction) -> set[str]:
    return {name for (name,) in transaction.sql(transaction.flavour.tables)}


def _create(transaction: Transaction) -> None:
    """The whole schema at once, unless somebody else was faster."""
    if transaction.flavour.creation_lock:
        transaction.sql(transaction.flavour.creation_lock)
    if _tables(transaction) - {_VERSION_TABLE}:
        return
    from zenturio.record import ddl  # noqa: PLC0415 - it loads SQLAlchemy, for new databases alone

    for statement in ddl.statements(transaction.flavour.name):
        transaction.sql(statement)
    CREATED()
    transaction.sql(
        "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL,"
        " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    transaction.sql("DELETE FROM alembic_version")
    transaction.insert("alembic_version", ("version_num",), [(REVISIONS[-1],)])


def _unfit(place: str, found: str) -> ZenError:
    wanted = REVISIONS[-1]
    if older.original(found) in REVISIONS[:-1]:
        begun = " (an upgrade was cut off)" if found.endswith(older.MOVING) else ""
        revision = f"{older.original(found)}{begun}"
        return RecordError(
            f"{place} has the schema {revision}, and this program needs {wanted}",
            hint="`zen db upgrade` brings it up to date and keeps a copy of it as it is",
        )
    return RecordError(
        f"{place} has the schema {found}, and this program knows up to {wanted} only",
        hint="use the zenturio that wrote it, or a newer one; to go back to this one, restore"
        " the copy that the upgrade made",
    )


def look(flavour: Flavour, patience: float) -> str | None:
    """The revision of a database that may be upgraded; an error of any other."""
    with _looked_at(flavour, patience) as (database, found):
        if found is not None and older.original(found) not in REVISIONS:
            raise _unfit(flavour.place, found)
    database.close()
    return found


def create(database: Database) -> None:
    """Makes the tables of this revision in an empty place."""
    _settle(database)
    database.write(_create)
