"""Tables of codes whose rows are in lexicographic order, and how they grow by a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zenturio.space.domain import Column


class Overfull(Exception):
    """A table would get more rows than it may."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


@dataclass(frozen=True)
class Choices:
    """The codes that a new column takes beside each row.

    Without *starts* every row takes all *codes*; else row r takes ``counts[r]`` of them, from
    ``starts[r]`` on. Without *codes*, these are the codes themselves.
    """

    codes: Column | None
    starts: Column | None = None
    counts: Column | None = None

    def total(self, rows: int) -> int:
        """How many rows *rows* rows become."""
        if self.counts is not None:
            return int(self.counts.sum())
        assert self.codes is not None, "codes, or where they start"
        return rows * len(self.codes)

    def spread(self, rows: int) -> tuple[Column, Column]:
        """For each row that they become: the row that it comes from, and the new code."""
        if self.starts is None or self.counts is None:
            assert self.codes is not None, "codes, or where they start"
            parents = np.repeat(np.arange(rows), len(self.codes))
            return parents, np.tile(self.codes, rows)
        parents = np.repeat(np.arange(rows), self.counts)
        at = stretches(self.starts, self.counts)
        return parents, at if self.codes is None else self.codes[at]


def stretches(starts: Column, counts: Column) -> Column:
    """The numbers from each start on, as many as its count says, one run behind the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    runs: Column = np.arange(total) - np.repeat(ends - counts - starts, counts)
    return runs


def narrow(codes: Column) -> Column:
    """The same codes in the narrowest unsigned type."""
    most = int(codes.max()) if len(codes) else 0
    return codes.astype(np.min_scalar_type(most), copy=False)


@dataclass(frozen=True)
class Table:
    """Columns of codes; rows are distinct and sorted, the last column fastest."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    length: int

    @property
    def codes(self) -> dict[str, Column]:
        return dict(zip(self.names, self.columns, strict=True))

    @property
    def width(self) -> int:
        """Bytes of a row."""
        return sum(column.itemsize for column in self.columns)

    def kept(self, mask: Column) -> Table:
        """The rows that *mask* is true for."""
        at = np.flatnonzero(mask)
        return self if len(at) == self.length else self.take(at)

    def take(self, at: Column) -> Table:
        return Table(self.names, tuple(column[at] for column in self.columns), len(at))

    def groups(self, columns: int) -> tuple[Column, Column]:
        """Runs of rows that agree in the first *columns* columns: where they start, how long."""
        new = np.zeros(self.length, dtype=np.bool_)
        new[:1] = True
        for column in self.columns[:columns]:
            new[1:] |= column[1:] != column[:-1]
        starts = np.flatnonzero(new)
        return starts, np.diff(starts, append=self.length)

    def appended(self, name: str, choices: Choices) -> Table:
        """With one more column, the fastest."""
        names = (*self.names, name)
        if choices.starts is None and choices.codes is not None:
            times = len(choices.codes)
            columns = [np.repeat(column, times) for column in self.columns]
            codes = np.tile(choices.codes, self.length)
        else:
            parents, codes = choices.spread(self.length)
            columns = [column[parents] for column in self.columns]
        return Table(names, (*columns, narrow(codes)), len(codes))

    def inserted(
        self, name: str, at: int, groups: tuple[Column, Column], choices: Choices
    ) -> Table:
        """With one more column as number *at*; each of the *groups* before it has its choices."""
        starts, lengths = groups
        parents, codes = choices.spread(len(starts))
        times = lengths[parents]
        rows = stretches(starts[parents], times)
        columns = [column[rows] for column in self.columns]
        columns.insert(at, narrow(np.repeat(codes, times)))
        return Table((*self.names[:at], name, *self.names[at:]), tuple(columns), len(rows))

    def find(self, codes: Mapping[str, int]) -> int | None:
        """The number of the row with *codes*, by binary search."""
        low, high = 0, self.length
        for name, column in zip(self.names, self.columns, strict=True):
            code, part = codes[name], column[low:high]
            if code > np.iinfo(column.dtype).max:
                return None
            exact = column.dtype.type(code)
            low, high = (
                low + int(np.searchsorted(part, exact, "left")),
                low + int(np.searchsorted(part, exact, "right")),
            )
        return low if low < high else None


UNIT = Table((), (), 1)
"""The table of no columns: there is one way to choose nothing."""


def stacked(names: tuple[str, ...], tables: Sequence[Table]) -> Table:
    """The rows of *tables*, one behind the other."""
    if len(tables) == 1:
        return tables[0]
    columns = (
        np.concatenate([np.zeros(0, np.uint8), *(table.columns[i] for table in tables)])
        for i in range(len(names))
    )
    return Table(names, tuple(columns), sum(table.length for table in tables))
