"""Which columns a study has: a wide table, with one for each form of each of its fields.

Chosen by measurement (``benchmarks/layout.py``). A column is added when the first value of its form
comes, so a metric that is an integer here and a real there keeps both as they were. Beyond
``MOST_COLUMNS`` values go into the row's JSON: no page of PostgreSQL holds many more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from sqlalchemy import BigInteger, column, select, table
from sqlalchemy.sql.elements import ColumnClause

from zenturio.record import codec
from zenturio.record.codec import COLUMNS, Form
from zenturio.record.facts import Field

Role = Literal["parameter", "metric"]
ROLES: tuple[Role, Role] = ("parameter", "metric")
OTHER: Mapping[Role, str] = {"parameter": "other_values", "metric": "other_metrics"}
"""Where the JSON of a row stands."""
MOST_COLUMNS = 400

_LETTERS = {Form.REAL: "r", Form.INTEGER: "i", Form.TEXT: "t", Form.TRUTH: "b"}
_DECLARED = {"int": Form.INTEGER, "real": Form.REAL, "str": Form.TEXT, "bool": Form.TRUTH}


@dataclass(frozen=True, slots=True)
class Slot:
    """A field and where its values are."""

    position: int
    role: Role
    field: Field
    forms: Form

    @property
    def columns(self) -> dict[Form, str]:
        """The columns that it has, by form."""
        return {form: self.column(form) for form in COLUMNS if form & self.forms}

    def column(self, form: Form) -> str:
        return f"{_LETTERS[form]}{self.position}"


@dataclass(frozen=True)
class Layout:
    """A study's table as it stands."""

    study: int
    name: str
    revision: int
    slots: tuple[Slot, ...]

    @property
    def table(self) -> str:
        return f"values_{self.study}"

    @cached_property
    def by_role(self) -> dict[Role, dict[str, Slot]]:
        """The fields by role and name."""
        found: dict[Role, dict[str, Slot]] = {role: {} for role in ROLES}
        for slot in self.slots:
            found[slot.role][slot.field.name] = slot
        return found

    @cached_property
    def room(self) -> int:
        """How many columns may still be added."""
        return MOST_COLUMNS - sum(len(slot.columns) for slot in self.slots)

    @cached_property
    def reader(self) -> Reader:
        """How its rows are read."""
        return Reader(self)

    @cached_property
    def ways(self) -> dict[str, str]:
        """The metrics that are declared or were seen, and what measures each."""
        return {name: slot.field.how for name, slot in self.by_role["metric"].items()}

    def declared(self, role: Role, fields: Iterable[Field]) -> Layout:
        """With *fields* of that role: new ones behind the others, known ones as they are now.

        A parameter whose type is known has its column from the beginning.
        """
        slots = {(slot.role, slot.field.name): slot for slot in self.slots}
        room = self.room
        for field in fields:
            known = slots.get((role, field.name))
            if known is None:
                forms = _DECLARED.get(field.type or "", Form(0)) if room > 0 else Form(0)
                room -= len(Slot(0, role, field, forms).columns)
                known = Slot(len(slots), role, field, forms)
            slots[role, field.name] = replace(known, field=field)
        return replace(self, slots=tuple(slots.values()))

    def seen(self, role: Role, forms: Mapping[str, Form]) -> Layout:
        """With more *forms* of the fields named; unknown ones are added."""
        if all(f in s.forms for n, f in forms.items() if (s := self.by_role[role].get(n))) and (
            forms.keys() <= self.by_role[role].keys()
        ):
            return self
        new = [Field(name) for name in forms if name not in self.by_role[role]]
        slots = [
            replace(slot, forms=slot.forms | forms.get(slot.field.name, Form(0)))
            if slot.role == role
            else slot
            for slot in self.declared(role, new).slots
        ]
        return replace(self, slots=tuple(slots))


@dataclass(frozen=True, slots=True)
class Spread:
    """Values by column, ready to be written."""

    columns: Mapping[str, Sequence[Any]]
    """By the column's name; ``other_…`` is among them where it is needed."""
    layout: Layout
    """With the fields and forms that these values need."""


def spread(
    layout: Layout, role: Role, rows: Sequence[Mapping[str, Any]], *, exact_reals: bool
) -> Spread:
    """The values of many rows, column by column: what they share is looked at once."""
    slots = layout.by_role[role]
    names = dict.fromkeys(slots)
    for row in rows:
        if not slots.keys() >= row.keys():
            names.update(dict.fromkeys(row))
    filling = _Filling(layout, role, exact_reals)
    for name in names:
        filling.take(name, [row.get(name) for row in rows])
    if filling.other or filling.same:
        filling.columns[OTHER[role]] = filling.texts(len(rows))
    return Spread(filling.columns, layout.seen(role, filling.forms))


class _Filling:
    """The columns of some rows, while they are filled field by field."""

    def __init__(self, layout: Layout, role: Role, exact_reals: bool) -> None:
        self.columns: dict[str, list[Any]] = {}
        self.other: dict[int, dict[str, Any]] = {}
        """By the number of the row: what goes into its JSON."""
        self.same: dict[str, Any] = {}
        """What goes into the JSON of every row, and is written once."""
        self.forms: dict[str, Form] = {}
        self._slots = layout.by_role[role]
        self._next = len(layout.slots)
        self._room = layout.room
        self._exact_reals = exact_reals

    def take(self, name: str, values: list[Any]) -> None:
        slot = self._slots.get(name)
        if slot is None:
            slot = Slot(self._next, "metric", Field(name), Form(0))
            self._next += 1
        self.forms[name] = Form(0)
        form = codec.uniform(values, exact_reals=self._exact_reals)
        if form and self._has_column(slot, form):
            self.columns[slot.column(form)] = values
        elif form is None and len(set(map(id, values))) == 1:
            self._all_the_same(slot, values)
        elif form is None or form:
            self._one_by_one(slot, values)

    def texts(self, rows: int) -> list[str | None]:
        """The JSON of each row."""
        same = codec.dump(self.same)
        texts = [same] * rows
        for row, own in self.other.items():
            texts[row] = codec.dump(self.same | own)
        return texts

    def _has_column(self, slot: Slot, form: Form) -> bool:
        """Whether *slot* has a column for *form*, or gets one now."""
        name = slot.field.name
        if form not in (slot.forms | self.forms[name]):
            if self._room <= 0:
                return False
            self._room -= 1
        self.forms[name] |= form
        return True

    def _all_the_same(self, slot: Slot, values: list[Any]) -> None:
        form = codec.form_of(values[0], exact_reals=self._exact_reals)
        assert form is not None, "what is nothing in all rows was seen to be uniform"
        if form in COLUMNS and self._has_column(slot, form):
            self.columns[slot.column(form)] = values
        else:
            self.forms[slot.field.name] |= Form.OTHER if form in COLUMNS else form
            self.same[slot.field.name] = values[0]
            if _is_zero(values[0]) and self._has_column(slot, Form.REAL):
                self.columns[slot.column(Form.REAL)] = [0.0] * len(values)

    def _one_by_one(self, slot: Slot, values: list[Any]) -> None:
        name = slot.field.name
        for row, value in enumerate(values):
            form = codec.form_of(value, exact_reals=self._exact_reals)
            if form is None:
                continue
            if form in COLUMNS and self._has_column(slot, form):
                filled = self.columns.setdefault(slot.column(form), [None] * len(values))
                filled[row] = value
            else:
                self.forms[name] |= Form.OTHER if form in COLUMNS else form
                self.other.setdefault(row, {})[name] = value
                if _is_zero(value) and self._has_column(slot, Form.REAL):
                    self.columns.setdefault(slot.column(Form.REAL), [None] * len(values))[row] = 0.0


def _is_zero(value: Any) -> bool:
    """Minus zero, if no column holds that: the views count it as zero, the JSON keeps its sign."""
    return type(value) is float and value == 0


class Reader:
    """Reads rows of a study back."""

    def __init__(self, layout: Layout) -> None:
        self.columns: list[str] = list(OTHER.values())
        """Which columns to ask for, in this order."""
        self._plans = {role: self._plan(layout.by_role[role].values()) for role in ROLES}
        experiment: ColumnClause[int] = column("experiment", BigInteger)
        source = table(layout.table, experiment, *map(column, self.columns))
        self.experiment = source.c.experiment
        self.statement = select(*source.c)
        """Asks for rows: the experiment's number, then ``columns``."""

    def _plan(
        self, slots: Iterable[Slot]
    ) -> list[tuple[str, list[tuple[int, Callable[..., Any]]]]]:
        plan = []
        for slot in slots:
            places = []
            for form, place in slot.columns.items():
                places.append((len(self.columns), bool if form == Form.TRUTH else _as_it_is))
                self.columns.append(place)
            plan.append((slot.field.name, places))
        return plan

    def values(self, row: Sequence[Any]) -> dict[str, Any]:
        """Every parameter of the study; None where it is inactive."""
        return dict(self._read("parameter", row, row[0]))

    def metrics(self, row: Sequence[Any]) -> dict[str, Any]:
        """The metrics that were measured, or are missing with a reason."""
        found = self._read("metric", row, row[1])
        return {name: value for name, value in found if value is not None}

    def _read(self, role: Role, row: Sequence[Any], text: str | None) -> list[tuple[str, Any]]:
        found = []
        other = codec.load(text)
        for name, places in self._plans[role]:
            value = other.get(name)
            for place, convert in places if value is None else ():
                if row[place] is not None:
                    value = convert(row[place])
            found.append((name, value))
        return found


def _as_it_is(value: Any) -> Any:
    return value
