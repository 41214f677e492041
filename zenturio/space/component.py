"""The factors of a space: each knows its size and maps numbers to combinations and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Protocol

import numpy as np

from zenturio.space.block_tree import BlockTree
from zenturio.space.code_table import CodeTable, stacked
from zenturio.space.domain import Column
from zenturio.space.independent_parts import Part
from zenturio.space.join import Progress

MAX_TABLE_BYTES = 1 << 29
"""Tables up to this many bytes are kept in memory; larger parts are joined block by block."""

MAX_EAGER_CODES = 1 << 23
"""A table is built at once if that takes at most this many codes, dropped ones included."""

MAX_LOOKUPS = 4096
"""Up to this many combinations are looked up one by one instead of building the table."""

_INT64 = 1 << 63
_LENGTH = attrgetter("length")
_STEP = 1 << 16


class Component(Protocol):
    """The valid combinations of dimensions that share constraints."""

    @property
    def part(self) -> Part: ...

    @property
    def size(self) -> int:
        """The number of valid combinations."""
        ...

    @property
    def known(self) -> bool:
        """Whether the size is known already, or cheap to compute."""
        ...

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        """Return the columns of codes of the combinations with numbers *rows*."""
        ...

    def find(self, codes: dict[str, int]) -> int | None:
        """Return the number of the combination with *codes*; ``None`` if it is not valid."""
        ...

    def tables(self) -> Iterator[CodeTable]:
        """Yield all combinations in order, as tables."""
        ...


class FreeComponent:
    """One dimension without constraints: nothing is listed."""

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

    def tables(self) -> Iterator[CodeTable]:
        for start in range(0, self.size, _STEP):
            stop = min(start + _STEP, self.size)
            yield CodeTable(self.part.names, self.codes(range(start, stop)), stop - start)


class JoinedComponent:
    """Dependent dimensions: a table if it fits into memory, else a decision diagram or blocks."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self._blocks = BlockTree(part)
        self._start()

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
        if len(rows) <= MAX_LOOKUPS and self._whole is None and self._blocks.diagram is not None:
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

    def tables(self) -> Iterator[CodeTable]:
        held = self.__dict__.get("_table", self._whole)
        if held is not None:
            yield held
        else:
            yield from filter(_LENGTH, self._blocks.join.walk({}, Progress()))

    @cached_property
    def _whole(self) -> CodeTable | None:
        """The table of all combinations if it is cheap, else None."""
        return self._joined(MAX_EAGER_CODES)

    @cached_property
    def _table(self) -> CodeTable | None:
        """The table of all combinations if it fits into memory, else None."""
        if self._whole is not None:
            return self._whole
        diagram = self._blocks.diagram
        small = diagram is None or diagram.size * len(self.part.names) <= MAX_TABLE_BYTES
        table = self._joined(math.inf) if small else None
        self._walked.clear()
        return table

    def _start(self) -> None:
        """Start the join; its progress is kept between calls of ``_joined``."""
        self._progress = Progress()
        self._walk = self._blocks.join.walk({}, self._progress)
        self._walked: list[CodeTable] = []

    def _joined(self, most: float) -> CodeTable | None:
        """Return all combinations; None if that takes more than *most* codes or too much memory."""
        try:
            complete = self._continue(most)
        except BaseException:
            self._start()  # an interrupted generator would look exhausted
            raise
        if not complete:
            return None
        table = stacked(self.part.names, self._walked)
        self._walked = []
        return table

    def _continue(self, most: float) -> bool:
        progress = self._progress
        held = sum(table.length * table.width for table in self._walked)
        for table in self._walk:
            if table.length:
                self._walked.append(table)
            held += table.length * table.width
            if progress.codes > most or held > MAX_TABLE_BYTES or progress.is_hopeless:
                return False
            if held > MAX_TABLE_BYTES // 16 and held > 4 * MAX_TABLE_BYTES * progress.share:
                return False
        return True


class TableComponent:
    """A table of some combinations of a part, as one step of a walk."""

    known = True

    def __init__(self, part: Part, table: CodeTable) -> None:
        self.part = part
        self.table = table
        self.size = table.length

    def codes(self, rows: Sequence[int] | Column) -> tuple[Column, ...]:
        return self.table.take(np.asarray(rows, dtype=np.intp)).columns

    def find(self, codes: dict[str, int]) -> int | None:
        return self.table.find(codes)

    def tables(self) -> Iterator[CodeTable]:
        yield self.table


def component_of(part: Part) -> Component:
    """Return the component that *part* makes."""
    return FreeComponent(part) if part.plain else JoinedComponent(part)
