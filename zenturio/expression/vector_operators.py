"""Operators on whole columns, where it is proven that the machine's numbers give Python's answer.

Every function gives ``None`` where it is not: the operator is then applied row by row, and that
tells what is wrong. Only a zero divisor is told here, because it is so common before a condition
shuts it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zenturio.expression.column_values import INT32, INT64, Array, ColumnValues, constant
from zenturio.expression.scalar_functions import zero_divisor

EXACT = 2**53
"""Integers up to here are real numbers as well, so that comparing and dividing them is exact."""

_NUMBERS = ("int", "real")


def _width(*bounds: int) -> Any:
    """The narrowest machine integer that holds all *bounds*."""
    low, high = min(bounds), max(bounds)
    if low >= -(2**31) and high < 2**31:
        return INT32
    return INT64 if low >= -(2**63) and high < 2**63 else None


def _data(cells: ColumnValues, width: Any) -> Any:
    """The data in that *width*; a constant takes the width of what it meets."""
    data = cells.data
    return data if cells.constant or data.dtype is width else data.astype(width)


def _integers(
    ufunc: Any, a: ColumnValues, b: ColumnValues, low: int, high: int
) -> ColumnValues | None:
    """*ufunc* in integers wide enough for the operands and for results from *low* to *high*."""
    width = _width(a.low, a.high, b.low, b.high, low, high)
    if width is None:
        return None
    return ColumnValues("int", ufunc(_data(a, width), _data(b, width)), low, high)


def _reals(ufunc: Any, a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    """*ufunc* in real numbers, if all that comes out is finite."""
    if a.kind not in _NUMBERS or b.kind not in _NUMBERS:
        return None
    if _width(a.low, a.high, b.low, b.high) is None:
        return None
    found = ufunc(_real(a), _real(b))
    return ColumnValues("real", found) if np.isfinite(found).all() else None


def _real(cells: ColumnValues) -> Any:
    return float(cells.data) if cells.constant else cells.data.astype(np.float64, copy=False)


def _exact(cells: ColumnValues) -> bool:
    return cells.kind == "real" or (
        cells.kind == "int" and cells.low >= -EXACT and cells.high <= EXACT
    )


def _divisible(a: ColumnValues, b: ColumnValues) -> bool:
    """Whether both are numbers; a Fault with its row if a divisor is 0."""
    if a.kind not in _NUMBERS or b.kind not in _NUMBERS:
        return False
    if b.kind == "int" and (b.low > 0 or b.high < 0):
        return True
    good = np.asarray(np.not_equal(b.data, 0))
    if not good.all():
        fault = zero_divisor()
        fault.row = int(good.argmin())
        raise fault
    return True


def add(a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    if a.kind == "int" and b.kind == "int":
        return _integers(np.add, a, b, a.low + b.low, a.high + b.high)
    return _reals(np.add, a, b)


def subtract(a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    if a.kind == "int" and b.kind == "int":
        return _integers(np.subtract, a, b, a.low - b.high, a.high - b.low)
    return _reals(np.subtract, a, b)


def multiply(a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    if a.kind == "int" and b.kind == "int":
        if a.low >= 0 and b.low >= 0:
            return _integers(np.multiply, a, b, a.low * b.low, a.high * b.high)
        ends = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
        return _integers(np.multiply, a, b, min(ends), max(ends))
    return _reals(np.multiply, a, b)


def divide(a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    if not _divisible(a, b):
        return None
    # Python rounds the quotient of two integers once, the machine each of them before.
    if a.kind == "int" and b.kind == "int" and not (_exact(a) and _exact(b)):
        return None
    return _reals(np.true_divide, a, b)


def floor_divide(a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    if not _divisible(a, b):
        return None
    if a.kind == "int" and b.kind == "int":
        most = max(abs(a.low), abs(a.high))
        low, high = -most, most
        if a.low >= 0 and b.low > 0:
            low, high = a.low // b.high, a.high // b.low
        return _integers(np.floor_divide, a, b, low, high)
    return _reals(np.floor_divide, a, b)


def remainder(a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    if not _divisible(a, b):
        return None
    if a.kind == "int" and b.kind == "int":
        low, high = min(b.low + 1, 0), max(b.high - 1, 0)
        return _integers(np.remainder, a, b, low, high)
    return _reals(np.remainder, a, b)


def power(a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    """Of integers; the machine's powers of real numbers are not those of Python to the last bit."""
    if a.kind != "int" or b.kind != "int" or b.low < 0:
        return None
    most = max(abs(a.low), abs(a.high))
    if most.bit_length() * b.high > 128:
        return None
    high = max(most**b.high, 1)
    return _integers(np.power, a, b, 0 if a.low >= 0 else -high, high)


def negate(a: ColumnValues) -> ColumnValues | None:
    if a.kind == "int":
        width = _width(a.low, a.high, -a.low, -a.high)
        return ColumnValues("int", np.negative(_data(a, width)), -a.high, -a.low) if width else None
    return ColumnValues("real", np.negative(a.data)) if a.kind == "real" else None


def keep(a: ColumnValues) -> ColumnValues | None:
    return a if a.kind in _NUMBERS else None


def negation(a: ColumnValues) -> ColumnValues | None:
    return ColumnValues("bool", np.logical_not(a.data)) if a.kind == "bool" else None


_ALWAYS: dict[str, Callable[[ColumnValues, ColumnValues], bool | None]] = {
    "<": lambda a, b: True if a.high < b.low else (False if a.low >= b.high else None),
    "<=": lambda a, b: True if a.high <= b.low else (False if a.low > b.high else None),
    ">": lambda a, b: True if a.low > b.high else (False if a.high <= b.low else None),
    ">=": lambda a, b: True if a.low >= b.high else (False if a.high < b.low else None),
    "==": lambda a, b: False if a.high < b.low or b.high < a.low else None,
    "!=": lambda a, b: True if a.high < b.low or b.high < a.low else None,
}
"""What the bounds of two columns of integers already decide."""

_UFUNCS: dict[str, Any] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def relation(operator: str, a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    """Whether ``a operator b``, row by row."""
    if a.kind == "int" and b.kind == "int":
        decided = _ALWAYS[operator](a, b)
        if decided is not None:
            return constant(decided)
    elif a.kind != b.kind or a.kind == "mixed":
        if not (_exact(a) and _exact(b)):
            return None
    elif a.kind == "bool" and operator not in ("==", "!="):
        return None
    return ColumnValues("bool", _UFUNCS[operator](a.data, b.data))


def chosen(mask: Array, a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    """*a* where the *mask* is true, else *b*, if both are of one kind of number or truth."""
    if a.kind != b.kind or a.kind in ("str", "mixed"):
        return None
    if a.kind != "int":
        return ColumnValues(a.kind, np.where(mask, a.data, b.data))
    width = _width(a.low, a.high, b.low, b.high)
    if width is None:
        return None
    first, second = (width.type(c.data) if c.constant else _data(c, width) for c in (a, b))
    return ColumnValues(
        "int", np.where(mask, first, second), min(a.low, b.low), max(a.high, b.high)
    )


ARITHMETIC: dict[str, Callable[[ColumnValues, ColumnValues], ColumnValues | None]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "//": floor_divide,
    "%": remainder,
    "**": power,
}
