"""The factors of a space: each knows its size, its points by number, and their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Protocol

import numpy as np

from zenturio.space.blocks import Blocks
from zenturio.space.components import Part
from zenturio.space.domain import Column
from zenturio.space.join import Progress
from zenturio.space.table import Table, stacked

HELD = 1 << 29
"""A table of at most so many bytes is kept in memory; more is joined again block by block."""

AT_ONCE = 1 << 23
"""A table is made at once if that takes no more codes than these, those dropped on the way too."""

FEW = 4096
"""Up to so many combinations are looked up one by one, not made a table of all for."""

_INT64 = 1 << 63
_LENGTH = attrgetter("length")
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

    def tables(self) -> Iterator[Table]:
        """All combinations, in order, in tables."""
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

    def tables(self) -> Iterator[Table]:
        for start in range(0, self.size, _STEP):
            stop = min(start + _STEP, self.size)
            yield Table(self.part.names, self.codes(range(start, stop)), stop - start)


class Joined:
    """Dimensions that meet: a table if it can be held, else a diagram, or blocks of those."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self._blocks = Blocks(part)
        self._begin()

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

    def tables(self) -> Iterator[Table]:
        held = self.__dict__.get("_table", self._whole)
        if held is not None:
            yield held
        else:
            yield from filter(_LENGTH, self._blocks.join.walk({}, Progress()))

    @cached_property
    def _whole(self) -> Table | None:
        """All combinations, if they are had with little work."""
        return self._joined(AT_ONCE)

    @cached_property
    def _table(self) -> Table | None:
        """All combinations, if they can be held: given up once it is seen that they cannot."""
        if self._whole is not None:
            return self._whole
        diagram = self._blocks.diagram
        small = diagram is None or diagram.size * len(self.part.names) <= HELD
        table = self._joined(math.inf) if small else None
        self._walked.clear()
        return table

    def _begin(self) -> None:
        """Begins to join all combinations; what is joined is kept from one look to the next."""
        self._progress = Progress()
        self._walk = self._blocks.join.walk({}, self._progress)
        self._walked: list[Table] = []

    def _joined(self, most: float) -> Table | None:
        """All combinations, unless that takes more codes than *most*, or they cannot be held."""
        try:
            complete = self._go_on(most)
        except BaseException:
            self._begin()  # a walk that was broken off would seem to be at its end
            raise
        if not complete:
            return None
        table = stacked(self.part.names, self._walked)
        self._walked = []
        return table

    def _go_on(self, most: float) -> bool:
        progress = self._progress
        held = sum(table.length * table.width for table in self._walked)
        for table in self._walk:
            if table.length:
                self._walked.append(table)
            held += table.length * table.width
            if progress.codes > most or held > HELD or progress.is_hopeless:
                return False
            if held > HELD // 16 and held > 4 * HELD * progress.share:
                return False
        return True


class Piece:
    """Some combinations of a part, as they come when it is walked."""

    known = True

    def __init__(self, part: Part, table: Table) -> None:
        self.part = part
        self.table = table
        self.size = table.length

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        return self.table.take(np.asarray(rows, dtype=np.intp)).columns

    def find(self, codes: dict[str, int]) -> int | None:
        return self.table.find(codes)

    def tables(self) -> Iterator[Table]:
        yield self.table


def component(part: Part) -> Component:
    """The component that *part* makes."""
    return Line(part) if part.plain else Joined(part)
