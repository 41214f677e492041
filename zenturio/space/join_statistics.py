"""Statistics of a part for its join plan: valid codes, pair tables and selectivities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zenturio.space.code_table import narrow
from zenturio.space.definition import SpaceCondition
from zenturio.space.domain import Column
from zenturio.space.independent_parts import Part, is_plain
from zenturio.space.point_columns import PointColumns

MAX_LISTED = 1 << 20
"""Conditions on one dimension with up to this many elements are evaluated in advance."""

CELLS = 1 << 20
"""Conditions on two dimensions with up to this many valid pairs are evaluated in advance."""

MAX_CELLS = 1 << 22
"""The most cells of a pair table, invalid codes included."""

PROBES = 256
"""Random points that estimate the selectivity of a condition on more dimensions."""

MAX_SAMPLED = 1 << 62
"""Sets of this size are not sampled."""


@dataclass(frozen=True, eq=False)
class PairTable:
    """A boolean table of the valid pairs of codes of two dimensions."""

    first: str
    second: str
    cells: Column

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.first, self.second))

    def seen_from(self, name: str) -> Column:
        """Return the table with the codes of *name* as rows."""
        return self.cells if name == self.first else self.cells.T

    def other(self, name: str) -> str:
        return self.second if name == self.first else self.first

    def partners(self, name: str, window: tuple[int, int] | None) -> tuple[Column, Column, Column]:
        """Return the partners of all codes of *name*, concatenated, with starts and lengths."""
        if window is None:
            return self._first_lists if name == self.first else self._second_lists
        return _lists(self.seen_from(name), window)

    @cached_property
    def _first_lists(self) -> tuple[Column, Column, Column]:
        return _lists(self.cells, (0, self.cells.shape[1]))

    @cached_property
    def _second_lists(self) -> tuple[Column, Column, Column]:
        return _lists(self.cells.T, (0, self.cells.shape[0]))


def _lists(cells: Column, window: tuple[int, int]) -> tuple[Column, Column, Column]:
    low, high = window
    inside = cells[:, low:high]
    counts = inside.sum(axis=1)
    return narrow(np.nonzero(inside)[1] + low), np.cumsum(counts) - counts, counts


Rule = SpaceCondition | PairTable


class JoinStatistics:
    """The valid codes of each dimension, the remaining rules, and the selectivity of each rule."""

    def __init__(self, part: Part) -> None:
        self.part = part
        zipped = {name for group in part.zips for name in group}
        self.sizes = {
            each.name: each.domain.size
            for each in part.dimensions
            if each.domain is not None and is_plain(each) and each.name not in zipped
        }
        self.allowed: dict[str, Column] = {}
        rest = [each for each in part.conditions if not self._apply_unary(each)]
        pairs: list[PairTable] = []
        while binary := [each for each in rest if self._cells(each) <= CELLS]:
            smallest = min(binary, key=self._cells)
            rest.remove(smallest)
            pairs.append(self._pair(smallest))
            # Fewer codes on one side may make another pair small enough.
            self._make_consistent(pairs)
        self.rules: list[Rule] = [*map(self._restricted, pairs), *rest]
        self.shares = {rule: self._share(rule) for rule in self.rules}

    def codes(self, name: str) -> Column:
        if name not in self.allowed:
            kind = np.min_scalar_type(self.sizes[name] - 1)
            self.allowed[name] = np.arange(self.sizes[name]).astype(kind)
        return self.allowed[name]

    def count(self, name: str) -> int:
        """Return the number of codes of *name*, or a guess of 8."""
        if name in self.allowed:
            return len(self.allowed[name])
        return self.sizes.get(name, 8)

    def _apply_unary(self, condition: SpaceCondition) -> bool:
        """Apply a *condition* on one listed dimension to its valid codes; return whether it was."""
        if len(condition.names) != 1:
            return False
        (name,) = condition.names
        if self.sizes.get(name, MAX_LISTED + 1) > MAX_LISTED:
            return False
        codes = self.codes(name)
        rows = PointColumns(self.part.parameters, {name: codes}, len(codes))
        self.allowed[name] = codes[rows.kept(condition.expression)]
        return True

    def _cells(self, condition: SpaceCondition) -> float:
        """Return the number of code pairs of a condition on two dimensions; else infinity."""
        if len(condition.names) != 2 or not condition.names <= self.sizes.keys():
            return math.inf
        if math.prod(self.sizes[name] for name in condition.names) > MAX_CELLS:
            return math.inf
        return math.prod(map(self.count, condition.names))

    def _pair(self, condition: SpaceCondition) -> PairTable:
        first, second = sorted(condition.names, key=self.part.names.index)
        a, b = self.codes(first), self.codes(second)
        grid = {first: np.repeat(a, len(b)), second: np.tile(b, len(a))}
        rows = PointColumns(self.part.parameters, grid, len(a) * len(b))
        cells = np.zeros((self.sizes[first], self.sizes[second]), dtype=np.bool_)
        cells[np.ix_(a, b)] = rows.kept(condition.expression).reshape(len(a), len(b))
        return PairTable(first, second, cells)

    def _make_consistent(self, pairs: Sequence[PairTable]) -> None:
        """Restrict each dimension to the codes with a partner in every pair (arc consistency).

        All but the last of *pairs* were consistent before.
        """
        pending = [pairs[-1]]
        while pending:
            pair = pending.pop()
            for name in (pair.first, pair.second):
                partners = self.codes(pair.other(name))
                cells = pair.seen_from(name)[np.ix_(self.codes(name), partners)]
                kept = np.asarray(cells.any(axis=1))
                if not kept.all():
                    self.allowed[name] = self.codes(name)[kept]
                    pending += [other for other in pairs if name in other.names]

    def _restricted(self, pair: PairTable) -> PairTable:
        """Return *pair* restricted to the codes that are finally valid."""
        cells = np.zeros_like(pair.cells)
        kept = np.ix_(self.codes(pair.first), self.codes(pair.second))
        cells[kept] = pair.cells[kept]
        return PairTable(pair.first, pair.second, cells)

    def _share(self, rule: Rule) -> float:
        """Estimate the share of combinations that *rule* keeps; 0.5 if it cannot be sampled."""
        if isinstance(rule, PairTable):
            cells = self.count(rule.first) * self.count(rule.second)
            return float(rule.cells.sum()) / max(cells, 1)
        if not all(0 < self.count(name) < MAX_SAMPLED for name in rule.names & self.sizes.keys()):
            return 0.5
        if not rule.names <= self.sizes.keys():
            return 0.5
        rng = np.random.default_rng(0)
        codes = {}
        for name in sorted(rule.names):
            samples = rng.integers(self.count(name), size=PROBES)
            codes[name] = self.allowed[name][samples] if name in self.allowed else samples
        rows = PointColumns(self.part.parameters, codes, PROBES)
        return (float(rows.kept(rule.expression).sum()) + 0.5) / PROBES
