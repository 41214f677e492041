"""A part as a decision diagram with one layer for each dimension.

After each dimension, rows that agree in everything that later steps read are merged into one state.
So points far too many to list are counted, found and numbered in time of the states and edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from zenturio.space.code_table import UNIT, Choices, CodeTable, TooManyRows
from zenturio.space.column_join import PlanExecutor
from zenturio.space.dependent import Dependent
from zenturio.space.domain import Column
from zenturio.space.join_plan import BindStep, FilterStep, JoinStep

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


class ListedLayer:
    """A layer whose edges are listed, state by state."""

    def __init__(self, edges: _Edges, below: Column) -> None:
        self.codes = edges.codes
        self.children = edges.children
        self.starts = np.searchsorted(edges.parents, np.arange(edges.states + 1))
        self.before = _running_sums(below.take(edges.children))
        """The number of points below all edges before each edge."""
        ends = self.before.take(self.starts)
        self.weights = ends[1:] - ends[:-1]

    def choose(self, states: Column, numbers: Column) -> tuple[Column, Column, Column]:
        offsets = numbers + self.before.take(self.starts.take(states))
        # Edges without points share the offset of the next edge: the last of them has the points.
        at = np.searchsorted(self.before, offsets, side="right") - 1
        return self.codes.take(at), self.children.take(at), offsets - self.before.take(at)

    def follow(self, state: int, code: int) -> tuple[int, int] | None:
        low, high = int(self.starts[state]), int(self.starts[state + 1])
        at = low + int(np.searchsorted(self.codes[low:high].astype(np.int64), code))
        if at == high or self.codes[at] != code:
            return None
        return int(self.children[at]), int(self.before[at] - self.before[low])


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


@dataclass(frozen=True)
class _Edges:
    """Listed edges: parent state, code, child state."""

    states: int
    parents: Column
    codes: Column
    children: Column


class DecisionDiagram:
    """Numbers the points of a part inside windows, in order."""

    def __init__(self, executor: PlanExecutor) -> None:
        self.names = executor.part.names
        layers = _forward(executor)
        below = np.ones(1, dtype=np.int64)
        self.layers: list[Layer] = []
        for layer in reversed(layers):
            self.layers.append(
                ListedLayer(layer, below) if isinstance(layer, _Edges) else FreeLayer(*layer, below)
            )
            below = self.layers[-1].weights
        self.layers.reverse()
        self.size = int(below[0]) if len(below) else 0

    def table(self, numbers: Column) -> CodeTable:
        """Return the points with these *numbers*."""
        states = np.zeros(len(numbers), dtype=np.int64)
        columns = []
        for layer in self.layers:
            codes, states, numbers = layer.choose(states, numbers)
            columns.append(codes)
        return CodeTable(self.names, tuple(columns), len(states))

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


def _forward(executor: PlanExecutor) -> list[_Edges | tuple[Choices, Column]]:
    """Build the layers from the first dimension on; TooManyRows if they have too many edges."""
    steps = executor.plan.steps
    binds = [at for at, step in enumerate(steps) if isinstance(step, BindStep)]
    table = _kept(executor, UNIT, steps[: binds[0]])
    layers: list[_Edges | tuple[Choices, Column]] = []
    edges = 0
    for at, end in zip(binds, [*binds[1:], len(steps)], strict=True):
        step = steps[at]
        assert isinstance(step, BindStep), "each group of steps begins with one"
        choices = executor.choices(table, step)
        needed = _names_read(executor, steps[end:])
        if step.name not in _names_read(executor, steps[at + 1 :]) and end == at + 1:
            table, children = _merge(table, needed)
            layers.append((choices, children))
            continue
        edges += choices.total(table.length)
        if edges > EDGES:
            raise TooManyRows(edges)
        parents, _ = choices.spread(table.length)
        states, table = table.length, table.appended(step.name, choices)
        table, parents = _kept_with(executor, table, parents, steps[at + 1 : end])
        codes = table.codes[step.name]
        table, children = _merge(table, needed)
        layers.append(_Edges(states, parents, codes, children))
    return layers


def _kept(executor: PlanExecutor, table: CodeTable, steps: Sequence[JoinStep]) -> CodeTable:
    return _kept_with(executor, table, np.zeros(table.length, dtype=np.intp), steps)[0]


def _kept_with(
    executor: PlanExecutor, table: CodeTable, parents: Column, steps: Sequence[JoinStep]
) -> tuple[CodeTable, Column]:
    """Return the rows that all rules of *steps* keep, and their *parents*."""
    for step in steps:
        assert isinstance(step, FilterStep), "a bind step begins another layer"
        at = np.flatnonzero(executor.kept(table, step.rule))
        table, parents = table.take(at), parents.take(at)
    return table, parents


def _names_read(executor: PlanExecutor, steps: Sequence[JoinStep]) -> frozenset[str]:
    """Return the names that *steps* read."""
    part, names = executor.part, set[str]()
    for step in steps:
        if not isinstance(step, BindStep):
            names |= step.rule.names
            continue
        names |= part.parameters[step.name].needs.union(part.leaders.get(step.name, ()))
        if step.pair is not None:
            names.add(step.pair.other(step.name))
    # The elements of a dependent range are computed from its bounds.
    ranges = (name for name in names if isinstance(part.parameters[name].domain, Dependent))
    return frozenset(names).union(*(part.needs[name] for name in ranges))


def _merge(table: CodeTable, needed: frozenset[str]) -> tuple[CodeTable, Column]:
    """Merge rows that agree in the *needed* columns; return them, and where each row went."""
    names = tuple(name for name in table.names if name in needed)
    if names == table.names:
        return table, np.arange(table.length)
    key, cells = np.zeros(table.length, dtype=np.int64), 1
    for name in names:
        column = table.codes[name]
        most = int(column.max(initial=0)) + 1
        if cells * most >= _EXACT:
            distinct, key = np.unique(key, return_inverse=True)
            cells = len(distinct)
        key, cells = key * most + column, cells * most
    _, first, children = np.unique(key, return_index=True, return_inverse=True)
    columns = tuple(table.codes[name].take(first) for name in names)
    return CodeTable(names, columns, len(first)), children


def _running_sums(weights: Column) -> Column:
    """Return the running sums from 0 on, as Python integers where 64 bits may overflow."""
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
