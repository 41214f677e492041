"""Functions of the language that SQLite lacks, or has otherwise; and aggregates that it lacks.

In a query, what has no answer (a root of -1, a division by zero) is NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from zenturio.expression.functions import CALLED
from zenturio.expression.operations import floor_divide, power, remainder
from zenturio.expression.values import Fault, Value

if TYPE_CHECKING:
    import numpy as np


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


FEW = 64
"""Values for which an array costs more than it saves."""


class _Sample:
    """All values of a group; a row costs one append, with no code of ours in between."""

    def __init__(self) -> None:
        self._values: list[float | None] = []
        self.step = self._values.append

    def known(self) -> np.ndarray:
        """The values that are not NULL."""
        import numpy as np  # noqa: PLC0415 - only who asks for deviations pays for it

        values = np.array(self._values, dtype=float)
        known: np.ndarray = values[~np.isnan(values)]
        return known


class Deviation(_Sample):
    """The sample's standard deviation; NULL of fewer than two values, or of infinite ones."""

    def finalize(self) -> float | None:
        if len(self._values) <= FEW:
            return _deviation([value for value in self._values if value is not None])
        values = self.known()
        if len(values) < 2 or not all(map(math.isfinite, (values.min(), values.max()))):
            return None
        return float(values.std(ddof=1))


def _deviation(values: Sequence[float]) -> float | None:
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


class Median(_Sample):
    """The middle value, or the mean of the two in the middle."""

    def finalize(self) -> float | None:
        values = self.known()
        if not len(values):
            return None
        values.sort()
        low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
        return float(low if low == high else (low + high) / 2)


_AGGREGATES: dict[str, type[_Sample]] = {"stddev_samp": Deviation, "median": Median}
