"""What is learnt about a part before it is joined: codes, pairs of codes, and selectivities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zenturio.space.components import Part, is_plain
from zenturio.space.definition import Condition
from zenturio.space.domain import Column
from zenturio.space.rows import Rows
from zenturio.space.table import narrow

LISTED = 1 << 20
"""A condition on one dimension is evaluated beforehand if the set has at most so many elements."""

CELLS = 1 << 20
"""A condition on two dimensions is evaluated beforehand if there are at most so many pairs."""

SHEET = 1 << 22
"""The table of such pairs has at most so many cells, those without codes included."""

PROBES = 256
"""Points that a condition on more is tried on, to learn how selective it is."""

HUGE = 1 << 62
"""Sets of so many elements are not tried."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Which codes of two dimensions go together."""

    first: str
    second: str
    cells: Column

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.first, self.second))

    def seen_from(self, name: str) -> Column:
        """The cells with the codes of *name* as rows."""
        return self.cells if name == self.first else self.cells.T

    def other(self, name: str) -> str:
        return self.second if name == self.first else self.first

    def partners(self, name: str, window: tuple[int, int] | None) -> tuple[Column, Column, Column]:
        """The codes that go with those of *name*, one list behind the other; starts; lengths."""
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


Rule = Condition | Pair


class Facts:
    """The codes that are allowed, the rules that remain, and what share each rule keeps."""

    def __init__(self, part: Part) -> None:
        self.part = part
        zipped = {name for group in part.zips for name in group}
        self.sizes = {
            each.name: each.domain.size
            for each in part.dimensions
            if each.domain is not None and is_plain(each) and each.name not in zipped
        }
        self.allowed: dict[str, Column] = {}
        rest = [each for each in part.conditions if not self._restrict(each)]
        pairs: list[Pair] = []
        while binary := [each for each in rest if self._cells(each) <= CELLS]:
            smallest = min(binary, key=self._cells)
            rest.remove(smallest)
            pairs.append(self._pair(smallest))
            # Fewer codes on one side may make another pair small enough.
            self._agree(pairs)
        self.rules: list[Rule] = [*map(self._trimmed, pairs), *rest]
        self.shares = {rule: self._share(rule) for rule in self.rules}

    def codes(self, name: str) -> Column:
        if name not in self.allowed:
            kind = np.min_scalar_type(self.sizes[name] - 1)
            self.allowed[name] = np.arange(self.sizes[name]).astype(kind)
        return self.allowed[name]

    def count(self, name: str) -> int:
        """How many codes *name* has, or a guess."""
        if name in self.allowed:
            return len(self.allowed[name])
        return self.sizes.get(name, 8)

    def _restrict(self, condition: Condition) -> bool:
        """Drops the codes that *condition* does not keep, if it concerns one dimension alone."""
        if len(condition.names) != 1:
            return False
        (name,) = condition.names
        if self.sizes.get(name, LISTED + 1) > LISTED:
            return False
        codes = self.codes(name)
        rows = Rows(self.part.parameters, {name: codes}, len(codes))
        self.allowed[name] = codes[rows.kept(condition.expression)]
        return True

    def _cells(self, condition: Condition) -> float:
        """How many pairs of codes a condition on two dimensions is about."""
        if len(condition.names) != 2 or not condition.names <= self.sizes.keys():
            return math.inf
        if math.prod(self.sizes[name] for name in condition.names) > SHEET:
            return math.inf
        return math.prod(map(self.count, condition.names))

    def _pair(self, condition: Condition) -> Pair:
        first, second = sorted(condition.names, key=self.part.names.index)
        a, b = self.codes(first), self.codes(second)
        grid = {first: np.repeat(a, len(b)), second: np.tile(b, len(a))}
        rows = Rows(self.part.parameters, grid, len(a) * len(b))
        cells = np.zeros((self.sizes[first], self.sizes[second]), dtype=np.bool_)
        cells[np.ix_(a, b)] = rows.kept(condition.expression).reshape(len(a), len(b))
        return Pair(first, second, cells)

    def _agree(self, pairs: Sequence[Pair]) -> None:
        """Leaves each dimension only the codes that every pair has a partner for.

        So it was before the last of the *pairs* was known.
        """
        open_pairs = [pairs[-1]]
        while open_pairs:
            pair = open_pairs.pop()
            for name in (pair.first, pair.second):
                partners = self.codes(pair.other(name))
                cells = pair.seen_from(name)[np.ix_(self.codes(name), partners)]
                kept = np.asarray(cells.any(axis=1))
                if not kept.all():
                    self.allowed[name] = self.codes(name)[kept]
                    open_pairs += [other for other in pairs if name in other.names]

    def _trimmed(self, pair: Pair) -> Pair:
        """*pair* with only the codes that are allowed in the end."""
        cells = np.zeros_like(pair.cells)
        kept = np.ix_(self.codes(pair.first), self.codes(pair.second))
        cells[kept] = pair.cells[kept]
        return Pair(pair.first, pair.second, cells)

    def _share(self, rule: Rule) -> float:
        """The share of the combinations of its names that *rule* keeps, or a guess."""
        if isinstance(rule, Pair):
            cells = self.count(rule.first) * self.count(rule.second)
            return float(rule.cells.sum()) / max(cells, 1)
        if not all(0 < self.count(name) < HUGE for name in rule.names & self.sizes.keys()):
            return 0.5
        if not rule.names <= self.sizes.keys():
            return 0.5
        chance = np.random.default_rng(0)
        codes = {}
        for name in sorted(rule.names):
            drawn = chance.integers(self.count(name), size=PROBES)
            codes[name] = self.allowed[name][drawn] if name in self.allowed else drawn
        rows = Rows(self.part.parameters, codes, PROBES)
        return (float(rows.kept(rule.expression).sum()) + 0.5) / PROBES
