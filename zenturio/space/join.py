"""Joins: the table of a part, filtered as soon as a rule's names are bound; or only its size."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from zenturio.errors import InputError
from zenturio.space.components import Part, is_plain
from zenturio.space.definition import Condition
from zenturio.space.dependent import Dependent
from zenturio.space.domain import Column
from zenturio.space.parameter import Parameter
from zenturio.space.plan import Bind, Pair, Plan, Step, as_declared, thrifty
from zenturio.space.rows import Rows
from zenturio.space.table import UNIT, Choices, Overfull, Table, narrow

ROWS = 1 << 21
"""A table under work has at most so many rows; a join that would need more is done in blocks."""

Windows = Mapping[str, tuple[int, int]]
"""For some dimensions: the first code and the one behind the last that a block is about."""

_EXACT = 1 << 62


class Join:
    """Makes tables of a part: of all of it, or of blocks of it."""

    def __init__(self, part: Part) -> None:
        self.part = part

    @cached_property
    def plan(self) -> Plan:
        try:
            return thrifty(self.part)
        except InputError:
            return self._declared

    @cached_property
    def _declared(self) -> Plan:
        return as_declared(self.part)

    def table(self, windows: Windows) -> Table:
        """The points inside *windows*, sorted; Overfull if a step would make too many rows."""
        try:
            return self._table(self.plan, windows)
        except InputError:
            # A condition may fail on rows that another one, declared before it, would have taken.
            return self._table(self._declared, windows)

    def count(self, windows: Windows) -> int:
        """How many points are inside *windows*; Overfull as above."""
        try:
            return _Count(self, self.plan, windows).total()
        except InputError:
            return _Count(self, self._declared, windows).total()

    def _table(self, plan: Plan, windows: Windows) -> Table:
        table = UNIT
        for step in plan.steps:
            if isinstance(step, Bind):
                table = self._bound(table, step, plan, windows)
            else:
                table = table.kept(self.kept(table, step.rule))
            if table.length == 0:
                return self.empty
        return table

    @property
    def empty(self) -> Table:
        nothing = np.zeros(0, dtype=np.uint8)
        return Table(self.part.names, (nothing,) * len(self.part.names), 0)

    def rows(self, table: Table) -> Rows:
        return Rows(self.part.parameters, table.codes, table.length)

    def kept(self, table: Table, rule: Condition | Pair) -> Column:
        """Where *rule* keeps the rows of *table*."""
        if isinstance(rule, Pair):
            codes = table.codes
            return np.asarray(rule.cells[codes[rule.first], codes[rule.second]])
        return self.rows(table).kept(rule.expression)

    def _bound(self, table: Table, step: Bind, plan: Plan, windows: Windows) -> Table:
        rank = self.part.names.index(step.name)
        at = sum(self.part.names.index(name) < rank for name in table.names)
        if at == len(table.names):
            choices = self.choices(table, step, plan, windows)
            _check(choices.total(table.length))
            return table.appended(step.name, choices)
        groups = table.groups(at)
        heads = Table(table.names[:at], table.columns[:at], table.length).take(groups[0])
        choices = self.choices(heads, step, plan, windows)
        parents, _ = choices.spread(heads.length)
        _check(int(groups[1][parents].sum()))
        return table.inserted(step.name, at, groups, choices)

    def choices(self, table: Table, step: Bind, plan: Plan, windows: Windows) -> Choices:
        """Which codes the dimension of *step* takes beside each row of *table*."""
        parameter = self.part.parameters[step.name]
        window = windows.get(step.name)
        if step.pair is not None:
            return _partners(step, table, window)
        if is_plain(parameter) and not self.part.leaders.get(step.name):
            return Choices(_codes(parameter, plan, window))
        low, high = self._range(parameter, table)
        if window is not None:
            low, high = np.maximum(low, window[0]), np.minimum(high, window[1])
        return Choices(None, low, np.maximum(high - low, 0))

    def _range(self, parameter: Parameter, table: Table) -> tuple[Column, Column]:
        """The first code, and the one behind the last, that *parameter* has in each row."""
        rows = self.rows(table)
        low, high = np.zeros((2, table.length), dtype=np.int64)
        if parameter.when is None:
            high[:] = self._sizes(parameter, rows)
        else:
            active = rows.active(parameter)
            low[active] = high[~active] = 1
            high[active] = self._sizes(parameter, rows.where(active)) + 1
        for leader in reversed(self.part.leaders.get(parameter.name, ())):
            self._follow(parameter, self.part.parameters[leader], table, (low, high))
        return low, high

    def _sizes(self, parameter: Parameter, rows: Rows) -> Column | int:
        domain = parameter.domain
        assert domain is not None, "only dimensions are bound"
        return rows.counts(domain) if isinstance(domain, Dependent) else domain.size

    def _follow(
        self, parameter: Parameter, leader: Parameter, table: Table, ends: tuple[Column, Column]
    ) -> None:
        """Where both are active, *parameter* stands where *leader* does."""
        low, high = ends
        codes = table.codes[leader.name].astype(np.int64)
        together = np.ones(table.length, dtype=np.bool_)
        if leader.when is not None:
            together &= codes != 0
            codes -= 1
        if parameter.when is not None:
            together &= low != 0
            codes += 1
        low[together] = codes[together]
        high[together] = codes[together] + 1


class _Count:
    """Counting: a dimension that no later step needs is not spread out, its choices are weights.

    Rows that agree in all that later steps need become one, with the sum of their weights.
    """

    def __init__(self, join: Join, plan: Plan, windows: Windows) -> None:
        self.join = join
        self.plan = plan
        self.windows = windows
        self.table = UNIT
        self.weights: Column | None = None
        self.factor = 1

    def total(self) -> int:
        for number, step in enumerate(self.plan.steps):
            needed = self._needed(self.plan.steps[number + 1 :])
            if not isinstance(step, Bind):
                self._keep(self.join.kept(self.table, step.rule))
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
        part, names = self.join.part, set[str]()
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
        choices = self.join.choices(self.table, step, self.plan, self.windows)
        _check(choices.total(self.table.length))
        if self.weights is not None:
            parents, _ = choices.spread(self.table.length)
            self.weights = self.weights[parents]
        self.table = self.table.appended(step.name, choices)

    def _weigh(self, step: Bind) -> None:
        choices = self.join.choices(self.table, step, self.plan, self.windows)
        if choices.counts is None:
            self.factor *= choices.total(1)
            self.table = self.table if self.factor else self.join.empty
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


def _check(rows: int) -> None:
    if rows > ROWS:
        raise Overfull(rows)


def _codes(parameter: Parameter, plan: Plan, window: tuple[int, int] | None) -> Column:
    """The codes of a plain dimension inside *window*."""
    domain = parameter.domain
    assert domain is not None, "only dimensions are bound"
    allowed = plan.allowed.get(parameter.name)
    if allowed is not None:
        if window is None:
            return allowed
        low, high = np.searchsorted(allowed, np.array(window))
        return allowed[low:high]
    low, high = window or (0, domain.size)
    _check(high - low)
    return np.arange(low, high).astype(np.min_scalar_type(max(high - 1, 0)))


def _partners(step: Bind, table: Table, window: tuple[int, int] | None) -> Choices:
    """The codes that go with what each row has in the other dimension of the pair."""
    assert step.pair is not None, "asked of pairs only"
    other = step.pair.other(step.name)
    cells = step.pair.seen_from(other)
    low, high = window or (0, cells.shape[1])
    cells = cells[:, low:high]
    counts = cells.sum(axis=1)
    flat = np.nonzero(cells)[1] + low
    keys = table.codes[other]
    return Choices(narrow(flat), (np.cumsum(counts) - counts)[keys], counts[keys])


def _product(weights: Column, counts: Column) -> Column:
    """Their product, in Python's integers where 64 bits may not do."""
    if weights.dtype != np.object_ and len(weights):
        most = int(weights.max()) * int(counts.max()) * len(weights)
        if most >= _EXACT:
            weights = weights.astype(np.object_)
    return weights * counts
