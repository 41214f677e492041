"""Tables of codes whose rows are in lexicographic order, and how they grow by a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

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

    codes: Column | range | None
    starts: Column | None = None
    counts: Column | None = None

    def total(self, rows: int) -> int:
        """How many rows *rows* rows become."""
        if self.counts is not None:
            return int(self.counts.sum())
        assert self.codes is not None, "codes, or where they start"
        return rows * len(self.codes)

    @property
    def ends(self) -> tuple[int, int]:
        """The first code, and the one behind the last, beside the only row, which has some."""
        if isinstance(self.codes, range):
            return self.codes.start, self.codes.stop
        if self.starts is None or self.counts is None:
            return int(self.listed[0]), int(self.listed[-1]) + 1
        low, high = int(self.starts[0]), int(self.starts[0] + self.counts[0])
        if self.codes is None:
            return low, high
        return int(self.listed[low]), int(self.listed[high - 1]) + 1

    @property
    def listed(self) -> Column:
        """The *codes* as an array."""
        assert self.codes is not None, "codes, or where they start"
        if isinstance(self.codes, range):
            kind = np.min_scalar_type(max(self.codes.stop - 1, 0))
            return np.arange(self.codes.start, self.codes.stop).astype(kind)
        return self.codes

    def at(self, rows: Column, places: Column) -> Column:
        """The codes that stand at *places* among the choices of *rows*."""
        if self.starts is None:
            return (
                places + self.codes.start if isinstance(self.codes, range) else self.listed[places]
            )
        found = self.starts.take(rows) + places
        return found if self.codes is None else self.listed.take(found)

    def rank(self, row: int, code: int) -> int | None:
        """At which place *code* stands among the choices of *row*."""
        codes: Column | range
        if self.starts is None or self.counts is None:
            codes = self.codes if isinstance(self.codes, range) else self.listed
        else:
            low, high = int(self.starts[row]), int(self.starts[row] + self.counts[row])
            codes = range(low, high) if self.codes is None else self.listed[low:high]
        if isinstance(codes, range):
            return code - codes.start if code in codes else None
        at = int(np.searchsorted(codes.astype(np.int64), code))
        return at if at < len(codes) and codes[at] == code else None

    def spread(self, rows: int) -> tuple[Column, Column]:
        """For each row that they become: the row that it comes from, and the new code."""
        if self.starts is None or self.counts is None:
            codes = self.listed
            return np.repeat(np.arange(rows), len(codes)), np.tile(codes, rows)
        parents, at = stretched(self.starts, self.counts)
        return parents, at if self.codes is None else self.listed.take(at)


def origins(counts: Column) -> Column:
    """For rows of which the first *counts* come from 0, the next from 1, ...: where each is from.

    What ``np.repeat(np.arange(len(counts)), counts)`` says, in half the time.
    """
    present = np.flatnonzero(counts)
    if len(present) < len(counts):
        return present.take(origins(counts.take(present)))
    ends = np.cumsum(counts)
    marks = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.intp)
    marks[ends[:-1]] = 1
    return np.cumsum(marks, out=marks)


def stretched(starts: Column, counts: Column) -> tuple[Column, Column]:
    """The numbers from each start on, as many as its count says; and which start each is from."""
    parents = origins(counts)
    shifts = starts - np.cumsum(counts) + counts
    numbers = np.arange(len(parents))
    numbers += shifts.take(parents)
    return parents, numbers


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
        return Table(self.names, tuple(column.take(at) for column in self.columns), len(at))

    def cut(self, start: int, stop: int) -> Table:
        """The rows from *start* to before *stop*."""
        columns = tuple(column[start:stop] for column in self.columns)
        return Table(self.names, columns, min(stop, self.length) - start)

    @property
    def none(self) -> Table:
        """The same columns without rows."""
        return self.cut(0, 0)

    def parts(self, rows: int, columns: int) -> list[Table]:
        """Parts of about so many *rows*; rows that agree in the first *columns* stay together."""
        cuts = np.arange(rows, self.length, rows)
        if columns < len(self.columns):
            starts, _ = self.groups(columns)
            later = np.searchsorted(starts, cuts)
            cuts = np.unique(starts[later[later < len(starts)]])
        ends = [0, *cuts.tolist(), self.length]
        return [self.cut(start, stop) for start, stop in pairwise(ends)]

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
        if choices.starts is None:
            once = choices.listed
            columns = [np.repeat(column, len(once)) for column in self.columns]
            codes = np.tile(once, self.length)
        else:
            parents, codes = choices.spread(self.length)
            columns = [column.take(parents) for column in self.columns]
        return Table(names, (*columns, narrow(codes)), len(codes))

    def inserted(
        self, name: str, at: int, groups: tuple[Column, Column], choices: Choices
    ) -> Table:
        """With one more column as number *at*; each of the *groups* before it has its choices."""
        starts, lengths = groups
        parents, codes = choices.spread(len(starts))
        sources, rows = stretched(starts.take(parents), lengths.take(parents))
        columns = [column.take(rows) for column in self.columns]
        columns.insert(at, narrow(codes).take(sources))
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
