"""The product of components in mixed radix; the last component varies fastest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from operator import mul

import numpy as np

from zenturio.space.component import Component, TableComponent
from zenturio.space.domain import Column

Codes = dict[str, Column]

_INT64 = 1 << 63

FIRST, BATCH = 256, 4096
"""Points in the first and in later batches; the first is small, so that a walk starts fast."""


class Product:
    """The product of *components*."""

    def __init__(self, components: Sequence[Component]) -> None:
        self.components = tuple(components)

    @cached_property
    def size(self) -> int:
        return math.prod(each.size for each in self.components)

    @cached_property
    def _strides(self) -> list[int]:
        """The number of points for one step of each component."""
        sizes = (each.size for each in reversed(self.components[1:]))
        return list(accumulate(sizes, mul, initial=1))[::-1] if self.components else []

    def stretch(self, start: int, stop: int) -> Codes:
        """Return the codes of points number *start* to before *stop*."""
        codes: Codes = {}
        for each, stride in zip(self.components, self._strides, strict=True):
            rows, times = _runs(start, stop, stride, each.size)
            for name, column in zip(each.part.names, each.codes(rows), strict=True):
                codes[name] = column if times is None else np.repeat(column, times)
        return codes

    def picked(self, numbers: Sequence[int]) -> Codes:
        """Return the codes of the points with these *numbers*."""
        codes: Codes = {}
        for each, stride in zip(self.components, self._strides, strict=True):
            rows = [number // stride % each.size for number in numbers]
            codes.update(zip(each.part.names, each.codes(rows), strict=True))
        return codes

    def find(self, codes: dict[str, int]) -> int | None:
        """Return the number of the point with *codes*; None if it is not valid."""
        number = 0
        for each in self.components:
            row = each.find({name: codes[name] for name in each.part.names})
            if row is None:
                return None
            number = number * each.size + row
        return number

    def walk(self) -> Iterator[tuple[Codes, int]]:
        """Yield the codes of all points in order, in batches, without counting components."""
        unknown = [at for at, each in enumerate(self.components) if not each.known]
        if not unknown:
            yield from self._count_through()
            return
        head, rest = self.components[0], Product(self.components[1:])
        for table in head.tables():
            piece = TableComponent(head.part, table)
            if unknown == [0]:
                yield from Product((piece, *rest.components)).walk()
                continue
            for row in range(piece.size):
                first = dict(zip(head.part.names, piece.codes([row]), strict=True))
                for codes, length in rest.walk():
                    same = {name: np.repeat(code, length) for name, code in first.items()}
                    yield {**same, **codes}, length

    def _count_through(self) -> Iterator[tuple[Codes, int]]:
        start, batch = 0, FIRST
        while start < self.size:
            stop = min(start + batch, self.size)
            yield self.stretch(start, stop), stop - start
            start, batch = stop, BATCH


def _runs(
    start: int, stop: int, stride: int, size: int
) -> tuple[Sequence[int] | Column, Column | None]:
    """Return the rows of a component in points *start* to *stop*, and how often each repeats."""
    if start >= stop:
        return range(0), None
    first, last = start // stride, (stop - 1) // stride
    count, low = last - first + 1, first % size
    rows: Sequence[int] | Column = range(low, low + count)
    if low + count > size:
        small = size < _INT64 // 2
        rows = np.arange(low, low + count) % size if small else _turning(low, count, size)
    if stride == 1:
        return rows, None
    times = np.full(count, min(stride, stop - start), dtype=np.int64)
    times[0] = min(stop, (first + 1) * stride) - start
    if count > 1:
        times[-1] = stop - last * stride
    return rows, times


def _turning(low: int, count: int, size: int) -> list[int]:
    return [(low + i) % size for i in range(count)]
