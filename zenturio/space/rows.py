"""Many points at once: columns of codes, and the columns of values that they stand for.

A code is a position; for a parameter with a WHEN it is the position plus 1, and 0 while inactive.
The code of a continuous parameter is its value, or NaN while inactive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from zenturio.expression import Expression, holds
from zenturio.space.continuous import Continuous
from zenturio.space.dependent import Dependent
from zenturio.space.domain import Column, Elements
from zenturio.space.parameter import Parameter

BLOCK = 1 << 15
"""Conditions are evaluated on so many rows at once: their columns stay in the cache."""


class Rows:
    """The values of parameters in each row, computed when they are asked for."""

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        codes: Mapping[str, Column],
        length: int,
        known: Mapping[str, Column] | None = None,
    ) -> None:
        self.parameters = parameters
        self.codes = codes
        self.length = length
        self._given = dict(known or {})
        self._known = dict(self._given)

    def __getitem__(self, name: str) -> Column:
        if name not in self._known:
            self._known[name] = self._values(self.parameters[name])
        return self._known[name]

    @property
    def positions(self) -> Mapping[str, Column]:
        """The positions in each row; ``None`` where a parameter is inactive."""
        return _Lazily(self.codes, self._positions)

    def of(self, expression: Expression) -> Column:
        """What *expression* says in each row."""
        columns = {name: self._narrow(name) for name in expression.names}
        positions = {name: self._positions(name) for name in expression.indexed}
        return expression.column(columns, self.length, positions)

    def kept(self, condition: Expression) -> Column:
        """Where *condition* keeps its point."""
        if self.length > BLOCK:
            starts = range(0, self.length, BLOCK)
            return np.concatenate([self._cut(at, at + BLOCK).kept(condition) for at in starts])
        found = self.of(condition)
        if found.dtype == np.bool_:
            return found
        return np.fromiter(map(holds, found.tolist()), np.bool_, self.length)

    def _cut(self, start: int, stop: int) -> Rows:
        """The rows from *start* to before *stop*."""
        codes = _Lazily(self.codes, lambda name: self.codes[name][start:stop])
        given = {name: column[start:stop] for name, column in self._given.items()}
        return Rows(self.parameters, codes, min(stop, self.length) - start, given)

    def active(self, parameter: Parameter) -> Column:
        """Where the WHEN of *parameter* is true."""
        assert parameter.when is not None, "asked of parameters with a WHEN only"
        found = self.of(parameter.when)
        if found.dtype == np.bool_:
            return found
        return np.fromiter((value is True for value in found.tolist()), np.bool_, self.length)

    def counts(self, domain: Dependent) -> Column:
        """How many elements *domain* has in each row."""
        return domain.counts(self, self.positions, self.length)

    def where(self, mask: Column) -> Rows:
        """The rows that *mask* is true for."""
        at = np.flatnonzero(mask)
        codes = _Lazily(self.codes, lambda name: self.codes[name][at])
        given = {name: column[at] for name, column in self._given.items()}
        return Rows(self.parameters, codes, len(at), given)

    def with_codes(self, name: str, codes: Column) -> Rows:
        """With one more column of codes."""
        return Rows(self.parameters, {**self.codes, name: codes}, self.length, self._given)

    def _narrow(self, name: str) -> Column:
        """The values of a name for an expression, which takes any integers, the faster for it."""
        parameter = self.parameters[name]
        domain = parameter.domain
        if name in self._known or parameter.when is not None or not isinstance(domain, Elements):
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
        if isinstance(parameter.domain, Continuous):
            active = ~np.isnan(codes)
            return _spread(active, codes[active])
        active = codes != 0
        if active.all():
            return self.elements(parameter, codes - 1)
        return _spread(active, self.where(active).elements(parameter, codes[active] - 1))

    def elements(self, parameter: Parameter, positions: Column) -> Column:
        """The values of *parameter* at *positions*, one in each row."""
        domain = parameter.domain
        assert domain is not None, "a parameter without a set is derived"
        if isinstance(domain, Dependent):
            return domain.at_rows(positions, self, self.positions)
        return domain.at(positions)


def _spread(active: Column, values: Column) -> Column:
    """*values* where *active*, ``None`` elsewhere."""
    if len(values) == len(active):
        return values
    whole = np.full(len(active), None, dtype=np.object_)
    whole[active] = values.astype(np.object_)
    return whole


class _Lazily(Mapping[str, Any]):
    def __init__(self, names: Mapping[str, Any], make: Callable[[str], Column]) -> None:
        self._names = names
        self._make = make

    def __getitem__(self, name: str) -> Column:
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
