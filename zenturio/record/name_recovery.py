"""Recovery of lost names in a salvaged file: studies, versions and fields, from their copies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from zenturio.record import sql_names, studies
from zenturio.record.codec import SLOTTED, Form, unescape
from zenturio.record.database import Transaction
from zenturio.record.entities import Field
from zenturio.record.field_layout import (
    FieldDeclaration,
    FieldLayout,
    FieldLocation,
    Role,
    StoredField,
)
from zenturio.record.schema_names import SLOT_NAMES
from zenturio.record.studies import PROJECT

_ROLES: tuple[tuple[Role, str], ...] = (("parameter", "parameters"), ("metric", "metrics"))
_OWNED = ("results", "attempts", "definitions")
"""Tables from which a version is known to have been there."""


def restore_names(transaction: Transaction) -> None:
    """Every version that something is left of has a study, which has a name and all its fields."""
    _restore_versions(transaction)
    for (number,) in transaction.sql("SELECT id FROM studies ORDER BY id"):
        _restore_fields(transaction, number)
    for version, study in transaction.sql("SELECT id, study FROM versions ORDER BY id"):
        _restore_members(transaction, version, study)
        _restore_definition(transaction, version)


def _restore_versions(transaction: Transaction) -> None:
    parts = " UNION ".join(
        f"SELECT version FROM {table} WHERE version <> {studies.NO_VERSION}" for table in _OWNED
    )
    present = {number for (number,) in transaction.sql("SELECT id FROM versions")}
    for (number,) in transaction.sql(f"{parts} ORDER BY 1"):
        if number not in present:
            study = _study_of(transaction, number)
            transaction.sql(
                "INSERT INTO versions (id, study, number, created, edits, members) SELECT ?, ?,"
                " 1 + max(coalesce(max(number), 0), coalesce(-(SELECT current FROM studies"
                " WHERE id = ?), 0)), ?, 0, '{}' FROM versions WHERE study = ?",
                (number, study, study, transaction.now, study),
            )
    for (number,) in transaction.sql(
        "SELECT DISTINCT study FROM versions WHERE study NOT IN (SELECT id FROM studies)"
        " UNION SELECT study FROM fields WHERE study NOT IN (SELECT id FROM studies)"
    ):
        _add_study(transaction, number)
    transaction.sql(
        "UPDATE studies SET current = (SELECT max(id) FROM versions WHERE study = studies.id)"
        " WHERE current > 0"
        " AND current NOT IN (SELECT id FROM versions WHERE study = studies.id)"
    )


def _study_of(transaction: Transaction, version: int) -> int:
    """Return the study that has the fields which the version's definitions name; else a new one."""
    names = {(role, field.name) for role, field in _declared(transaction, [version])}
    fields: dict[int, set[tuple[str, str]]] = {}
    for study, role, name in transaction.sql("SELECT study, role, name FROM fields"):
        fields.setdefault(study, set()).add((role, unescape(name)))
    fitting = [study for study, field_names in fields.items() if names and names <= field_names]
    if fitting:
        return min(fitting, key=lambda study: len(fields[study]))
    ((last,),) = transaction.sql(
        "SELECT max(coalesce((SELECT max(id) FROM studies), 0),"
        " coalesce((SELECT max(study) FROM fields), 0),"
        " coalesce((SELECT max(study) FROM versions), 0))"
    )
    return int(last) + 1


def _add_study(transaction: Transaction, number: int) -> None:
    name = f"salvaged-{number}"
    taken = [view for (view,) in transaction.sql("SELECT sql_name FROM studies")]
    transaction.sql(
        "INSERT INTO studies (id, project, name, sql_name, current, revision, opened, pinned)"
        " VALUES (?, ?, ?, ?, (SELECT max(id) FROM versions WHERE study = ?), 1, ?, 0)",
        (number, PROJECT, name, sql_names.study_view(name, taken), number, transaction.now),
    )


def _declared(transaction: Transaction, versions: Iterable[int]) -> Iterator[tuple[Role, Field]]:
    """Yield the fields that the definitions of *versions* name, in their order."""
    for version in versions:
        for (document,) in transaction.sql(
            "SELECT document FROM definitions WHERE version = ? ORDER BY id", (version,)
        ):
            with suppress(ValueError, KeyError, TypeError):  # what is not ours tells nothing
                read = json.loads(document)
                fields = [(role, Field(**entry)) for role, part in _ROLES for entry in read[part]]
                yield from fields


def _restore_fields(transaction: Transaction, study: int) -> None:
    """Fields that are missing: places are given in the order of their declaration.

    What stands in a slot that no declared field has is a metric without a name.
    """
    rows = transaction.sql("SELECT id FROM versions WHERE study = ? ORDER BY id", (study,))
    versions = [version for (version,) in rows]
    before = _read_fields(transaction, study)
    layout = FieldLayout("sqlite", study, 0, 0, before)
    if not before:
        for role, field in _declared(transaction, versions):
            layout = layout.declared(role, [field])
    taken = {slot for stored in layout.fields for slot in stored.place.slots}
    fields = list(layout.fields)
    for slot in _filled(transaction, versions):
        if slot not in taken:
            number = 1 + max((stored.number for stored in fields), default=-1)
            name = f"field_{slot}"
            fields.append(
                StoredField(number, "metric", Field(name), name, FieldLocation((slot,)), Form(0))
            )
    # Of a field that was lost nobody knows which forms its values have.
    new = [replace(stored, forms=SLOTTED | Form.SERIES) for stored in fields[len(before) :]]
    transaction.insert(
        "fields",
        studies.FIELD_COLUMNS,
        [studies.field_row(study, stored) for stored in new],
    )


def _read_fields(transaction: Transaction, study: int) -> tuple[StoredField, ...]:
    rows = transaction.sql(
        f"SELECT {', '.join(studies.FIELD_COLUMNS[1:])} FROM fields WHERE study = ?"
        " ORDER BY number",
        (study,),
    )
    return tuple(studies.field_of(row) for row in rows)


def _filled(transaction: Transaction, versions: Sequence[int]) -> list[str]:
    """Return the slots that any result of *versions* has a value in."""
    slots = SLOT_NAMES["sqlite"]
    counts = [0] * len(slots)
    for version in versions:
        ((*flags,),) = transaction.sql(
            f"SELECT {', '.join(f'count({slot})' for slot in slots)} FROM results"
            " WHERE version = ?",
            (version,),
        )
        counts = [one + other for one, other in zip(counts, flags, strict=True)]
    return [slot for slot, count in zip(slots, counts, strict=True) if count]


def _restore_members(transaction: Transaction, version: int, study: int) -> None:
    """A version without fields has all of its study, measured as its definitions say."""
    ((text,),) = transaction.sql("SELECT members FROM versions WHERE id = ?", (version,))
    with suppress(ValueError):
        if isinstance(stored := json.loads(text), dict) and stored:
            return
    declared: Mapping[Any, Field] = {
        (role, field.name): field for role, field in _declared(transaction, [version])
    }
    members = {
        # Which forms its values have is not known: any that the study's have.
        f.number: FieldDeclaration.of(declared.get((f.role, f.field.name), f.field), f.forms)
        for f in _read_fields(transaction, study)
    }
    transaction.sql(
        "UPDATE versions SET members = ? WHERE id = ?", (studies.members_text(members), version)
    )


def _restore_definition(transaction: Transaction, version: int) -> None:
    """A version whose definitions are all lost has at least its fields."""
    if transaction.sql("SELECT 1 FROM definitions WHERE version = ? LIMIT 1", (version,)):
        return
    restored = studies.versions_by_id(transaction, [version])[version]
    document: dict[str, Any] = {"goals": [], "provenance": {}, "notes": {}, "sources": {}}
    layout = studies.read_layout(transaction, restored)
    for role, part in _ROLES:
        document[part] = [
            {"name": f.field.name, "type": f.field.type, "unit": f.field.unit,
             "kind": f.field.kind, "how": f.field.how}
            for f in layout.own_fields if f.role == role
        ]  # fmt: skip
    transaction.insert(
        "definitions",
        ("version", "at", "document"),
        [(version, transaction.now, json.dumps(document))],
    )
