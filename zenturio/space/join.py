"""Joins that enumerate a part of a space: as a table in blocks that fit into the cache, or as a
decision diagram.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from zenturio.errors import InputError
from zenturio.space.code_table import UNIT, Choices, EncodedTable, TooManyRows, stacked
from zenturio.space.column_join import (
    BindStep,
    ColumnJoin,
    FilterStep,
    JoinPlan,
    JoinStep,
    PairTable,
    PlanExecutor,
    PlannerStatistics,
    Windows,
    declared_plan,
    low_memory_plan,
    sequential_plan,
)
from zenturio.space.definition import ExpandedConstraint, Part
from zenturio.space.diagram_states import PartialValues, RemainingCodes
from zenturio.space.domain import Column
from zenturio.space.parameter import Dependent

EDGES = 1 << 22
"""The most listed edges of a diagram; a larger part is divided into blocks."""

_EXACT = 1 << 62


class Layer(Protocol):
    """One dimension: the choices in each state, and the states that they lead to."""

    @property
    def weights(self) -> Column:
        """The number of points below each state."""
        ...

    def choose(self, states: Column, numbers: Column) -> tuple[Column, Column, Column]:
        """Return the codes of points with *numbers* below *states*, the next states and the numbers
        below those.
        """
        ...

    def follow(self, state: int, code: int) -> tuple[int, int] | None:
        """Return the next state and the points with smaller codes; None if invalid."""
        ...

    @property
    def edge_count(self) -> int: ...

    def edges(self) -> Edges:
        """Return all edges, by state and code."""
        ...


class ListedLayer:
    """A layer whose edges are listed, state by state."""

    def __init__(self, edges: Edges, below: Column) -> None:
        # Edges that lead to no point would be states that nobody can leave.
        alive = np.flatnonzero(below.take(edges.children))
        self._parents = edges.parents.take(alive)
        self.codes = edges.codes.take(alive)
        self.children = edges.children.take(alive)
        self.starts = np.searchsorted(self._parents, np.arange(edges.states + 1))
        self.before = _running_sums(below.take(self.children))
        """The number of points below all edges before each edge."""
        ends = self.before.take(self.starts)
        self.weights = ends[1:] - ends[:-1]

    def choose(self, states: Column, numbers: Column) -> tuple[Column, Column, Column]:
        offsets = numbers + self.before.take(self.starts.take(states))
        at = np.searchsorted(self.before, offsets, side="right") - 1
        return self.codes.take(at), self.children.take(at), offsets - self.before.take(at)

    def follow(self, state: int, code: int) -> tuple[int, int] | None:
        low, high = int(self.starts[state]), int(self.starts[state + 1])
        at = low + int(np.searchsorted(self.codes[low:high].astype(np.int64), code))
        if at == high or self.codes[at] != code:
            return None
        return int(self.children[at]), int(self.before[at] - self.before[low])

    @property
    def edge_count(self) -> int:
        return len(self.codes)

    def edges(self) -> Edges:
        return Edges(len(self.starts) - 1, self._parents, self.codes, self.children)


class FreeLayer:
    """A layer whose choice no later step depends on: each state leads to a single one."""

    def __init__(self, choices: Choices, children: Column, below: Column) -> None:
        self.choices = choices
        self.children = children
        self.below = below.take(children)
        counts = choices.counts
        if counts is None:
            counts = np.full(len(children), choices.total(1))
        self.weights = _product(self.below, counts)

    def choose(self, states: Column, numbers: Column) -> tuple[Column, Column, Column]:
        below = self.below.take(states)
        places = numbers // below
        return (
            self.choices.at(states, places.astype(np.int64)),
            self.children.take(states),
            numbers - places * below,
        )

    def follow(self, state: int, code: int) -> tuple[int, int] | None:
        place = self.choices.rank(state, code)
        if place is None:
            return None
        return int(self.children[state]), place * int(self.below[state])

    @property
    def edge_count(self) -> int:
        return self.choices.total(len(self.children))

    def edges(self) -> Edges:
        parents, codes = self.choices.spread(len(self.children))
        return Edges(len(self.children), parents, codes, self.children.take(parents))


@dataclass(frozen=True)
class Edges:
    """The edges of a layer: parent state, code, child state; ordered by parent and code."""

    states: int
    parents: Column
    codes: Column
    children: Column


class DecisionDiagram:
    """Numbers the points of a part inside windows, in order."""

    def __init__(self, executor: PlanExecutor, partial: bool = True) -> None:
        self.names = executor.part.names
        layers = _forward(executor, partial)
        below = np.ones(1, dtype=np.int64)
        self.layers: list[Layer] = []
        for layer in reversed(layers):
            self.layers.append(
                ListedLayer(layer, below) if isinstance(layer, Edges) else FreeLayer(*layer, below)
            )
            below = self.layers[-1].weights
        self.layers.reverse()
        self.size = int(below[0]) if len(below) else 0

    @property
    def edge_count(self) -> int:
        """The number of edges of all layers, listed or not."""
        return sum(layer.edge_count for layer in self.layers)

    def table(self, numbers: Column) -> EncodedTable:
        """Return the points with these *numbers*."""
        states = np.zeros(len(numbers), dtype=np.int64)
        columns = []
        for layer in self.layers:
            codes, states, numbers = layer.choose(states, numbers)
            columns.append(codes)
        return EncodedTable(self.names, tuple(columns), len(states))

    def find(self, codes: dict[str, int]) -> int | None:
        """Return the number of the point with *codes*; ``None`` if it is not valid."""
        number, state = 0, 0
        for name, layer in zip(self.names, self.layers, strict=True):
            step = layer.follow(state, codes[name])
            if step is None:
                return None
            state, before = step
            number += before
        return number


class _Frontier:
    """The rows of a diagram's layer, and what its steps ahead need of the dimensions bound."""

    def __init__(self, executor: PlanExecutor, partial: bool) -> None:
        self.executor = executor
        steps = executor.plan.steps
        order = [step.name for step in steps if isinstance(step, BindStep)]
        rules = [step.rule for step in steps if isinstance(step, FilterStep)]
        bound_pairs = [step.pair for step in steps if isinstance(step, BindStep)]
        pairs = [each for each in (*rules, *bound_pairs) if isinstance(each, PairTable)]
        conditions = [rule for rule in rules if isinstance(rule, ExpandedConstraint)]
        self.values = PartialValues(executor.part, conditions if partial else ())
        self.remaining = RemainingCodes(pairs if partial else (), order)
        self.last_read = self._last_read(steps)

    def choices(self, table: EncodedTable, step: BindStep) -> Choices:
        window = self.executor.windows.get(step.name)
        remaining = self.remaining.choices(table, step.name, window)
        return self.executor.choices(table, step) if remaining is None else remaining

    def kept(
        self, table: EncodedTable, parents: Column, steps: Sequence[JoinStep]
    ) -> tuple[EncodedTable, Column]:
        """Return the rows that all rules of *steps* keep, and their *parents*."""
        for step in steps:
            assert isinstance(step, FilterStep), "a bind step begins another layer"
            if step.rule in self.remaining:
                continue
            if isinstance(step.rule, ExpandedConstraint) and step.rule in self.values:
                mask = self.values.kept(table, step.rule)
            else:
                mask = self.executor.kept(table, step.rule)
            at = np.flatnonzero(mask)
            table, parents = table.take(at), parents.take(at)
        return table, parents

    def advance(
        self, table: EncodedTable, parents: Column, bound: Sequence[str]
    ) -> tuple[EncodedTable, Column]:
        """Return *table* with what later rules need of the last of *bound*, in place of it."""
        table = self.values.advance(table, bound, bound[-1])
        table, at = self.remaining.advance(table, bound[-1], self.executor.plan.allowed)
        return table, parents.take(at)

    def needed(self, names: Sequence[str], end: int) -> frozenset[str]:
        """Return those of *names* that steps from number *end* on read."""
        later = self._with_bounds(self.values.names) | self.remaining.names
        return frozenset(
            name for name in names if name in later or self.last_read.get(name, -1) >= end
        )

    def is_free(self, name: str, at: int, end: int) -> bool:
        """Return whether no step behind step *at* reads *name*, and no rule follows it."""
        if self.last_read.get(name, -1) > at or end != at + 1:
            return False
        later = self._with_bounds(self.values.names) | self.remaining.partners
        return name not in later

    def _last_read(self, steps: Sequence[JoinStep]) -> dict[str, int]:
        """Return the number of the last of *steps* that reads the codes of each name."""
        part, last = self.executor.part, dict[str, int]()
        for at, step in enumerate(steps):
            if isinstance(step, BindStep):
                names = part.parameters[step.name].needs.union(part.leaders.get(step.name, ()))
                if step.pair is not None and step.pair not in self.remaining:
                    names |= {step.pair.other(step.name)}
            elif step.rule in self.values or step.rule in self.remaining:
                continue
            else:
                names = step.rule.names
            last.update(dict.fromkeys(self._with_bounds(names), at))
        return last

    def _with_bounds(self, names: frozenset[str]) -> frozenset[str]:
        """Return *names* and what the bounds of their ranges are computed from."""
        part = self.executor.part
        ranges = (
            name
            for name in names & part.parameters.keys()
            if isinstance(part.parameters[name].domain, Dependent)
        )
        return names.union(*(part.needs[name] for name in ranges))


def _forward(executor: PlanExecutor, partial: bool) -> list[Edges | tuple[Choices, Column]]:
    """Build the layers from the first dimension on; TooManyRows if they have too many edges."""
    steps, frontier = executor.plan.steps, _Frontier(executor, partial)
    binds = [at for at, step in enumerate(steps) if isinstance(step, BindStep)]
    table, _ = frontier.kept(UNIT, np.zeros(1, dtype=np.intp), steps[: binds[0]])
    layers: list[Edges | tuple[Choices, Column]] = []
    bound: list[str] = []
    edges = 0
    for at, end in zip(binds, [*binds[1:], len(steps)], strict=True):
        step = steps[at]
        assert isinstance(step, BindStep), "each group of steps begins with one"
        choices = frontier.choices(table, step)
        bound.append(step.name)
        # Nothing behind reads this dimension: all its codes lead to the same state, and no edge is
        # listed.
        if frontier.is_free(step.name, at, end):
            table, children = _merge(table, frontier.needed(table.names, end))
            layers.append((choices, children))
            continue
        edges += choices.total(table.length)
        if edges > EDGES:
            raise TooManyRows(edges)
        parents, _ = choices.spread(table.length)
        states, table = table.length, table.appended(step.name, choices)
        table, parents = frontier.kept(table, parents, steps[at + 1 : end])
        table, parents = frontier.advance(table, parents, bound)
        codes = table.codes[step.name]
        # Rows that agree in all that later steps read continue alike: they become one state.
        table, children = _merge(table, frontier.needed(table.names, end))
        layers.append(Edges(states, parents, codes, children))
    return layers


def _merge(table: EncodedTable, needed: frozenset[str]) -> tuple[EncodedTable, Column]:
    """Merge rows that agree in the *needed* columns; return them, and where each row went."""
    names = tuple(name for name in table.names if name in needed)
    if names == table.names:
        return table, np.arange(table.length)
    key, cells = np.zeros(table.length, dtype=np.int64), 1
    for name in names:
        column = table.codes[name]
        most = int(column.max(initial=0)) + 1
        if cells * most >= _EXACT:
            # The mixed radix would overflow: number the distinct keys anew, which are as many as
            # rows at most.
            distinct, key = np.unique(key, return_inverse=True)
            cells = len(distinct)
        key, cells = key * most + column, cells * most
    _, first, children = np.unique(key, return_index=True, return_inverse=True)
    columns = tuple(table.codes[name].take(first) for name in names)
    return EncodedTable(names, columns, len(first)), children


def _running_sums(weights: Column) -> Column:
    """Return the running sums from 0 on, as Python integers where 64 bits may overflow."""
    # A bound from above, checked first: an overflow of NumPy's integers is silent.
    if len(weights) and int(weights.max()) * len(weights) >= _EXACT:
        weights = weights.astype(np.object_)
    sums = np.zeros(len(weights) + 1, dtype=weights.dtype)
    np.cumsum(weights, out=sums[1:])
    return sums


def _product(weights: Column, counts: Column) -> Column:
    """Return the product, as Python integers where 64 bits may overflow."""
    if len(weights) and int(weights.max()) * int(counts.max()) >= _EXACT:
        weights = weights.astype(np.object_)
    return np.asarray(weights * counts)


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


class JoinProgress:
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

    def walk(self, windows: Windows, progress: JoinProgress) -> Iterator[EncodedTable]:
        """Yield the points inside *windows* as sorted, consecutive tables.

        Empty tables are yielded after each step, so that the caller can give up in time.
        """
        yielded, complete = 0, False
        while not complete:
            plan, passed = self._plan, 0
            try:
                for table in self._run(UNIT, 0, PlanExecutor(self.part, plan, windows), progress):
                    # Every plan yields the same rows in the same order, so what an earlier one
                    # yielded is skipped.
                    start, passed = max(yielded - passed, 0), passed + table.length
                    yielded = max(yielded, passed)
                    yield table.cut(min(start, table.length), table.length)
                complete = True
            except (InputError, TableTooLarge) as error:
                self._demote(plan, error)

    def diagram(self, windows: Windows) -> DecisionDiagram:
        """Return the points inside *windows*, counted; Overfull if that needs too many choices."""
        try:
            return DecisionDiagram(PlanExecutor(self.part, self._sequential, windows))
        except InputError:
            # A part of a condition may fail where the whole is never evaluated.
            return DecisionDiagram(PlanExecutor(self.part, self._declared, windows), partial=False)

    @cached_property
    def _empty(self) -> EncodedTable:
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
    def _facts(self) -> PlannerStatistics | None:
        """The statistics of the part; None if conditions depend on earlier ones to be evaluable."""
        try:
            return PlannerStatistics(self.part)
        except InputError:
            return None

    def _demote(self, plan: JoinPlan, error: Exception) -> None:
        """Switch to a more conservative plan; raise *error* if there is none.

        A condition may fail on rows that an earlier condition excludes; and a plan that inserts
        columns may need a table that is too long and cannot be split.
        """
        if plan is self._declared:
            raise error
        # Another walk may have replaced it already.
        if plan is self._plan:
            wide = isinstance(error, TableTooLarge)
            self._plan = self._sequential if wide else self._declared

    def _run(
        self,
        table: EncodedTable,
        number: int,
        executor: PlanExecutor,
        progress: JoinProgress,
        share: float = 1.0,
    ) -> Iterator[EncodedTable]:
        """Run the steps from *number* on, for the rows of *table*, a *share* of the product."""
        steps = executor.plan.steps
        while number < len(steps) and table.length:
            step = steps[number]
            if isinstance(step, BindStep):
                growth = executor.growth(table, step)
                # A table that would grow too long is cut into pieces, which are run to the end one
                # by one: memory stays bounded, and a walk gets its first points early.
                pieces = self._split(growth, executor, number)
                if pieces:
                    for part, inside, rows in pieces:
                        step_share = share * rows / growth.total
                        yield from self._run(part, number, inside, progress, step_share)
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
    ) -> list[tuple[EncodedTable, PlanExecutor, float]]:
        """Return the pieces of a join step that makes too many rows at once; empty if it does not.

        Each piece comes with an estimate of its rows.
        """
        table, total = growth.table, growth.total
        steps = executor.plan.steps[number:]
        places = [self.part.ranks[step.name] for step in steps if isinstance(step, BindStep)]
        if total > MAX_PIECE_ROWS and table.length > 1:
            # Only columns before all that are still to be bound: rows that agree in these must
            # stay in one piece, or the pieces would interleave.
            columns = sum(self.part.ranks[name] < min(places) for name in table.names)
            parts = table.parts(max(table.length * MAX_PIECE_ROWS // total, 1), columns)
            if len(parts) > 1:
                return [(part, executor, total * part.length / table.length) for part in parts]
        # A single row cannot be divided, but the codes that it takes can, if no later column is
        # inserted before them.
        if total > MAX_BOUND_CODES and table.length == 1 and min(places) == places[0]:
            low, high = growth.choices.ends
            windows = (low, (low + high) // 2), ((low + high) // 2, high)
            return [
                (table, executor.narrowed(growth.name, window), total / 2) for window in windows
            ]
        if total > MAX_UNSPLIT_ROWS:
            raise TableTooLarge(total)
        return []
