"""Check for stored values that zenturio cannot have written: of another type or range.

SQLite keeps any value in any column, so the rows of a file that others made are not what its
tables say. Reading checks nothing (it would cost more than the reading itself); ``zen db check``
looks for such values, and so does whoever met an error that only they explain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Column, Double, Float, LargeBinary, Text
from sqlalchemy.sql.type_api import TypeEngine

from zenturio.errors import ZenError
from zenturio.record import schema
from zenturio.record.codec import Form
from zenturio.record.database import Transaction
from zenturio.record.field_layout import FieldLocation

_LATEST = 253402300800
"""Seconds since 1970 at the end of the year 9999: no time is later."""
_LARGEST_INTEGER = 2**53
_LARGEST_TEXT = 64_000_000
"""Characters or bytes of a value."""
_TIMES = frozenset({"at", "began", "begun", "born", "created", "ended", "opened", "since",
                    "started", "submitted", "until"})  # fmt: skip
_DIGESTS = {
    ("results", "digest"),
    ("attempts", "digest"),
    ("claims", "digest"),
    ("aliases", "digest"),
    ("artifacts", "content"),
    ("sources", "content"),
    ("contents", "digest"),
}
_JSON = {("versions", "members"), ("definitions", "document"), ("recipes", "document"),
         ("chunks", "doc"), ("results", "remarks"), ("attempts", "metrics"),
         ("machines", "accelerators")}  # fmt: skip
_DOMAINS = {
    ("fields", "role"): "{} IN ('parameter', 'metric')",
    ("fields", "forms"): "{} BETWEEN 0 AND 63",
    ("fields", "place"): "{} NOT GLOB '*[^bcv:,0-9]*'",
}
_POSITION = (
    "({0} GLOB '[0-9][0-9][0-9][0-9][0-9][0-9]:*' AND length({0}) > 7"
    " AND substr({0}, 8) NOT GLOB '*[^0-9-]*' OR typeof({0}) = 'integer')"
)
_FORM_KINDS = {
    Form.REAL: "real",
    Form.BIG: "real",
    Form.INTEGER: "integer",
    Form.TRUTH: "integer",
    Form.TEXT: "text",
}
_SLOT = "(typeof({0}) <> 'blob' AND length({0}) <= " + f"{_LARGEST_TEXT})"


def foreign_values(transaction: Transaction, most: int = 20) -> list[str]:
    """Return what is wrong with values of a SQLite file, in words; at most so many."""
    messages: list[str] = []
    for table in schema.tables_of("sqlite"):
        for column in table.columns:
            if len(messages) >= most:
                return messages
            messages += _of_column(transaction, table.name, column)
    return messages


def foreign_slots(transaction: Transaction) -> Iterator[str]:
    """Values in slots that are of no form that their field ever had, in words.

    For a file without ``foreign_values``.
    """
    for study, name, text, number in transaction.sql(
        "SELECT study, name, place, forms FROM fields ORDER BY study, number"
    ):
        try:
            place, forms = FieldLocation.parse(text), Form(number)
        except (ZenError, ValueError):
            yield f"the place of the field {name!r} is none: {text[:40]!r}"
            continue
        kinds = {kind for form, kind in _FORM_KINDS.items() if form in forms}
        listed = ", ".join(map(repr, sorted(kinds | {"null"})))
        for slot in place.slots:
            ((count,),) = transaction.sql(
                "SELECT count(*) FROM results WHERE version IN"
                f" (SELECT id FROM versions WHERE study = ?) AND typeof({slot}) NOT IN ({listed})",
                (study,),
            )
            if count:
                yield f"{count} values of the field {name!r} ({slot}) are of no type that it has"


def _of_column(transaction: Transaction, table: str, column: Column[object]) -> Iterator[str]:
    name = f'"{column.name}"'
    conditions = " AND ".join(_conditions(table, column))
    rows: Sequence[Sequence[object]] = transaction.sql(
        f"SELECT typeof({name}), count(*) FROM {table} NOT INDEXED"
        f" WHERE NOT CASE WHEN {name} IS NULL THEN {column.nullable:d} ELSE {conditions} END"
        " GROUP BY 1"
    )
    for kind, count in rows:
        yield f"{count} values of {table}.{column.name} are no such value ({kind})"


def _conditions(table: str, column: Column[object]) -> Iterator[str]:
    """What holds for each value of a column."""
    name = f'"{column.name}"'
    key = (table, column.name)
    kinds = _kinds(column.type, table, column.name)
    if not kinds:
        yield _SLOT.format(name)
        return
    yield f"typeof({name}) IN ({', '.join(map(repr, kinds))})"
    if "text" in kinds or "blob" in kinds:
        yield f"length({name}) <= {_LARGEST_TEXT}"
    if column.name in _TIMES and "real" in kinds:
        yield f"{name} BETWEEN 0 AND {_LATEST}"
    elif kinds == ("integer",):
        yield f"{name} BETWEEN -{_LARGEST_INTEGER} AND {_LARGEST_INTEGER}"
    if key in _DIGESTS:
        yield f"length({name}) IN (16, 32)"
    if key in _JSON:
        yield f"json_valid({name})"
    if column.name == "position":
        yield _POSITION.format(name)
    if key in _DOMAINS:
        yield _DOMAINS[key].format(name)


def _kinds(kind: TypeEngine[object], table: str, name: str) -> tuple[str, ...]:
    """Return the types that SQLite may give a value; none where any number or text will do."""
    if table == "results" and name[:1] == "v" and name[1:].isdigit():
        return ()
    if name == "position":  # beyond 63 bits it is written as a text
        return "integer", "text"
    if isinstance(kind, Text):
        return ("text",)
    if isinstance(kind, LargeBinary):
        return ("blob",)
    if isinstance(kind, Float | Double):
        return "real", "integer"
    return ("integer",)
