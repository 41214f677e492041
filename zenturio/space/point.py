"""Points: one value for each parameter, alone and in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from zenturio.errors import unknown_name
from zenturio.expression import Expression, Value, holds, text_of
from zenturio.space.domain import Column, Continuous, Domain, Elements
from zenturio.space.parameter import Dependent, Parameter

Position = int | float | None
"""The position of a value in its set; in a continuous set the number itself; None if inactive."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The names and positions that all points of a space share."""

    parameters: tuple[Parameter, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def slots(self) -> dict[str, int]:
        """The index of each parameter's value."""
        return {name: slot for slot, name in enumerate(self.names)}

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters if parameter.derived is None)

    @cached_property
    def listed(self) -> tuple[tuple[str, Sequence[str] | None, int], ...]:
        """For each parameter its texts by position if they are listed, and its place."""
        return tuple(
            (parameter.name, parameter.domain.listed, self.places[parameter.name])
            if isinstance(parameter.domain, Elements) and parameter.when is None
            else (parameter.name, None, 0)
            for parameter in self.parameters
        )

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each dimension's position."""
        return {name: place for place, name in enumerate(self.dimensions)}


class Point(Mapping[str, Value]):
    """A value for each parameter, derived ones included; ``None`` where one is inactive.

    Points are equal if their dimensions have the same names and values, whatever their order.
    """

    __slots__ = ("_hash", "_layout", "_positions", "_values")

    def __init__(
        self, layout: Layout, values: tuple[Value, ...], positions: tuple[Position, ...]
    ) -> None:
        self._layout = layout
        self._values = values
        self._positions = positions

    def __getitem__(self, name: str) -> Value:
        return self._values[self._layout.slots[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.names)

    def __len__(self) -> int:
        return len(self._values)

    def plain(self) -> dict[str, Value]:
        """Return the values as a dict, whose lookups are faster."""
        return dict(zip(self._layout.names, self._values, strict=True))

    @property
    def positions(self) -> dict[str, Position]:
        """The position of each dimension's value in its set."""
        return dict(zip(self._layout.dimensions, self._positions, strict=True))

    def text(self, name: str) -> str:
        """Return the text that is filled in for *name*; its DEFAULT while it is inactive."""
        if name not in self._layout.slots:
            raise unknown_name("parameter", name, self._layout.names)
        slot = self._layout.slots[name]
        parameter, value = self._layout.parameters[slot], self._values[slot]
        if parameter.domain is None:
            return text_of(value)
        if value is None:
            return parameter.default or ""
        domain = parameter.domain
        if isinstance(domain, Dependent):
            whole = {n: p for n, p in self.positions.items() if isinstance(p, int)}
            bound = domain.domain(self, whole)
            assert bound is not None, "a point has a value only where its set has one"
            domain = bound
        return domain.text(self._positions[self._layout.places[name]])

    @property
    def texts(self) -> dict[str, str]:
        """The texts of all parameters."""
        positions: Sequence[Any] = self._positions
        return {
            name: self.text(name) if texts is None else texts[positions[place]]
            for name, texts, place in self._layout.listed
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Point):
            return NotImplemented
        # The usual case: points of one space need no names.
        if self._layout is other._layout:
            return self._values == other._values
        return self._chosen() == other._chosen()

    def __hash__(self) -> int:
        # Kept once it is asked for: a search looks each of its points up many times.
        try:
            return self._hash
        except AttributeError:
            # Without types and order, so that equal points of other spaces hash alike.
            pairs = frozenset((name, self[name]) for name in self._layout.dimensions)
            self._hash: int = hash(pairs)
            return self._hash

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        # Another process hashes texts otherwise.
        return None, {name: getattr(self, name) for name in ("_layout", "_values", "_positions")}

    def _chosen(self) -> dict[str, tuple[type, Value]]:
        return {name: (type(self[name]), self[name]) for name in self._layout.dimensions}

    def __repr__(self) -> str:
        return f"Point({', '.join(f'{name}={value!r}' for name, value in self.items())})"


class PointBlock:
    """Some points of a space in their order, which are made when they are asked for."""

    def __init__(
        self,
        length: int,
        decode: Callable[[], Iterable[Point]],
        coded: Mapping[str, tuple[Column, CodedTexts]] | None = None,
    ) -> None:
        self._length = length
        self._decode = decode
        self.coded = coded or {}
        """Codes and texts by parameter, of those whose texts are numbered in the whole space."""

    def __len__(self) -> int:
        return self._length

    @cached_property
    def points(self) -> tuple[Point, ...]:
        return tuple(self._decode())


@dataclass(frozen=True)
class CodedTexts:
    """The texts of a parameter by their codes; None stands for an inactive one."""

    domain: Domain
    can_be_inactive: bool

    def __len__(self) -> int:
        return self.domain.size + self.can_be_inactive

    def __getitem__(self, code: int) -> str | None:
        position = code - self.can_be_inactive
        return None if position < 0 else self.domain.text(position)


BLOCK = 1 << 15
"""Rows of a block in which conditions are evaluated; its columns fit into the cache."""


class PointColumns:
    """The values of parameters in many points, computed lazily."""

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        codes: Mapping[str, Column],
        length: int,
        fixed: Mapping[str, Column] | None = None,
    ) -> None:
        self.parameters = parameters
        self.codes = codes
        self.length = length
        self._fixed = dict(fixed or {})
        self._cache = dict(self._fixed)

    def __getitem__(self, name: str) -> Column:
        if name not in self._cache:
            self._cache[name] = self._values(self.parameters[name])
        return self._cache[name]

    @property
    def positions(self) -> Mapping[str, Column]:
        """The positions in each row; ``None`` where a parameter is inactive."""
        return _LazyMapping(self.codes, self._positions)

    def of(self, expression: Expression) -> Column:
        """Return the value of *expression* in each row."""
        columns = {name: self._narrow(name) for name in expression.names}
        positions = {name: self._positions(name) for name in expression.indexed}
        return expression.column(columns, self.length, positions)

    def kept(self, condition: Expression) -> Column:
        """Return the mask of the rows in which *condition* holds."""
        if self.length > BLOCK:
            # Columns of a block stay in the processor's cache between the operations of a
            # condition.
            starts = range(0, self.length, BLOCK)
            return np.concatenate([self._cut(at, at + BLOCK).kept(condition) for at in starts])
        values = self.of(condition)
        if values.dtype == np.bool_:
            return values
        return np.fromiter(map(holds, values.tolist()), np.bool_, self.length)

    def _cut(self, start: int, stop: int) -> PointColumns:
        """Return the rows from *start* to before *stop*."""
        codes = _LazyMapping(self.codes, lambda name: self.codes[name][start:stop])
        fixed = {name: column[start:stop] for name, column in self._fixed.items()}
        return PointColumns(self.parameters, codes, min(stop, self.length) - start, fixed)

    def active(self, parameter: Parameter) -> Column:
        """Return the mask of the rows in which the WHEN of *parameter* is true."""
        assert parameter.when is not None, "called for parameters with a WHEN only"
        values = self.of(parameter.when)
        if values.dtype == np.bool_:
            return values
        return np.fromiter((value is True for value in values.tolist()), np.bool_, self.length)

    def counts(self, domain: Dependent) -> Column:
        """Return the number of elements of *domain* in each row."""
        return domain.counts(self, self.positions, self.length)

    def where(self, mask: Column) -> PointColumns:
        """Return the rows for which *mask* is true."""
        at = np.flatnonzero(mask)
        # Lazily: most conditions read few of many columns.
        codes = _LazyMapping(self.codes, lambda name: self.codes[name][at])
        fixed = {name: column[at] for name, column in self._fixed.items()}
        return PointColumns(self.parameters, codes, len(at), fixed)

    def with_codes(self, name: str, codes: Column) -> PointColumns:
        """Return the same rows with one more column of codes."""
        return PointColumns(self.parameters, {**self.codes, name: codes}, self.length, self._fixed)

    def _narrow(self, name: str) -> Column:
        """Return the values of *name* in the narrowest dtype, which makes expressions faster."""
        if name in self._cache:
            return self._cache[name]
        parameter = self.parameters[name]
        domain = parameter.domain
        if parameter.when is not None or not isinstance(domain, Elements):
            return self[name]
        return domain.fill(np.empty(self.length, dtype=domain.narrow), self.codes[name])

    def _positions(self, name: str) -> Column:
        codes = self.codes[name].astype(np.int64)
        if self.parameters[name].when is None:
            return codes
        return _spread(codes != 0, codes[codes != 0] - 1)

    def _values(self, parameter: Parameter) -> Column:
        if parameter.derived is not None:
            return self.of(parameter.derived)
        codes = self.codes[parameter.name]
        if parameter.when is None:
            return self.elements(parameter, codes)
        # NaN is the code of an inactive continuous parameter: it has no code 0 to spare.
        if isinstance(parameter.domain, Continuous):
            active = ~np.isnan(codes)
            return _spread(active, codes[active])
        active = codes != 0
        if active.all():
            return self.elements(parameter, codes - 1)
        # Bounds are evaluated for active rows alone: in others they may be NULL, which is an
        # error.
        return _spread(active, self.where(active).elements(parameter, codes[active] - 1))

    def elements(self, parameter: Parameter, positions: Column) -> Column:
        """Return the values of *parameter* at *positions*, one for each row."""
        domain = parameter.domain
        assert domain is not None, "a parameter without a set is derived"
        if isinstance(domain, Dependent):
            return domain.at_rows(positions, self, self.positions)
        return domain.at(positions)


def _spread(active: Column, values: Column) -> Column:
    """Return an array with *values* where *active*, ``None`` elsewhere."""
    if len(values) == len(active):
        return values
    whole = np.full(len(active), None, dtype=np.object_)
    whole[active] = values.astype(np.object_)
    return whole


class _LazyMapping(Mapping[str, Any]):
    def __init__(self, names: Mapping[str, Any], make: Callable[[str], Column]) -> None:
        self._names = names
        self._make = make

    def __getitem__(self, name: str) -> Column:
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
