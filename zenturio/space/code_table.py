"""Tables of codes with sorted rows, and how a column is joined to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from zenturio.space.domain import Column


class TooManyRows(Exception):
    """A table would exceed its limit of rows."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


@dataclass(frozen=True)
class Choices:
    """The codes of a new column for each row.

    Without *starts* every row takes all *codes*; else row r takes ``counts[r]`` of them, from
    ``starts[r]`` on. Without *codes*, these are the codes themselves.
    """

    codes: Column | range | None
    starts: Column | None = None
    counts: Column | None = None

    def total(self, rows: int) -> int:
        """Return the number of rows that *rows* rows become."""
        if self.counts is not None:
            return int(self.counts.sum())
        assert self.codes is not None, "codes, or where they start"
        return rows * len(self.codes)

    @property
    def ends(self) -> tuple[int, int]:
        """The half-open interval of the codes of a single row with choices."""
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
            # Narrow codes: a table of millions of rows is read from memory again and again.
            kind = np.min_scalar_type(max(self.codes.stop - 1, 0))
            return np.arange(self.codes.start, self.codes.stop).astype(kind)
        return self.codes

    def at(self, rows: Column, places: Column) -> Column:
        """Return the codes at *places* among the choices of *rows*."""
        if self.starts is None:
            return (
                places + self.codes.start if isinstance(self.codes, range) else self.listed[places]
            )
        positions = self.starts.take(rows) + places
        return positions if self.codes is None else self.listed.take(positions)

    def rank(self, row: int, code: int) -> int | None:
        """Return the place of *code* among the choices of *row*; None if it is not a choice."""
        codes: Column | range
        if self.starts is None or self.counts is None:
            codes = self.codes if isinstance(self.codes, range) else self.listed
        else:
            low, high = int(self.starts[row]), int(self.starts[row] + self.counts[row])
            codes = range(low, high) if self.codes is None else self.listed[low:high]
        if isinstance(codes, range):
            return code - codes.start if code in codes else None
        # Codes are unsigned and narrow: a larger code would not fit into their type.
        at = int(np.searchsorted(codes.astype(np.int64), code))
        return at if at < len(codes) and codes[at] == code else None

    def spread(self, rows: int) -> tuple[Column, Column]:
        """Return for each new row the index of its parent row, and its code."""
        if self.starts is None or self.counts is None:
            codes = self.listed
            return np.repeat(np.arange(rows), len(codes)), np.tile(codes, rows)
        parents, at = expand_ranges(self.starts, self.counts)
        return parents, at if self.codes is None else self.listed.take(at)


def origins(counts: Column) -> Column:
    """Return ``np.repeat(np.arange(len(counts)), counts)``, in half the time."""
    # Marks of empty ranges would fall on one another; without these ranges each mark is alone.
    present = np.flatnonzero(counts)
    if len(present) < len(counts):
        return present.take(origins(counts.take(present)))
    ends = np.cumsum(counts)
    marks = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.intp)
    marks[ends[:-1]] = 1
    return np.cumsum(marks, out=marks)


def expand_ranges(starts: Column, counts: Column) -> tuple[Column, Column]:
    """Concatenate ranges of *counts* numbers from *starts*; return the index of each start, too."""
    parents = origins(counts)
    shifts = starts - np.cumsum(counts) + counts
    numbers = np.arange(len(parents))
    numbers += shifts.take(parents)
    return parents, numbers


def narrow(codes: Column) -> Column:
    """Return *codes* in the narrowest unsigned dtype."""
    most = int(codes.max()) if len(codes) else 0
    return codes.astype(np.min_scalar_type(most), copy=False)


@dataclass(frozen=True)
class EncodedTable:
    """Columns of codes; rows are distinct and sorted, the last column varies fastest."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    length: int

    @property
    def codes(self) -> dict[str, Column]:
        return dict(zip(self.names, self.columns, strict=True))

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return sum(column.itemsize for column in self.columns)

    def kept(self, mask: Column) -> EncodedTable:
        """Return the rows that *mask* is true for."""
        at = np.flatnonzero(mask)
        return self if len(at) == self.length else self.take(at)

    def take(self, at: Column) -> EncodedTable:
        return EncodedTable(self.names, tuple(column.take(at) for column in self.columns), len(at))

    def cut(self, start: int, stop: int) -> EncodedTable:
        """Return the rows from *start* to before *stop*."""
        columns = tuple(column[start:stop] for column in self.columns)
        return EncodedTable(self.names, columns, min(stop, self.length) - start)

    @property
    def none(self) -> EncodedTable:
        """The same columns without rows."""
        return self.cut(0, 0)

    def parts(self, rows: int, columns: int) -> list[EncodedTable]:
        """Split into pieces of about *rows* rows; equal prefixes of *columns* stay together."""
        # Pieces must stay sorted when they are joined further and put behind each other, so a run
        # of equal prefixes is never divided.
        cuts = np.arange(rows, self.length, rows)
        if columns < len(self.columns):
            starts, _ = self.groups(columns)
            later = np.searchsorted(starts, cuts)
            cuts = np.unique(starts[later[later < len(starts)]])
        ends = [0, *cuts.tolist(), self.length]
        return [self.cut(start, stop) for start, stop in pairwise(ends)]

    def groups(self, columns: int) -> tuple[Column, Column]:
        """Return starts and lengths of the runs of rows with equal first *columns* columns."""
        new = np.zeros(self.length, dtype=np.bool_)
        new[:1] = True
        for column in self.columns[:columns]:
            new[1:] |= column[1:] != column[:-1]
        starts = np.flatnonzero(new)
        return starts, np.diff(starts, append=self.length)

    def appended(self, name: str, choices: Choices) -> EncodedTable:
        """Return the table with one more column, which varies fastest."""
        names = (*self.names, name)
        if choices.starts is None:
            once = choices.listed
            columns = [np.repeat(column, len(once)) for column in self.columns]
            codes = np.tile(once, self.length)
        else:
            parents, codes = choices.spread(self.length)
            columns = [column.take(parents) for column in self.columns]
        return EncodedTable(names, (*columns, narrow(codes)), len(codes))

    def inserted(
        self, name: str, at: int, groups: tuple[Column, Column], choices: Choices
    ) -> EncodedTable:
        """Return the table with one more column at position *at*, with each group's *choices*."""
        starts, lengths = groups
        parents, codes = choices.spread(len(starts))
        sources, rows = expand_ranges(starts.take(parents), lengths.take(parents))
        columns = [column.take(rows) for column in self.columns]
        columns.insert(at, narrow(codes).take(sources))
        return EncodedTable((*self.names[:at], name, *self.names[at:]), tuple(columns), len(rows))

    def find(self, codes: Mapping[str, int]) -> int | None:
        """Return the number of the row with *codes* by binary search; None if it is missing."""
        low, high = 0, self.length
        for name, column in zip(self.names, self.columns, strict=True):
            code, part = codes[name], column[low:high]
            # A code beyond the narrow dtype cannot be in the column, and converting it would wrap.
            if code > np.iinfo(column.dtype).max:
                return None
            exact = column.dtype.type(code)
            low, high = (
                low + int(np.searchsorted(part, exact, "left")),
                low + int(np.searchsorted(part, exact, "right")),
            )
        return low if low < high else None


UNIT = EncodedTable((), (), 1)
"""The table without columns, which has one row."""


def stacked(names: tuple[str, ...], tables: Sequence[EncodedTable]) -> EncodedTable:
    """Concatenate the rows of *tables*."""
    if len(tables) == 1:
        return tables[0]
    columns = (
        np.concatenate([np.zeros(0, np.uint8), *(table.columns[i] for table in tables)])
        for i in range(len(names))
    )
    return EncodedTable(names, tuple(columns), sum(table.length for table in tables))
