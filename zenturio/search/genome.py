"""A space as rows of integers, one gene for each choice, and back as points and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np

from zenturio.errors import SpaceError
from zenturio.search.conditional_genes import ConditionalGenes
from zenturio.search.gene_encoding import (
    Column,
    DiagramGenes,
    GeneBlock,
    Ints,
    TabulatedGenes,
    gene_block_of,
)
from zenturio.space import Point, Space
from zenturio.space.component import RejectionSampler


class Genome:
    """Encodes the points of a space as rows of genes; any row can be repaired to a valid one."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        self.space = space
        self._blocks: list[GeneBlock] = []
        for part in space.factors:
            if not isinstance(part, RejectionSampler) and not part.size:
                raise SpaceError(
                    "no point meets all constraints",
                    hint="add values to the sets, or relax a constraint",
                )
            if part.part.dimensions:
                self._blocks.append(gene_block_of(part, seed))
        ends = np.cumsum([len(block.sizes) for block in self._blocks], dtype=np.int64).tolist()
        self._spans = [
            slice(end - len(block.sizes), end)
            for block, end in zip(self._blocks, ends, strict=True)
        ]

    @property
    def blocks(self) -> list[tuple[GeneBlock, slice]]:
        """The independent blocks, and which genes each of them has."""
        return list(zip(self._blocks, self._spans, strict=True))

    @cached_property
    def sizes(self) -> Ints:
        """The number of values of each gene."""
        return np.array([size for block in self._blocks for size in block.sizes], dtype=np.int64)

    @cached_property
    def ordered(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each gene is ordered: near numbers mean near values."""
        return np.array(
            [is_ordered for block in self._blocks for is_ordered in block.ordered], dtype=np.bool_
        )

    @cached_property
    def optional(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each gene is 0 where its dimension is inactive, and only there."""
        return np.array(
            [is_optional for block in self._blocks for is_optional in block.optional],
            dtype=np.bool_,
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The dimension of each gene; empty if it stands for several."""
        return tuple(name for block in self._blocks for name in block.of)

    @property
    def length(self) -> int:
        """The number of genes."""
        return len(self.sizes)

    @cached_property
    def count(self) -> int | None:
        """The number of points; None if it is not known or infinite."""
        counts = [block.count for block in self._blocks]
        counted = [count for count in counts if count is not None]
        return math.prod(counted) if len(counted) == len(counts) else None

    @property
    def free(self) -> bool:
        """Whether every row of genes is valid."""
        bound = (TabulatedGenes, ConditionalGenes, DiagramGenes)
        return not any(isinstance(block, bound) for block in self._blocks)

    @cached_property
    def exchanges(self) -> Ints:
        """The ordered genes of each sparse block, as pairs: one may gain what the other loses."""
        pairs: list[tuple[int, int]] = []
        for block, span in zip(self._blocks, self._spans, strict=True):
            if isinstance(block, DiagramGenes):
                ordered = [span.start + at for at in np.flatnonzero(block.ordered).tolist()]
                pairs += permutations(ordered, 2)
        return np.array(pairs, dtype=np.int64).reshape(len(pairs), 2)

    def draw(self, rng: np.random.Generator, length: int) -> Ints:
        """Return random rows, uniform over all valid points."""
        return self._joined([block.draw(rng, length) for block in self._blocks], length)

    def scatter(self, rng: np.random.Generator, length: int) -> Ints:
        """Return random rows, uniform for each gene: rare values are as likely as frequent ones.

        Rows of sparse blocks are uniform over the valid ones: of shares that add up to 100, the
        first would take half and leave nothing to the last.
        """
        rows = rng.integers(self.sizes, size=(length, self.length))
        for block, span in zip(self._blocks, self._spans, strict=True):
            if isinstance(block, DiagramGenes):
                rows[:, span] = block.draw(rng, length)
        return self.repair(rows)

    def by_number(self, numbers: Ints) -> Ints:
        """Return rows by number; the genes of the last component vary fastest."""
        columns: list[Ints] = []
        for block in reversed(self._blocks):
            assert block.count is not None, "called only where count is known"
            columns.append(block.by_number(numbers % block.count))
            numbers = numbers // block.count
        return self._joined(columns[::-1], len(numbers))

    def repair(self, genes: Ints) -> Ints:
        """Return the valid rows nearest to *genes*, which may be out of range or invalid."""
        genes = np.clip(genes, 0, self.sizes - 1)
        if self.free:
            return genes
        blocks = [
            block.repair(genes[:, span])
            for block, span in zip(self._blocks, self._spans, strict=True)
        ]
        return self._joined(blocks, len(genes))

    def moved(self, origins: Ints, targets: Ints) -> Ints:
        """Return the valid rows nearest to *targets*, steps from *origins* along ordered genes.

        A step downwards leaves an active gene active.
        """
        return self.repair(self.above(origins, targets))

    def above(self, origins: Ints, targets: Ints) -> Ints:
        """Return *targets* without genes below the lowest value that is active in *origins*."""
        # 0 stands for "inactive" where a gene is optional: a step down must not reach it by chance.
        raised: Ints = np.maximum(targets, np.minimum(origins, self.optional))
        return raised

    def points(self, genes: Ints) -> list[Point]:
        """Return the points of valid rows."""
        return self.space.decoded(self._codes(genes), len(genes))

    def columns(self, genes: Ints) -> dict[str, Column]:
        """Return the values of valid rows as one array for each parameter."""
        return self.space.decoded_columns(self._codes(genes), len(genes))

    def row(self, point: Mapping[str, Any]) -> Ints:
        """Return the genes of *point*; SpaceError if it is not in the space."""
        codes = self.space.codes(point)
        genes: list[int] = []
        for block in self._blocks:
            genes += block.find({name: codes[name] for name in block.names})
        return np.array(genes, dtype=np.int64)

    def _codes(self, genes: Ints) -> dict[str, Column]:
        codes: dict[str, Column] = {}
        for block, span in zip(self._blocks, self._spans, strict=True):
            codes.update(zip(block.names, block.codes(genes[:, span]), strict=True))
        return codes

    def _joined(self, blocks: list[Ints], length: int) -> Ints:
        whole = np.empty((length, self.length), dtype=np.int64)
        for block, span in zip(blocks, self._spans, strict=True):
            whole[:, span] = block
        return whole
