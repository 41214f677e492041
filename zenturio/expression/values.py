"""The values of expressions: their types, texts and truth."""

from __future__ import annotations

from typing import Any, Literal

from zenturio.errors import ExpressionError

Value = bool | int | float | str | None
"""``None`` is NULL: an inactive parameter, or a metric that was not measured."""

Type = Literal["int", "real", "str", "bool"]

BITS = 4096
"""An integer has at most so many bits: enough for any count, too few to fill a memory."""

HUGE = 1 << BITS

LONGEST = 10_000
"""A text has at most so many characters."""

PLAIN = frozenset({bool, int, float, str, type(None)})

_TYPES: dict[type, Type] = {int: "int", float: "real", str: "str", bool: "bool"}


class Fault(Exception):
    """An operation has no answer; whoever knows where it stands makes an ExpressionError of it."""

    row: int | None = None
    """Of a column, the row that has none."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def plain(value: Any) -> Value:
    """*value* as one of the five plain types: NumPy's scalars and subclasses become built-in."""
    if type(value) in PLAIN:
        return value  # type: ignore[no-any-return]
    if hasattr(value, "dtype") and hasattr(value, "item"):
        return plain(value.item())
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise Fault(f"a value of Python's type {type(value).__name__} cannot be computed with")


def type_of(value: Value) -> Type | None:
    """The type of *value*; ``None`` for NULL."""
    return _TYPES.get(type(value))


def text_of(value: Value) -> str:
    """How *value* is written into a file; NULL is the empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def shown(value: Value) -> str:
    """*value* with its type, for a message: ``int 5``, ``str 'abc'``."""
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, str) else text_of(value)
    return f"{_TYPES[type(value)]} {clipped(text)}"


def clipped(text: str, most: int = 60) -> str:
    """*text*, or its beginning if it is longer than a message should be."""
    return text if len(text) <= most else text[: most - 3] + "..."


def holds(value: Value) -> bool:
    """Whether a constraint with this *value* keeps its point: NULL does, as in SQL's CHECK."""
    value = plain(value)
    if value is None or isinstance(value, bool):
        return value is not False
    raise ExpressionError(
        f"a condition is true or false, but this is {shown(value)}",
        hint="compare it with something, such as '... > 0'",
    )
