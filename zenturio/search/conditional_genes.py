"""Genes of conditional spaces: regions, and the tries that hold their values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from zenturio.space.component import RejectionSampler
from zenturio.space.definition import Part
from zenturio.space.domain import Continuous
from zenturio.space.parameter import Dependent, Parameter
from zenturio.space.point import PointColumns

Ints = np.ndarray[Any, np.dtype[np.int64]]


class Trie:
    """Rows of numbers in lexicographic order, one level for each column with a choice.

    A level holds its nodes as sorted keys: the index of the parent times the level's size, plus the
    node's own value. Many rows descend at once, with one binary search for each level.
    """

    def __init__(self, columns: Sequence[Ints], length: int) -> None:
        self._keys: list[Ints] = []
        nodes = np.zeros(length, dtype=np.int64)
        sizes, levels = [], []
        for level, column in enumerate(columns):
            size = int(column.max()) + 1
            keys = nodes * size + column
            new = np.ones(length, dtype=np.bool_)
            new[1:] = keys[1:] != keys[:-1]
            below = np.cumsum(new) - 1
            if below[-1] == nodes[-1]:
                continue  # each node has a single child: no choice
            self._keys.append(keys[new])
            sizes.append(size)
            levels.append(level)
            nodes = below
        self.sizes = tuple(sizes)
        self.levels = tuple(levels)
        """The columns whose value is not determined by the columns before them."""

    def rows(self, targets: Ints) -> Ints:
        """Return the index of the row nearest to each of *targets*.

        Nearest in the first column, then in the next; the smaller value of two equally near.
        """
        nodes = np.zeros(len(targets), dtype=np.int64)
        for keys, size, target in zip(self._keys, self.sizes, targets.T, strict=True):
            nodes = nearest_keys(keys, size, nodes, np.clip(target, 0, size - 1))
        return nodes


def nearest_keys(keys: Ints, size: int, parents: Ints, targets: Ints) -> Ints:
    """Return the index of the key of each parent whose value is nearest to its target.

    *keys* are the parent times *size* plus the value, sorted; each parent has one at least.
    """
    base = parents * size
    target_keys = base + targets
    right = np.searchsorted(keys, target_keys)
    below = np.maximum(right - 1, 0)
    right = np.minimum(right, len(keys) - 1)
    far = np.abs(keys[right] - target_keys)
    near = np.abs(keys[below] - target_keys)
    # A key outside of this interval belongs to another parent.
    far[(keys[right] < base) | (keys[right] >= base + size)] = size
    near[(keys[below] < base) | (keys[below] >= base + size)] = size
    return np.where(near <= far, below, right)


Mask = np.ndarray[Any, np.dtype[np.bool_]]
Column = np.ndarray[Any, np.dtype[Any]]

ANCHORS = 256
"""Valid combinations that are kept; an invalid row moves towards the nearest of them."""

HALVINGS = 24
"""Bisection steps that locate the border of the region."""


def newly_active(genes: Ints, size: int, gene: int) -> Ints:
    """Return a value from 1 to below *size* for each of *genes*, whose *gene* became active.

    It is as if drawn, but the same for equal rows: repairing is a function of the row alone.
    """
    factors = _MIX ** np.arange(1, genes.shape[1] + 1, dtype=np.uint64)
    mixed = genes.astype(np.uint64) * factors
    number = mixed.sum(axis=1, dtype=np.uint64) + np.uint64(gene)
    # The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        number = (number ^ (number >> np.uint64(shift))) * np.uint64(factor)
    number ^= number >> np.uint64(31)
    values: Ints = 1 + (number % np.uint64(size - 1)).astype(np.int64)
    return values


_MIX = np.uint64(0x9E3779B97F4A7C15)


class GeneAxis(Protocol):
    """The gene of one dimension, and the codes of its values."""

    @property
    def sizes(self) -> tuple[int, ...]: ...

    @property
    def ordered(self) -> tuple[bool, ...]: ...

    def codes(self, genes: Ints) -> tuple[Column, ...]: ...

    def find(self, codes: dict[str, Any]) -> list[int]: ...


class OptionalAxis:
    """The gene of a dimension with a WHEN: 0 where it is inactive, else its value's gene plus 1."""

    def __init__(self, axis: GeneAxis, parameter: Parameter) -> None:
        self.sizes = (axis.sizes[0] + 1,)
        self.ordered = axis.ordered
        self._axis = axis
        self._parameter = parameter

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        active = genes[:, 0] != 0
        (codes,) = self._axis.codes(np.maximum(genes - 1, 0))
        if isinstance(self._parameter.domain, Continuous):
            return (np.where(active, codes, np.nan),)
        return (np.where(active, codes + 1, 0),)

    def find(self, codes: dict[str, Any]) -> list[int]:
        ((name, code),) = codes.items()
        if isinstance(self._parameter.domain, Continuous):
            return [0] if np.isnan(code) else [self._axis.find(codes)[0] + 1]
        return [self._axis.find({name: code - 1})[0] + 1] if code else [0]


class ConditionalGenes:
    """One gene for each of some dependent dimensions that cannot be listed.

    A gene is 0 while its WHEN is false. Where another gene makes it active, it takes a value of its
    own. An invalid row is repaired by bisection on the straight line to the nearest anchor, a valid
    row that was sampled. So rows that are near in genes stay near in values.
    """

    count = None

    def __init__(self, lot: RejectionSampler, axes: tuple[GeneAxis, ...], seed: int) -> None:
        self.names = self.of = lot.part.names
        self.optional = tuple(parameter.when is not None for parameter in lot.part.dimensions)
        axes = tuple(
            axis if parameter.when is None else OptionalAxis(axis, parameter)
            for axis, parameter in zip(axes, lot.part.dimensions, strict=True)
        )
        self.sizes = tuple(size for axis in axes for size in axis.sizes)
        self.ordered = tuple(ordered for axis in axes for ordered in axis.ordered)
        self._axes = axes
        self._part = lot.part
        self._lot = lot
        self._seed = seed
        self._batches = lot.batches(random.Random(seed))  # noqa: S311 - not for secrets
        self._unused: Ints = np.empty((0, len(axes)), dtype=np.int64)
        self._anchor_rows: Ints | None = None

    def draw(self, rng: np.random.Generator, length: int) -> Ints:
        """Return new valid rows, in an order that the seed determines."""
        del rng
        while len(self._unused) < length:
            self._unused = np.concatenate([self._unused, self._genes(next(self._batches))])
        rows, self._unused = self._unused[:length], self._unused[length:]
        return rows

    def by_number(self, numbers: Ints) -> Ints:
        return self._anchors[numbers % len(self._anchors)]

    def codes(self, genes: Ints) -> tuple[Column, ...]:
        columns = zip(self._axes, genes.T, strict=True)
        return tuple(code for axis, gene in columns for code in axis.codes(gene[:, None]))

    def find(self, codes: dict[str, Any]) -> list[int]:
        pairs = zip(self._axes, self.names, strict=True)
        return [gene for axis, name in pairs for gene in axis.find({name: codes[name]})]

    def repair(self, genes: Ints) -> Ints:
        genes = self._settled(genes)
        wrong = np.flatnonzero(~self._valid(genes))
        if not len(wrong):
            return genes
        whole = genes.copy()
        whole[wrong] = self._moved(genes[wrong])
        return whole

    def _moved(self, targets: Ints) -> Ints:
        """Return the last valid rows on the lines from anchors to *targets*, which are invalid."""
        starts = self._starts(targets)
        # There is nothing between the values of an unordered gene, nor between those of an active
        # and of an inactive one: it is taken over or not.
        off = np.array(self.optional, dtype=np.bool_) & ((starts == 0) | (targets == 0))
        line = np.where(np.array(self.ordered, dtype=np.bool_) & ~off, targets - starts, 0)
        low, high = np.zeros(len(targets)), np.ones(len(targets))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            middles = self._settled(starts + np.rint(line * middle[:, None]).astype(np.int64))
            # Bisection finds one border of the region on the line, not always the nearest to the
            # target.
            valid = self._valid(middles)
            low, high = np.where(valid, middle, low), np.where(valid, high, middle)
        return self._settled(starts + np.rint(line * low[:, None]).astype(np.int64))

    def _settled(self, genes: Ints) -> Ints:
        """Return *genes* with 0 in all inactive genes, and a value in all active ones."""
        if not any(self.optional):
            return genes
        genes = genes.copy()
        codes: dict[str, Column] = {}
        active_by_when: dict[str, Mask] = {}
        for at, (parameter, axis) in enumerate(zip(self._part.dimensions, self._axes, strict=True)):
            if parameter.when is not None:
                if parameter.when.text not in active_by_when:
                    rows = PointColumns(self._part.parameters, codes, len(genes))
                    active_by_when[parameter.when.text] = rows.active(parameter)
                active = active_by_when[parameter.when.text]
                genes[~active, at] = 0
                new = active & (genes[:, at] == 0)
                if new.any():
                    genes[new, at] = newly_active(genes[new], self.sizes[at], at)
            (codes[parameter.name],) = axis.codes(genes[:, at : at + 1])
        return genes

    def _starts(self, targets: Ints) -> Ints:
        """Return the nearest anchors, with the unordered genes of the targets if valid."""
        anchors, ordered = self._anchors, np.array(self.ordered, dtype=np.bool_)
        scale = np.maximum(np.array(self.sizes, dtype=np.float64) - 1, 1)
        nearest = np.empty(len(targets), dtype=np.int64)
        for at, target in enumerate(targets):
            off = np.where(ordered, (anchors - target) / scale, anchors != target)
            nearest[at] = np.argmin((off**2).sum(axis=1))
        starts = anchors[nearest]
        changed = self._settled(np.where(ordered, starts, targets))
        valid = self._valid(changed)
        return np.where(valid[:, None], changed, starts)

    @property
    def _anchors(self) -> Ints:
        """Random valid rows, from another stream than ``draw``."""
        if self._anchor_rows is None:
            batch_genes: list[Ints] = []
            batches = self._lot.batches(random.Random(self._seed + 1))  # noqa: S311 - not for secrets
            while sum(map(len, batch_genes)) < ANCHORS:
                batch_genes.append(self._genes(next(batches)))
            self._anchor_rows = np.concatenate(batch_genes)[:ANCHORS]
        return self._anchor_rows

    def _genes(self, rows: PointColumns) -> Ints:
        """Return sampled combinations as genes, without those that rounding made invalid."""
        columns = [rows.codes[name].tolist() for name in self.names]
        values = zip(*columns, strict=True)
        rows_of_genes = [self.find(dict(zip(self.names, row, strict=True))) for row in values]
        genes = np.array(rows_of_genes, dtype=np.int64).reshape(len(rows_of_genes), len(self.names))
        return genes[self._valid(genes)]

    def _valid(self, genes: Ints) -> Mask:
        """Return which rows meet all conditions; each is evaluated where those before it hold."""
        codes = dict(zip(self.names, self.codes(genes), strict=True))
        rows = PointColumns(self._part.parameters, codes, len(genes))
        remaining = np.arange(len(genes))
        for condition in self._part.conditions:
            kept = rows.kept(condition.expression)
            rows, remaining = rows.where(kept), remaining[kept]
        valid = np.zeros(len(genes), dtype=np.bool_)
        valid[remaining] = True
        return valid


def is_box(part: Part) -> bool:
    """Return whether the set of each dimension is independent of the others, but for a WHEN."""
    return not part.zips and not any(
        isinstance(dimension.domain, Dependent) for dimension in part.dimensions
    )
