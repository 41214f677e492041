"""How the table of a part gets one more column: which codes there are beside each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zenturio.space.components import Part, is_plain
from zenturio.space.dependent import Dependent
from zenturio.space.domain import Column
from zenturio.space.facts import Pair, Rule
from zenturio.space.parameter import Parameter
from zenturio.space.plan import Bind, Plan
from zenturio.space.rows import Rows
from zenturio.space.table import Choices, Table

Windows = Mapping[str, tuple[int, int]]
"""For some dimensions: the first code and the one behind the last that a block is about."""


@dataclass(frozen=True)
class Growth:
    """A table, the column that it gets, and where; *groups* if that is not behind the others."""

    table: Table
    name: str
    at: int
    groups: tuple[Column, Column] | None
    choices: Choices

    @property
    def total(self) -> int:
        """How many rows there will be."""
        if self.groups is None:
            return self.choices.total(self.table.length)
        _, lengths = self.groups
        if self.choices.counts is None:
            return self.choices.total(self.table.length)
        return int(self.choices.counts @ lengths)

    def grown(self) -> Table:
        """The table with the column."""
        if self.groups is None:
            return self.table.appended(self.name, self.choices)
        return self.table.inserted(self.name, self.at, self.groups, self.choices)


class Growing:
    """Binds dimensions and evaluates rules as a plan of *part* says, inside *windows*."""

    def __init__(self, part: Part, plan: Plan, windows: Windows) -> None:
        self.part = part
        self.plan = plan
        self.windows = windows

    def narrowed(self, name: str, window: tuple[int, int]) -> Growing:
        """The same with only the codes of *name* inside *window*."""
        return Growing(self.part, self.plan, {**self.windows, name: window})

    def kept(self, table: Table, rule: Rule) -> Column:
        """Where *rule* keeps the rows of *table*."""
        if isinstance(rule, Pair):
            codes = table.codes
            return np.asarray(rule.cells[codes[rule.first], codes[rule.second]])
        return self._rows(table).kept(rule.expression)

    def growth(self, table: Table, step: Bind) -> Growth:
        """What *step* makes of a sorted *table*: a sorted one."""
        at = self.part.place(step.name, table.names)
        if at == len(table.names):
            return Growth(table, step.name, at, None, self.choices(table, step))
        groups = table.groups(at)
        heads = Table(table.names[:at], table.columns[:at], table.length).take(groups[0])
        return Growth(table, step.name, at, groups, self.choices(heads, step))

    def choices(self, table: Table, step: Bind) -> Choices:
        """Which codes the dimension of *step* takes beside each row of *table*."""
        parameter = self.part.parameters[step.name]
        window = self.windows.get(step.name)
        if step.pair is not None:
            return _partners(step, table, window)
        if is_plain(parameter) and not self.part.leaders.get(step.name):
            return Choices(_codes(parameter, self.plan, window))
        low, high = self._range(parameter, table)
        if window is not None:
            low, high = np.maximum(low, window[0]), np.minimum(high, window[1])
        return Choices(None, low, np.maximum(high - low, 0))

    def _rows(self, table: Table) -> Rows:
        return Rows(self.part.parameters, table.codes, table.length)

    def _range(self, parameter: Parameter, table: Table) -> tuple[Column, Column]:
        """The first code, and the one behind the last, that *parameter* has in each row."""
        rows = self._rows(table)
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


def _codes(parameter: Parameter, plan: Plan, window: tuple[int, int] | None) -> Column | range:
    """The codes of a plain dimension inside *window*."""
    domain = parameter.domain
    assert domain is not None, "only dimensions are bound"
    low, high = window or (0, domain.size)
    allowed = plan.allowed.get(parameter.name)
    if allowed is None:
        return range(low, high)
    start, stop = np.searchsorted(allowed, np.array((low, high)))
    return allowed[start:stop]


def _partners(step: Bind, table: Table, window: tuple[int, int] | None) -> Choices:
    """The codes that go with what each row has in the other dimension of the pair."""
    assert step.pair is not None, "asked of pairs only"
    other = step.pair.other(step.name)
    flat, starts, counts = step.pair.partners(other, window)
    keys = table.codes[other]
    return Choices(flat, starts.take(keys), counts.take(keys))
