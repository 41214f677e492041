"""The views that a database keeps for other programs: psql, Datasette, DBeaver.

They are made outside of runs, in a transaction of their own that waits for nobody: where a reader
holds a view, it is left as it is until the next time. SQLite keeps those of the studies that were
opened last, for each new connection reads all views that there are; PostgreSQL keeps all, in a
schema of their own, and only ever adds columns to one, so that views and grants upon it stay.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from zenturio.errors import InputError, RecordError
from zenturio.record import sql_names, studies, study_views
from zenturio.record.database import Database, Transaction
from zenturio.record.field_layout import FieldDeclaration, FieldLayout, StoredField
from zenturio.record.sql_names import quoted
from zenturio.record.studies import StudyVersion
from zenturio.record.study_context import RepositoryCache, StudyContext

KEPT = 100
"""Studies whose views a file keeps, beside those that are pinned."""
PATIENCE = "50ms"
"""How long PostgreSQL waits for who reads a view."""
SCHEMA = "studies"
"""Where PostgreSQL keeps them; behind the name of the schema of the tables, if that is another one
than ``public`` or ``zenturio``."""

_TYPES = {"bigint": "numeric", "none": ""}


def refresh_views(database: Database, cache: RepositoryCache, name: str) -> bool:
    """Bring the views of a study up to date; return whether they are."""
    if not database.read(lambda transaction: _is_stale(transaction, name)):
        return True
    try:
        return database.write(lambda transaction: _refresh(transaction, cache, name))
    except RecordError:
        return False  # a reader holds one of them: the next time will do


@dataclass(frozen=True, slots=True)
class StoredView:
    """The view of a study in the database, for other programs."""

    study: str
    name: str
    is_stored: bool
    """Whether the database has it now."""
    is_pinned: bool
    """Whether it keeps it, whichever studies are opened."""
    opened: float
    """When the study was opened last, in seconds since 1970."""


def stored_views(transaction: Transaction) -> tuple[StoredView, ...]:
    """Return the views of all studies that have a current version, last opened first."""
    rows = transaction.sql(
        "SELECT name, sql_name, view_revision, pinned, opened FROM studies"
        " WHERE current IS NOT NULL ORDER BY opened DESC, id DESC"
    )
    return tuple(
        StoredView(name, view, shown is not None, bool(pinned), opened)
        for name, view, shown, pinned, opened in rows
    )


def pin_views(database: Database, cache: RepositoryCache, name: str, *, is_pinned: bool) -> None:
    """Keep the views of a study in the database, or lets them go when others are opened."""
    database.write(lambda transaction: _pin(transaction, name, is_pinned=is_pinned))
    if is_pinned:
        refresh_views(database, cache, name)


def _pin(transaction: Transaction, name: str, *, is_pinned: bool) -> None:
    version = studies.get_version(transaction, name)
    if version.current != version.id:
        raise InputError(
            f"{name} is an archived version: views are of the current one",
            hint=f"pin {version.base}; zen sql knows study_{version.base}@{version.number}, too",
        )
    mark = transaction.dialect.mark
    transaction.sql(
        f"UPDATE studies SET pinned = {mark} WHERE id = {mark}", (int(is_pinned), version.study)
    )


def drop_views_of(database: Database, sql_name: str) -> None:
    """Drop the views of a deleted study, unless they are being read or have views upon them."""
    mark = database.dialect.mark
    query = (
        "SELECT 1 FROM studies s JOIN versions v ON v.study = s.id"
        f" WHERE s.sql_name = {mark} LIMIT 1"
    )
    if not database.read(lambda transaction: transaction.sql(query, (sql_name,))):
        with suppress(RecordError):
            database.write(lambda transaction: drop(transaction, sql_name))


def _is_stale(transaction: Transaction, name: str) -> bool:
    version = studies.find_version(transaction, name)
    return version is not None and version.has_stale_view


def _refresh(transaction: Transaction, cache: RepositoryCache, name: str) -> bool:
    version = studies.find_version(transaction, name)
    if version is None or version.current != version.id:
        return True
    layout = StudyContext.at(transaction, version, cache).layout
    if transaction.dialect.name == "sqlite":
        _in_file(transaction, version, layout)
    else:
        _on_server(transaction, version, layout)
    mark = transaction.dialect.mark
    transaction.sql(
        f"UPDATE studies SET view_revision = {mark} WHERE id = {mark}",
        (version.revision, version.study),
    )
    return True


def _current(version: StudyVersion) -> str:
    """Return SQL for the version that the study's name means now: new versions need no DDL."""
    return f"(SELECT current FROM studies WHERE id = {version.study})"


def _text(
    transaction: Transaction, version: StudyVersion, layout: FieldLayout, *, whole: bool
) -> str:
    sql = study_views.rows_sql(transaction.dialect, _of_all_versions(layout), whole=whole)
    return sql.replace(f"e.version = {layout.version}", f"e.version = {_current(version)}", 1)


def _of_all_versions(layout: FieldLayout) -> FieldLayout:
    """With the fields of every version: a view belongs to the study's name."""
    members = {f.number: FieldDeclaration.of(f.field, f.forms) for f in layout.fields}
    return FieldLayout(layout.dialect_name, layout.study, layout.version, 0, layout.fields, members)


# SQLite


def _in_file(transaction: Transaction, version: StudyVersion, layout: FieldLayout) -> None:
    for whole in (False, True):
        view = sql_names.all_view(version.sql_name) if whole else version.sql_name
        transaction.sql(f"DROP VIEW IF EXISTS {quoted(view)}")
        text = _text(transaction, version, layout, whole=whole)
        transaction.sql(f"CREATE VIEW {quoted(view)} AS {text}")
    shown = transaction.sql(
        "SELECT id, sql_name FROM studies WHERE view_revision IS NOT NULL AND pinned = 0"
        f" AND id <> {version.study} ORDER BY opened DESC"
    )
    for study, name in shown[KEPT - 1 :]:
        drop(transaction, name)
        transaction.sql(f"UPDATE studies SET view_revision = NULL WHERE id = {study}")


# PostgreSQL


def schema_name(table_schema: str) -> str:
    """Return the schema of the views, where *table_schema* is that of the tables."""
    return SCHEMA if table_schema in ("public", "zenturio") else f"{table_schema}_{SCHEMA}"


def _schema(transaction: Transaction) -> str:
    ((table_schema,),) = transaction.sql("SELECT current_schema()")
    return schema_name(table_schema)


def _on_server(transaction: Transaction, version: StudyVersion, layout: FieldLayout) -> None:
    schema = quoted(_schema(transaction))
    transaction.sql(f"SET LOCAL lock_timeout = '{PATIENCE}'")
    if not transaction.sql(
        "SELECT 1 FROM pg_namespace WHERE nspname = %s", (_schema(transaction),)
    ):
        transaction.sql(f"CREATE SCHEMA {schema}")
    for whole in (False, True):
        view = sql_names.all_view(version.sql_name) if whole else version.sql_name
        present = _columns_of(transaction, view)
        text = _appended(transaction, version, layout, present, whole=whole)
        transaction.sql(f"CREATE OR REPLACE VIEW {schema}.{quoted(view)} AS {text}")


def _columns_of(transaction: Transaction, view: str) -> dict[str, str]:
    """Return the columns that a view has, in their order, with their types."""
    rows = transaction.sql(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a"
        " JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 ORDER BY a.attnum",
        (_schema(transaction), view),
    )
    return dict(rows)


def _appended(
    transaction: Transaction,
    version: StudyVersion,
    layout: FieldLayout,
    present: dict[str, str],
    *,
    whole: bool,
) -> str:
    """Return the columns that are there, as they are, and behind them what is new."""
    dialect = transaction.dialect
    facts = dict(study_views.facts_sql(dialect, whole=whole))
    fields = {f.sql_name: f for f in layout.fields}
    columns = []
    for name, kind in present.items():
        columns.append((name, _cast(transaction, name, kind, facts, fields)))
    for name, sql in facts.items():
        if name not in present:
            columns.append((name, sql))
    for name, stored in fields.items():
        sql, kind = study_views.field_sql(dialect, stored)
        kind = _TYPES.get(kind, kind)
        if name not in present and kind and len(columns) < study_views.MOST_COLUMNS:
            columns.append((name, f"({sql})::{kind}"))
        elif name in present and not _fits(kind, present[name]) and f"{name}_text" not in present:
            columns.append((f"{name}_text", f"({sql})::text"))
    listed = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns)
    ok = "" if whole else " AND e.status = 'ok' AND e.newest = 1"
    return f"SELECT {listed} FROM results e WHERE e.version = {_current(version)}{ok}"


def _fits(kind: str, column: str) -> bool:
    """Return whether a column, whose type does not change, can show all values of a type."""
    return kind in (column, "") or column == "text" or (kind, column) == (
        "numeric", "double precision",
    )  # fmt: skip


def _cast(
    transaction: Transaction,
    name: str,
    kind: str,
    facts: dict[str, str],
    fields: dict[str, StoredField],
) -> str:
    """Return a column that is there already, of the type that it has."""
    if name in facts:
        return facts[name]
    stored = fields.get(name)
    if stored is None:
        base = fields.get(name.removesuffix("_text"))
        return (
            "NULL::text"
            if base is None
            else f"({study_views.field_sql(transaction.dialect, base)[0]})::text"
        )
    sql, now = study_views.field_sql(transaction.dialect, stored)
    now = _TYPES.get(now, now)
    if now == kind or _fits(now, kind):
        return f"({sql})::{kind}"
    # Of several kinds by now: those values are shown that are what the column was made for.
    letter = {"numeric": "i", "double precision": "r", "text": "t", "boolean": "i"}[kind]
    slot = stored.place.slot(letter)
    slot_sql = f"e.{slot}" if slot else "NULL"
    if kind == "boolean":
        slot_sql = f"{slot_sql} <> 0" if slot else "NULL"
    return f"({slot_sql})::{kind}"


def drop(transaction: Transaction, sql_name: str) -> None:
    """Drop the views of a study, unless views of users depend on them."""
    prefix = ""
    if transaction.dialect.name == "postgresql":
        transaction.sql(f"SET LOCAL lock_timeout = '{PATIENCE}'")
        prefix = f"{quoted(_schema(transaction))}."
    for view in (sql_name, sql_names.all_view(sql_name)):
        transaction.sql(f"DROP VIEW IF EXISTS {prefix}{quoted(view)}")
