"""Joins: the table of a part, built depth first in pieces that fit into the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from zenturio.errors import InputError
from zenturio.space.code_table import UNIT, CodeTable, stacked
from zenturio.space.column_join import ColumnJoin, PlanExecutor, Windows
from zenturio.space.decision_diagram import DecisionDiagram
from zenturio.space.independent_parts import Part
from zenturio.space.join_plan import (
    BindStep,
    JoinPlan,
    declared_plan,
    low_memory_plan,
    sequential_plan,
)
from zenturio.space.join_statistics import JoinStatistics

MAX_PIECE_ROWS = 1 << 19
"""A table that would grow beyond this many rows is processed in pieces."""

MAX_BOUND_CODES = 1 << 18
"""The most codes of a dimension that are bound at once to a single row."""

MAX_UNSPLIT_ROWS = 1 << 23
"""The most rows of a table that cannot be split because columns are inserted later."""

WORK_LIMITS = ((1 << 20, 1 << 40), (1 << 26, 1 << 37))
"""Pairs (rows done, projected rows): a join that would take more is given up, for hours."""


class TableTooLarge(Exception):
    """A plan needs a table that is too long and cannot be split."""


class Progress:
    """The work done so far, and the share of the plain product that it covered."""

    def __init__(self) -> None:
        self.rows = 0
        self.codes = 0
        self.share = 0.0

    @property
    def is_hopeless(self) -> bool:
        """Whether the projected work exceeds the limits of ``WORK_LIMITS``."""
        return any(self.rows > rows and self.rows > most * self.share for rows, most in WORK_LIMITS)


class Join:
    """Builds the table of a part, or of the codes inside windows."""

    def __init__(self, part: Part) -> None:
        self.part = part

    def walk(self, windows: Windows, progress: Progress) -> Iterator[CodeTable]:
        """Yield the points inside *windows* as sorted, consecutive tables.

        Empty tables are yielded after each step, so that the caller can give up in time.
        """
        yielded, complete = 0, False
        while not complete:
            plan, passed = self._plan, 0
            try:
                for table in self._run(UNIT, 0, PlanExecutor(self.part, plan, windows), progress):
                    start, passed = max(yielded - passed, 0), passed + table.length
                    yielded = max(yielded, passed)
                    yield table.cut(min(start, table.length), table.length)
                complete = True
            except (InputError, TableTooLarge) as error:
                self._demote(plan, error)

    def diagram(self, windows: Windows) -> DecisionDiagram:
        """The points inside *windows*, counted; Overfull if that needs too many choices."""
        try:
            return DecisionDiagram(PlanExecutor(self.part, self._sequential, windows))
        except InputError:
            return DecisionDiagram(PlanExecutor(self.part, self._declared, windows))

    @cached_property
    def _empty(self) -> CodeTable:
        return stacked(self.part.names, [])

    @cached_property
    def _plan(self) -> JoinPlan:
        """The current plan; a failure replaces it."""
        return self._declared if self._facts is None else low_memory_plan(self._facts)

    @cached_property
    def _sequential(self) -> JoinPlan:
        return self._declared if self._facts is None else sequential_plan(self._facts)

    @cached_property
    def _declared(self) -> JoinPlan:
        return declared_plan(self.part)

    @cached_property
    def _facts(self) -> JoinStatistics | None:
        """The statistics of the part; None if conditions depend on earlier ones to be evaluable."""
        try:
            return JoinStatistics(self.part)
        except InputError:
            return None

    def _demote(self, plan: JoinPlan, error: Exception) -> None:
        """Switch to a more conservative plan; raise *error* if there is none.

        A condition may fail on rows that an earlier condition excludes; and a plan that inserts
        columns may need a table that is too long and cannot be split.
        """
        if plan is self._declared:
            raise error
        if plan is self._plan:
            wide = isinstance(error, TableTooLarge)
            self._plan = self._sequential if wide else self._declared

    def _run(
        self,
        table: CodeTable,
        number: int,
        executor: PlanExecutor,
        progress: Progress,
        share: float = 1.0,
    ) -> Iterator[CodeTable]:
        """Run the steps from *number* on, for the rows of *table*, a *share* of the product."""
        steps = executor.plan.steps
        while number < len(steps) and table.length:
            step = steps[number]
            if isinstance(step, BindStep):
                growth = executor.growth(table, step)
                pieces = self._split(growth, executor, number)
                if pieces:
                    for part, inside, rows in pieces:
                        own = share * rows / growth.total
                        yield from self._run(part, number, inside, progress, own)
                    return
                table = growth.grown()
                progress.rows += table.length
                progress.codes += table.length * len(table.names)
                yield self._empty
            else:
                table = table.kept(executor.kept(table, step.rule))
            number += 1
        progress.share += share
        if table.length:
            yield table

    def _split(
        self, growth: ColumnJoin, executor: PlanExecutor, number: int
    ) -> list[tuple[CodeTable, PlanExecutor, float]]:
        """Return the pieces of a join step that makes too many rows at once; empty if it does not.

        Each piece comes with an estimate of its rows.
        """
        table, total = growth.table, growth.total
        steps = executor.plan.steps[number:]
        places = [self.part.ranks[step.name] for step in steps if isinstance(step, BindStep)]
        if total > MAX_PIECE_ROWS and table.length > 1:
            columns = sum(self.part.ranks[name] < min(places) for name in table.names)
            parts = table.parts(max(table.length * MAX_PIECE_ROWS // total, 1), columns)
            if len(parts) > 1:
                return [(part, executor, total * part.length / table.length) for part in parts]
        if total > MAX_BOUND_CODES and table.length == 1 and min(places) == places[0]:
            low, high = growth.choices.ends
            windows = (low, (low + high) // 2), ((low + high) // 2, high)
            return [
                (table, executor.narrowed(growth.name, window), total / 2) for window in windows
            ]
        if total > MAX_UNSPLIT_ROWS:
            raise TableTooLarge(total)
        return []
