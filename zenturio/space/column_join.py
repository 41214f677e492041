"""The steps of a join plan: which codes of a new column are valid for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zenturio.space.code_table import Choices, CodeTable
from zenturio.space.dependent import Dependent
from zenturio.space.domain import Column
from zenturio.space.independent_parts import Part, is_plain
from zenturio.space.join_plan import BindStep, JoinPlan
from zenturio.space.join_statistics import PairTable, Rule
from zenturio.space.parameter import Parameter
from zenturio.space.point_columns import PointColumns

Windows = Mapping[str, tuple[int, int]]
"""The half-open interval of codes of a block, for some dimensions."""


@dataclass(frozen=True)
class ColumnJoin:
    """A table and the column to be joined at position *at*; *groups* unless it is the last."""

    table: CodeTable
    name: str
    at: int
    groups: tuple[Column, Column] | None
    choices: Choices

    @property
    def total(self) -> int:
        """The number of rows of the result."""
        if self.groups is None:
            return self.choices.total(self.table.length)
        _, lengths = self.groups
        if self.choices.counts is None:
            return self.choices.total(self.table.length)
        return int(self.choices.counts @ lengths)

    def grown(self) -> CodeTable:
        """Return the table with the column."""
        if self.groups is None:
            return self.table.appended(self.name, self.choices)
        return self.table.inserted(self.name, self.at, self.groups, self.choices)


class PlanExecutor:
    """Executes the steps of a plan of *part*, inside *windows*."""

    def __init__(self, part: Part, plan: JoinPlan, windows: Windows) -> None:
        self.part = part
        self.plan = plan
        self.windows = windows

    def narrowed(self, name: str, window: tuple[int, int]) -> PlanExecutor:
        """Return an executor restricted to the codes of *name* inside *window*."""
        return PlanExecutor(self.part, self.plan, {**self.windows, name: window})

    def kept(self, table: CodeTable, rule: Rule) -> Column:
        """Return the mask of the rows of *table* that *rule* keeps."""
        if isinstance(rule, PairTable):
            codes = table.codes
            return np.asarray(rule.cells[codes[rule.first], codes[rule.second]])
        return self._rows(table).kept(rule.expression)

    def growth(self, table: CodeTable, step: BindStep) -> ColumnJoin:
        """Return the join of *step* with the sorted *table*; its result is sorted, too."""
        at = self.part.place(step.name, table.names)
        if at == len(table.names):
            return ColumnJoin(table, step.name, at, None, self.choices(table, step))
        groups = table.groups(at)
        heads = CodeTable(table.names[:at], table.columns[:at], table.length).take(groups[0])
        return ColumnJoin(table, step.name, at, groups, self.choices(heads, step))

    def choices(self, table: CodeTable, step: BindStep) -> Choices:
        """Return the codes of the dimension of *step* for each row of *table*."""
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

    def _rows(self, table: CodeTable) -> PointColumns:
        return PointColumns(self.part.parameters, table.codes, table.length)

    def _range(self, parameter: Parameter, table: CodeTable) -> tuple[Column, Column]:
        """Return the half-open interval of codes of *parameter* in each row."""
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

    def _sizes(self, parameter: Parameter, rows: PointColumns) -> Column | int:
        domain = parameter.domain
        assert domain is not None, "only dimensions are bound"
        return rows.counts(domain) if isinstance(domain, Dependent) else domain.size

    def _follow(
        self, parameter: Parameter, leader: Parameter, table: CodeTable, ends: tuple[Column, Column]
    ) -> None:
        """Restrict *parameter* to the position of *leader* where both are active."""
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


def _codes(parameter: Parameter, plan: JoinPlan, window: tuple[int, int] | None) -> Column | range:
    """Return the codes of a plain dimension inside *window*."""
    domain = parameter.domain
    assert domain is not None, "only dimensions are bound"
    low, high = window or (0, domain.size)
    allowed = plan.allowed.get(parameter.name)
    if allowed is None:
        return range(low, high)
    start, stop = np.searchsorted(allowed, np.array((low, high)))
    return allowed[start:stop]


def _partners(step: BindStep, table: CodeTable, window: tuple[int, int] | None) -> Choices:
    """Return the partners of the other dimension of the pair, for each row."""
    assert step.pair is not None, "asked of pairs only"
    other = step.pair.other(step.name)
    flat, starts, counts = step.pair.partners(other, window)
    keys = table.codes[other]
    return Choices(flat, starts.take(keys), counts.take(keys))
