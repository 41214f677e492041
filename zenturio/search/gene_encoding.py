"""Genes of each independent component of a space, and how any values are repaired to valid ones.

A gene is an integer from 0 to below its size. Genes of ordered sets are numbered by value, whatever
the order in which the set was written, so that a step up is a larger value.
"""

from __future__ import annotations

import math
import random
from typing import Any, Protocol

import numpy as np

from zenturio.errors import SpaceError
from zenturio.search.conditional_genes import (
    ConditionalGenes,
    Trie,
    is_box,
    nearest_keys,
    newly_active,
)
from zenturio.space import Continuous, Parameter
from zenturio.space.component import Component, FreeComponent, JoinedComponent, RejectionSampler
from zenturio.space.definition import Part
from zenturio.space.domain import Elements
from zenturio.space.join import EDGES, DecisionDiagram
from zenturio.space.point import PointColumns

Ints = np.ndarray[Any, np.dtype[np.int64]]
Column = np.ndarray[Any, np.dtype[Any]]

FINE = 1 << 52
"""Steps into which a continuous set is divided; its gene has one more value.

A double has 53 significant bits, so the share of a step is exact.
"""

MAX_TABLE_GENES = 1 << 26
"""Components up to this size are listed in a table (512 MB); larger ones are sampled."""

SPARSE = 1e-3
"""A smaller share of valid combinations is walked along the diagram that counted them."""

SAMPLE_SIZE = 1 << 16
"""Combinations that are sampled of a component that cannot be listed."""

_INT64 = (1 << 63) - 1


class GeneBlock(Protocol):
    """The genes of one component."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its dimensions."""
        ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each gene."""
        ...

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Whether each gene is ordered: near numbers mean near values."""
        ...

    @property
    def optional(self) -> tuple[bool, ...]:
        """Whether each gene is 0 where its dimension is inactive, and only there."""
        ...

    @property
    def of(self) -> tuple[str, ...]:
        """The dimension of each gene; empty if it stands for all of them."""
        ...

    @property
    def count(self) -> int | None:
        """The number of combinations; None if it is not known or infinite."""
        ...

    def draw(self, rng: np.random.Generator, length: int) -> Ints:
        """Return *length* valid rows, drawn uniformly."""
        ...

    def by_number(self, numbers: Ints) -> Ints:
        """Return the rows of combinations by number."""
        ...

    def repair(self, genes: Ints) -> Ints:
        """Return the valid rows nearest to *genes*."""
        ...

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        """Return the codes of each dimension for valid rows."""
        ...

    def find(self, codes: dict[str, Any]) -> list[int]:
        """Return the row of the valid combination with *codes*."""
        ...


def gene_block_of(part: Component | RejectionSampler, seed: int) -> GeneBlock:
    """Return the genes of *part*."""
    if isinstance(part, FreeComponent):
        return DiscreteGene(part)
    if isinstance(part, RejectionSampler):
        return (
            ContinuousGene(*part.part.dimensions)
            if part.part.plain
            else _unlisted_block(part, seed)
        )
    if part.size * max(len(part.part.names), 1) <= MAX_TABLE_GENES:
        return TabulatedGenes(part)
    if isinstance(part, JoinedComponent) and _is_sparse(part):
        diagram = part.diagram
        if diagram is not None and diagram.edge_count <= EDGES:
            return DiagramGenes(part, diagram)
    return _unlisted_block(RejectionSampler(part.part), seed)


def _is_sparse(part: JoinedComponent) -> bool:
    """Whether hardly any row is valid, so that nothing lies on the lines between valid ones."""
    if not is_box(part.part):
        return True
    sizes = [parameter.domain.size for parameter in part.part.dimensions if parameter.domain]
    return part.size < SPARSE * math.prod(sizes)


def _unlisted_block(lot: RejectionSampler, seed: int) -> GeneBlock:
    """Return the genes of dependent dimensions with too many combinations for a table."""
    if not is_box(lot.part):
        return SampledGenes(lot, seed)
    axes = (
        ContinuousGene(parameter)
        if isinstance(parameter.domain, Continuous)
        else DiscreteGene(FreeComponent(Part((parameter,))))
        for parameter in lot.part.dimensions
    )
    return ConditionalGenes(lot, tuple(axes), seed)


class DiscreteGene:
    """The gene of one dimension that no constraint binds."""

    def __init__(self, line: FreeComponent) -> None:
        (parameter,) = line.part.dimensions
        if line.size > _INT64:
            raise SpaceError(
                f"{parameter.name} has {line.size} values, too many for a search",
                place=parameter.place,
                hint="split it into several parameters, one for each part of the text",
            )
        self.names = self.of = line.part.names
        self.sizes = (line.size,)
        self.count = line.size
        self.optional = (False,)
        self.ordered = (parameter.domain is not None and parameter.domain.ordered,)
        self._line = line
        self._order = _order(parameter)

    def draw(self, rng: np.random.Generator, length: int) -> Ints:
        return rng.integers(self.count, size=(length, 1))

    def by_number(self, numbers: Ints) -> Ints:
        return numbers[:, None]

    def repair(self, genes: Ints) -> Ints:
        return genes

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        codes = genes[:, 0]
        return (codes if self._order is None else self._order[0][codes],)

    def find(self, codes: dict[str, Any]) -> list[int]:
        (code,) = codes.values()
        return [code if self._order is None else int(self._order[1][code])]


class ContinuousGene:
    """The gene of one continuous dimension, divided into 2**52 steps."""

    def __init__(self, parameter: Parameter) -> None:
        assert isinstance(parameter.domain, Continuous), "only continuous sets have no size"
        self.names = self.of = (parameter.name,)
        self.sizes = (FINE + 1,)
        self.count = None
        self.ordered = (True,)
        self.optional = (False,)
        self._domain = parameter.domain

    def draw(self, rng: np.random.Generator, length: int) -> Ints:
        return rng.integers(FINE + 1, size=(length, 1))

    def by_number(self, numbers: Ints) -> Ints:
        return numbers[:, None]

    def repair(self, genes: Ints) -> Ints:
        return genes

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        share = genes[:, 0] / FINE
        low, high = self._bounds
        values = low + (high - low) * share
        if self._domain.log:
            values = np.exp(values)
            # exp(log(x)) is not always x, and both bounds belong to the set.
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


class TabulatedGenes:
    """The genes of dependent dimensions whose valid combinations are listed in a table.

    There is a gene for each dimension that those before it do not determine. Repairing goes from
    the first gene to the last, and takes the nearest value that the genes before it allow.
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
        if any(_order(dimension) is not None for dimension in dimensions):
            # The trie takes rows sorted by rank; lexsort() takes its last key first.
            sorting = np.lexsort(ranked[::-1])
            columns = tuple(column[sorting] for column in columns)
            ranked = [column[sorting] for column in ranked]
        self._columns = columns
        self._trie = Trie(ranked, self.count)
        levels = self._trie.levels
        self.sizes = self._trie.sizes
        self.of = tuple(self.names[level] for level in levels)
        self.ordered = tuple(_is_ordered(dimensions[level]) for level in levels)
        self.optional = tuple(dimensions[level].when is not None for level in levels)
        self._genes = np.stack([ranked[level] for level in levels], axis=1) if levels else None
        self._part = part
        self._row = (
            None
            if all(_order(dimension) is None for dimension in dimensions)
            else {number: row for row, number in enumerate(sorting.tolist())}
        )

    def draw(self, rng: np.random.Generator, length: int) -> Ints:
        return self.by_number(rng.integers(self.count, size=length))

    def by_number(self, numbers: Ints) -> Ints:
        if self._genes is None:
            return np.zeros((len(numbers), 0), dtype=np.int64)
        return self._genes[numbers]

    def repair(self, genes: Ints) -> Ints:
        for gene in np.flatnonzero(self.optional):
            # Where the trie makes a gene inactive, it is 0 afterwards, whatever stands here.
            new = genes[:, gene] == 0
            if new.any():
                genes = genes.copy()
                genes[new, gene] = newly_active(genes[new], self.sizes[gene], int(gene))
        return self.by_number(self._trie.rows(genes))

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        rows = self._trie.rows(genes)
        return tuple(column[rows] for column in self._columns)

    def find(self, codes: dict[str, Any]) -> list[int]:
        number = self._part.find(codes)
        assert number is not None, "the point is valid"
        row = number if self._row is None else self._row[number]
        return [] if self._genes is None else self._genes[row].tolist()


class DiagramGenes:
    """The genes of dependent dimensions that a decision diagram counts, such as shares of a sum.

    Repairing goes from the first dimension to the last along the diagram, and takes the nearest
    value that leads to a valid point. A dimension that those before it determine has no gene.
    """

    def __init__(self, part: JoinedComponent, diagram: DecisionDiagram) -> None:
        dimensions = part.part.dimensions
        self.names = part.part.names
        self.count = part.size if part.size <= _INT64 else None
        self._size = part.size
        self._diagram = diagram
        self._orders = [_order(dimension) for dimension in dimensions]
        self._layers: list[tuple[Ints, Ints, Ints]] = []
        """Of each dimension: the edges' keys (state, then gene), their genes, and their states."""
        self._spans: list[int] = []
        levels = []
        for level, (layer, order) in enumerate(zip(diagram.layers, self._orders, strict=True)):
            edges = layer.edges()
            genes = edges.codes.astype(np.int64)
            genes = genes if order is None else order[1][genes]
            span = int(genes.max(initial=0)) + 1
            keys = edges.parents * span + genes
            by_key = np.argsort(keys, kind="stable")
            self._layers.append((keys[by_key], genes[by_key], edges.children[by_key]))
            self._spans.append(span)
            if len(keys) > len(np.unique(edges.parents)):
                levels.append(level)
        self._levels = tuple(levels)
        self.sizes = tuple(self._spans[level] for level in levels)
        self.of = tuple(self.names[level] for level in levels)
        self.ordered = tuple(_is_ordered(dimensions[level]) for level in levels)
        self.optional = tuple(dimensions[level].when is not None for level in levels)

    def draw(self, rng: np.random.Generator, length: int) -> Ints:
        if self.count is not None:
            return self.by_number(rng.integers(self.count, size=length))
        # More bits than the size has: the remainder favours no number by more than 2**-64.
        width = self._size.bit_length() // 8 + 9
        numbers = [int.from_bytes(rng.bytes(width)) % self._size for _ in range(length)]
        return self.by_number(np.array(numbers, dtype=np.object_))

    def by_number(self, numbers: Ints) -> Ints:
        columns = self._diagram.table(numbers).columns
        rows = [self._ranked(level, columns[level].astype(np.int64)) for level in self._levels]
        return np.stack(rows, axis=1) if rows else np.empty((len(numbers), 0), dtype=np.int64)

    def repair(self, genes: Ints) -> Ints:
        for gene in np.flatnonzero(self.optional):
            new = genes[:, gene] == 0
            if new.any():
                genes = genes.copy()
                genes[new, gene] = newly_active(genes[new], self.sizes[gene], int(gene))
        values = self._descended(genes)
        rows = [values[level] for level in self._levels]
        return np.stack(rows, axis=1) if rows else genes

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        values = zip(self._descended(genes), self._orders, strict=True)
        return tuple(value if order is None else order[0][value] for value, order in values)

    def find(self, codes: dict[str, Any]) -> list[int]:
        one = {level: np.array([codes[self.names[level]]]) for level in self._levels}
        return [int(self._ranked(level, code)[0]) for level, code in one.items()]

    def _ranked(self, level: int, codes: Ints) -> Ints:
        order = self._orders[level]
        return codes if order is None else order[1][codes]

    def _descended(self, genes: Ints) -> list[Ints]:
        """Return the values of each dimension in the valid rows nearest to *genes*."""
        targets = dict(zip(self._levels, genes.T, strict=True))
        states = np.zeros(len(genes), dtype=np.int64)
        values: list[Ints] = []
        for level, (keys, ranks, children) in enumerate(self._layers):
            span = self._spans[level]
            target = targets.get(level, states * 0)
            edges = nearest_keys(keys, span, states, np.clip(target, 0, span - 1))
            values.append(ranks.take(edges))
            states = children.take(edges)
        return values


class SampledGenes:
    """One gene for dependent dimensions that cannot be listed: the index of a sampled combination.

    The gene is not ordered: near indices say nothing about values.
    """

    def __init__(self, lot: RejectionSampler, seed: int) -> None:
        self.names = lot.part.names
        self.of = ("",)
        self.sizes = (SAMPLE_SIZE,)
        self.ordered = self.optional = (False,)
        self.count = None
        self._seen: dict[tuple[Any, ...], int] = {}
        self._batches = lot.batches(random.Random(seed))  # noqa: S311 - not for secrets
        self._columns: list[Column] = []
        self._sample_count = 0

    def draw(self, rng: np.random.Generator, length: int) -> Ints:
        return rng.integers(SAMPLE_SIZE, size=(length, 1))

    def by_number(self, numbers: Ints) -> Ints:
        return numbers[:, None] % SAMPLE_SIZE

    def repair(self, genes: Ints) -> Ints:
        return genes

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        if len(genes):
            self._extend_sample(int(genes.max()) + 1)
        return tuple(column[genes[:, 0]] for column in self._columns)

    def find(self, codes: dict[str, Any]) -> list[int]:
        target = tuple(codes[name] for name in self.names)
        for index, row in enumerate(
            zip(*(column.tolist() for column in self._columns), strict=True)
        ):
            if row == target:
                return [index]
        raise SpaceError(f"this combination of {', '.join(self.names)} was not sampled")

    def _extend_sample(self, length: int) -> None:
        """Sample until there are *length* combinations."""
        columns_by_name: list[list[Column]] = [[column] for column in self._columns] or [
            [] for _ in self.names
        ]
        while self._sample_count < length:
            rows: PointColumns = next(self._batches)
            for name, columns in zip(self.names, columns_by_name, strict=True):
                columns.append(rows.codes[name])
            self._sample_count += rows.length
        self._columns = [np.concatenate(columns) for columns in columns_by_name]


def _is_ordered(parameter: Parameter) -> bool:
    return parameter.domain is not None and parameter.domain.ordered


def _order(parameter: Parameter) -> tuple[Ints, Ints] | None:
    """Return the codes of a dimension by rank, and its ranks by code; None where they are equal.

    A range may be written downwards: its steps lead the same way everywhere, so it needs no ranks.
    """
    domain = parameter.domain
    if not isinstance(domain, Elements) or not domain.ordered:
        return None
    ranked = np.array(domain.ranked, dtype=np.int64)
    if np.array_equal(ranked, np.arange(len(ranked))):
        return None
    if parameter.when is not None:
        # With a WHEN, code 0 means inactive, and positions begin at code 1.
        ranked = np.concatenate([[0], ranked + 1])
    ranks = np.empty(len(ranked), dtype=np.int64)
    ranks[ranked] = np.arange(len(ranked))
    return ranked, ranks
