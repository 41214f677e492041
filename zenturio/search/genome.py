"""A space as rows of whole numbers, one gene for each choice, and back as points and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from zenturio.errors import SpaceError
from zenturio.search.factors import Column, Factor, Ints, Table, factor_of
from zenturio.search.region import Region
from zenturio.space import Point, Space
from zenturio.space.sampling import Lot


class Genome:
    """Every valid point of *space* as a row of genes; any row can be repaired to a valid one."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        self.space = space
        self._factors: list[Factor] = []
        for part in space.factors:
            if not isinstance(part, Lot) and not part.size:
                raise SpaceError(
                    "no point keeps all constraints", hint="let the sets hold more, or demand less"
                )
            if part.part.dimensions:
                self._factors.append(factor_of(part, seed))
        ends = np.cumsum([len(each.sizes) for each in self._factors], dtype=np.int64).tolist()
        self._spans = [
            slice(end - len(each.sizes), end) for each, end in zip(self._factors, ends, strict=True)
        ]

    @cached_property
    def sizes(self) -> Ints:
        """How many values each gene has."""
        return np.array([size for each in self._factors for size in each.sizes], dtype=np.int64)

    @cached_property
    def ordered(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which genes are near in meaning where they are near in number."""
        return np.array([yes for each in self._factors for yes in each.ordered], dtype=np.bool_)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The dimension that each gene is of; empty if it stands for several."""
        return tuple(name for each in self._factors for name in each.of)

    @property
    def length(self) -> int:
        """How many genes there are."""
        return len(self.sizes)

    @cached_property
    def count(self) -> int | None:
        """How many points there are; None: more than can be told apart."""
        counts = [each.count for each in self._factors]
        known = [count for count in counts if count is not None]
        return math.prod(known) if len(known) == len(counts) else None

    @property
    def free(self) -> bool:
        """Whether every row of genes is valid as it is."""
        return not any(isinstance(each, Table | Region) for each in self._factors)

    def drawn(self, rng: np.random.Generator, length: int) -> Ints:
        """Rows by chance, each valid one as likely as any other."""
        return self._joined([each.drawn(rng, length) for each in self._factors], length)

    def scattered(self, rng: np.random.Generator, length: int) -> Ints:
        """Rows by chance, gene by gene: a kind that few points have is as likely as others."""
        return self.repaired(rng.integers(self.sizes, size=(length, self.length)))

    def numbered(self, numbers: Ints) -> Ints:
        """Rows by number, in the order of the space's components, the last of them fastest."""
        blocks: list[Ints] = []
        for each in reversed(self._factors):
            assert each.count is not None, "asked only where there is a number of points"
            blocks.append(each.numbered(numbers % each.count))
            numbers = numbers // each.count
        return self._joined(blocks[::-1], len(numbers))

    def repaired(self, genes: Ints) -> Ints:
        """The valid rows nearest to *genes*, which may be anything."""
        genes = np.clip(genes, 0, self.sizes - 1)
        if self.free:
            return genes
        blocks = [
            each.repaired(genes[:, span])
            for each, span in zip(self._factors, self._spans, strict=True)
        ]
        return self._joined(blocks, len(genes))

    def points(self, genes: Ints) -> list[Point]:
        """The points that valid rows stand for."""
        return self.space.decoded(self._codes(genes), len(genes))

    def columns(self, genes: Ints) -> dict[str, Column]:
        """The same as an array of values for each parameter."""
        return self.space.decoded_columns(self._codes(genes), len(genes))

    def row(self, point: Mapping[str, Any]) -> Ints:
        """The genes of *point*; SpaceError if it is none of the space."""
        codes = self.space.codes(point)
        genes: list[int] = []
        for each in self._factors:
            genes += each.find({name: codes[name] for name in each.names})
        return np.array(genes, dtype=np.int64)

    def _codes(self, genes: Ints) -> dict[str, Column]:
        codes: dict[str, Column] = {}
        for each, span in zip(self._factors, self._spans, strict=True):
            codes.update(zip(each.names, each.codes(genes[:, span]), strict=True))
        return codes

    def _joined(self, blocks: list[Ints], length: int) -> Ints:
        whole = np.empty((length, self.length), dtype=np.int64)
        for block, span in zip(blocks, self._spans, strict=True):
            whole[:, span] = block
        return whole
