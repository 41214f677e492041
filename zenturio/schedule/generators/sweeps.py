"""Parameter-sweep tasks in layers, each layer with resources of its own, as in Ma and Buyya,
"Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep Tasks
on Global Grids".

A subtask's tag is that of the resources of its layer, and its program is the layer.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from zenturio.errors import InputError
from zenturio.schedule.formats.instance import Instance
from zenturio.schedule.platform import Platform, PlatformMachine
from zenturio.schedule.workflow import Indices, Workflow, WorkflowTask
from zenturio.search.settings import setting

MAX_SUBTASKS = 1_000_000
"""Subtasks at most; and twice as many edges."""

Pairs = tuple[Indices, Indices]
"""Numbers in their layers, from 0, of subtasks and of those that wait for them."""


@dataclass(frozen=True)
class SweepSettings:
    """What the subtasks and resources of all these graphs are drawn from (section IV-A)."""

    rss: float = setting(5.0, "RSS: the longest subtask by the shortest", low=1, high=1e6)
    rrt: float = setting(5.0, "RRT: the fastest resource by the slowest", low=1, high=1e6)
    rsr: float = setting(5.0, "RSR: subtasks by resources, in each layer", low=1, high=1e6)
    length: float = setting(20.0, "length of a subtask, before it is drawn", low=0, high=1e9)
    throughput: float = setting(10.0, "of a resource, before it is drawn", low=1e-9, high=1e9)

    def made(
        self, name: str, counts: list[int], joins: list[Pairs], chance: np.random.Generator
    ) -> Instance:
        """Layers of so many subtasks; *joins* are those between each and the next."""
        tasks: list[WorkflowTask] = []
        machines: list[PlatformMachine] = []
        for i, count in enumerate(counts, 1):
            layer = f"T{i}"
            lengths = chance.uniform(1, self.rss, count) * self.length
            tasks += [
                WorkflowTask(f"{layer}.{j}", each, program=layer, tag=layer)
                for j, each in enumerate(lengths.tolist(), 1)
            ]
            resources = max(round(count / self.rsr), 1)
            speeds = chance.uniform(1, self.rrt, resources) * self.throughput
            machines += [
                PlatformMachine(f"R{i}.{j}", each, tags=frozenset([layer]))
                for j, each in enumerate(speeds.tolist(), 1)
            ]
        edges = [
            (f"T{i}.{a + 1}", f"T{i + 1}.{b + 1}")
            for i, (above, below) in enumerate(joins, 1)
            for a, b in zip(above.tolist(), below.tolist(), strict=True)
        ]
        return Instance(Workflow.of(name, tasks, edges), Platform(name, tuple(machines)))


def _check_size(name: str, counts: list[int], edges: float) -> list[int]:
    """*counts*, if so many subtasks and *edges* can be made."""
    if sum(counts) > MAX_SUBTASKS:
        raise InputError(f"{name}: {sum(counts):,} subtasks", hint=f"up to {MAX_SUBTASKS:,}")
    if edges > 2 * MAX_SUBTASKS:
        raise InputError(f"{name}: {edges:,.0f} dependencies", hint=f"up to {2 * MAX_SUBTASKS:,}")
    return counts


@dataclass(frozen=True)
class RandomSweep(SweepSettings):
    """Random layers of a parameter sweep, as in section IV-B: the total is fixed, layers differ."""

    pst: int = setting(5, "#PST: layers", low=1, high=1000)
    adps: float = setting(2.0, "ADPS: subtasks that one depends on, on average", low=1, high=1000)
    total: int = setting(512, "subtasks in all layers", low=1, high=MAX_SUBTASKS)

    def count(self) -> int:
        return self.total

    def instance(self, seed: int) -> Instance:
        chance = np.random.default_rng(seed)
        if self.total < self.pst:
            raise InputError(f"total={self.total} subtasks are too few for pst={self.pst} layers")
        weights = chance.uniform(0.5, 1.5, self.pst)
        bounds = np.round(np.cumsum(weights) / weights.sum() * (self.total - self.pst)).astype(int)
        counts = (1 + np.diff(bounds, prepend=0)).tolist()
        _check_size("sweep", counts, self.adps * self.total)
        return self.made("sweep", counts, self._joins(chance, counts), chance)

    def _joins(self, chance: np.random.Generator, counts: list[int]) -> list[Pairs]:
        """Each subtask depends on one of the layer above, some on more: ADPS on average."""
        below = np.array(counts[1:], np.int64)
        room = np.array(counts[:-1], np.int64) * below
        wanted = round(self.adps * int(below.sum()))
        if wanted > room.sum():
            raise InputError(
                f"adps={self.adps:g}: a subtask has too few above it",
                hint=f"up to {room.sum() / max(below.sum(), 1):.3g} with these layers",
            )
        extra = chance.multivariate_hypergeometric(room - below, wanted - int(below.sum()))
        return [
            _random_joins(chance, above, count, int(more))
            for above, count, more in zip(counts, counts[1:], extra, strict=False)
        ]


def _random_joins(chance: np.random.Generator, above: int, below: int, more: int) -> Pairs:
    """One of *above* for each of *below*, and *more* pairs of those that are left."""
    one = chance.integers(0, above, below)
    taken = np.arange(below, dtype=np.int64) * above + one
    left = np.sort(chance.choice(below * (above - 1), more, replace=False)) if more else taken[:0]
    # Pair p of those left: in row p // (above - 1), where the taken column is jumped over.
    row, column = np.divmod(left, max(above - 1, 1))
    pairs = np.sort(np.concatenate([taken, row * above + column + (column >= one[row])]))
    return (pairs % above).astype(np.int32), (pairs // above).astype(np.int32)


@dataclass(frozen=True)
class Ptg(SweepSettings):
    """PTG: a parallel graph of chains, figure 10(a); Table II has 12 layers and RSR 6."""

    pst: int = setting(12, "#PST: layers", low=1, high=1000)
    width: int = setting(40, "subtasks in each layer", low=1, high=MAX_SUBTASKS)

    def count(self) -> int:
        return self.pst * self.width

    def instance(self, seed: int) -> Instance:
        each = np.arange(self.width, dtype=np.int32)
        counts = _check_size("ptg", [self.width] * self.pst, 0)
        joins = [(each, each)] * (self.pst - 1)
        return self.made("ptg", counts, joins, np.random.default_rng(seed))


_TREES = "trees side by side: lambda - 1 of them have lambda ** pst - 1 subtasks, as printed"
"""One tree has the layers that section IV-C gives, and so many subtasks only if lambda is 2."""


@dataclass(frozen=True)
class Otg(SweepSettings):
    """OTG: an out-tree, figure 10(b); Table II has 10 layers of branches 2, or 7 of 3."""

    pst: int = setting(10, "#PST: layers", low=1, high=20)
    branches: int = setting(2, "lambda: subtasks that follow one", low=2, high=100)
    trees: int = setting(1, _TREES, low=1, high=1000)

    def count(self) -> int:
        return sum(_powers(self.trees, self.branches, self.pst))

    def instance(self, seed: int) -> Instance:
        counts = _check_size("otg", _powers(self.trees, self.branches, self.pst), 0)
        joins = [_out_tree(count, self.branches) for count in counts[:-1]]
        return self.made("otg", counts, joins, np.random.default_rng(seed))


@dataclass(frozen=True)
class Itg(SweepSettings):
    """ITG: an in-tree, figure 10(c); Table II has 10 layers of branches 2, or 7 of 3."""

    pst: int = setting(10, "#PST: layers", low=1, high=20)
    branches: int = setting(2, "lambda: subtasks that one follows", low=2, high=100)
    trees: int = setting(1, _TREES, low=1, high=1000)

    def count(self) -> int:
        return sum(_powers(self.trees, self.branches, self.pst))

    def instance(self, seed: int) -> Instance:
        counts = _check_size("itg", _powers(self.trees, self.branches, self.pst), 0)[::-1]
        joins = [_out_tree(count, self.branches)[::-1] for count in counts[1:]]
        return self.made("itg", counts, joins, np.random.default_rng(seed))


def _powers(first: int, base: int, count: int) -> list[int]:
    found = [first]
    while len(found) < count and sum(found) <= MAX_SUBTASKS:
        found.append(found[-1] * base)
    return found


def _out_tree(count: int, branches: int) -> Pairs:
    """Each of *count* is followed by *branches* of its own."""
    below = np.arange(count * branches, dtype=np.int32)
    return (below // branches).astype(np.int32), below


@dataclass(frozen=True)
class Dotg(SweepSettings):
    """DOTG: a densified out-tree, a trapezium, figure 10(d); Table II has (3, 1) and (4, 2)."""

    pst: int = setting(5, "#PST: layers", low=1, high=100)
    branches: int = setting(3, "lambda: subtasks that follow one", low=1, high=1000)
    step: int = setting(1, "delta: subtasks by which the followers of neighbours differ", low=1)
    narrow: int = setting(30, "subtasks in the smallest layer", low=1, high=MAX_SUBTASKS)

    def count(self) -> int:
        return sum(_dense_counts(self.narrow, self.branches, self.step, self.pst))

    def instance(self, seed: int) -> Instance:
        counts = self._counts("dotg")
        joins = [_dense_joins(count, self.branches, self.step) for count in counts[:-1]]
        return self.made("dotg", counts, joins, np.random.default_rng(seed))

    def _counts(self, name: str) -> list[int]:
        counts = _dense_counts(self.narrow, self.branches, self.step, self.pst)
        return _check_size(name, counts, sum(counts[:-1]) * self.branches)


@dataclass(frozen=True)
class Ditg(Dotg):
    """DITG: a densified in-tree, figure 10(e); Table II has branches and step (3, 1) and (4, 2)."""

    def instance(self, seed: int) -> Instance:
        counts = self._counts("ditg")[::-1]
        joins = [_dense_joins(count, self.branches, self.step)[::-1] for count in counts[1:]]
        return self.made("ditg", counts, joins, np.random.default_rng(seed))


def _dense_counts(first: int, branches: int, step: int, count: int) -> list[int]:
    """N(T_i) = step (N(T_i-1) - 1) + branches."""
    found = [first]
    while len(found) < count and sum(found) <= MAX_SUBTASKS:
        found.append(step * (found[-1] - 1) + branches)
    return found


def _dense_joins(count: int, branches: int, step: int) -> Pairs:
    """Number k of *count* is followed by *branches* from number k * step on."""
    above = np.repeat(np.arange(count, dtype=np.int32), branches)
    below = above * step + np.tile(np.arange(branches, dtype=np.int32), count)
    by = np.lexsort((above, below))
    return above[by], below[by]


@dataclass(frozen=True)
class Ctg(SweepSettings):
    """CTG: out-trees and in-trees in turn, figure 10(f); Table II has 13 layers."""

    pst: int = setting(13, "#PST: layers", low=1, high=1000)
    first: int = setting(16, "subtasks in the first layer", low=1, high=MAX_SUBTASKS)
    inner: int = setting(3, "lambda of the inner trees", low=1, high=100)
    outer: int = setting(2, "lambda of the outer trees", low=1, high=100)

    def count(self) -> int:
        return sum(self._counts())

    def instance(self, seed: int) -> Instance:
        counts = _check_size("ctg", self._counts(), 0)
        joins = [
            _out_tree(above, below // above)
            if below >= above
            else _out_tree(below, above // below)[::-1]
            for above, below in itertools.pairwise(counts)
        ]
        return self.made("ctg", counts, joins, np.random.default_rng(seed))

    def _counts(self) -> list[int]:
        turns = (self.outer, self.inner, -self.inner, -self.outer)
        counts = [self.first]
        while len(counts) < self.pst and sum(counts) <= MAX_SUBTASKS:
            turn = turns[(len(counts) - 1) % 4]
            counts.append(counts[-1] * turn if turn > 0 else counts[-1] // -turn)
        return counts
