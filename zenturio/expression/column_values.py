"""Columns of values and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Literal, Protocol

import numpy as np

from zenturio.expression.point_compiler import Key
from zenturio.expression.scalar_functions import PLAIN, Fault, Value, plain

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
        """The values as Python's own; endless for a constant."""
        return repeat(self.data) if self.constant else self.data.tolist()

    def take(self, rows: Array) -> ColumnValues:
        """The values of those *rows*."""
        if self.constant:
            return self
        if self.kind == "int":
            return of_integers(self.data[rows])
        if self.kind == "mixed":
            return of_list(self.data[rows].tolist())
        return ColumnValues(self.kind, self.data[rows])


def constant(value: Value) -> ColumnValues:
    """*value* in every row."""
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
    """*function* in one row after the other: slow, and right whatever the values are.

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
    """*function* of each value that occurs, once; a value is what its bits are."""
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
        """The values of a name in these rows; KeyError if there are none."""
        ...

    def row(self, index: int) -> int:
        """Which of the caller's rows stands at *index* here."""
        ...


class RowBlock:
    """A stretch of the caller's columns; each is looked at when it is asked for, once."""

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
        """The values as the caller gave them."""
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
    """Where NULL stands; nothing if nowhere."""
    if column.dtype.kind != "O":
        return None
    mask = np.fromiter((value is None for value in column.tolist()), bool, len(column))
    return mask if mask.any() else None
