"""Set elements with their types; duplicates are reported, each with its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zenturio.errors import AnnotationError, Place, SpaceError
from zenturio.expression import Type, Value
from zenturio.space.domain import Domain, Elements, kind_of, read, shared_type

_BASED = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_FORTRAN = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))[dD]([+-]?[0-9]+)")
_BOOLS = {
    **dict.fromkeys(("true", "yes", "on", "1", ".true."), True),
    **dict.fromkeys(("false", "no", "off", "0", ".false."), False),
}
_CURES = {
    "bool": "true or false, yes or no, on or off, 1 or 0, .true. or .false.",
    "int": "a whole number, as 16 or 0x10; TYPE real or TYPE str otherwise",
    "real": "a number, as 0.5 or 1e-3; TYPE str otherwise",
}


@dataclass(frozen=True, slots=True)
class TypedElement:
    """An element's text, where it is written, and words for where it comes from."""

    text: str
    place: Place
    origin: str = ""


def reading(text: str, kind: Type) -> Value:
    """What *text* stands for in a set of TYPE *kind*; SpaceError if it stands for nothing."""
    if kind == "bool":
        if text.casefold() not in _BOOLS:
            raise SpaceError(f"{text!r} is no bool", hint=_CURES[kind])
        return _BOOLS[text.casefold()]
    if kind == "int" and _BASED.fullmatch(text):
        return int(text, 0)
    if kind == "real" and (fortran := _FORTRAN.fullmatch(text)):
        return read(f"{fortran[1]}e{fortran[2]}", kind)
    return read(text, kind)


def listed(entries: Sequence[TypedElement], type: Type | None) -> Domain:  # noqa: A002
    """The set of these texts; their type is what they share, if *type* does not say it."""
    kind = type or shared_type(kind_of(entry.text) for entry in entries)
    values: list[Value] = []
    seen: dict[Value, TypedElement] = {}
    for entry in entries:
        value = _value(entry, kind)
        if value in seen:
            raise _equal(seen[value], entry)
        seen[value] = entry
        values.append(value)
    return Elements(kind, tuple(entry.text for entry in entries), tuple(values))


def _value(entry: TypedElement, kind: Type) -> Value:
    try:
        return reading(entry.text, kind)
    except SpaceError as error:
        message = error.diagnostics[0].message
        if kind != "str" and "is no" in message:
            message = f"{entry.text!r}{entry.origin} is no {kind}"
        hint = _CURES.get(kind, "")
        raise AnnotationError(message, place=entry.place, hint=hint) from None


def _equal(first: TypedElement, second: TypedElement) -> AnnotationError:
    """The diagnostic about two elements that are one."""
    if first.text == second.text:
        origins = " and".join(entry.origin for entry in (first, second) if entry.origin)
        message = f"the element {first.text!r} stands twice{origins and ':'}{origins}"
        hint = "leave one of them"
    else:
        a, b = (f"{entry.text!r}{entry.origin}" for entry in (first, second))
        message = f"the elements {a} and {b} are the same value"
        hint = "leave one of them; TYPE str if the texts are what matters"
    return AnnotationError(message, place=second.place, hint=hint)
