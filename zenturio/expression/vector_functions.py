"""The functions of the language on columns, where NumPy gives the exact result; else ``None``."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from zenturio.expression.column_values import ColumnValues, of_integers
from zenturio.expression.vector_operators import chosen, negate, relation, remainder

_BELOW = float(2**63)


def _best(operator: str) -> Callable[..., ColumnValues | None]:
    """The later of two only where it is better, as Python's min and max."""

    def two(a: ColumnValues | None, b: ColumnValues) -> ColumnValues | None:
        if a is None or a.kind not in ("int", "real") or b.kind not in ("int", "real"):
            return None
        better = relation(operator, b, a)
        if better is None:
            return None
        if a.kind == b.kind:
            return _picked(better, b, a)
        mask = better.data
        return ColumnValues("real", np.where(mask, b.data, a.data).astype(np.float64, copy=False))

    return lambda *values: reduce(two, values)


def _picked(better: ColumnValues, b: ColumnValues, a: ColumnValues) -> ColumnValues | None:
    if better.constant:
        return b if better.data else a
    return chosen(better.data, b, a)


def _absolute(a: ColumnValues) -> ColumnValues | None:
    if a.kind == "real":
        return ColumnValues("real", np.abs(a.data))
    if a.kind != "int" or a.low >= 0:
        return a if a.kind == "int" else None
    opposite = negate(a)
    if opposite is None or a.high <= 0:
        return opposite
    most = max(-a.low, a.high)
    return ColumnValues("int", np.abs(a.data.astype(opposite.data.dtype, copy=False)), 0, most)


def _rounded(ufunc: Any) -> Callable[[ColumnValues], ColumnValues | None]:
    def function(a: ColumnValues) -> ColumnValues | None:
        if a.kind != "real":
            return a if a.kind == "int" else None
        found = ufunc(a.data)
        within = (found >= -_BELOW) & (found < _BELOW)
        return of_integers(found.astype(np.int64)) if within.all() else None

    return function


def _root(a: ColumnValues) -> ColumnValues | None:
    if a.kind == "int":
        return ColumnValues("real", np.sqrt(a.data.astype(np.float64))) if a.low >= 0 else None
    if a.kind != "real":
        return None
    found = np.sqrt(a.data)
    return ColumnValues("real", found) if np.isfinite(found).all() else None


def _common_divisor(*values: ColumnValues) -> ColumnValues | None:
    if any(value.kind != "int" or value.low <= -(2**63) for value in values):
        return None
    if any(value.high >= 2**63 for value in values):
        return None
    most = max(max(-value.low, value.high) for value in values)
    wide = [v.data if v.constant else v.data.astype(np.int64, copy=False) for v in values]
    found = reduce(np.gcd, wide)
    return ColumnValues("int", np.asarray(found, dtype=np.int64), 0, most)


def _is_power_of_two(a: ColumnValues) -> ColumnValues | None:
    if a.kind != "int" or a.low <= -(2**31):
        return None
    return ColumnValues("bool", (a.data > 0) & ((a.data & (a.data - 1)) == 0))


def _divides(divisor: ColumnValues, value: ColumnValues) -> ColumnValues | None:
    if divisor.kind != "int" or value.kind != "int":
        return None
    if divisor.low <= 0 <= divisor.high:
        return None
    rest = remainder(value, divisor)
    return None if rest is None else ColumnValues("bool", np.equal(rest.data, 0))


FUNCTIONS: dict[str, Callable[..., ColumnValues | None]] = {
    "min": _best("<"),
    "max": _best(">"),
    "abs": _absolute,
    "floor": _rounded(np.floor),
    "ceil": _rounded(np.ceil),
    "round": _rounded(np.rint),
    "sqrt": _root,
    "gcd": _common_divisor,
    "ispow2": _is_power_of_two,
    "divides": _divides,
}
"""Those that the machine can do; the others are computed once for each value that occurs."""
