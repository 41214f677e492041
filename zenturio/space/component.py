"""The factors of a space: each knows its size, its points by number, and their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from zenturio.space.blocks import Blocks
from zenturio.space.components import Part
from zenturio.space.domain import Column
from zenturio.space.join import Progress
from zenturio.space.table import Overfull, Table, stacked

HELD = 1 << 29
"""A table of at most so many bytes is kept in memory; more is joined again block by block."""

FEW = 4096
"""Up to so many combinations are looked up one by one, not made a table of all for."""

_INT64 = 1 << 63
_STEP = 1 << 16


class Component(Protocol):
    """Dimensions that share constraints, and the combinations of them that are valid."""

    @property
    def part(self) -> Part: ...

    @property
    def size(self) -> int:
        """How many valid combinations there are."""
        ...

    @property
    def known(self) -> bool:
        """Whether the size is known without much work."""
        ...

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        """The columns of codes of the combinations with these numbers."""
        ...

    def find(self, codes: dict[str, int]) -> int | None:
        """The number of the combination with *codes*; ``None`` if it is not valid."""
        ...

    def tables(self) -> Iterator[tuple[Column, ...]]:
        """The columns of codes of all combinations, in order, in pieces."""
        ...


class Line:
    """One dimension that takes every value of its set: nothing is ever written out."""

    known = True

    def __init__(self, part: Part) -> None:
        self.part = part
        domain = part.dimensions[0].domain
        assert domain is not None, "a dimension has a set"
        self.size = domain.size
        self._kind = np.min_scalar_type(self.size - 1)

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        if isinstance(rows, range) and self.size < _INT64:
            return (np.arange(rows.start, rows.stop, rows.step).astype(self._kind),)
        return (np.asarray(rows, dtype=self._kind),)

    def find(self, codes: dict[str, int]) -> int | None:
        (code,) = codes.values()
        return code

    def tables(self) -> Iterator[tuple[Column, ...]]:
        for start in range(0, self.size, _STEP):
            stop = min(start + _STEP, self.size)
            yield self.codes(range(start, stop))


class Joined:
    """Dimensions that meet: a table if it can be held, else a diagram, or blocks of those."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self._blocks = Blocks(part)

    @cached_property
    def size(self) -> int:
        if self._whole is not None:
            return self._whole.length
        diagram = self._blocks.diagram
        if diagram is not None:
            return diagram.size
        return self._blocks.count() if self._table is None else self._table.length

    @property
    def known(self) -> bool:
        return "size" in self.__dict__ or self._whole is not None

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        if len(rows) <= FEW and self._whole is None and self._blocks.diagram is not None:
            return self._by_diagram(rows)
        if self._table is None:
            return self._by_diagram(rows)
        if isinstance(rows, range) and rows.step == 1:
            return self._table.cut(rows.start, rows.stop).columns
        return self._table.take(np.asarray(rows, dtype=np.intp)).columns

    def _by_diagram(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        numbers = np.array(rows, dtype=np.int64 if self.size < _INT64 else np.object_)
        order = np.argsort(numbers, kind="stable")
        ascending = numbers[order]
        tables, done = [], 0
        while done < len(order):
            first, diagram = self._blocks.locate(int(ascending[done]))
            end = int(np.searchsorted(ascending, first + diagram.size))
            tables.append(diagram.table(ascending[done:end] - first))
            done = end
        back = np.empty(len(order), dtype=np.intp)
        back[order] = np.arange(len(order))
        return stacked(self.part.names, tables).take(back).columns

    def find(self, codes: dict[str, int]) -> int | None:
        held = self.__dict__.get("_table", self._whole)
        return self._blocks.find(codes) if held is None else held.find(codes)

    def tables(self) -> Iterator[tuple[Column, ...]]:
        held = self.__dict__.get("_table", self._whole)
        if held is not None:
            yield held.columns
        else:
            yield from (table.columns for table in self._blocks.join.walk({}, Progress()))

    @cached_property
    def _whole(self) -> Table | None:
        """All combinations, if they can be joined at once."""
        try:
            return self._blocks.table()
        except Overfull:
            return None

    @cached_property
    def _table(self) -> Table | None:
        """All combinations, if they can be held: given up once it is seen that they cannot."""
        if self._whole is not None:
            return self._whole
        diagram = self._blocks.diagram
        if diagram is not None and diagram.size * len(self.part.names) > HELD:
            return None
        tables: list[Table] = []
        held, progress = 0, Progress()
        for table in self._blocks.join.walk({}, progress):
            tables.append(table)
            held += table.length * table.width
            if held > HELD or progress.is_hopeless:
                return None
            if held > HELD // 16 and held > 4 * HELD * progress.share:
                return None
        return stacked(self.part.names, tables)


class Piece:
    """Some combinations of a part, as they come when it is walked."""

    known = True

    def __init__(self, part: Part, columns: tuple[Column, ...]) -> None:
        self.part = part
        self.columns = columns
        self.size = len(columns[0])

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        at = np.asarray(rows, dtype=np.intp)
        return tuple(column[at] for column in self.columns)

    def find(self, codes: dict[str, int]) -> int | None:
        return Table(self.part.names, self.columns, self.size).find(codes)

    def tables(self) -> Iterator[tuple[Column, ...]]:
        yield self.columns


def component(part: Part) -> Component:
    """The component that *part* makes."""
    return Line(part) if part.plain else Joined(part)
