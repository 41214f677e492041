"""Genes of dimensions that meet, whose valid combinations cannot be listed: a region of a box."""

from __future__ import annotations

import random
from typing import Any, Protocol

import numpy as np

from zenturio.space.components import Part
from zenturio.space.rows import Rows
from zenturio.space.sampling import Lot

Ints = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Column = np.ndarray[Any, np.dtype[Any]]

ANCHORS = 256
"""Valid combinations that are held: what is not valid is moved towards the nearest of them."""

HALVINGS = 24
"""How often the way to it is halved, to find where the region begins."""


class Axis(Protocol):
    """One dimension: its gene, and the code that each value of it stands for."""

    @property
    def sizes(self) -> tuple[int, ...]: ...

    @property
    def ordered(self) -> tuple[bool, ...]: ...

    def codes(self, genes: Ints) -> tuple[Column, ...]: ...

    def find(self, codes: dict[str, Any]) -> list[int]: ...


class Region:
    """Dimensions that meet and cannot be listed, each with a gene of its own.

    What is not valid is moved on a straight way to the nearest of some valid combinations, until
    it is: so what is near in genes stays near in meaning.
    """

    count = None

    def __init__(self, lot: Lot, axes: tuple[Axis, ...], seed: int) -> None:
        self.names = self.of = lot.part.names
        self.sizes = tuple(size for each in axes for size in each.sizes)
        self.ordered = tuple(yes for each in axes for yes in each.ordered)
        self._axes = axes
        self._part = lot.part
        self._lot = lot
        self._seed = seed
        self._batches = lot.batches(random.Random(seed))  # noqa: S311 - chance, not secrecy
        self._left: Ints = np.empty((0, len(axes)), dtype=np.int64)
        self._held: Ints | None = None

    def drawn(self, rng: np.random.Generator, length: int) -> Ints:
        """Ever new ones, in an order that the seed chose."""
        del rng
        while len(self._left) < length:
            self._left = np.concatenate([self._left, self._genes(next(self._batches))])
        found, self._left = self._left[:length], self._left[length:]
        return found

    def numbered(self, numbers: Ints) -> Ints:
        return self._anchors[numbers % len(self._anchors)]

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        columns = zip(self._axes, genes.T, strict=True)
        return tuple(code for axis, gene in columns for code in axis.codes(gene[:, None]))

    def find(self, codes: dict[str, Any]) -> list[int]:
        pairs = zip(self._axes, self.names, strict=True)
        return [gene for axis, name in pairs for gene in axis.find({name: codes[name]})]

    def repaired(self, genes: Ints) -> Ints:
        wrong = np.flatnonzero(~self._valid(genes))
        if not len(wrong):
            return genes
        whole = genes.copy()
        whole[wrong] = self._moved(genes[wrong])
        return whole

    def _moved(self, wishes: Ints) -> Ints:
        """The last valid combinations on the ways from anchors to *wishes*, which are not valid."""
        found = self._begun(wishes)
        ordered = np.array(self.ordered, dtype=np.bool_)
        way = np.where(ordered, wishes - found, 0)
        low, high = np.zeros(len(wishes)), np.ones(len(wishes))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            tried = found + np.rint(way * middle[:, None]).astype(np.int64)
            valid = self._valid(tried)
            low, high = np.where(valid, middle, low), np.where(valid, high, middle)
        return found + np.rint(way * low[:, None]).astype(np.int64)

    def _begun(self, wishes: Ints) -> Ints:
        """The nearest anchors; where that is valid, with what is not ordered as it is wished."""
        anchors, ordered = self._anchors, np.array(self.ordered, dtype=np.bool_)
        scale = np.maximum(np.array(self.sizes, dtype=np.float64) - 1, 1)
        nearest = np.empty(len(wishes), dtype=np.int64)
        for at, wish in enumerate(wishes):
            off = np.where(ordered, (anchors - wish) / scale, anchors != wish)
            nearest[at] = np.argmin((off**2).sum(axis=1))
        begun = anchors[nearest]
        changed = np.where(ordered, begun, wishes)
        valid = self._valid(changed)
        return np.where(valid[:, None], changed, begun)

    @property
    def _anchors(self) -> Ints:
        """Some valid combinations by chance: not those that are drawn, but from the same region."""
        if self._held is None:
            found: list[Ints] = []
            batches = self._lot.batches(random.Random(self._seed + 1))  # noqa: S311 - the same
            while sum(map(len, found)) < ANCHORS:
                found.append(self._genes(next(batches)))
            self._held = np.concatenate(found)[:ANCHORS]
        return self._held

    def _genes(self, rows: Rows) -> Ints:
        """Drawn combinations as genes; but not those that are on the border, and lost by that."""
        columns = [rows.codes[name].tolist() for name in self.names]
        each = zip(*columns, strict=True)
        listed = [self.find(dict(zip(self.names, row, strict=True))) for row in each]
        genes = np.array(listed, dtype=np.int64).reshape(len(listed), len(self.names))
        return genes[self._valid(genes)]

    def _valid(self, genes: Ints) -> Mask:
        """Which combinations keep all conditions, each asked where those before it hold."""
        codes = dict(zip(self.names, self.codes(genes), strict=True))
        rows = Rows(self._part.parameters, codes, len(genes))
        left = np.arange(len(genes))
        for condition in self._part.conditions:
            kept = rows.kept(condition.expression)
            rows, left = rows.where(kept), left[kept]
        valid = np.zeros(len(genes), dtype=np.bool_)
        valid[left] = True
        return valid


def is_box(part: Part) -> bool:
    """Whether each dimension has its own set everywhere, so that only conditions bind them."""
    return not part.zips and all(
        each.when is None and not part.needs[each.name] - {each.name} for each in part.dimensions
    )
