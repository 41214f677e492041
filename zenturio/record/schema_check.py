"""Check that the schema of a foreign database file runs no code when it is read.

A trigger is executed by our own writes, a generated column or a CHECK by reads and writes of its
table, an index of an expression by writes. Our tables have none of these, so a file whose tables
do was not made by zenturio. Views are left alone: nothing of ours reads one.
"""

from __future__ import annotations

import re

from zenturio.errors import RecordError
from zenturio.record.database import Transaction

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
            f"{place} was changed by something else than zenturio: it has {what}",
            hint="remove that from the file if it is yours; `zen db salvage` copies the rows alone",
        )
