"""Functions of the language that SQLite lacks, or has otherwise; and aggregates that it lacks.

In a query, what has no answer (a root of -1, a division by zero) is NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zenturio.experiment import aggregates
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
