"""Blocks of rows that are evaluated together, and selections of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np

from zenturio.expression.column_values import Array, ColumnValues, constant, of_array
from zenturio.expression.point_compiler import Key

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
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = of_array(self.column(key))
        return known

    def column(self, key: Key) -> Array:
        """The values as the caller gave them."""
        return np.asarray(self.source[key])[self.start : self.start + self.length]

    def row(self, index: int) -> int:
        return self.start + index


class RowSelection:
    """Some of other rows; *known* are columns whose values there are known already."""

    def __init__(
        self, rows: RowSource, picked: Array, known: Mapping[Key, ColumnValues] | None = None
    ) -> None:
        self.rows = rows
        self.picked = picked
        self.length = len(picked)
        self._known: dict[Key, ColumnValues] = dict(known or {})

    def cells(self, key: Key) -> ColumnValues:
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.rows.cells(key).take(self.picked)
        return known

    def row(self, index: int) -> int:
        return self.rows.row(int(self.picked[index]))


def by_nulls(block: RowBlock, keys: Iterable[Key]) -> Iterator[RowSelection]:
    """Groups of rows in which each of the *keys* is NULL everywhere or nowhere.

    So an inactive parameter costs no speed: in a group, every column is of one kind or constant.
    Nothing if the rows need not be parted, or would be parted too often.
    """
    nulls = {key: mask for key in keys if (mask := _nulls(block.column(key))) is not None}
    if not nulls or len(nulls) > 60:
        return
    codes = sum(mask.astype(np.int64) << at for at, mask in enumerate(nulls.values()))
    patterns = np.unique(codes)
    if len(patterns) > MOST_PATTERNS:
        return
    for pattern in patterns.tolist():
        known = {key: constant(None) for at, key in enumerate(nulls) if pattern >> at & 1}
        yield RowSelection(block, np.flatnonzero(codes == pattern), known)


def _nulls(column: Array) -> Array | None:
    """Where NULL stands; nothing if nowhere."""
    if column.dtype.kind != "O":
        return None
    mask = np.fromiter((value is None for value in column.tolist()), bool, len(column))
    return mask if mask.any() else None
