"""A part as a decision diagram: as many layers as dimensions, and points that share their ends.

After each dimension, rows that agree in all that later steps look at are one state. So points far
too many to be written out are counted, found and numbered by what there is of states and choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from zenturio.space.dependent import Dependent
from zenturio.space.domain import Column
from zenturio.space.growth import Growing
from zenturio.space.plan import Bind, Keep, Step
from zenturio.space.table import UNIT, Choices, Overfull, Table

EDGES = 1 << 22
"""A diagram has at most so many choices written out; a part that needs more is done in blocks."""

_EXACT = 1 << 62


class Layer(Protocol):
    """What can be chosen in each state for one dimension, and to which state that leads."""

    @property
    def weights(self) -> Column:
        """How many points there are behind each state."""
        ...

    def choose(self, states: Column, numbers: Column) -> tuple[Column, Column, Column]:
        """The codes of points by their *numbers* behind *states*, what they lead to, and the rest
        of the numbers.
        """
        ...

    def follow(self, state: int, code: int) -> tuple[int, int] | None:
        """Where *code* leads, and how many points there are with smaller codes; if it is valid."""
        ...


class Spread:
    """A layer whose choices are written out, state by state."""

    def __init__(self, edges: _Edges, below: Column) -> None:
        self.codes = edges.codes
        self.children = edges.children
        self.starts = np.searchsorted(edges.parents, np.arange(edges.states + 1))
        self.before = _running(below.take(edges.children))
        """How many points there are behind all choices before each."""
        ends = self.before.take(self.starts)
        self.weights = ends[1:] - ends[:-1]

    def choose(self, states: Column, numbers: Column) -> tuple[Column, Column, Column]:
        wanted = numbers + self.before.take(self.starts.take(states))
        # Of choices without points behind them, which begin alike, the last one has some.
        at = np.searchsorted(self.before, wanted, side="right") - 1
        return self.codes.take(at), self.children.take(at), wanted - self.before.take(at)

    def follow(self, state: int, code: int) -> tuple[int, int] | None:
        low, high = int(self.starts[state]), int(self.starts[state + 1])
        at = low + int(np.searchsorted(self.codes[low:high].astype(np.int64), code))
        if at == high or self.codes[at] != code:
            return None
        return int(self.children[at]), int(self.before[at] - self.before[low])


class Free:
    """A layer whose choice does not matter later: a state leads to one, whatever is chosen."""

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
    """Choices that are written out: from which state, which code, to which state."""

    states: int
    parents: Column
    codes: Column
    children: Column


class Diagram:
    """The points of a part inside windows, in order, each with its number."""

    def __init__(self, growing: Growing) -> None:
        self.names = growing.part.names
        made = _forward(growing)
        below = np.ones(1, dtype=np.int64)
        self.layers: list[Layer] = []
        for each in reversed(made):
            self.layers.append(
                Spread(each, below) if isinstance(each, _Edges) else Free(*each, below)
            )
            below = self.layers[-1].weights
        self.layers.reverse()
        self.size = int(below[0]) if len(below) else 0

    def table(self, numbers: Column) -> Table:
        """The points with these *numbers*."""
        states = np.zeros(len(numbers), dtype=np.int64)
        columns = []
        for layer in self.layers:
            codes, states, numbers = layer.choose(states, numbers)
            columns.append(codes)
        return Table(self.names, tuple(columns), len(states))

    def find(self, codes: dict[str, int]) -> int | None:
        """The number of the point with *codes*; ``None`` if it is not valid."""
        number, state = 0, 0
        for name, layer in zip(self.names, self.layers, strict=True):
            found = layer.follow(state, codes[name])
            if found is None:
                return None
            state, before = found
            number += before
        return number


def _forward(growing: Growing) -> list[_Edges | tuple[Choices, Column]]:
    """The layers, from the first dimension on; Overfull if they have too many choices."""
    steps = growing.plan.steps
    binds = [at for at, step in enumerate(steps) if isinstance(step, Bind)]
    table = _kept(growing, UNIT, steps[: binds[0]])
    layers: list[_Edges | tuple[Choices, Column]] = []
    edges = 0
    for at, end in zip(binds, [*binds[1:], len(steps)], strict=True):
        step = steps[at]
        assert isinstance(step, Bind), "each group of steps begins with one"
        choices = growing.choices(table, step)
        needed = _needed(growing, steps[end:])
        if step.name not in _needed(growing, steps[at + 1 :]) and end == at + 1:
            table, children = _merged(table, needed)
            layers.append((choices, children))
            continue
        edges += choices.total(table.length)
        if edges > EDGES:
            raise Overfull(edges)
        parents, _ = choices.spread(table.length)
        states, table = table.length, table.appended(step.name, choices)
        table, parents = _kept_with(growing, table, parents, steps[at + 1 : end])
        codes = table.codes[step.name]
        table, children = _merged(table, needed)
        layers.append(_Edges(states, parents, codes, children))
    return layers


def _kept(growing: Growing, table: Table, steps: Sequence[Step]) -> Table:
    return _kept_with(growing, table, np.zeros(table.length, dtype=np.intp), steps)[0]


def _kept_with(
    growing: Growing, table: Table, parents: Column, steps: Sequence[Step]
) -> tuple[Table, Column]:
    """The rows that all rules of *steps* keep, and their *parents*."""
    for step in steps:
        assert isinstance(step, Keep), "what binds begins another layer"
        at = np.flatnonzero(growing.kept(table, step.rule))
        table, parents = table.take(at), parents.take(at)
    return table, parents


def _needed(growing: Growing, steps: Sequence[Step]) -> frozenset[str]:
    """The names that *steps* look at."""
    part, names = growing.part, set[str]()
    for step in steps:
        if not isinstance(step, Bind):
            names |= step.rule.names
            continue
        names |= part.parameters[step.name].needs.union(part.leaders.get(step.name, ()))
        if step.pair is not None:
            names.add(step.pair.other(step.name))
    # What a dependent range holds is computed from its bounds.
    ranges = (name for name in names if isinstance(part.parameters[name].domain, Dependent))
    return frozenset(names).union(*(part.needs[name] for name in ranges))


def _merged(table: Table, needed: frozenset[str]) -> tuple[Table, Column]:
    """One row for all that agree in the *needed* columns, and which one each row became."""
    names = tuple(name for name in table.names if name in needed)
    if names == table.names:
        return table, np.arange(table.length)
    key, cells = np.zeros(table.length, dtype=np.int64), 1
    for name in names:
        column = table.codes[name]
        most = int(column.max(initial=0)) + 1
        if cells * most >= _EXACT:
            found, key = np.unique(key, return_inverse=True)
            cells = len(found)
        key, cells = key * most + column, cells * most
    _, first, children = np.unique(key, return_index=True, return_inverse=True)
    columns = tuple(table.codes[name].take(first) for name in names)
    return Table(names, columns, len(first)), children


def _running(weights: Column) -> Column:
    """The sum of all before each, and of all; in Python's integers where 64 bits may not do."""
    if len(weights) and int(weights.max()) * len(weights) >= _EXACT:
        weights = weights.astype(np.object_)
    sums = np.zeros(len(weights) + 1, dtype=weights.dtype)
    np.cumsum(weights, out=sums[1:])
    return sums


def _product(weights: Column, counts: Column) -> Column:
    """Their product, in Python's integers where 64 bits may not do."""
    if len(weights) and int(weights.max()) * int(counts.max()) >= _EXACT:
        weights = weights.astype(np.object_)
    return np.asarray(weights * counts)
