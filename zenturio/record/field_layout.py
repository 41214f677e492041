"""Where the values of a study stand: which slots of ``results`` its fields have, and how to read
them.

Chosen by measurement (``benchmarks/layout.py``). All studies share the slots. A field gets its
place when it is declared or reported first, and never another one; all versions of a study share
them. SQLite's slots hold any value, so a field has one; on PostgreSQL it has a slot for each kind
of value that it takes. A field for which no slot is left has a place in the chunks of its row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from zenturio.record import codec, sql_names
from zenturio.record.codec import SLOTTED, Form
from zenturio.record.entities import Field
from zenturio.record.sql_names import SLOT_NAMES, DialectName

if TYPE_CHECKING:
    from zenturio.expression import Type

Role = Literal["parameter", "metric"]
ROLES: tuple[Role, Role] = ("parameter", "metric")
CHUNK = 64
"""Values of a chunk."""
MOST_FIELDS = 10_000
"""Fields that a study has at the most: what comes behind them is counted, and not kept."""

_KINDS: dict[DialectName, dict[Form, str]] = {
    "sqlite": dict.fromkeys((Form.REAL, Form.BIG, Form.INTEGER, Form.TRUTH, Form.TEXT), "v"),
    "postgresql": {
        Form.REAL: "r",
        Form.BIG: "r",
        Form.INTEGER: "i",
        Form.TRUTH: "i",
        Form.TEXT: "t",
    },
}
"""The letter that the slots of a form begin with."""
_DECLARED = {"int": Form.INTEGER, "real": Form.REAL, "str": Form.TEXT, "bool": Form.TRUTH}


_PLACE = re.compile(r"(?:b:)?(?:(?:[vrit][0-9]{1,3}|c[0-9]{1,6})(?:,(?!$)|$))*")
"""A place as text: ``v3``, ``r0,i4``, ``c17``, ``b:v2``."""

_EXACT = 2**53
"""The largest integer below which every integer is a real, too."""


@dataclass(frozen=True, slots=True)
class FieldLocation:
    """Where the values of a field stand."""

    slots: tuple[str, ...] = ()
    truths: bool = False
    """Whether 0 and 1 in its slot are false and true; integers have a remark then."""
    chunk: int | None = None
    """Its number among the fields beyond the slots."""

    @staticmethod
    def parse(text: str) -> FieldLocation:
        """Return what ``str`` of a place was."""
        truths = text.startswith("b:")
        if not _PLACE.fullmatch(text):
            raise codec.damage_error()  # it becomes a part of SQL
        parts = text.removeprefix("b:").split(",") if text.removeprefix("b:") else []
        chunks = [int(part[1:]) for part in parts if part.startswith("c")]
        slots = tuple(part for part in parts if not part.startswith("c"))
        return FieldLocation(slots, truths, chunks[0] if chunks else None)

    def __str__(self) -> str:
        parts = [*self.slots, *([] if self.chunk is None else [f"c{self.chunk}"])]
        return ("b:" if self.truths else "") + ",".join(parts)

    def slot(self, kind: str) -> str | None:
        """Return the slot of that letter."""
        for slot in self.slots:
            if slot.startswith(kind):
                return slot
        return None


@dataclass(frozen=True, slots=True)
class StoredField:
    """A parameter or a metric of a study, and where its values stand."""

    number: int
    role: Role
    field: Field
    sql_name: str
    place: FieldLocation
    forms: Form


NO_FORM = Form(0)


@dataclass(frozen=True, slots=True)
class FieldDeclaration:
    """How one version declares a field; editing the program leaves earlier versions alone."""

    how: str = ""
    """What measures it."""
    type: Type | None = None
    unit: str = ""
    kind: str = ""
    exact: bool = False
    forms: Form = NO_FORM
    """Which forms of values this version has."""

    def field(self, name: str) -> Field:
        return Field(name, self.type, self.unit, self.kind, self.how, exact=self.exact)

    @staticmethod
    def of(field: Field, forms: Form = NO_FORM) -> FieldDeclaration:
        return FieldDeclaration(field.how, field.type, field.unit, field.kind, field.exact, forms)


@dataclass(frozen=True)
class FieldLayout:
    """The fields of a study as one of its versions knows them."""

    dialect_name: DialectName
    study: int
    version: int
    revision: int = 0
    fields: tuple[StoredField, ...] = ()
    """Of all versions, by number."""
    members: Mapping[int, FieldDeclaration] = field(default_factory=dict)
    """The fields of this version by number, as it declares each."""

    @cached_property
    def by_role(self) -> dict[Role, dict[str, StoredField]]:
        """All fields by role and name."""
        fields_by_role: dict[Role, dict[str, StoredField]] = {role: {} for role in ROLES}
        for stored in self.fields:
            fields_by_role[stored.role][stored.field.name] = stored
        return fields_by_role

    @cached_property
    def own_fields(self) -> tuple[StoredField, ...]:
        """The fields of this version, parameters first."""
        fields = [
            replace(stored, field=m.field(stored.field.name), forms=m.forms)
            for stored in self.fields
            if (m := self.members.get(stored.number)) is not None
        ]
        return tuple(sorted(fields, key=lambda stored_field: stored_field.role != "parameter"))

    @cached_property
    def metric_sources(self) -> dict[str, str]:
        """The metrics of this version, and what measures each."""
        return {f.field.name: f.field.how for f in self.own_fields if f.role == "metric"}

    @cached_property
    def reader(self) -> SlotReader:
        """How its rows are read."""
        return SlotReader(self.own_fields)

    @property
    def has_chunks(self) -> bool:
        return any(stored.place.chunk is not None for stored in self.own_fields)

    def declared(self, role: Role, fields: Iterable[Field]) -> FieldLayout:
        """With *fields* of that role in this version: new ones behind the others."""
        fields = list(fields)
        draft = LayoutBuilder(self, [new_field.name for new_field in fields])
        for new_field in fields:
            draft.declare(role, new_field)
        return draft.layout()


class LayoutBuilder:
    """A layout while fields and forms are added to it."""

    def __init__(self, layout: FieldLayout, names: Iterable[str] = ()) -> None:
        """*names*: of fields that are going to be added, which no other one is to get in SQL."""
        self.changed = False
        self._layout = layout
        self._fields = {(f.role, f.field.name): f for f in layout.fields}
        self._members = dict(layout.members)
        self._names = {*names}
        self._pools: dict[str, list[str]] | None = None
        self._taken: set[str] | None = None
        self._chunked: int | None = None

    def layout(self) -> FieldLayout:
        """Return what it came to; the layout that it was made of, if nothing was added."""
        if not self.changed:
            return self._layout
        return replace(self._layout, fields=tuple(self._fields.values()), members=self._members)

    def declare(self, role: Role, new: Field) -> None:
        """Add or update a field as the study declares it."""
        stored = self._fields.get((role, new.name))
        if stored is None:
            stored = self._add(role, new)
            form = _DECLARED.get(new.type or "")
            if form is not None:
                self.slot(role, new.name, form)
            # SQLite's slots hold any type, so a field without one can have its slot at once.
            elif self._layout.dialect_name == "sqlite":
                self.slot(role, new.name, Form(0))
            stored = self._fields[role, new.name]
        if stored.field != (shared := replace(new, how="")):
            self._set(replace(stored, field=shared))
        earlier = self._members.get(stored.number)
        form = _DECLARED.get(new.type or "", Form(0))
        declaration = FieldDeclaration.of(new, form | earlier.forms if earlier else form)
        if earlier != declaration:
            self._members[stored.number] = declaration
            self.changed = True

    def has(self, role: Role, name: str) -> bool:
        """Make sure that this version has the field; return false where it is one too many."""
        stored = self._fields.get((role, name))
        if stored is None:
            if len(self._fields) >= MOST_FIELDS:
                return False
            stored = self._add(role, Field(name))
        if stored.number not in self._members:
            self._members[stored.number] = FieldDeclaration()
            self.changed = True
        return True

    def declared_type(self, role: Role, name: str) -> Type | None:
        """Return the type that this version declares for a field, if it declares one."""
        declaration = self._members.get(self._fields[role, name].number)
        return declaration.type if declaration else None

    def slot(self, role: Role, name: str, form: Form) -> tuple[str | int, bool]:
        """Return the slot, or the number in the chunks, of values of a form.

        Also whether a value of that form needs a remark to be told from another one.
        """
        stored = self._fields[role, name]
        place, kinds = stored.place, _KINDS[self._layout.dialect_name]
        kind = kinds.get(form, "v")
        target: str | int | None = place.slot(kind)
        if target is None:
            target = place.chunk
        # A place is never taken back: rows that are there already have their values in it.
        if target is None:
            free = self._free(kind)
            if free:
                target = free.pop(0)
                place = replace(place, slots=(*place.slots, target))
            else:
                target = self._next_chunk()
                place = replace(place, chunk=target)
        # Truths share slots with integers. What comes first decides how 0 and 1 are read; values of
        # the other form need a remark from then on.
        if form == Form.TRUTH and not stored.forms & (Form.INTEGER | Form.TRUTH):
            place = replace(place, truths=True)
        if place != stored.place or form & ~stored.forms:
            self._set(replace(stored, place=place, forms=stored.forms | form))
        self._has_form(stored.number, form)
        odd = (form == Form.TRUTH and not place.truths) or (form == Form.INTEGER and place.truths)
        return target, odd and isinstance(target, str)

    def saw(self, role: Role, name: str, form: Form) -> None:
        """Note a value of a form that needs no slot."""
        stored = self._fields[role, name]
        if form & ~stored.forms:
            self._set(replace(stored, forms=stored.forms | form))
        self._has_form(stored.number, form)

    def _has_form(self, number: int, form: Form) -> None:
        """Note the form of a value of this version."""
        declaration = self._members.get(number)
        if declaration is not None and form & ~declaration.forms:
            self._members[number] = replace(declaration, forms=declaration.forms | form)
            self.changed = True

    def _set(self, stored: StoredField) -> None:
        self._fields[stored.role, stored.field.name] = stored
        self.changed = True

    def _add(self, role: Role, new: Field) -> StoredField:
        if self._taken is None:
            self._taken = {sql_names.folded(f.sql_name) for f in self._fields.values()}
            self._names |= {f.field.name for f in self._fields.values()}
        sql_name = sql_names.column_name(new.name, role, self._taken, self._names)
        self._taken.add(sql_names.folded(sql_name))
        stored = StoredField(len(self._fields), role, new, sql_name, FieldLocation(), Form(0))
        self._set(stored)
        return stored

    def _free(self, kind: str) -> list[str]:
        """Return the slots of a letter that no field has."""
        if self._pools is None:
            used = {slot for stored in self._fields.values() for slot in stored.place.slots}
            self._pools = {}
            for name in SLOT_NAMES[self._layout.dialect_name]:
                pool = self._pools.setdefault(name[0], [])
                if name not in used:
                    pool.append(name)
        return self._pools.get(kind, [])

    def _next_chunk(self) -> int:
        if self._chunked is None:
            numbers = (f.place.chunk for f in self._fields.values() if f.place.chunk is not None)
            self._chunked = max(numbers, default=-1) + 1
        self._chunked += 1
        return self._chunked - 1


@dataclass(frozen=True, slots=True)
class SlotValues:
    """Values of many rows, ready to be written."""

    columns: Mapping[str, Sequence[Any]]
    """By the name of the slot."""
    remarks: Sequence[str | None]
    chunks: Sequence[tuple[int, int, str]]
    """The number of the row, that of the chunk, and its JSON."""
    layout: FieldLayout
    """With the fields and forms that these values need."""
    dropped: Mapping[int, int]
    """By the number of the row: how many of its values were of one field too many."""


FieldColumns = Mapping[Role, Mapping[str, Sequence[Any]]]
"""The values of many rows by role and name of the field; None where a row has none."""


def columns_of_rows(
    points: Sequence[Mapping[str, Any]], metrics: Sequence[Mapping[str, Any]]
) -> FieldColumns:
    """Return the values of many rows field by field."""
    return {"parameter": _by_name(points), "metric": _by_name(metrics)}


def _by_name(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names: dict[str, None] = {}
    for row in rows:
        if not names.keys() >= row.keys():
            names.update(dict.fromkeys(row))
    return {name: [row.get(name) for row in rows] for name in names}


def arrange_columns(layout: FieldLayout, columns: FieldColumns, rows: int) -> SlotValues:
    """Return the values of *rows* rows by slot: what they share is looked at once."""
    filling = _SlotWriter(layout)
    for role, values_by_name in columns.items():
        for name, values in values_by_name.items():
            filling.take(role, name, values)
    return filling.spread(rows)


class _SlotWriter:
    """The columns of some rows, while they are filled field by field."""

    def __init__(self, layout: FieldLayout) -> None:
        self._draft = LayoutBuilder(layout)
        self._holds_nan = self._is_typed = layout.dialect_name == "postgresql"
        self._columns: dict[str, list[Any]] = {}
        self._chunked: dict[int, list[Any]] = {}
        """By the number in the chunks."""
        self._remarks: dict[int, dict[str, Any]] = {}
        self._dropped: dict[int, int] = {}

    def spread(self, rows: int) -> SlotValues:
        remarks: list[str | None] = [None] * rows
        for row, count in self._dropped.items():
            reason = f"{count:,} more were not kept: a study has {MOST_FIELDS:,} fields at the most"
            self._remarks.setdefault(row, {})[""] = {"missing": reason}
        for row, said_of in self._remarks.items():
            remarks[row] = codec.compact_json(said_of)
        layout = self._draft.layout()
        return SlotValues(self._columns, remarks, list(self._chunks(rows)), layout, self._dropped)

    def _chunks(self, rows: int) -> Iterable[tuple[int, int, str]]:
        by_chunk: dict[int, dict[int, list[Any]]] = {}
        for number, values in self._chunked.items():
            by_chunk.setdefault(number // CHUNK, {})[number % CHUNK] = values
        for row in range(rows):
            for chunk, columns in by_chunk.items():
                if any(values[row] is not None for values in columns.values()):
                    array = [None] * (max(columns) + 1)
                    for at, values in columns.items():
                        array[at] = values[row]
                    yield row, chunk, codec.compact_json(array)  # type: ignore[arg-type] # plain values

    def take(self, role: Role, name: str, values: Sequence[Any]) -> None:
        if not self._draft.has(role, name):
            for row, value in enumerate(values):
                if value is not None:
                    self._dropped[row] = self._dropped.get(row, 0) + 1
            return
        form = codec.uniform_form(values, holds_nan=self._holds_nan)
        if form == Form.INTEGER and self._may_be_rounded(role, name, values):
            form = None
        if form is None or not self._all_at_once(role, name, form, values):
            self._one_by_one(role, name, values)

    def _may_be_rounded(self, role: Role, name: str, values: Iterable[int | None]) -> bool:
        """Return whether reals may come to stand beside integers that no real is equal to.

        In a column with types all of them are reals then: remarks keep the digits. A field that is
        declared to be of integers gets no reals.
        """
        if not self._is_typed or self._draft.declared_type(role, name) == "int":
            return False
        return any(v is not None and not -_EXACT <= v <= _EXACT for v in values)

    def _all_at_once(self, role: Role, name: str, form: Form, values: Sequence[Any]) -> bool:
        """Fill the column of the form of *values*; return false if one needs a remark."""
        if not form:
            return True
        place, odd = self._draft.slot(role, name, form)
        if odd:
            return False
        if isinstance(place, str):
            if form == Form.TRUTH:
                values = [None if value is None else int(value) for value in values]
            self._columns[place] = list(values)
        elif form == Form.REAL and not math.isfinite(sum(v for v in values if v is not None)):
            return False
        else:
            self._chunked[place] = list(values)
        return True

    def _one_by_one(self, role: Role, name: str, values: Sequence[Any]) -> None:
        for row, value in enumerate(values):
            form = codec.form_of(value, holds_nan=self._holds_nan)
            if form is None:
                continue
            exact = not (form & SLOTTED)
            if form & SLOTTED:
                exact = self._put(role, name, form, row, len(values), value)
            elif form:
                self._draft.saw(role, name, form)
            if exact:
                remarks = self._remarks.setdefault(row, {})
                remarks[codec.remark_key(role, name)] = codec.to_json(value)
            elif form == Form.INTEGER and self._may_be_rounded(role, name, [value]):
                self._draft.saw(role, name, Form.BIG)
                remarks = self._remarks.setdefault(row, {})
                remarks[codec.remark_key(role, name)] = codec.digits_json(value)

    def _put(self, role: Role, name: str, form: Form, row: int, rows: int, value: Any) -> bool:
        """Fill one cell; return whether the value needs a remark, too."""
        place, odd = self._draft.slot(role, name, form)
        plain = codec.next_real(value) if form == Form.BIG else value
        if isinstance(place, str):
            plain = int(plain) if form == Form.TRUTH else plain
            self._columns.setdefault(place, [None] * rows)[row] = plain
            return odd or form == Form.BIG
        if isinstance(plain, float) and not math.isfinite(plain):
            return True
        self._chunked.setdefault(place, [None] * rows)[row] = plain
        return form == Form.BIG


_Plan = list[tuple[str, str, list[tuple[int, bool]], int | None]]
"""Name, key of its remark, its slots' places and whether they hold truths, number in the chunks."""


class SlotReader:
    """Reads rows of a study back: their remarks, their slots, and their chunks."""

    def __init__(self, fields: Collection[StoredField]) -> None:
        """Read *fields*, all of a version's or some of them."""
        self.slots: list[str] = []
        """Which slots to ask for, in this order."""
        self.chunks: list[int] = sorted(
            {f.place.chunk // CHUNK for f in fields if f.place.chunk is not None}
        )
        """Which chunks to ask for."""
        self._plans: dict[Role, _Plan] = {role: self._plan(fields, role) for role in ROLES}

    def _plan(self, fields: Collection[StoredField], role: Role) -> _Plan:
        plan: _Plan = []
        for stored in fields:
            if stored.role != role:
                continue
            places = []
            for slot in stored.place.slots:
                places.append((len(self.slots), stored.place.truths and slot[0] in "vi"))
                self.slots.append(slot)
            key = codec.remark_key(role, stored.field.name)
            plan.append((stored.field.name, key, places, stored.place.chunk))
        return plan

    def values(
        self, remarks: str | None, slots: Sequence[Any], chunks: Mapping[int, Any]
    ) -> dict[str, Any]:
        """Return every parameter of the version; None where it is inactive."""
        return dict(self._read("parameter", remarks, slots, chunks))

    def metrics(
        self, remarks: str | None, slots: Sequence[Any], chunks: Mapping[int, Any]
    ) -> dict[str, Any]:
        """Return the metrics that were measured, or are missing with a reason."""
        pairs = self._read("metric", remarks, slots, chunks)
        return {name: value for name, value in pairs if value is not None}

    def _read(
        self, role: Role, remarks: str | None, slots: Sequence[Any], chunks: Mapping[int, Any]
    ) -> list[tuple[str, Any]]:
        noted = codec.parse_object(remarks) if remarks else {}
        pairs = []
        for name, key, places, number in self._plans[role]:
            value = None
            if key in noted:
                value = codec.from_json(noted[key])
            else:
                for place, truth in places:
                    if slots[place] is not None:
                        value = _truth(slots[place]) if truth else slots[place]
                if value is None and number is not None:
                    value = _of_chunk(chunks.get(number // CHUNK), number % CHUNK)
            pairs.append((name, value))
        return pairs

    def columns(
        self,
        role: Role,
        remarks: Sequence[str | None],
        slots: Sequence[Sequence[Any]],
        chunks: Sequence[Mapping[int, Any]],
    ) -> dict[str, Sequence[Any]]:
        """Return the values of many rows, field by field; None where a row has none.

        *remarks*, each of the *slots*, and *chunks* have an element for each row.
        """
        # Rows share most remarks: why a metric is missing, for example.
        parsed = {text: codec.parse_object(text) for text in set(remarks) if text}
        noted = [(row, parsed[text]) for row, text in enumerate(remarks) if text]
        columns: dict[str, Sequence[Any]] = {}
        for name, key, places, number in self._plans[role]:
            column: Sequence[Any] = (None,) * len(remarks)
            for nth, (place, truth) in enumerate(places):
                values = list(map(_truth, slots[place])) if truth else slots[place]
                # Most fields have one slot, whose column is taken as it is.
                column = values if nth == 0 else list(map(_later, column, values))
            if number is not None:
                at = divmod(number, CHUNK)
                from_chunks = [_of_chunk(arrays.get(at[0]), at[1]) for arrays in chunks]
                column = list(map(_later, from_chunks, column))
            exact = {row: codec.from_json(remark[key]) for row, remark in noted if key in remark}
            if exact:
                column = [exact.get(row, value) for row, value in enumerate(column)]
            columns[name] = column
        return columns


def _later(first: Any, second: Any) -> Any:
    """Return the value of two places; the second one goes before."""
    return first if second is None else second


def _truth(value: Any) -> Any:
    """Return a value of a slot of booleans, which the database keeps as integers."""
    return bool(value) if isinstance(value, int) else value


def _of_chunk(array: Sequence[Any] | None, at: int) -> Any:
    return None if array is None or at >= len(array) else array[at]
