"""Columns of values and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import repeat
from typing import Any, Literal, Protocol

import numpy as np

from zenturio.expression.scalar_functions import (
    PLAIN,
    Fault,
    Value,
    both,
    either,
    plain,
    zero_divisor,
)
from zenturio.expression.syntax_tree import Key

Array = np.ndarray[Any, Any]
Kind = Literal["int", "real", "bool", "str", "mixed"]
"""``mixed``: NULL among others, integers beyond 64 bits, or several types; Python's objects."""

INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)

_KINDS: dict[type, Kind] = {int: "int", float: "real", bool: "bool", str: "str"}
_DTYPES: dict[Kind, Any] = {"int": np.int64, "real": np.float64, "bool": np.bool_}


class ColumnValues:
    """The values of some rows; of integers, *low* and *high* are bounds that all keep."""

    __slots__ = ("constant", "data", "high", "kind", "low")

    def __init__(
        self, kind: Kind, data: Any, low: int = 0, high: int = 0, constant: bool = False
    ) -> None:
        self.kind: Kind = kind
        self.data = data
        self.low = low
        self.high = high
        self.constant = constant

    def list(self) -> Iterable[Value]:
        """Return the values as Python's own; endless for a constant."""
        return repeat(self.data) if self.constant else self.data.tolist()

    def take(self, rows: Array) -> ColumnValues:
        """Return the values of those *rows*."""
        if self.constant:
            return self
        if self.kind == "int":
            return of_integers(self.data[rows])
        if self.kind == "mixed":
            return of_list(self.data[rows].tolist())
        return ColumnValues(self.kind, self.data[rows])


def constant(value: Value) -> ColumnValues:
    """Return *value* in every row."""
    if type(value) is int:
        return ColumnValues("int", value, value, value, constant=True)
    return ColumnValues(_KINDS.get(type(value), "mixed"), value, constant=True)


def of_integers(data: Array) -> ColumnValues:
    """Machine integers with their bounds, as narrow as these allow; one row at least."""
    low, high = int(np.minimum.reduce(data)), int(np.maximum.reduce(data))
    # Unsigned 64 bits from a caller: int64 cannot hold them, Python's integers can.
    if high > 2**63 - 1:
        return ColumnValues("mixed", data.astype(object))
    narrow = INT32 if low >= -(2**31) and high < 2**31 else INT64
    return ColumnValues("int", data if data.dtype is narrow else data.astype(narrow), low, high)


def of_list(values: Sequence[Value]) -> ColumnValues:
    """Python's values, one row at least, as the kind that they share."""
    kinds = set(map(type, values))
    kind: Kind = _KINDS.get(kinds.pop(), "mixed") if len(kinds) == 1 else "mixed"
    if kind == "int":
        try:
            return of_integers(np.array(values, dtype=np.int64))
        except OverflowError:
            kind = "mixed"
    if kind in _DTYPES:
        return ColumnValues(kind, np.array(values, dtype=_DTYPES[kind]))
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return ColumnValues(kind, array)


def of_array(data: Array) -> ColumnValues:
    """What a caller gives: any array of numbers, texts, truths or objects."""
    letter = data.dtype.kind
    if letter in "iu":
        return of_integers(data)
    if letter == "f" and data.dtype.itemsize <= 8:
        return ColumnValues("real", data.astype(np.float64, copy=False))
    if letter == "b":
        return ColumnValues("bool", data)
    values = data.tolist()
    if not PLAIN.issuperset(map(type, values)):
        values = by_rows(plain, [ColumnValues("mixed", data)]).data.tolist()
    return of_list(values)


def by_rows(function: Callable[..., Value], operands: Sequence[ColumnValues]) -> ColumnValues:
    """Return *function* in one row after the other: slow, and right whatever the values are.

    A Fault knows in its attribute ``row`` which of the rows it was.
    """
    if all(operand.constant for operand in operands):
        return constant(function(*(operand.data for operand in operands)))
    results: list[Value] = []
    try:
        # Not strict: constants are endless.
        for row in zip(*(operand.list() for operand in operands), strict=False):
            results.append(function(*row))  # noqa: PERF401 - how many there are tells the row
    except Fault as fault:
        fault.row = len(results)
        raise
    return of_list(results)


def by_values(function: Callable[[Value], Value], operand: ColumnValues) -> ColumnValues:
    """Return *function* of each value that occurs, once; a value is what its bits are."""
    if operand.constant or operand.kind not in ("int", "real", "str"):
        return by_rows(function, [operand])
    try:
        if operand.kind == "str":
            texts = operand.data.tolist()
            table = {text: function(text) for text in dict.fromkeys(texts)}
            return of_list([table[text] for text in texts])
        # By bits: np.unique() would merge -0.0 with 0.0.
        bits = operand.data.view(np.int64) if operand.kind == "real" else operand.data
        distinct, where = np.unique(bits, return_inverse=True)
        results = of_list([function(value) for value in distinct.view(operand.data.dtype).tolist()])
        return results.take(where)
    except Fault:
        # Again, row by row, to tell the first row that fails.
        return by_rows(function, [operand])


def merged(parts: Sequence[tuple[Any, ColumnValues]], length: int) -> ColumnValues:
    """One column of *length* rows from parts, each with the rows (indices or a slice) it fills."""
    kinds = {cells.kind for _, cells in parts}
    kind: Kind = kinds.pop() if len(kinds) == 1 else "mixed"
    big = kind == "int" and any(c.low < -(2**63) or c.high >= 2**63 for _, c in parts)
    whole = np.empty(length, dtype=object if big else _DTYPES.get(kind, object))
    for rows, cells in parts:
        # NumPy's own integers must not get among Python's objects.
        plain_data = whole.dtype == object and not cells.constant
        whole[rows] = cells.data.astype(object) if plain_data else cells.data
    if kind == "int" and not big:
        return of_integers(whole)
    return ColumnValues("mixed" if big else kind, whole)


MOST_PATTERNS = 8
"""With more patterns of NULLs than this, evaluating row by row is no slower."""


class RowSource(Protocol):
    """What the leaves of a tree are taken from."""

    @property
    def length(self) -> int: ...

    def cells(self, key: Key) -> ColumnValues:
        """Return the values of a name in these rows; KeyError if there are none."""
        ...

    def row(self, index: int) -> int:
        """Return which of the caller's rows stands at *index* here."""
        ...


class RowBlock:
    """A slice of the caller's columns; each is read at its first use."""

    def __init__(self, source: Mapping[Key, Array], start: int, stop: int) -> None:
        self.source = source
        self.start = start
        self.length = stop - start
        self._known: dict[Key, ColumnValues] = {}

    def cells(self, key: Key) -> ColumnValues:
        cells = self._known.get(key)
        if cells is None:
            cells = self._known[key] = of_array(self.column(key))
        return cells

    def column(self, key: Key) -> Array:
        """Return the values as the caller gave them."""
        return np.asarray(self.source[key])[self.start : self.start + self.length]

    def row(self, index: int) -> int:
        return self.start + index


class RowSelection:
    """Some of other rows; *known* are columns whose values there are known already."""

    def __init__(
        self, rows: RowSource, picked: Array, cached: Mapping[Key, ColumnValues] | None = None
    ) -> None:
        self.rows = rows
        self.picked = picked
        self.length = len(picked)
        self._known: dict[Key, ColumnValues] = dict(cached or {})

    def cells(self, key: Key) -> ColumnValues:
        cells = self._known.get(key)
        if cells is None:
            cells = self._known[key] = self.rows.cells(key).take(self.picked)
        return cells

    def row(self, index: int) -> int:
        return self.rows.row(int(self.picked[index]))


def by_nulls(block: RowBlock, keys: Iterable[Key]) -> Iterator[RowSelection]:
    """Groups of rows in which each of the *keys* is NULL everywhere or nowhere.

    So an inactive parameter costs no speed: in a group, every column is of one kind or constant.
    Nothing if the rows need not be parted, or would be parted too often.
    """
    nulls = {key: mask for key in keys if (mask := _nulls(block.column(key))) is not None}
    # A pattern of NULLs is a bit for each column, in one int64.
    if not nulls or len(nulls) > 60:
        return
    codes = sum(mask.astype(np.int64) << at for at, mask in enumerate(nulls.values()))
    patterns = np.unique(codes)
    if len(patterns) > MOST_PATTERNS:
        return
    for pattern in patterns.tolist():
        nulls_by_key = {key: constant(None) for at, key in enumerate(nulls) if pattern >> at & 1}
        yield RowSelection(block, np.flatnonzero(codes == pattern), nulls_by_key)


def _nulls(column: Array) -> Array | None:
    """Return where NULL stands; nothing if nowhere."""
    if column.dtype.kind != "O":
        return None
    mask = np.fromiter((value is None for value in column.tolist()), bool, len(column))
    return mask if mask.any() else None


# Operators, functions and truth values of whole columns

EXACT = 2**53
"""Integers up to here are real numbers as well, so that comparing and dividing them is exact."""

_NUMBERS = ("int", "real")


def _width(*bounds: int) -> Any:
    """Return the narrowest machine integer that holds all *bounds*."""
    low, high = min(bounds), max(bounds)
    if low >= -(2**31) and high < 2**31:
        return INT32
    return INT64 if low >= -(2**63) and high < 2**63 else None


def _data(cells: ColumnValues, width: Any) -> Any:
    """Return the data in that *width*; a constant takes the width of what it meets."""
    data = cells.data
    return data if cells.constant or data.dtype is width else data.astype(width)


def _integers(
    ufunc: Any, a: ColumnValues, b: ColumnValues, low: int, high: int
) -> ColumnValues | None:
    """*ufunc* in integers wide enough for the operands and for results from *low* to *high*."""
    # Proven by bounds: no value of these columns can overflow, so no result need be checked.
    width = _width(a.low, a.high, b.low, b.high, low, high)
    if width is None:
        return None
    return ColumnValues("int", ufunc(_data(a, width), _data(b, width)), low, high)


def _reals(ufunc: Any, a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    """Return *ufunc* in real numbers, if all that comes out is finite."""
    if a.kind not in _NUMBERS or b.kind not in _NUMBERS:
        return None
    if _width(a.low, a.high, b.low, b.high) is None:
        return None
    values = ufunc(_real(a), _real(b))
    return ColumnValues("real", values) if np.isfinite(values).all() else None


def _real(cells: ColumnValues) -> Any:
    return float(cells.data) if cells.constant else cells.data.astype(np.float64, copy=False)


def _exact(cells: ColumnValues) -> bool:
    return cells.kind == "real" or (
        cells.kind == "int" and cells.low >= -EXACT and cells.high <= EXACT
    )


def _divisible(a: ColumnValues, b: ColumnValues) -> bool:
    """Return whether both are numbers; a Fault with its row if a divisor is 0."""
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
        # The remainder has the sign of the divisor, and is smaller.
        low, high = min(b.low + 1, 0), max(b.high - 1, 0)
        return _integers(np.remainder, a, b, low, high)
    return _reals(np.remainder, a, b)


def power(a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
    """Of integers; the machine's powers of real numbers are not those of Python to the last bit."""
    if a.kind != "int" or b.kind != "int" or b.low < 0:
        return None
    most = max(abs(a.low), abs(a.high))
    # Far beyond 64 bits: the bound itself would be slow to compute.
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
        # Bounds may decide for all rows, and then no row is touched.
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


_BELOW = float(2**63)


def _best(operator: str) -> Callable[..., ColumnValues | None]:
    """Return the later of two only where it is better, as Python's min and max."""

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
        rounded = ufunc(a.data)
        # NaN and infinity compare false, and Python's own rounding then says what is wrong.
        within = (rounded >= -_BELOW) & (rounded < _BELOW)
        return of_integers(rounded.astype(np.int64)) if within.all() else None

    return function


def _root(a: ColumnValues) -> ColumnValues | None:
    if a.kind == "int":
        return ColumnValues("real", np.sqrt(a.data.astype(np.float64))) if a.low >= 0 else None
    if a.kind != "real":
        return None
    roots = np.sqrt(a.data)
    return ColumnValues("real", roots) if np.isfinite(roots).all() else None


def _common_divisor(*values: ColumnValues) -> ColumnValues | None:
    if any(value.kind != "int" or value.low <= -(2**63) for value in values):
        return None
    if any(value.high >= 2**63 for value in values):
        return None
    most = max(max(-value.low, value.high) for value in values)
    wide = [v.data if v.constant else v.data.astype(np.int64, copy=False) for v in values]
    divisors = reduce(np.gcd, wide)
    return ColumnValues("int", np.asarray(divisors, dtype=np.int64), 0, most)


def _is_power_of_two(a: ColumnValues) -> ColumnValues | None:
    # a - 1 must not leave the column's own width.
    if a.kind != "int" or a.low <= -(2**31):
        return None
    return ColumnValues("bool", (a.data > 0) & ((a.data & (a.data - 1)) == 0))


def _divides(divisor: ColumnValues, value: ColumnValues) -> ColumnValues | None:
    if divisor.kind != "int" or value.kind != "int":
        return None
    # Where 0 may be among the divisors, the scalar function decides row by row.
    if divisor.low <= 0 <= divisor.high:
        return None
    left_over = remainder(value, divisor)
    return None if left_over is None else ColumnValues("bool", np.equal(left_over.data, 0))


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


def are(cells: ColumnValues, truth: bool) -> Any:
    """Return which of the cells, true, false or NULL, are *truth*."""
    if cells.constant:
        return cells.data is truth
    if cells.kind == "bool":
        return cells.data if truth else ~cells.data
    return np.fromiter((value is truth for value in cells.list()), bool, len(cells.data))


def combined(operator: str, a: ColumnValues, b: ColumnValues) -> ColumnValues:
    """Truths connected row by row, as in SQL where NULL is among them."""
    if a.kind == b.kind == "bool" and not (a.constant and b.constant):
        return ColumnValues("bool", a.data & b.data if operator == "and" else a.data | b.data)
    return by_rows(both if operator == "and" else either, [a, b])


def equals_one(item: ColumnValues, *options: ColumnValues) -> ColumnValues | None:
    """Whether the item equals one of the options, if no row needs a closer look."""
    if item.kind == "int" and not item.constant and all(_is_integer(o) for o in options):
        # Options beyond the column's dtype would overflow, and cannot be equal anyway.
        in_range = [o.data for o in options if item.low <= o.data <= item.high]
        return ColumnValues("bool", np.isin(item.data, np.array(in_range, dtype=item.data.dtype)))
    if item.constant and all(option.constant for option in options):
        return None
    answers = [relation("==", item, option) for option in options]
    truth: Any = False
    for answer in answers:
        if answer is None:
            return None
        truth = truth | answer.data
    return constant(bool(truth)) if np.ndim(truth) == 0 else ColumnValues("bool", truth)


def _is_integer(cells: ColumnValues) -> bool:
    return cells.constant and cells.kind == "int"
