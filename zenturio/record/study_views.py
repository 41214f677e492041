"""The views of a study in SQL: a column for each parameter and metric, by its name.

``study_NAME`` has the newest results of the current version that succeeded, ``study_NAME_all`` all
of them with everything that is known of each. The same text serves a statement of ours, which asks
it in brackets; somebody's own SQL, before which it stands as WITH; and the views that a database
keeps for other programs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from zenturio.record import codec, sql_names, studies
from zenturio.record.codec import Form
from zenturio.record.database import Transaction
from zenturio.record.dialect import DatabaseDialect
from zenturio.record.field_layout import CHUNK, FieldLayout, StoredField
from zenturio.record.row_filter import RowFilter
from zenturio.record.schema_names import DialectName
from zenturio.record.sql_names import TOKEN, literal, plain_name, quoted, with_names, with_parts
from zenturio.record.studies import StudyVersion
from zenturio.record.study_context import RepositoryCache, StudyContext

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
    "host_load": f"(SELECT load_start FROM conditions WHERE attempt = {_ATTEMPT})",
}


def rows_sql(
    dialect: DatabaseDialect,
    layout: FieldLayout,
    *,
    whole: bool = True,
    keys: tuple[str, str, str] | None = None,
    facts: bool = True,
    names: Collection[str] | None = None,
    schema: str = "",
    rows: RowFilter | None = None,
) -> str:
    """Return what selects the rows of a version.

    *whole*: all of them, and what every study has; else those that succeeded. *keys*: names for
    the position, the repeat and the number, in the order of an index. *facts* false: without what
    every study has. *names*: the fields that are needed, by their names in SQL.
    *rows*: which of them; if nothing is said, the newest of those that succeeded, or all.
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
        columns += [
            f"{sql} AS {quoted(name)}"
            for name, sql in facts_sql(dialect, whole=whole, schema=schema)
        ]
    columns += [f"{field_sql(dialect, f, schema)[0]} AS {quoted(f.sql_name)}" for f in chosen]
    listed = ", ".join(columns) or "e.id AS number"
    rows = rows or RowFilter(round="all" if whole else "newest")
    conditions = rows.conditions if whole else f" AND e.status = 'ok'{rows.conditions}"
    return f"SELECT {listed} FROM {schema}results e WHERE e.version = {layout.version}{conditions}"


def facts_sql(dialect: DatabaseDialect, *, whole: bool, schema: str = "") -> list[tuple[str, str]]:
    facts = {
        "digest": dialect.hex_sql("e.digest"),
        "index": dialect.index_sql("e.position"),
        **{name: _within(schema, sql) for name, sql in _FACTS.items()},
    }
    return [(name, facts[name]) for name in (sql_names.FACTS if whole else _LEADING)]


def _within(schema: str, sql: str) -> str:
    """Return *sql* with the name of the schema before each table."""
    return sql.replace("FROM ", f"FROM {schema}").replace("JOIN ", f"JOIN {schema}")


def field_sql(dialect: DatabaseDialect, stored: StoredField, schema: str = "") -> tuple[str, str]:
    """Return the value of a field in a row ``e``, and its type."""
    place, forms = stored.place, stored.forms
    sql = {slot[0]: f"e.{slot}" for slot in place.slots}
    if place.chunk is not None:
        chunk = dialect.chunk_sql("e.id", place.chunk // CHUNK, place.chunk % CHUNK)
        sql["chunk"] = chunk.replace("FROM ", f"FROM {schema}")
    key = literal(codec.remark_key(stored.role, stored.field.name))
    for form, part in ((Form.BIG, "int"), (Form.SERIES, "series")):
        if form in forms:
            sql[part] = dialect.remark_sql("e.remarks", key, part)
    return dialect.value_sql(forms, sql)


# Somebody's own SQL

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
    for name, (version, whole) in views.items():
        layout = StudyContext.at(transaction, version, cache).layout
        used = _used(layout, names, star=star)
        replaced |= _exact(layout, names)
        sql = rows_sql(transaction.dialect, layout, whole=whole, names=used, schema=schema)
        written = names[name]
        written = quoted(name) if written[0] in "`[" else written
        parts.setdefault(written, f"{written} AS NOT MATERIALIZED ({sql})")
    return with_parts(with_names(text, tokens, replaced), list(parts.values()))


def _views_named(
    transaction: Transaction, names: Mapping[str, str]
) -> dict[str, tuple[StudyVersion, bool]]:
    """Return the views among *names*: of which version, and whether the larger one."""
    named: dict[str, list[tuple[str, str | None, bool]]] = {}
    for name in names:
        if name[:6].casefold() == "study_" and (match := _VIEW.fullmatch(name)):
            named.setdefault(sql_names.folded(name), []).append((name, None, False))
            base = match[1], match[2], bool(match[3])
            named.setdefault(sql_names.folded(base[0]), []).append((name, base[1], base[2]))
            if base[2]:  # a study may be called so, too
                longer = sql_names.folded(f"{base[0]}{base[2] and '_all'}")
                named.setdefault(longer, []).append((name, base[1], False))
    if not named:
        return {}
    versions = studies.all_versions(transaction)
    views: dict[str, tuple[StudyVersion, bool]] = {}
    for version in versions:
        for name, number, whole in named.get(sql_names.folded(version.sql_name), ()):
            fits = (
                version.current == version.id if number is None else version.number == int(number)
            )
            if fits and (name not in views or not whole):
                views[name] = (version, whole)
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

    PostgreSQL takes N for n, unless it is quoted.
    """
    by_sql = {sql_names.folded(f.sql_name): f for f in layout.own_fields}
    replacements = {}
    for stored in layout.own_fields:
        name = stored.field.name
        other = by_sql.get(sql_names.folded(name), stored)
        if name in names and (other is not stored or name not in (name.lower(), names[name][1:-1])):
            replacements[name] = stored.sql_name
    return replacements
