"""Pieces of SQL whose values travel beside the text, never in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from zenturio.errors import Place
from zenturio.expression import Type, Value

Dialect = Literal["sqlite", "postgresql"]

_CASTS = {bool: "boolean", int: "bigint", float: "double precision", str: "text"}


@dataclass(frozen=True, slots=True)
class BoundValue:
    """A value that stands in a text."""

    value: Value


@dataclass(frozen=True, slots=True)
class Guarded:
    """A computation that the database does itself, unless *doubt* holds for a row: then *exact*."""

    native: Fragment
    doubt: Fragment
    exact: Fragment


@dataclass(frozen=True, slots=True)
class Fragment:
    """SQL in pieces, and what is known of its value."""

    parts: tuple[str | BoundValue | Guarded, ...]
    type: Type | None = None
    short: bool = False
    """Whether it may be written twice: a column or a value, not a computation."""
    place: Place | None = None
    """Where the expression stands that this SQL is of."""
    digits: Fragment | None = None
    """Of a column whose integers may be beyond 63 bits, for which it has the reals next to them:
    their digits as text, and NULL for all other values."""

    def bound(self, dialect: Dialect) -> tuple[str, list[Value]]:
        """The text with marks, and the values that they stand for."""
        parts = list(_flat(self.parts, guarded=True))
        values = [part.value for part in parts if isinstance(part, BoundValue)]
        if dialect == "sqlite":
            return "".join("?" if isinstance(p, BoundValue) else p for p in parts), values
        # Without values psycopg takes a per cent sign for one.
        escaped = (p.replace("%", "%%") if values else p for p in parts if isinstance(p, str))
        texts = iter(escaped)
        return "".join(
            _cast(p.value) if isinstance(p, BoundValue) else next(texts) for p in parts
        ), values

    def plain(self, dialect: Dialect) -> str:
        """The text as somebody pastes it elsewhere: values are written out."""
        return "".join(
            part if isinstance(part, str) else literal(part.value, dialect)
            for part in _flat(self.parts, guarded=False)
        )

    def typed(self, type: Type | None) -> Fragment:  # noqa: A002
        """The same, with another type."""
        return replace(self, type=type)


def _flat(
    parts: Iterable[str | BoundValue | Guarded], *, guarded: bool
) -> Iterator[str | BoundValue]:
    """Texts and values; with what each guarded computation falls back to, or without."""
    for part in parts:
        if not isinstance(part, Guarded):
            yield part
        elif guarded:
            case = sql("CASE WHEN {} THEN {} ELSE {} END", part.doubt, part.exact, part.native)
            yield from _flat(case.parts, guarded=True)
        else:
            yield from _flat(part.native.parts, guarded=False)


def _cast(value: Value) -> str:
    kind = (
        "numeric"
        if type(value) is int and not -(2**63) <= value < 2**63
        else _CASTS.get(type(value), "text")
    )
    return f"%s::{kind}"


def sql(template: str, *inner: Fragment, type: Type | None = None) -> Fragment:  # noqa: A002
    """*template* with each ``{}`` filled by a fragment."""
    texts = template.split("{}")
    parts: list[str | BoundValue | Guarded] = [texts[0]]
    for fragment, text in zip(inner, texts[1:], strict=True):
        parts += [*fragment.parts, text]
    place = next((fragment.place for fragment in inner if fragment.place), None)
    return Fragment(tuple(part for part in parts if part != ""), type, place=place)


def verbatim(text: str) -> Fragment:
    """SQL as it stands: braces in it belong to somebody's names."""
    return Fragment((text,))


def join_fragments(separator: str, fragments: Iterable[Fragment]) -> Fragment:
    """All *fragments* with *separator* between them."""
    found = list(fragments)
    return sql(separator.join("{}" for _ in found), *found) if found else Fragment(())


def bound_value(given: Value, kind: Type | None) -> Fragment:
    """A value that is bound."""
    if given is None:
        return Fragment(("NULL",), kind, short=True)
    return Fragment((BoundValue(given),), kind, short=True)


def quote_name(text: str) -> str:
    """An identifier, always in quotes."""
    return '"' + text.replace('"', '""') + '"'


def literal(given: Value, dialect: Dialect) -> str:
    """*given* as it is written in SQL."""
    if given is None:
        return "NULL"
    if isinstance(given, bool):
        return str(given).upper() if dialect == "postgresql" else str(int(given))
    if isinstance(given, str):
        return "'" + given.replace("'", "''") + "'"
    if isinstance(given, float):
        return _real(given, dialect)
    return str(given)


def _real(given: float, dialect: Dialect) -> str:
    text = repr(given)
    if text.strip("-").isalpha():
        if dialect == "postgresql":
            return f"'{text}'::double precision"
        return {"inf": "9e999", "-inf": "-9e999"}.get(text, "NULL")
    return f"{text}::double precision" if dialect == "postgresql" else text
