"""Sets of values: the protocol of all sets, and sets that are listed element by element."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from zenturio.errors import SpaceError, did_you_mean
from zenturio.expression import Type, Value, text_of

Column = np.ndarray[Any, np.dtype[Any]]

DIGITS = 1232
"""The most digits of an integer: 4,096 bits, as in expressions."""

_INT = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOL = {"true": True, "yes": True, "on": True, "1": True}
_BOOL |= {"false": False, "no": False, "off": False, "0": False}
_DTYPE = {"int": np.int64, "real": np.float64, "bool": np.bool_, "str": np.object_}


class Domain(Protocol):
    """A set whose elements have a position, a text and a value. Sets compare by content."""

    @property
    def type(self) -> Type: ...

    @property
    def size(self) -> int:
        """The number of elements; SpaceError for a continuous or unbound set."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether near positions mean near values: true for numbers, false for names."""
        ...

    def text(self, position: Any) -> str:
        """Return the text that is filled into files."""
        ...

    def value(self, position: Any) -> Value:
        """Return the value that expressions and the repository see."""
        ...

    def position(self, value: Value) -> Any:
        """Return the position of *value*; SpaceError names similar elements if it is missing."""
        ...

    def values(self) -> Column:
        """Return all values by position."""
        ...

    def texts(self) -> Sequence[str]:
        """Return all texts by position."""
        ...

    def at(self, positions: Column) -> Column:
        """Return the values at *positions*."""
        ...


def kind_of(text: str) -> Type:
    """Return the narrowest type that *text* can be read as: int, real or str."""
    if _INT.fullmatch(text):
        return "int"
    return "real" if _REAL.fullmatch(text) else "str"


def shared_type(kinds: Iterable[Type]) -> Type:
    """Return the narrowest type that covers *kinds*: int, real or str."""
    distinct = set(kinds)
    if distinct <= {"int"}:
        return "int"
    return "real" if distinct <= {"int", "real"} else "str"


def read(text: str, kind: Type) -> Value:
    """Parse *text* as a value of type *kind*."""
    if kind == "str":
        return text
    if kind == "bool":
        if text.lower() in _BOOL:
            return _BOOL[text.lower()]
        raise SpaceError(f"{text!r} is not a bool", hint="write true or false")
    pattern = _INT if kind == "int" else _REAL
    if not pattern.fullmatch(text):
        hint = "TYPE real" if kind == "int" and _REAL.fullmatch(text) else "TYPE str"
        raise SpaceError(f"{text!r} is not {_named(kind)}", hint=f"write a number, or {hint}")
    if len(text) > DIGITS:
        raise SpaceError(f"a number of {len(text)} digits is too long", hint="or is it TYPE str?")
    number = int(text) if kind == "int" else float(text)
    if isinstance(number, float) and math.isinf(number):
        raise SpaceError(f"{text!r} is too large for a real", hint="or is it TYPE str?")
    return number


def fit(value: Any, kind: Type) -> Value:
    """Convert *value* to type *kind*; ``None`` if that is not possible."""
    if hasattr(value, "dtype") and hasattr(value, "item"):
        value = value.item()
    if kind in ("bool", "str"):
        return value if isinstance(value, bool if kind == "bool" else str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kind == "real":
        return float(value)
    return int(value) if value == value // 1 and abs(value) != math.inf else None


def column(values: Sequence[Value], kind: Type) -> Column:
    """Return *values* as an array of the dtype that expressions use for type *kind*."""
    try:
        return np.array(values, dtype=_DTYPE[kind])
    except OverflowError:
        return np.array(values, dtype=np.object_)


def _named(kind: Type) -> str:
    return {"int": "a whole number", "real": "a number", "str": "a text", "bool": "a bool"}[kind]


@dataclass(frozen=True)
class Elements:
    """A set that is listed element by element."""

    type: Type
    listed: tuple[str, ...]
    parsed: tuple[Value, ...]

    @property
    def size(self) -> int:
        return len(self.listed)

    @property
    def ordered(self) -> bool:
        return self.type in ("int", "real")

    def text(self, position: int) -> str:
        return self.listed[position]

    def value(self, position: int) -> Value:
        return self.parsed[position]

    def position(self, value: Value) -> int:
        fitted = fit(value, self.type)
        if fitted in self._positions:
            return self._positions[fitted]
        raise SpaceError(
            f"{text_of(value) if value is not None else 'NULL'!r} is not in the set",
            hint=did_you_mean(str(text_of(value)), self.listed),
        )

    @cached_property
    def _positions(self) -> dict[Value, int]:
        return {value: position for position, value in enumerate(self.parsed)}

    @cached_property
    def ranked(self) -> tuple[int, ...]:
        """The positions by ascending value, for a set of numbers."""
        return tuple(np.argsort(self._column, kind="stable").tolist())

    @cached_property
    def _column(self) -> Column:
        return column(self.parsed, self.type)

    @cached_property
    def narrow(self) -> np.dtype[Any]:
        """The narrowest dtype of expressions that holds all values."""
        values = self._column
        fits = values.dtype == np.int64 and np.abs(values).max() < 1 << 31
        return np.dtype(np.int32) if fits else values.dtype

    @cached_property
    def _steps(self) -> tuple[int, int] | None:
        """The first value and the stride if the values are a range of small integers, else None."""
        if self.narrow != np.int32:
            return None
        first, *others = self._column.tolist()
        stride = others[0] - first if others else 1
        regular = range(first, first + stride * self.size, stride)
        return (first, stride) if (first, *others) == tuple(regular) else None

    def values(self) -> Column:
        return self._column

    def texts(self) -> Sequence[str]:
        return self.listed

    def at(self, positions: Column) -> Column:
        return self.fill(np.empty(len(positions), dtype=self._column.dtype), positions)

    def fill(self, out: Column, positions: Column) -> Column:
        """Write the values at *positions* into *out*, of the values' dtype or *narrow*."""
        if self._steps is None:
            return np.take(
                self._column.astype(out.dtype, copy=False), positions, out=out, mode="clip"
            )
        first, stride = self._steps
        np.multiply(positions, stride, out=out, casting="unsafe", dtype=out.dtype)
        return np.add(out, first, out=out)


def elements(texts: Iterable[str], type: Type | None = None) -> Elements:  # noqa: A002
    """Make a set of *texts* in their order; *type* defaults to the narrowest common one."""
    listed = tuple(texts)
    if not listed:
        raise SpaceError("the set is empty", hint="write at least one element, such as { 1 }")
    kind = type or shared_type(map(kind_of, listed))
    parsed = tuple(read(text, kind) for text in listed)
    if len(set(parsed)) < len(parsed):
        raise _duplicate(listed, parsed)
    return Elements(kind, listed, parsed)


def _duplicate(listed: Sequence[str], parsed: Sequence[Value]) -> SpaceError:
    seen: dict[Value, str] = {}
    for text, value in zip(listed, parsed, strict=True):
        if value not in seen:
            seen[value] = text
        elif seen[value] == text:
            return SpaceError(f"the element {text!r} occurs twice", hint="remove one of the two")
        else:
            return SpaceError(
                f"the elements {seen[value]!r} and {text!r} have the same value",
                hint="remove one of the two, or say TYPE str if the texts are meant",
            )
    raise AssertionError("no element occurs twice")
