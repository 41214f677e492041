"""The product of components, in mixed radix: the first is slowest, the last is fastest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from operator import mul

import numpy as np

from zenturio.space.component import Component, Piece
from zenturio.space.domain import Column

Codes = dict[str, Column]

_INT64 = 1 << 63

FIRST, BATCH = 256, 4096
"""How many points are made at once: few at first, so that a walk begins at once."""


class Product:
    """All combinations of the combinations of *components*."""

    def __init__(self, components: Sequence[Component]) -> None:
        self.components = tuple(components)

    @cached_property
    def size(self) -> int:
        return math.prod(each.size for each in self.components)

    @cached_property
    def _strides(self) -> list[int]:
        """How many points there are to one step of each component."""
        sizes = (each.size for each in reversed(self.components[1:]))
        return list(accumulate(sizes, mul, initial=1))[::-1] if self.components else []

    def stretch(self, start: int, stop: int) -> Codes:
        """The codes of points number *start* to before *stop*."""
        codes: Codes = {}
        for each, stride in zip(self.components, self._strides, strict=True):
            rows, times = _runs(start, stop, stride, each.size)
            for name, column in zip(each.part.names, each.codes(rows), strict=True):
                codes[name] = column if times is None else np.repeat(column, times)
        return codes

    def picked(self, numbers: Sequence[int]) -> Codes:
        """The codes of the points with these *numbers*."""
        codes: Codes = {}
        for each, stride in zip(self.components, self._strides, strict=True):
            rows = [number // stride % each.size for number in numbers]
            codes.update(zip(each.part.names, each.codes(rows), strict=True))
        return codes

    def find(self, codes: dict[str, int]) -> int | None:
        """The number of the point with *codes*."""
        number = 0
        for each in self.components:
            row = each.find({name: codes[name] for name in each.part.names})
            if row is None:
                return None
            number = number * each.size + row
        return number

    def walk(self) -> Iterator[tuple[Codes, int]]:
        """The codes of all points, in order, in batches; nothing is counted that need not be."""
        unknown = [at for at, each in enumerate(self.components) if not each.known]
        if not unknown:
            yield from self._count_through()
            return
        head, rest = self.components[0], Product(self.components[1:])
        for table in head.tables():
            piece = Piece(head.part, table)
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
    """The rows of a component in points *start* to *stop*, and how often each is repeated."""
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
