"""What a study has: its views and their columns, with types and units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, cast

from sqlalchemy import select

from zenturio.errors import NotFoundError, did_you_mean
from zenturio.expression import Type
from zenturio.query.dialects import WORDS
from zenturio.query.fragments import Dialect, Fragment, name
from zenturio.query.reading import Reader
from zenturio.record import SEED, STATES
from zenturio.record.codec import Form, unescape
from zenturio.record.naming import columns as view_columns
from zenturio.record.schema import counters, fields, studies

Role = Literal["parameter", "seed", "metric", "fact"]
"""A seed differs run by run of one point: it is shown beside the parameters, and is none."""

ROW = "r"
"""What the view is called in every statement."""

_FACTS: dict[str, Type] = {
    "digest": "str",
    "index": "int",
    "repeat": "int",
    "status": "str",
    "cause": "str",
    "host": "str",
    "attempt": "int",
    "started": "real",
    "ended": "real",
    "remarks": "str",
}

_TYPES: dict[Form, Type] = {
    Form.INTEGER: "int",
    Form.REAL: "real",
    Form.REAL | Form.INTEGER: "real",
    Form.TEXT: "str",
    Form.TRUTH: "bool",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a study's views."""

    name: str
    """As the user named it."""
    view: str
    """As the view names it, which differs where the database cannot."""
    role: Role
    type: Type | None
    forms: Form
    """What its values are stored as; none while there is no value."""
    unit: str = ""

    @property
    def mixed(self) -> bool:
        """Whether its values are of several kinds, so that a database cannot compute with them."""
        return self.type is None and bool(self.forms)

    @property
    def wide(self) -> bool:
        """Whether all its values are integers, some of them beyond 63 bits."""
        return bool(self.forms & Form.BIG) and not self.forms & ~(Form.BIG | Form.INTEGER)

    @property
    def number(self) -> bool:
        return self.type in ("int", "real")

    def sql(self) -> str:
        """The column in a statement."""
        return f"{ROW}.{name(self.view)}"

    def fragment(self, dialect: Dialect) -> Fragment:
        """The column in a computation."""
        if self.role == "metric" and not self.forms:
            return Fragment(("NULL",), self.type, short=True)
        return WORDS[dialect].column(self.sql(), self.type)

    def value(self, found: Any) -> Any:
        """A value that the database gave, as it was recorded."""
        if found is None:
            return None
        if self.type == "bool":
            return bool(found)
        whole = isinstance(found, Decimal) or (self.type == "int" and not isinstance(found, int))
        digits = Form.BIG & self.forms and not Form.TEXT & self.forms and isinstance(found, str)
        return int(found) if whole or digits else found


@dataclass(frozen=True)
class Catalog:
    """A study as queries see it."""

    study: str
    view: str
    view_all: str
    columns: Mapping[str, Column]
    facts: Mapping[str, Column]
    """What every study has, by the names that are usual: another one holds where it is taken."""
    counts: Mapping[str, int]
    """Experiments by their state."""

    @property
    def total(self) -> int:
        """All experiments that the study has."""
        return sum(self.counts.values())

    @cached_property
    def parameters(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns.values() if c.role == "parameter")

    @cached_property
    def seeds(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns.values() if c.role == "seed")

    @cached_property
    def metrics(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns.values() if c.role == "metric")

    def column(self, wanted: str) -> Column:
        """The column of that name; NotFoundError with the nearest ones."""
        if wanted not in self.columns:
            raise NotFoundError(
                f"study {self.study!r} has no column {wanted!r}",
                cure=did_you_mean(wanted, self.columns),
            )
        return self.columns[wanted]


_STUDY = select(studies.c.id, studies.c.view, studies.c.view_all, studies.c.name)
_FIELDS = select(
    fields.c.role,
    fields.c.kind,
    fields.c.name,
    fields.c.type,
    fields.c.unit,
    fields.c.forms,
    fields.c.study,
).order_by(fields.c.position)
_COUNTS = select(counters.c.state, counters.c["count"], counters.c.study)


def catalog(reader: Reader, study: str) -> Catalog:
    """The catalog of *study*; NotFoundError with the nearest names if there is none."""
    known = {found: (number, *views) for number, *views, found in reader.fetch(str(_STUDY))}
    if study not in known:
        raise NotFoundError(f"no study is named {study!r}", cure=did_you_mean(study, known))
    number, view, view_all = known[study]
    own = [row[:-1] for row in reader.fetch(str(_FIELDS)) if row[-1] == number]
    counted = dict.fromkeys(STATES, 0) | {
        state: count for state, count, owner in reader.fetch(str(_COUNTS)) if owner == number
    }
    found, facts = _columns(own)
    columns = found | {fact.name: fact for fact in facts.values()}
    return Catalog(study, view, view_all, columns, facts, counted)


def keys_of(known: Catalog) -> tuple[str, str, str]:
    """What position, repeat and number are called: as no column of the study is."""
    mark = "zen:"
    while any(column.view.startswith(mark) for column in known.columns.values()):
        mark += ":"
    return f"{mark}position", f"{mark}repeat", f"{mark}number"


def _columns(rows: Iterable[tuple[Any, ...]]) -> tuple[dict[str, Column], dict[str, Column]]:
    """The fields in their order, and the facts that every study has."""
    found = [
        (cast("Role", SEED if kind == SEED else role), unescape(n), type_, unescape(unit), Form(f))
        for role, kind, n, type_, unit, f in rows
    ]
    own, built_in = view_columns([each[1] for each in found])
    columns: dict[str, Column] = {
        n: Column(n, own[n], role, _type(type_, forms), forms, unit)
        for role, n, type_, unit, forms in found
    }
    facts = {
        fact: Column(view, view, "fact", _FACTS[fact], Form(0))
        for fact, view in built_in.items()
        if view not in columns
    }
    return columns, facts


def _type(declared: str | None, forms: Form) -> Type | None:
    """What all values are; none where they are of several kinds, or of one no column holds."""
    return _TYPES.get(forms) if forms else cast("Type | None", declared)
