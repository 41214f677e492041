"""Random points, uniform over the valid ones, even where these cannot be counted."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from zenturio.errors import SpaceError
from zenturio.expression import Value
from zenturio.space.component import Component, Product, component_of
from zenturio.space.definition import Part, SpaceCondition, parted
from zenturio.space.domain import Column, Continuous
from zenturio.space.parameter import Dependent, Parameter
from zenturio.space.point import PointColumns

BATCH = 1024
"""Combinations in the first batch; the next ones grow, up to LARGEST_BATCH, while few are valid."""

LARGEST_BATCH = 1 << 16

TRIES = 1 << 22
"""Sampling gives up after this many combinations without a valid one."""


_EXACT = 1 << 40
"""Below this, a fraction of 53 bits picks each number equally often, but for one in 2**13."""


class NoneValid(SpaceError):
    """Of many random combinations, none was valid."""


def distinct(size: int, count: int, rng: random.Random) -> list[int]:
    """Draw *count* different numbers below *size*, in random order."""
    if count > size:
        raise SpaceError(
            f"{count} different points are requested, but there are only {size}",
            hint="request fewer",
        )
    # Of more than half of the numbers, most later draws would be repeats.
    if 2 * count > size:
        return rng.sample(range(size), count)
    # rng.sample() takes len() of the range, which fails beyond 63 bits; vast spaces have more.
    drawn: dict[int, None] = {}
    while len(drawn) < count:
        drawn[rng.randrange(size)] = None
    return list(drawn)


class RejectionSampler:
    """Draws combinations of a part that cannot be counted: continuous, or too large.

    As many conditions as possible are joined. Combinations are drawn uniformly from the result, and
    rejected if they violate one of the other conditions.
    """

    def __init__(self, part: Part, tries: int = TRIES) -> None:
        self.part = part
        self.tries = tries
        self.continuous = {
            parameter.name: parameter.domain
            for parameter in part.dimensions
            if isinstance(parameter.domain, Continuous)
        }

    def draw(self, rng: random.Random) -> Iterator[dict[str, Value]]:
        """Yield valid combinations as values by name, without end."""
        for rows in self.batches(rng):
            columns = [rows[name].tolist() for name in self.part.names]
            for values in zip(*columns, strict=True):
                yield dict(zip(self.part.names, values, strict=True))

    def batches(self, rng: random.Random) -> Iterator[PointColumns]:
        """Yield batches of valid combinations, without end."""
        bits = np.random.PCG64(rng.getrandbits(64))
        tried = accepted = 0
        length = BATCH
        while True:
            rows = self._batch(rng, bits, length)
            for condition in self._remaining:
                rows = rows.where(rows.kept(condition.expression))
            tried, accepted = tried + length, accepted + rows.length
            if not accepted and tried >= self.tries:
                raise NoneValid(
                    f"among {tried:,} random combinations of {', '.join(self.part.names[:6])},"
                    " none is valid",
                    hint="relax constraints, let them name fewer parameters, or take the first"
                    " points (--limit)",
                )
            if 64 * accepted < tried:
                length = min(4 * length, LARGEST_BATCH)
            yield rows

    def share(self, seed: int, tries: int) -> tuple[int, int]:
        """Return how many of about *tries* random combinations are valid, and their number."""
        bits = np.random.PCG64(seed)
        rng = random.Random(seed)  # noqa: S311 - not for secrets
        tried = accepted = 0
        while tried < tries:
            rows = self._batch(rng, bits, LARGEST_BATCH)
            for condition in self._remaining:
                rows = rows.where(rows.kept(condition.expression))
            tried, accepted = tried + LARGEST_BATCH, accepted + rows.length
        return accepted, tried

    @property
    def joined_size(self) -> int:
        """The number of combinations that are drawn from, before some are rejected."""
        return math.prod(each.size for each in self._joined)

    def _batch(self, rng: random.Random, bits: np.random.PCG64, length: int) -> PointColumns:
        """Return a batch of random combinations that meet the joined conditions."""
        picked: dict[str, Column] = {}
        for component in self._joined:
            numbers = _random_rows(component.size, length, rng, bits)
            picked.update(zip(component.part.names, component.codes(numbers), strict=True))
        rows = PointColumns(self.part.parameters, picked, length)
        for late in self._uncountable:
            rows = self._chosen(late, rows, rng)
        return rows

    def _chosen(self, parameter: Parameter, rows: PointColumns, rng: random.Random) -> PointColumns:
        """Return *rows* with a random value of *parameter*, uniform in each row."""
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
        # Where a range is empty there is no point, whatever the other values are.
        kept = ~active | (sizes > 0)
        shift = 0 if parameter.when is None else 1
        codes = [
            rng.randrange(size) + shift if yes else 0
            for yes, size in zip(active[kept].tolist(), sizes[kept].tolist(), strict=True)
        ]
        return rows.where(kept).with_codes(parameter.name, np.array(codes, dtype=np.int64))

    @cached_property
    def _uncountable(self) -> tuple[Parameter, ...]:
        """The continuous dimensions, and those that depend on one."""
        return tuple(
            parameter
            for parameter in self.part.dimensions
            if self.part.needs[parameter.name] & self.continuous.keys()
        )

    @cached_property
    def _joined(self) -> tuple[Component, ...]:
        return tuple(map(component_of, self._parts(self._inner)))

    @cached_property
    def _inner(self) -> tuple[SpaceCondition, ...]:
        """The conditions that are joined: greedily as many as can be."""
        late = {parameter.name for parameter in self._uncountable}
        early = [condition for condition in self.part.conditions if not condition.names & late]
        inner: tuple[SpaceCondition, ...] = ()
        # Conditions on few names first: they join small tables, and leave more to join.
        for condition in sorted(early, key=lambda candidate: len(candidate.names)):
            whole = next(
                part for part in self._parts((*inner, condition)) if condition in part.conditions
            )
            if component_of(whole).is_counted:
                inner = (*inner, condition)
        return inner

    @cached_property
    def _remaining(self) -> tuple[SpaceCondition, ...]:
        return tuple(
            condition for condition in self.part.conditions if condition not in self._inner
        )

    def _parts(self, conditions: Sequence[SpaceCondition]) -> tuple[Part, ...]:
        late = {parameter.name for parameter in self._uncountable}
        early = [parameter for parameter in self.part.dimensions if parameter.name not in late]
        return parted(early, conditions, self.part.zips)


def _random_rows(
    size: int, length: int, rng: random.Random, bits: np.random.PCG64
) -> list[int] | Column:
    """Return *length* random numbers below *size*."""
    if size > _EXACT:
        return [rng.randrange(size) for _ in range(length)]
    # The raw bits are the same in every version of NumPy, its integers() need not be.
    fractions = (bits.random_raw(length) >> np.uint64(11)) * 2.0**-53
    return (fractions * size).astype(np.int64)


def sample_values(
    components: Sequence[Component | RejectionSampler], rng: random.Random
) -> Iterator[Mapping[str, Value]]:
    """Yield values for all dimensions, without end; combinations may repeat."""
    lots = [
        component.draw(rng) if isinstance(component, RejectionSampler) else _counted(component, rng)
        for component in components
    ]
    while True:
        values: dict[str, Value] = {}
        for lot in lots:
            values.update(next(lot))
        yield values


def _counted(factor: Component, rng: random.Random) -> Iterator[dict[str, Value]]:
    """Yield random combinations of a component that can be counted."""
    if not factor.size:
        raise SpaceError(f"no combination of {', '.join(factor.part.names)} is valid")
    names = factor.part.names
    while True:
        codes = Product([factor]).picked([rng.randrange(factor.size) for _ in range(64)])
        rows = PointColumns(factor.part.parameters, codes, 64)
        for values in zip(*(rows[name].tolist() for name in names), strict=True):
            yield dict(zip(names, values, strict=True))
