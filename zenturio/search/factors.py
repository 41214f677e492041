"""Genes of each independent part of a space: whatever they are changed to, they can be repaired.

A gene is a whole number from 0 to below its size. Genes of ordered sets count by value, whatever
the order in which the set was written; so a step up is a larger value.
"""

from __future__ import annotations

import random
from typing import Any, Protocol

import numpy as np

from zenturio.errors import SpaceError
from zenturio.search.region import Region, is_box
from zenturio.search.trie import Trie
from zenturio.space import Continuous, Parameter
from zenturio.space.component import Component, Line
from zenturio.space.components import Part
from zenturio.space.domain import Elements
from zenturio.space.rows import Rows
from zenturio.space.sampling import Lot

Ints = np.ndarray[Any, np.dtype[np.int64]]
Column = np.ndarray[Any, np.dtype[Any]]

FINE = 1 << 52
"""A continuous set is so many steps; its genes are one more."""

HELD = 1 << 26
"""A table of at most so many genes is held; of a larger part, combinations are drawn."""

DRAWN = 1 << 16
"""How many combinations are drawn of a part that cannot be held."""

_INT64 = (1 << 63) - 1


class Factor(Protocol):
    """The genes of one part."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its dimensions."""
        ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each gene has."""
        ...

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Which genes are near in meaning where they are near in number."""
        ...

    @property
    def of(self) -> tuple[str, ...]:
        """The dimension that each gene is of; empty if it stands for all of them."""
        ...

    @property
    def count(self) -> int | None:
        """How many combinations there are; None: more than can be told apart."""
        ...

    def drawn(self, rng: np.random.Generator, length: int) -> Ints:
        """The genes of valid combinations, each as likely as any other."""
        ...

    def numbered(self, numbers: Ints) -> Ints:
        """The genes of combinations by number."""
        ...

    def repaired(self, genes: Ints) -> Ints:
        """The valid combinations nearest to *genes*."""
        ...

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        """The codes of the dimensions in valid combinations."""
        ...

    def find(self, codes: dict[str, Any]) -> list[int]:
        """The genes of the valid combination with *codes*."""
        ...


def factor_of(part: Component | Lot, seed: int) -> Factor:
    """The genes of *part*."""
    if isinstance(part, Line):
        return Free(part)
    if isinstance(part, Lot):
        return Real(*part.part.dimensions) if part.part.plain else _unlisted(part, seed)
    if part.size * max(len(part.part.names), 1) > HELD:
        return _unlisted(Lot(part.part), seed)
    return Table(part)


def _unlisted(lot: Lot, seed: int) -> Factor:
    """The genes of dimensions that meet, where there are too many combinations for a table."""
    if not is_box(lot.part):
        return Draws(lot, seed)
    axes = (
        Real(each) if isinstance(each.domain, Continuous) else Free(Line(Part((each,))))
        for each in lot.part.dimensions
    )
    return Region(lot, tuple(axes), seed)


class Free:
    """One dimension that takes every value of its set."""

    def __init__(self, line: Line) -> None:
        (parameter,) = line.part.dimensions
        if line.size > _INT64:
            raise SpaceError(
                f"{parameter.name} has {line.size} values, too many for a search",
                place=parameter.place,
                hint="make it of several parameters, one for each part of the text",
            )
        self.names = self.of = line.part.names
        self.sizes = (line.size,)
        self.count = line.size
        self.ordered = (parameter.domain is not None and parameter.domain.ordered,)
        self._line = line
        self._order = _order(parameter)

    def drawn(self, rng: np.random.Generator, length: int) -> Ints:
        return rng.integers(self.count, size=(length, 1))

    def numbered(self, numbers: Ints) -> Ints:
        return numbers[:, None]

    def repaired(self, genes: Ints) -> Ints:
        return genes

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        codes = genes[:, 0]
        return (codes if self._order is None else self._order[0][codes],)

    def find(self, codes: dict[str, Any]) -> list[int]:
        (code,) = codes.values()
        return [code if self._order is None else int(self._order[1][code])]


class Real:
    """One continuous dimension, in steps that nobody notices."""

    def __init__(self, parameter: Parameter) -> None:
        assert isinstance(parameter.domain, Continuous), "what else has no size"
        self.names = self.of = (parameter.name,)
        self.sizes = (FINE + 1,)
        self.count = None
        self.ordered = (True,)
        self._domain = parameter.domain

    def drawn(self, rng: np.random.Generator, length: int) -> Ints:
        return rng.integers(FINE + 1, size=(length, 1))

    def numbered(self, numbers: Ints) -> Ints:
        return numbers[:, None]

    def repaired(self, genes: Ints) -> Ints:
        return genes

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        share = genes[:, 0] / FINE
        low, high = self._bounds
        values = low + (high - low) * share
        if self._domain.log:
            values = np.exp(values)
            values[share == 0], values[share == 1] = self._domain.low, self._domain.high
        return (np.clip(values, self._domain.low, self._domain.high),)

    def find(self, codes: dict[str, Any]) -> list[int]:
        (value,) = codes.values()
        low, high = self._bounds
        at = np.log(value) if self._domain.log else value
        return [min(max(round((at - low) / (high - low) * FINE), 0), FINE)]

    @property
    def _bounds(self) -> tuple[float, float]:
        low, high = self._domain.low, self._domain.high
        return (float(np.log(low)), float(np.log(high))) if self._domain.log else (low, high)


class Table:
    """Dimensions that meet, all of whose valid combinations are held.

    There is a gene for each dimension that is not settled by those before it. Repairing goes
    from the first to the last and keeps each as near to what is wished as those before it allow.
    """

    def __init__(self, part: Component) -> None:
        columns = part.codes(range(part.size))
        dimensions = part.part.dimensions
        self.names = part.part.names
        self.count = part.size
        ranked = [
            column.astype(np.int64) if order is None else order[1][column].astype(np.int64)
            for column, order in zip(columns, map(_order, dimensions), strict=True)
        ]
        if any(_order(each) is not None for each in dimensions):
            sorting = np.lexsort(ranked[::-1])
            columns = tuple(column[sorting] for column in columns)
            ranked = [column[sorting] for column in ranked]
        self._columns = columns
        self._trie = Trie(ranked, self.count)
        levels = self._trie.levels
        self.sizes = self._trie.sizes
        self.of = tuple(self.names[level] for level in levels)
        self.ordered = tuple(_is_ordered(dimensions[level]) for level in levels)
        self._genes = np.stack([ranked[level] for level in levels], axis=1) if levels else None
        self._part = part
        self._row = (
            None
            if all(_order(each) is None for each in dimensions)
            else {number: row for row, number in enumerate(sorting.tolist())}
        )

    def drawn(self, rng: np.random.Generator, length: int) -> Ints:
        return self.numbered(rng.integers(self.count, size=length))

    def numbered(self, numbers: Ints) -> Ints:
        if self._genes is None:
            return np.zeros((len(numbers), 0), dtype=np.int64)
        return self._genes[numbers]

    def repaired(self, genes: Ints) -> Ints:
        return self.numbered(self._trie.rows(genes))

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        rows = self._trie.rows(genes)
        return tuple(column[rows] for column in self._columns)

    def find(self, codes: dict[str, Any]) -> list[int]:
        number = self._part.find(codes)
        assert number is not None, "the point is valid"
        row = number if self._row is None else self._row[number]
        return [] if self._genes is None else self._genes[row].tolist()


class Draws:
    """Dimensions that need each other and cannot be listed: valid combinations, drawn by chance.

    One gene says which of them; nothing is near to anything.
    """

    def __init__(self, lot: Lot, seed: int) -> None:
        self.names = lot.part.names
        self.of = ("",)
        self.sizes = (DRAWN,)
        self.ordered = (False,)
        self.count = None
        self._seen: dict[tuple[Any, ...], int] = {}
        self._batches = lot.batches(random.Random(seed))  # noqa: S311 - chance, not secrecy
        self._columns: list[Column] = []
        self._held = 0

    def drawn(self, rng: np.random.Generator, length: int) -> Ints:
        return rng.integers(DRAWN, size=(length, 1))

    def numbered(self, numbers: Ints) -> Ints:
        return numbers[:, None] % DRAWN

    def repaired(self, genes: Ints) -> Ints:
        return genes

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        if len(genes):
            self._hold(int(genes.max()) + 1)
        return tuple(column[genes[:, 0]] for column in self._columns)

    def find(self, codes: dict[str, Any]) -> list[int]:
        wanted = tuple(codes[name] for name in self.names)
        for at, row in enumerate(zip(*(column.tolist() for column in self._columns), strict=True)):
            if row == wanted:
                return [at]
        raise SpaceError(f"this combination of {', '.join(self.names)} was not drawn")

    def _hold(self, length: int) -> None:
        """Draw until there are *length* combinations."""
        drawn: list[list[Column]] = [[column] for column in self._columns] or [
            [] for _ in self.names
        ]
        while self._held < length:
            rows: Rows = next(self._batches)
            for name, columns in zip(self.names, drawn, strict=True):
                columns.append(rows.codes[name])
            self._held += rows.length
        self._columns = [np.concatenate(columns) for columns in drawn]


def _is_ordered(parameter: Parameter) -> bool:
    return parameter.domain is not None and parameter.domain.ordered


def _order(parameter: Parameter) -> tuple[Ints, Ints] | None:
    """The codes of a dimension by rank, and its ranks by code; None where they are the same.

    A range is written upwards or downwards: a step leads the same way everywhere, which will do.
    """
    domain = parameter.domain
    if not isinstance(domain, Elements) or not domain.ordered:
        return None
    ranked = np.array(domain.ranked, dtype=np.int64)
    if np.array_equal(ranked, np.arange(len(ranked))):
        return None
    if parameter.when is not None:
        ranked = np.concatenate([[0], ranked + 1])
    ranks = np.empty(len(ranked), dtype=np.int64)
    ranks[ranked] = np.arange(len(ranked))
    return ranked, ranks
