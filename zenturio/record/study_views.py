"""The views of a study in SQL: a column for each parameter and metric, by its name.

``study_NAME`` has the newest results of the current version that succeeded, ``study_NAME_all`` all
of them with all facts. A view whose name needs quotes has a plain name, too. The same text serves
our own statements, which put it in parentheses; SQL of users, before which it stands as WITH; and
the views that a database stores for other programs.

Stored views are made outside of runs, and wait for no reader. SQLite makes them in the transaction
that opens or leaves the study, for readers do not keep it from that; it keeps those of the studies
that were opened last, for each new connection reads all views. PostgreSQL has a transaction for
them, and a view that is being read is left as it is until the next time; it keeps all, in a schema
of their own, and only ever adds columns to one, so that views and grants upon it stay.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from zenturio.errors import InputError, RecordError
from zenturio.record import sql_names, studies
from zenturio.record.database import Database, DatabaseDialect, Transaction
from zenturio.record.entities import RowFilter
from zenturio.record.field_layout import FieldDeclaration, FieldLayout, StoredField
from zenturio.record.sql_names import (
    TOKEN,
    DialectName,
    plain_name,
    quoted,
    with_names,
    with_parts,
)
from zenturio.record.studies import StudyVersion
from zenturio.record.study_transaction import RepositoryCache, StudyTransaction

MOST_COLUMNS = 1500
"""No view has more (PostgreSQL answers with at most 1664, SQLite with 2000)."""
MOST_NAMED: dict[DialectName, int] = {"sqlite": 1900, "postgresql": 1600}
"""Fields of one study that a user's statement may use."""

_LEADING = ("machine", "round", "repeat")
"""The facts that the smaller view has, too."""

# What is known of an attempt hangs on its number: of a copy, on that of the result it was made of.
_ATTEMPT = "coalesce((SELECT source FROM copies WHERE result = e.id), e.id)"
_SOURCE_HOST = (
    "(SELECT o.host FROM copies c JOIN {table} o ON o.id = c.source WHERE c.result = e.id)"
)
_HOST = (
    f"coalesce({_SOURCE_HOST.format(table='results')}, {_SOURCE_HOST.format(table='attempts')},"
    " e.host)"
)

_FACTS = {
    "repeat": "e.repeat",
    "round": "e.round",
    "machine": "(SELECT label FROM machines WHERE id = e.machine)",
    "status": "e.status",
    "cause": "e.cause",
    "host": "(SELECT name FROM hosts WHERE id = e.host)",
    "attempt": "e.attempt",
    "started": "e.started",
    "ended": "e.ended",
    "exit": "e.exit",
    "remarks": "e.remarks",
    "host_cpu": "(SELECT cpu FROM machines WHERE id = e.machine)",
    "host_cores": "(SELECT nullif(cores, 0) FROM machines WHERE id = e.machine)",
    "host_memory": f"(SELECT nullif(memory, 0) FROM hosts WHERE id = {_HOST})",
    "host_kernel": f"(SELECT nullif(kernel, '') FROM hosts WHERE id = {_HOST})",
    "host_unmeasured": f"(SELECT unmeasured FROM hosts WHERE id = {_HOST})",
    "host_load": f"(SELECT load_start FROM conditions WHERE attempt = {_ATTEMPT})",
    **{
        name: f"(SELECT {column} FROM conditions WHERE attempt = {_ATTEMPT})"
        for name, column in (
            ("run_order", "run_order"),
            ("run_block", "run_block"),
            ("run_turn", "run_turn"),
            ("host_runnable", "runnable"),
            ("host_delay", "run_delay"),
            ("host_others", "others_ctime"),
            ("host_pressure", "pressure"),
            ("host_steal", "steal"),
            ("host_mhz", "mhz_start"),
            ("host_governor", "governor"),
            ("host_slots", "slots"),
            ("host_cpus", "cpus"),
            ("host_pinned", "pinned"),
            ("host_slots_start", "slots_start"),
            ("host_slots_end", "slots_end"),
            ("host_load_end", "load_end"),
            ("host_mhz_end", "mhz_end"),
            ("host_celsius", "celsius_start"),
            ("host_celsius_end", "celsius_end"),
            ("host_throttled", "throttled"),
            ("host_memory_pressure", "memory_pressure"),
            ("host_gpu_mhz", "gpu_mhz_start"),
            ("host_gpu_mhz_end", "gpu_mhz_end"),
        )
    },
}


def rows_sql(
    dialect: DatabaseDialect,
    layout: FieldLayout,
    *,
    all_rows: bool = True,
    keys: tuple[str, str, str] | None = None,
    facts: bool = True,
    names: Collection[str] | None = None,
    schema: str = "",
    rows: RowFilter | None = None,
) -> str:
    """Return the SELECT statement for the rows of a version.

    *all_rows*: all of them, and what every study has; else those that succeeded. *keys*: names for
    the position, the repeat and the number, in the order of an index. *facts* false: without what
    every study has. *names*: the fields that are needed, by their names in SQL.
    *rows*: which of them; by default the newest of those that succeeded, or all.
    *schema*, with a dot behind it, stands before each table: beside somebody's own SQL, whose WITH
    may have a table of that name.
    """
    chosen = [f for f in layout.own_fields if names is None or f.sql_name in names][
        : MOST_NAMED[dialect.name]
    ]
    if names is None:
        chosen = chosen[:MOST_COLUMNS]
    columns = []
    if keys is not None:
        order = ("e.position", "e.repeat", "e.id")
        columns += [f"{sql} AS {quoted(key)}" for sql, key in zip(order, keys, strict=True)]
    if facts:
        # A field that was named before there was a fact of its name keeps it.
        own_names = {sql_names.folded(field.sql_name) for field in chosen}
        columns += [
            f"{sql} AS {quoted(name)}"
            for name, sql in facts_sql(dialect, all_rows=all_rows, schema=schema)
            if sql_names.folded(name) not in own_names
        ]
    columns += [
        f"{studies.field_sql(dialect, f, schema)[0]} AS {quoted(f.sql_name)}" for f in chosen
    ]
    fields = ", ".join(columns) or "e.id AS number"
    rows = rows or RowFilter(round="all" if all_rows else "newest")
    conditions = rows.conditions if all_rows else f" AND e.status = 'ok'{rows.conditions}"
    return f"SELECT {fields} FROM {schema}results e WHERE e.version = {layout.version}{conditions}"


def facts_sql(
    dialect: DatabaseDialect, *, all_rows: bool, schema: str = ""
) -> list[tuple[str, str]]:
    facts = {
        "digest": dialect.hex_sql("e.digest"),
        "index": dialect.index_sql("e.position"),
        **{name: _within(schema, sql) for name, sql in _FACTS.items()},
    }
    return [(name, facts[name]) for name in (sql_names.FACTS if all_rows else _LEADING)]


def _within(schema: str, sql: str) -> str:
    """Return *sql* with the name of the schema before each table."""
    return sql.replace("FROM ", f"FROM {schema}").replace("JOIN ", f"JOIN {schema}")


# SQL of users, before which views stand as WITH

_VIEW = re.compile(r"(study_.*?)(?:@([1-9][0-9]{0,8}))?(_all)?", re.DOTALL | re.IGNORECASE)


def expand_views(transaction: Transaction, cache: RepositoryCache, text: str) -> str:
    """Return *text*, one query, with what the studies' views are that it names, as they are now.

    A name that is exactly that of a field which SQL calls otherwise, for it differs from another
    one too little, becomes what SQL calls it.
    """
    tokens = list(TOKEN.finditer(text))
    names = {plain_name(token): token[0] for token in tokens if token["quoted"] or token["bare"]}
    views = _views_named(transaction, names)
    if not views:
        return text
    parts: dict[str, str] = {}
    replaced: dict[str, str] = {}
    star = any(token["star"] for token in tokens)
    schema = "main."
    if transaction.dialect.name == "postgresql":
        ((current,),) = transaction.sql("SELECT current_schema()")
        schema = f"{quoted(current)}."
    for name, (version, all_rows) in views.items():
        layout = StudyTransaction.at(transaction, version, cache).layout
        used = _used(layout, names, star=star)
        replaced |= _exact(layout, names)
        sql = rows_sql(transaction.dialect, layout, all_rows=all_rows, names=used, schema=schema)
        written = names[name]
        written = quoted(name) if written[0] in "`[" else written
        parts.setdefault(written, f"{written} AS NOT MATERIALIZED ({sql})")
    return with_parts(with_names(text, tokens, replaced), list(parts.values()))


def _views_named(
    transaction: Transaction, names: Mapping[str, str]
) -> dict[str, tuple[StudyVersion, bool]]:
    """Return the views among *names*: of which version, and whether it is the view of all rows."""
    uses_of: dict[str, list[tuple[str, str | None, bool]]] = {}
    for name in names:
        if name[:6].casefold() == "study_" and (match := _VIEW.fullmatch(name)):
            uses_of.setdefault(sql_names.folded(name), []).append((name, None, False))
            base = match[1], match[2], bool(match[3])
            uses_of.setdefault(sql_names.folded(base[0]), []).append((name, base[1], base[2]))
            if base[2]:  # a study may be called so, too
                longer = sql_names.folded(f"{base[0]}{base[2] and '_all'}")
                uses_of.setdefault(longer, []).append((name, base[1], False))
    if not uses_of:
        return {}
    versions = studies.all_versions(transaction)
    views: dict[str, tuple[StudyVersion, bool]] = {}
    for version in versions:
        for name, number, all_rows in uses_of.get(sql_names.folded(version.sql_name), ()):
            fits = (
                version.current == version.id if number is None else version.number == int(number)
            )
            if fits and (name not in views or not all_rows):
                views[name] = (version, all_rows)
    current = {v.sql_name: v for v in versions if v.current == v.id}
    for view, plain in sql_names.plain_views(current).items():
        for spelling, all_rows in ((plain, False), (sql_names.all_view(plain), True)):
            for name, *_ in uses_of.get(sql_names.folded(spelling), ()):
                if sql_names.folded(name) == sql_names.folded(spelling):
                    views.setdefault(name, (current[view], all_rows))
    return views


def _used(layout: FieldLayout, names: Mapping[str, str], *, star: bool) -> set[str] | None:
    """Return the fields that a statement may mean; None for all, if these are not too many."""
    if len(layout.own_fields) <= MOST_COLUMNS:
        return None
    folded = {sql_names.folded(name) for name in names}
    used = {
        f.sql_name
        for f in layout.own_fields
        if f.field.name in names or sql_names.folded(f.sql_name) in folded
    }
    if star:
        most = MOST_NAMED[layout.dialect_name]
        used |= {f.sql_name for f in layout.own_fields[: max(0, most - len(used))]}
    return used


def _exact(layout: FieldLayout, names: Mapping[str, str]) -> dict[str, str]:
    """Return what fields are called in SQL whose own names mean another one there, or none.

    PostgreSQL takes N for n, unless it is quoted. No field may be called so in this version where
    one of an earlier version has the name, which differs in its case alone.
    """
    facts = set(map(sql_names.folded, sql_names.FACTS))
    by_sql = {sql_names.folded(f.sql_name): f for f in layout.own_fields}
    replacements = {}
    for stored in layout.own_fields:
        name = stored.field.name
        if name not in names:
            continue
        folded = sql_names.folded(name)
        means_another = folded not in facts and by_sql.get(folded) is not stored
        if means_another or name not in (name.lower(), names[name][1:-1]):
            replacements[name] = stored.sql_name
    return replacements


# Stored views

KEPT = 100
"""Studies whose views a file keeps, beside those that are pinned."""
PATIENCE = "50ms"
"""How long PostgreSQL waits for readers of a view."""
SCHEMA = "studies"
"""Where PostgreSQL keeps them; behind the name of the schema of the tables, if that is another one
than ``public`` or ``zenturio``."""

_TYPES = {"bigint": "numeric", "none": ""}


def refresh_views(
    database: Database, cache: RepositoryCache, name: str, *, is_stale: bool | None = None
) -> bool:
    """Bring the views of a study up to date; return whether they are.

    *is_stale*: whether they need it; looked up where it is None.
    """
    if is_stale is None:
        is_stale = database.read(lambda transaction: _is_stale(transaction, name))
    if not is_stale:
        return True
    try:
        return database.write(lambda transaction: _refresh(transaction, cache, name))
    except RecordError:
        return False  # a reader holds one of them: the next time will do


@dataclass(frozen=True, slots=True)
class DatabaseView:
    """The view of a study in the database, for other programs."""

    study: str
    name: str
    is_stored: bool
    """Whether the database has it now."""
    is_pinned: bool
    """Whether it keeps it, whichever studies are opened."""
    opened: float
    """When the study was opened last, in seconds since 1970."""


def stored_views(transaction: Transaction) -> tuple[DatabaseView, ...]:
    """Return the views of all studies that have a current version, last opened first."""
    rows = transaction.sql(
        "SELECT name, sql_name, view_revision, pinned, opened FROM studies"
        " WHERE current IS NOT NULL ORDER BY opened DESC, id DESC"
    )
    return tuple(
        DatabaseView(name, view, view_revision is not None, bool(pinned), opened)
        for name, view, view_revision, pinned, opened in rows
    )


def pin_views(database: Database, cache: RepositoryCache, name: str, *, is_pinned: bool) -> None:
    """Keep the views of a study in the database, or let them go when others are opened."""
    database.write(lambda transaction: _pin(transaction, name, is_pinned=is_pinned))
    if is_pinned:
        refresh_views(database, cache, name)


def _pin(transaction: Transaction, name: str, *, is_pinned: bool) -> None:
    version = studies.get_version(transaction, name)
    if version.current != version.id:
        raise InputError(
            f"{name} is an archived version; only the current version has views",
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
    layout = StudyTransaction.at(transaction, version, cache).layout
    if transaction.dialect.name == "sqlite":
        return not refresh_at_once(transaction, version, layout).has_stale_view
    _on_server(transaction, version, layout)
    _note_refreshed(transaction, version)
    return True


def refresh_at_once(
    transaction: Transaction, version: StudyVersion, layout: FieldLayout
) -> StudyVersion:
    """Bring the views of *version* up to date where readers do not prevent it: in a file.

    Return the version as it is then.
    """
    if transaction.dialect.name != "sqlite" or not version.has_stale_view:
        return version
    if not _in_file(transaction, version, layout):
        return version
    with_views = _note_refreshed(transaction, version)
    if version.view_revision is None and with_views > KEPT:
        _drop_old_views(transaction, version)
    return replace(version, view_revision=version.newest_view_revision)


def _note_refreshed(transaction: Transaction, version: StudyVersion) -> int:
    """Note that the views are up to date; return how many studies have views, this one included.

    Studies whose views are pinned are not among them.
    """
    mark = transaction.dialect.mark
    # Whether a subquery of RETURNING sees the update differs among databases: this study is left
    # out of the count, and added.
    ((others,),) = transaction.sql(
        f"UPDATE studies SET view_revision = {mark} WHERE id = {mark} RETURNING"
        " (SELECT count(*) FROM studies o WHERE o.view_revision IS NOT NULL AND o.pinned = 0"
        f" AND o.id <> {version.study})",
        (version.newest_view_revision, version.study),
    )
    return int(others) + 1


def _current(version: StudyVersion) -> str:
    """Return SQL for the version that the study's name means now: new versions need no DDL."""
    return f"(SELECT current FROM studies WHERE id = {version.study})"


def _text(
    transaction: Transaction, version: StudyVersion, layout: FieldLayout, *, all_rows: bool
) -> str:
    sql = rows_sql(transaction.dialect, _of_all_versions(layout), all_rows=all_rows)
    return sql.replace(f"e.version = {layout.version}", f"e.version = {_current(version)}", 1)


def _of_all_versions(layout: FieldLayout) -> FieldLayout:
    """With the fields of every version: a view belongs to the study's name."""
    members = {f.number: FieldDeclaration.of(f.field, f.forms) for f in layout.fields}
    return FieldLayout(layout.dialect_name, layout.study, layout.version, 0, layout.fields, members)


def _plain_names(transaction: Transaction, version: StudyVersion) -> dict[str, str]:
    """Return the names without quotes of a study's views, by these, if it has any."""
    if sql_names.plain_view(version.sql_name) == version.sql_name:
        return {}
    views = [view for (view,) in transaction.sql("SELECT sql_name FROM studies ORDER BY id")]
    plain = sql_names.plain_views(views).get(version.sql_name)
    if plain is None:
        return {}
    return {
        version.sql_name: plain,
        sql_names.all_view(version.sql_name): sql_names.all_view(plain),
    }


# SQLite


def _in_file(transaction: Transaction, version: StudyVersion, layout: FieldLayout) -> bool:
    """Make the views that are not there as they should be; return false if a table has the name."""
    names = {version.sql_name: False, sql_names.all_view(version.sql_name): True}
    query = "SELECT name, type, sql FROM sqlite_master WHERE name IN (?, ?)"
    present = {name: (kind, sql) for name, kind, sql in transaction.sql(query, tuple(names))}
    if any(kind != "view" for kind, _ in present.values()):
        return False
    for name, all_rows in names.items():
        text = _text(transaction, version, layout, all_rows=all_rows)
        statement = f"CREATE VIEW {quoted(name)} AS {text}"
        if name in present and present[name][1] != statement:
            transaction.sql(f"DROP VIEW {quoted(name)}")
        if present.get(name, ("", ""))[1] != statement:
            transaction.sql(statement)
    for view, plain in _plain_names(transaction, version).items():
        # Somebody's own view or table of that name stays. Capitals make no other name in SQLite.
        query = "SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE"
        if not transaction.sql(query, (plain,)):
            transaction.sql(f"CREATE VIEW {quoted(plain)} AS SELECT * FROM {quoted(view)}")
    return True


def _drop_old_views(transaction: Transaction, version: StudyVersion) -> None:
    """Drop the views of the studies beyond ``KEPT`` that were opened before *version*."""
    with_views = transaction.sql(
        "SELECT id, sql_name FROM studies WHERE view_revision IS NOT NULL AND pinned = 0"
        f" AND id <> {version.study} ORDER BY opened DESC"
    )
    for study, name in with_views[KEPT - 1 :]:
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
    plain_names = _plain_names(transaction, version)
    with _as_owner(transaction):
        for all_rows in (False, True):
            view = sql_names.all_view(version.sql_name) if all_rows else version.sql_name
            definition = _definition(transaction, view)
            if definition and " results e" not in definition:
                # It is the plain name of another study: the exact one wins.
                transaction.sql(f"DROP VIEW {schema}.{quoted(view)}")
            present = _columns_of(transaction, view)
            text = _appended(transaction, version, layout, present, all_rows=all_rows)
            transaction.sql(f"CREATE OR REPLACE VIEW {schema}.{quoted(view)} AS {text}")
            plain = plain_names.get(view)
            if plain and _is_free_for(transaction, plain, view):
                transaction.sql(
                    f"CREATE OR REPLACE VIEW {schema}.{quoted(plain)}"
                    f" AS SELECT * FROM {schema}.{quoted(view)}"
                )


def _definition(transaction: Transaction, view: str) -> str:
    """Return the text of a view as the server has it; nothing if there is no such view."""
    rows = transaction.sql(
        "SELECT definition FROM pg_views WHERE schemaname = %s AND viewname = %s",
        (_schema(transaction), view),
    )
    return rows[0][0] if rows else ""


def _is_free_for(transaction: Transaction, plain: str, view: str) -> bool:
    """Return whether the name *plain* is that of *view* already, or of nothing."""
    definition = _definition(transaction, plain)
    return not definition or quoted(view) in definition


@contextmanager
def _as_owner(transaction: Transaction) -> Iterator[None]:
    """Act as the owner of the schema, where that is a group of ours: see ``database_roles``.

    So a view is the group's, and whoever comes next of it can replace the view.
    """
    rows = transaction.sql(
        "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = %s"
        " AND pg_has_role(session_user, nspowner, 'MEMBER')"
        " AND pg_get_userbyid(nspowner) <> current_user",
        (_schema(transaction),),
    )
    if rows:
        transaction.sql(f"SET LOCAL ROLE {rows[0][0]}")
    yield
    if rows:  # an error ends the transaction, and the role with it
        transaction.sql("RESET ROLE")


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
    all_rows: bool,
) -> str:
    """Return the existing columns unchanged, followed by the new ones."""
    dialect = transaction.dialect
    facts = dict(facts_sql(dialect, all_rows=all_rows))
    fields = {f.sql_name: f for f in layout.fields}
    columns = []
    # CREATE OR REPLACE VIEW takes a view only if its columns keep their names, types and order.
    for name, kind in present.items():
        columns.append((name, _cast(transaction, name, kind, facts, fields)))
    for name, sql in facts.items():
        if name not in present:
            columns.append((name, sql))
    for name, stored in fields.items():
        sql, kind = studies.field_sql(dialect, stored)
        kind = _TYPES.get(kind, kind)
        if name not in present and kind and len(columns) < MOST_COLUMNS:
            columns.append((name, f"({sql})::{kind}"))
        # A column keeps its type: values that it cannot show get a second column, as text.
        elif name in present and not _fits(kind, present[name]) and f"{name}_text" not in present:
            columns.append((f"{name}_text", f"({sql})::text"))
    select_list = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns)
    ok = "" if all_rows else " AND e.status = 'ok' AND e.newest = 1"
    return f"SELECT {select_list} FROM results e WHERE e.version = {_current(version)}{ok}"


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
            else f"({studies.field_sql(transaction.dialect, base)[0]})::text"
        )
    sql, now = studies.field_sql(transaction.dialect, stored)
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
    plain_name = sql_names.plain_view(sql_name)
    views = {sql_name: plain_name, sql_names.all_view(sql_name): sql_names.all_view(plain_name)}
    if transaction.dialect.name == "sqlite":
        for view, plain in views.items():
            statement = f"CREATE VIEW {quoted(plain)} AS SELECT * FROM {quoted(view)}"
            if transaction.sql("SELECT 1 FROM sqlite_master WHERE sql = ?", (statement,)):
                transaction.sql(f"DROP VIEW {quoted(plain)}")
            transaction.sql(f"DROP VIEW IF EXISTS {quoted(view)}")
        return
    transaction.sql(f"SET LOCAL lock_timeout = '{PATIENCE}'")
    schema = quoted(_schema(transaction))
    with _as_owner(transaction):
        for view, plain in views.items():
            if plain != view and quoted(view) in _definition(transaction, plain):
                transaction.sql(f"DROP VIEW {schema}.{quoted(plain)}")
            transaction.sql(f"DROP VIEW IF EXISTS {schema}.{quoted(view)}")
