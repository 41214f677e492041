"""How many points a part has, without making them."""

from __future__ import annotations

import numpy as np

from zenturio.space.dependent import Dependent
from zenturio.space.domain import Column
from zenturio.space.growth import Growing
from zenturio.space.plan import Bind, Step
from zenturio.space.table import UNIT, Overfull, Table

ROWS = 1 << 20
"""A table under work has at most so many rows; a part that needs more is counted in blocks."""

_EXACT = 1 << 62


class Counting:
    """Counting: a dimension that no later step needs is not spread out, its choices are weights.

    Rows that agree in all that later steps need become one, with the sum of their weights.
    """

    def __init__(self, growing: Growing) -> None:
        self.growing = growing
        self.table = UNIT
        self.weights: Column | None = None
        self.factor = 1

    def total(self) -> int:
        """The number of points; Overfull if a step would make too many rows."""
        steps = self.growing.plan.steps
        for number, step in enumerate(steps):
            needed = self._needed(steps[number + 1 :])
            if not isinstance(step, Bind):
                self._keep(self.growing.kept(self.table, step.rule))
            elif step.name in needed:
                self._bind(step)
            else:
                self._weigh(step)
            if self.table.length == 0:
                return 0
            self._merge(needed)
        whole = self.table.length if self.weights is None else int(self.weights.sum())
        return whole * self.factor

    def _needed(self, steps: tuple[Step, ...]) -> frozenset[str]:
        """The names that *steps* look at, but for those that they bind."""
        part, names = self.growing.part, set[str]()
        for step in steps:
            if not isinstance(step, Bind):
                names |= step.rule.names
                continue
            direct = part.parameters[step.name].needs.union(part.leaders.get(step.name, ()))
            names |= direct
            if step.pair is not None:
                names.add(step.pair.other(step.name))
        # What a dependent range holds is computed from its bounds.
        ranges = (name for name in names if isinstance(part.parameters[name].domain, Dependent))
        return frozenset(names).union(*(part.needs[name] for name in ranges))

    def _keep(self, mask: Column) -> None:
        self.table = self.table.kept(mask)
        if self.weights is not None:
            self.weights = self.weights[mask]

    def _bind(self, step: Bind) -> None:
        choices = self.growing.choices(self.table, step)
        if choices.total(self.table.length) > ROWS:
            raise Overfull(choices.total(self.table.length))
        if self.weights is not None:
            parents, _ = choices.spread(self.table.length)
            self.weights = self.weights[parents]
        self.table = self.table.appended(step.name, choices)

    def _weigh(self, step: Bind) -> None:
        choices = self.growing.choices(self.table, step)
        if choices.counts is None:
            self.factor *= choices.total(1)
            self.table = self.table if self.factor else self.table.none
            return
        counts = choices.counts if self.weights is None else _product(self.weights, choices.counts)
        self.weights = counts
        self._keep(counts > 0)

    def _merge(self, needed: frozenset[str]) -> None:
        """Makes one row of those that agree in the *needed* columns, where that can pay."""
        names = tuple(name for name in self.table.names if name in needed)
        columns = tuple(self.table.codes[name] for name in names)
        if names == self.table.names:
            return
        key, cells = np.zeros(self.table.length, dtype=np.int64), 1
        for column in columns:
            most = int(column.max()) + 1
            cells *= most
            if cells > self.table.length:
                self.table = Table(names, columns, self.table.length)
                return
            key = key * most + column
        if self.weights is None:
            sums = np.bincount(key, minlength=cells)
        else:
            sums = np.zeros(cells, dtype=self.weights.dtype)
            np.add.at(sums, key, self.weights)
        found, first = np.unique(key, return_index=True)
        self.table = Table(names, tuple(column[first] for column in columns), len(found))
        self.weights = sums[found]


def _product(weights: Column, counts: Column) -> Column:
    """Their product, in Python's integers where 64 bits may not do."""
    if weights.dtype != np.object_ and len(weights):
        most = int(weights.max()) * int(counts.max()) * len(weights)
        if most >= _EXACT:
            weights = weights.astype(np.object_)
    return weights * counts
