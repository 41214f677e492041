"""Studies in SQL: their definitions, their tables, and how they go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from zenturio.failpoints import Failpoint
from zenturio.record import codec, complaints, naming, views
from zenturio.record.codec import Form, unescape
from zenturio.record.database import Transaction
from zenturio.record.facts import STATES, Definition, Field, State, Study
from zenturio.record.layout import OTHER, Layout, Slot
from zenturio.record.schema import contents, counters, definitions, fields, sources, studies

WIDENED = Failpoint("record.widened")

_FACTS = (studies.c.name, studies.c.view, studies.c.view_all, studies.c.created)
_ALL = select(*_FACTS).order_by(studies.c.id)
_NAMES = select(studies.c.name)
_BY_NAME = select(studies.c.id, studies.c.revision, *_FACTS).where(
    studies.c.name == bindparam("wanted")
)
_NAME = select(studies.c.name).where(studies.c.id == bindparam("study"))
_REVISE = (
    update(studies)
    .where(studies.c.id == bindparam("study"))
    .values(revision=bindparam("to_revision"))
)
_RENAME = (
    update(studies)
    .where(studies.c.id == bindparam("study"))
    .values(
        name=bindparam("to_name"), view=bindparam("to_view"), view_all=bindparam("to_view_all"),
        revision=bindparam("to_revision"),
    )
)  # fmt: skip
_FIELD_FACTS = ("name", "type", "unit", "kind", "how")
_FIELDS = (
    select(
        fields.c.position, fields.c.role, fields.c.forms, *(fields.c[name] for name in _FIELD_FACTS)
    )
    .where(fields.c.study == bindparam("study"))
    .order_by(fields.c.position)
)
_FORGET_FIELDS = delete(fields).where(fields.c.study == bindparam("study"))
_FIELD_COLUMNS = ("study", "position", "role", *_FIELD_FACTS, "forms")

_NEWEST = (
    select(definitions.c.id, definitions.c.document)
    .where(definitions.c.study == bindparam("study"))
    .order_by(definitions.c.id.desc())
    .limit(1)
)
_AT = _NEWEST.where(definitions.c.at <= bindparam("at"))
_OLDEST = _NEWEST.order_by(None).order_by(definitions.c.id)
_SOURCES = (
    select(sources.c.path, contents.c.content)
    .join(contents, contents.c.sha256 == sources.c.sha256)
    .where(sources.c.definition == bindparam("definition"))
)
_CONTENT = select(contents.c.sha256)
_COUNTERS = select(counters.c.state, counters.c["count"]).where(
    counters.c.study == bindparam("study")
)


def all_studies(transaction: Transaction) -> tuple[Study, ...]:
    return tuple(Study(*row) for row in transaction.rows(_ALL))


def one(transaction: Transaction, name: str) -> tuple[Study, int, int]:
    """The study, its number and the revision of its fields; NotFoundError if it is not there."""
    row = transaction.row(_BY_NAME, wanted=name) if naming.storable(name) else None
    if row is None:
        raise complaints.no_study(name, (known for (known,) in transaction.rows(_NAMES)))
    number, revision, *facts = row
    return Study(*facts), number, revision


def name_of(transaction: Transaction, study: int) -> str:
    row = transaction.row(_NAME, study=study)
    return str(row[0]) if row else ""


def open_study(transaction: Transaction, name: str, definition: Definition) -> Study:
    """Creates the study, or brings it up to *definition*."""
    if transaction.row(_BY_NAME, wanted=name) is None:
        _create(transaction, name)
    study, number, _ = one(transaction, name)
    layout = read_layout(transaction, name)
    wanted = layout.declared("parameter", definition.parameters)
    widen(transaction, layout, wanted.declared("metric", definition.metrics))
    _define(transaction, number, definition)
    return study


def _create(transaction: Transaction, name: str) -> None:
    """A study without fields: its row, its table, its counters and its views."""
    taken = [view for study in all_studies(transaction) for view in (study.view, study.view_all)]
    view, view_all = naming.views(name, taken)
    transaction.insert(
        "studies",
        ("name", "view", "view_all", "created", "revision"),
        [(name, view, view_all, transaction.now, 0)],
    )
    study, number, revision = one(transaction, name)
    layout = Layout(number, name, revision, ())
    create_table(transaction, layout)
    transaction.insert(
        "counters", ("study", "state", "count"), [(number, state, 0) for state in STATES]
    )
    views.create(transaction, study, layout)


def rename(transaction: Transaction, study: Study, name: str) -> Study:
    """The study under another name, its views too."""
    taken = [view for each in all_studies(transaction) for view in (each.view, each.view_all)]
    view, view_all = naming.views(name, taken)
    _, number, revision = one(transaction, study.name)
    views.drop(transaction, study)
    transaction.run(
        _RENAME, study=number, to_name=name, to_view=view, to_view_all=view_all,
        to_revision=revision + 1,
    )  # fmt: skip
    renamed, _, _ = one(transaction, name)
    views.create(transaction, renamed, read_layout(transaction, name))
    return renamed


def create_table(transaction: Transaction, layout: Layout) -> None:
    """The table of a study, as yet without its fields."""
    types = transaction.flavour.types
    transaction.sql(
        f"CREATE TABLE {layout.table} (experiment {types['key']},"
        f" position {types['position']} NOT NULL, repeat INTEGER NOT NULL,"
        + ", ".join(f" {column} TEXT" for column in OTHER.values())
        + ")"
    )
    transaction.sql(
        f"CREATE INDEX {layout.table}_order ON {layout.table} (position, repeat, experiment)"
    )


def read_layout(transaction: Transaction, name: str, known: Layout | None = None) -> Layout:
    """The fields of a study; *known* itself while nothing has changed."""
    _, number, revision = one(transaction, name)
    if known is not None and (known.study, known.revision) == (number, revision):
        return known
    slots = tuple(
        Slot(position, role, Field(unescape(name), kind, *map(unescape, words)), Form(forms))
        for position, role, forms, name, kind, *words in transaction.rows(_FIELDS, study=number)
    )
    return Layout(number, name, revision, slots)


def widen(transaction: Transaction, old: Layout, new: Layout) -> Layout:
    """Makes the table what *new* says; its columns, its views and what is known of its fields."""
    if old.slots == new.slots:
        return old
    before = {column for slot in old.slots for column in slot.columns.values()}
    for slot in new.slots:
        for form, column in slot.columns.items():
            if column not in before:
                kind = transaction.flavour.types[form]
                transaction.sql(f"ALTER TABLE {new.table} ADD COLUMN {column} {kind}")
    transaction.run(_FORGET_FIELDS, study=new.study)
    transaction.insert("fields", _FIELD_COLUMNS, [_row(new.study, slot) for slot in new.slots])
    WIDENED()
    revised = Layout(new.study, new.name, old.revision + 1, new.slots)
    transaction.run(_REVISE, study=new.study, to_revision=revised.revision)
    study, _, _ = one(transaction, new.name)
    views.create(transaction, study, revised)
    return revised


def _row(study: int, slot: Slot) -> tuple[Any, ...]:
    field = slot.field
    facts = (
        codec.escape(field.name),
        field.type,
        *map(codec.escape, (field.unit, field.kind, field.how)),
    )
    return (study, slot.position, slot.role, *facts, int(slot.forms))


def _define(transaction: Transaction, study: int, definition: Definition) -> None:
    """Keeps *definition*, and each content of a file once."""
    hashes = {path: sha256(content).digest() for path, content in definition.sources.items()}
    document = json.dumps(
        {
            "parameters": [asdict(field) for field in definition.parameters],
            "metrics": [asdict(field) for field in definition.metrics],
            "goals": definition.goals,
            "provenance": dict(definition.provenance),
            "notes": dict(definition.notes),
        }
    )
    transaction.insert(
        "definitions", ("study", "at", "document"), [(study, transaction.now, document)]
    )
    row = transaction.row(_NEWEST, study=study)
    known = {sha for (sha,) in transaction.among(_CONTENT, contents.c.sha256, hashes.values())}
    new = {hashes[path]: content for path, content in definition.sources.items()}
    transaction.insert(
        "contents", ("sha256", "content"), [(k, v) for k, v in new.items() if k not in known]
    )
    transaction.insert(
        "sources",
        ("definition", "path", "sha256"),
        [(row and row[0], path, sha) for path, sha in hashes.items()],
    )


def definition(transaction: Transaction, name: str, at: float | None) -> Definition:
    """The newest one, or that which held at the time *at*; the oldest if that was before all."""
    _, study, _ = one(transaction, name)
    if at is None:
        held = transaction.rows(_NEWEST, study=study)
    else:
        held = transaction.rows(_AT, study=study, at=at) or transaction.rows(_OLDEST, study=study)
    ((number, document),) = held
    found: Mapping[str, Any] = json.loads(document)
    return Definition(
        parameters=tuple(Field(**field) for field in found["parameters"]),
        metrics=tuple(Field(**field) for field in found["metrics"]),
        goals=tuple(found["goals"]),
        provenance=found["provenance"],
        sources=dict(transaction.rows(_SOURCES, definition=number)),
        notes=found["notes"],
    )


def counts(transaction: Transaction, name: str) -> dict[State, int]:
    _, study, _ = one(transaction, name)
    found: dict[State, int] = dict(transaction.rows(_COUNTERS, study=study))
    return {state: found.get(state, 0) for state in STATES}
