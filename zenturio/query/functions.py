"""Functions of the language that SQLite lacks, or has otherwise; and aggregates that it lacks.

In a query, what has no answer (a root of -1, a division by zero) is NULL.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from zenturio.expression.functions import CALLED
from zenturio.expression.operations import floor_divide, power, remainder
from zenturio.expression.values import Fault, Value


def register(connection: Any) -> None:
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
            return float(found)
        return found

    return called


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
}


class _Sample:
    """All values of a group that are not NULL."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def step(self, value: float | None) -> None:
        if value is not None:
            self.values.append(value)


class Deviation(_Sample):
    """The sample's standard deviation; NULL of fewer than two values."""

    def finalize(self) -> float | None:
        import numpy as np  # noqa: PLC0415 - only who asks for deviations pays for it

        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


class Median(_Sample):
    """The middle value, or the mean of the two in the middle."""

    def finalize(self) -> float | None:
        return float(statistics.median(self.values)) if self.values else None


_AGGREGATES: dict[str, type[_Sample]] = {"stddev_samp": Deviation, "median": Median}
