"""Points by chance: uniform over the valid ones, even where these cannot be counted."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from zenturio.errors import SpaceError
from zenturio.expression import Value
from zenturio.space.component import Component, component
from zenturio.space.components import Part, parted
from zenturio.space.continuous import Continuous
from zenturio.space.definition import Condition
from zenturio.space.dependent import Dependent
from zenturio.space.domain import Column
from zenturio.space.parameter import Parameter
from zenturio.space.product import Product
from zenturio.space.rows import Rows

BATCH = 1024
"""Combinations that are tried at once."""

TRIES = 1 << 20
"""After so many combinations without a valid one, sampling gives up."""


def distinct(size: int, count: int, rng: random.Random) -> list[int]:
    """*count* different numbers below *size*, in the order in which they were drawn."""
    if count > size:
        raise SpaceError(
            f"{count} different points are asked for, and there are {size}", hint="ask for fewer"
        )
    if 2 * count > size:
        return rng.sample(range(size), count)
    drawn: dict[int, None] = {}
    while len(drawn) < count:
        drawn[rng.randrange(size)] = None
    return list(drawn)


class Lot:
    """Draws combinations of a part that has no size: continuous, or too large to be counted.

    Conditions that can be joined are; from the product of what they leave, combinations are drawn
    evenly, and those are dropped that another condition does not keep.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        self.continuous = {
            each.name: each.domain
            for each in part.dimensions
            if isinstance(each.domain, Continuous)
        }

    def draw(self, rng: random.Random) -> Iterator[dict[str, Value]]:
        """The values of the dimensions, for ever new."""
        for rows in self.batches(rng):
            columns = [rows[name].tolist() for name in self.part.names]
            for values in zip(*columns, strict=True):
                yield dict(zip(self.part.names, values, strict=True))

    def batches(self, rng: random.Random) -> Iterator[Rows]:
        """Valid combinations, many at once, for ever new."""
        tried = found = 0
        while True:
            rows = self._batch(rng)
            for condition in self._open:
                rows = rows.where(rows.kept(condition.expression))
            tried, found = tried + BATCH, found + rows.length
            if not found and tried >= TRIES:
                raise SpaceError(
                    f"among {tried:,} combinations of {', '.join(self.part.names[:6])},"
                    " taken by chance, none is valid",
                    hint="constraints that are easier to meet, or that name fewer parameters",
                )
            yield rows

    def _batch(self, rng: random.Random) -> Rows:
        """Combinations by chance that keep the conditions that were joined."""
        picked: dict[str, Column] = {}
        for each in self._joined:
            picked.update(Product([each]).picked([rng.randrange(each.size) for _ in range(BATCH)]))
        rows = Rows(self.part.parameters, picked, BATCH)
        for late in self._late:
            rows = self._chosen(late, rows, rng)
        return rows

    def _chosen(self, parameter: Parameter, rows: Rows, rng: random.Random) -> Rows:
        """*rows* with a value for *parameter*, drawn evenly from what it can be in each."""
        active = (
            np.ones(rows.length, np.bool_) if parameter.when is None else rows.active(parameter)
        )
        domain = parameter.domain
        assert domain is not None, "a dimension has a set"
        if isinstance(domain, Continuous):
            drawn = [domain.draw(rng) if yes else math.nan for yes in active.tolist()]
            return rows.with_codes(parameter.name, np.array(drawn, dtype=np.float64))
        sizes = np.full(rows.length, domain.size if not isinstance(domain, Dependent) else 0)
        if isinstance(domain, Dependent):
            sizes[active] = rows.where(active).counts(domain)
        kept = ~active | (sizes > 0)
        shift = 0 if parameter.when is None else 1
        codes = [
            rng.randrange(size) + shift if yes else 0
            for yes, size in zip(active[kept].tolist(), sizes[kept].tolist(), strict=True)
        ]
        return rows.where(kept).with_codes(parameter.name, np.array(codes, dtype=np.int64))

    @cached_property
    def _late(self) -> tuple[Parameter, ...]:
        """The continuous dimensions, and those that need one."""
        return tuple(
            each
            for each in self.part.dimensions
            if self.part.needs[each.name] & self.continuous.keys()
        )

    @cached_property
    def _joined(self) -> tuple[Component, ...]:
        return tuple(map(component, self._parts(self._inner)))

    @cached_property
    def _inner(self) -> tuple[Condition, ...]:
        """The conditions that are joined: as many, one after the other, as still can be."""
        late = {each.name for each in self._late}
        early = [each for each in self.part.conditions if not each.names & late]
        inner: tuple[Condition, ...] = ()
        for condition in sorted(early, key=lambda each: len(each.names)):
            whole = next(
                part for part in self._parts((*inner, condition)) if condition in part.conditions
            )
            if component(whole).known:
                inner = (*inner, condition)
        return inner

    @cached_property
    def _open(self) -> tuple[Condition, ...]:
        return tuple(each for each in self.part.conditions if each not in self._inner)

    def _parts(self, conditions: Sequence[Condition]) -> tuple[Part, ...]:
        late = {each.name for each in self._late}
        early = [each for each in self.part.dimensions if each.name not in late]
        return parted(early, conditions, self.part.zips)


def drawn(
    components: Sequence[Component | Lot], rng: random.Random
) -> Iterator[Mapping[str, Value]]:
    """Choices of values for all dimensions, for ever new; some may come twice."""
    lots = [each.draw(rng) if isinstance(each, Lot) else _counted(each, rng) for each in components]
    while True:
        values: dict[str, Value] = {}
        for lot in lots:
            values.update(next(lot))
        yield values


def _counted(factor: Component, rng: random.Random) -> Iterator[dict[str, Value]]:
    """Combinations of a component that has a size."""
    if not factor.size:
        raise SpaceError(f"no combination of {', '.join(factor.part.names)} is valid")
    names = factor.part.names
    while True:
        codes = Product([factor]).picked([rng.randrange(factor.size) for _ in range(64)])
        rows = Rows(factor.part.parameters, codes, 64)
        for values in zip(*(rows[name].tolist() for name in names), strict=True):
            yield dict(zip(names, values, strict=True))
