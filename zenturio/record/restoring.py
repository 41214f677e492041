"""Names of studies and fields that a damaged file has lost, from what repeats them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from types import NoneType
from typing import Any

from zenturio.record import naming
from zenturio.record.codec import Form, escape
from zenturio.record.database import Transaction
from zenturio.record.layout import OTHER, Layout
from zenturio.record.pages import Row
from zenturio.record.recognition import Recognised, Shape

_EMPTY = frozenset([NoneType])
_FIRST = ("experiment", "position", "repeat", *OTHER.values())
VALUES = Shape(
    "values",
    _FIRST,
    (
        _EMPTY,
        frozenset([int, str]),
        frozenset([int]),
        frozenset([str, NoneType]),
        frozenset([str, NoneType]),
    ),
    "experiment",
    frozenset([int, float, str, NoneType]),
)
"""The table of any study."""
_LETTERS: Mapping[str, tuple[Form, frozenset[type]]] = {
    "r": (Form.REAL, frozenset([int, float, NoneType])),
    "i": (Form.INTEGER, frozenset([int, NoneType])),
    "t": (Form.TEXT, frozenset([str, NoneType])),
    "b": (Form.TRUTH, frozenset([int, NoneType])),
}
_Declared = tuple[str, Mapping[str, Any]]
_OWNERS = ("experiments", "shares", "fields", "definitions")


def columns_of(file: Recognised, layout: Layout) -> tuple[str, ...]:
    """The columns of a study's table in their order: as the schema says, else as they come to be.

    A parameter of known type has its column from the beginning; others come with their values.
    """
    said = file.columns_in_schema(layout.table)
    if said is not None and said[: len(_FIRST)] == _FIRST:
        own = {column for slot in layout.slots for column in slot.columns.values()}
        if own.issuperset(said[len(_FIRST) :]):
            return said
    first = [c for s in layout.slots if s.role == "parameter" for c in s.columns.values()]
    every = [c for s in layout.slots for c in s.columns.values()]
    return (*_FIRST, *dict.fromkeys([*first, *every]))


def fits(columns: tuple[str, ...], row: Row) -> bool:
    """Whether what stands in each column is of its type."""
    values = row.values[len(_FIRST) :]
    names = columns[len(_FIRST) :]
    return len(values) <= len(names) and all(
        type(value) in _LETTERS[name[0]][1] for name, value in zip(names, values, strict=False)
    )


def restore_studies(transaction: Transaction, file: Recognised) -> None:
    """Every study that something is left of gets a name, its fields and a definition."""
    known = {number for (number,) in transaction.sql("SELECT id FROM studies")}
    parts = " UNION ".join(f"SELECT study FROM {table}" for table in _OWNERS)  # noqa: S608
    every = {number for (number,) in transaction.sql(parts)}
    for number in sorted(every - known):
        _restore_study(transaction, file, number)
    for number in sorted(known | every):
        _restore_fields(transaction, file, number)
        _restore_definition(transaction, number)
    transaction.sql(
        "INSERT OR IGNORE INTO hosts (id, name) SELECT DISTINCT host, 'lost-' || host FROM"
        " (SELECT host FROM experiments UNION SELECT host FROM attempts)"
        " WHERE host IS NOT NULL AND host NOT IN (SELECT id FROM hosts)"
    )


def _restore_study(transaction: Transaction, file: Recognised, number: int) -> None:
    """Its views were named for it, and may be left; else its name is its number."""
    names = [
        row[1].removeprefix("study_")
        for row in file.schema
        if row[0] == "view" and row[4] and re.search(rf"\bvalues_{number}\b", row[4])
    ]
    taken = transaction.sql("SELECT name, view, view_all FROM studies")
    name = min(names, key=len, default="")
    if not naming.storable(name) or name in {row[0] for row in taken}:
        name = f"salvaged-{number}"
    view, view_all = naming.views(name, [view for row in taken for view in row[1:]])
    begun = transaction.sql(f"SELECT min(at) FROM definitions WHERE study = {number}")[0][0]  # noqa: S608
    transaction.insert(
        "studies",
        ("id", "name", "view", "view_all", "created", "revision"),
        [(number, name, view, view_all, begun or transaction.now, 1)],
    )


def _restore_fields(transaction: Transaction, file: Recognised, number: int) -> None:
    """Fields that are missing, as the definitions have them; values without a name get one."""
    asked = "SELECT position, name FROM fields WHERE study = ?"
    left: dict[int, str] = dict(transaction.sql(asked, (number,)))
    forms: dict[int, Form] = {}
    for column in (file.columns_in_schema(f"values_{number}") or _FIRST)[len(_FIRST) :]:
        position = int(column[1:])
        forms[position] = forms.get(position, Form(0)) | _LETTERS[column[0]][0]
    declared = _declared(transaction, number, 1 + max([*left, *forms], default=-1))
    if any(left.get(at, field["name"]) != field["name"] for at, (_, field) in enumerate(declared)):
        declared = []
    rows = []
    for position in range(max([len(declared) - 1, *left, *forms], default=-1) + 1):
        if position in left:
            continue
        nameless: _Declared = ("metric", {"name": f"field_{position}"})
        role, field = declared[position] if position < len(declared) else nameless
        facts = [field.get(part) or "" for part in ("unit", "kind", "how")]
        # Values in JSON may be of any form.
        form = forms.get(position, _own_form(field)) | Form.BIG | Form.SERIES | Form.OTHER
        rows.append(
            (number, position, role, escape(field["name"]), field.get("type"), *facts, int(form))
        )
    transaction.insert(
        "fields",
        ("study", "position", "role", "name", "type", "unit", "kind", "how", "forms"),
        rows,
    )


def _own_form(field: Mapping[str, Any]) -> Form:
    letters = {"int": "i", "real": "r", "str": "t", "bool": "b"}
    letter = letters.get(field.get("type") or "")
    return _LETTERS[letter][0] if letter else Form(0)


def _declared(transaction: Transaction, number: int, places: int) -> list[_Declared]:
    """The fields at the first places, as far as the study's definitions tell for certain.

    Metrics that a program reported by itself may stand between those of two definitions.
    """
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    certain = 0
    asked = "SELECT document FROM definitions WHERE study = ? ORDER BY id"
    for (document,) in transaction.sql(asked, (number,)):
        with suppress(ValueError, KeyError, TypeError):  # a document that is not ours tells nothing
            read = json.loads(document)
            for role, part in (("parameter", "parameters"), ("metric", "metrics")):
                for field in read[part]:
                    found.setdefault((role, str(field["name"])), dict(field))
        certain = certain or len(found)
    fields = [(role, field) for (role, _), field in found.items()]
    return fields if len(fields) >= places else fields[:certain]


def _restore_definition(transaction: Transaction, number: int) -> None:
    """A study whose definitions are all lost has at least its fields."""
    if transaction.sql("SELECT 1 FROM definitions WHERE study = ? LIMIT 1", (number,)):
        return
    names = ("name", "type", "unit", "kind", "how")
    document: dict[str, Any] = {"goals": [], "provenance": {}, "notes": {}}
    for role, part in (("parameter", "parameters"), ("metric", "metrics")):
        rows = transaction.sql(
            "SELECT name, type, unit, kind, how FROM fields"
            " WHERE study = ? AND role = ? ORDER BY position",
            (number, role),
        )
        document[part] = [dict(zip(names, row, strict=True)) for row in rows]
    transaction.insert(
        "definitions",
        ("study", "at", "document"),
        [(number, transaction.now, json.dumps(document))],
    )
