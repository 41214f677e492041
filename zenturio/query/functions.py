"""Functions of the language that SQLite lacks, or has otherwise; and aggregates that it lacks.

In a query, what has no answer (a root of -1, a division by zero) is NULL.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from zenturio.errors import ExpressionError
from zenturio.experiment import aggregates
from zenturio.expression import Expression, Type, parse
from zenturio.expression.scalar_functions import (
    CALLED,
    Fault,
    Value,
    floor_divide,
    power,
    remainder,
)


def register_functions(connection: Any) -> None:
    """Makes the functions known to a connection of SQLite."""
    for name, (count, function) in _SCALARS.items():
        connection.create_function(name, count, function, deterministic=True)
    for name, aggregate in _AGGREGATES.items():
        connection.create_aggregate(name, 1, aggregate)


def _answered(function: Callable[..., Value]) -> Callable[..., Value]:
    def called(*values: Value) -> Value:
        try:
            found = function(*values)
        except Fault:
            return None
        if type(found) is int and not -(2**63) <= found < 2**63:
            return _real(found)
        return found

    return called


def _real(value: int) -> float:
    """An integer that SQLite has no room for, as a sign that the row is to be computed exactly."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def exact_call(expression: Expression, columns: Sequence[tuple[str, Type | None]]) -> str:
    """The first argument of ``zen_exact``: what it computes, of which columns."""
    return json.dumps([expression.text, columns])


def _exact(asked: str, *values: Value) -> Value:
    """What an expression is for a row, computed without SQL; NULL where it has no answer."""
    expression, columns = _asked(asked)
    row = {name: _given(value, kind) for (name, kind), value in zip(columns, values, strict=True)}
    try:
        found = expression.value(row)
    except ExpressionError:
        return None
    return _real(found) if type(found) is int and not -(2**63) <= found < 2**63 else found


def _given(value: Value, kind: Type | None) -> Value:
    """The value of a column; the digits of an integer stand for what SQLite has no room for."""
    if kind == "bool" and value is not None:
        return bool(value)
    return int(value) if kind in ("int", "real") and isinstance(value, str) else value


@lru_cache(maxsize=64)
def _asked(asked: str) -> tuple[Expression, list[tuple[str, Type | None]]]:
    text, columns = json.loads(asked)
    return parse(text), [(name, kind) for name, kind in columns]


_SCALARS: dict[str, tuple[int, Callable[..., Value]]] = {
    "zen_floordiv": (2, _answered(floor_divide)),
    "zen_mod": (2, _answered(remainder)),
    "zen_power": (2, _answered(power)),
    "zen_round": (1, _answered(CALLED["round"])),
    "zen_text": (1, _answered(CALLED["str"])),
    "zen_basename": (1, _answered(CALLED["basename"])),
    "zen_match": (2, _answered(CALLED["match"])),
    "gcd": (2, _answered(CALLED["gcd"])),
    # SQLAlchemy puts one in the place of SQLite's own that fails of NULL.
    "floor": (1, _answered(CALLED["floor"])),
    "zen_ceil": (1, _answered(CALLED["ceil"])),
    "zen_exact": (-1, _exact),
}


class _Sample:
    """All values of a group; a row costs one append, with no code of ours in between."""

    def __init__(self) -> None:
        self._values: list[float | None] = []
        self.step = self._values.append

    def known(self) -> list[float]:
        """The values that are not NULL."""
        return [value for value in self._values if value is not None]


class Deviation(_Sample):
    """The sample's standard deviation."""

    def finalize(self) -> float | None:
        return aggregates.deviation(self.known())


class Median(_Sample):
    """The middle value."""

    def finalize(self) -> float | None:
        return aggregates.median(self.known())


_AGGREGATES: dict[str, type[_Sample]] = {"stddev_samp": Deviation, "median": Median}
