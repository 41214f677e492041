"""Many points at once: columns of codes, and the columns of values that they encode.

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
        codes = _LazyMapping(self.codes, lambda name: self.codes[name][at])
        fixed = {name: column[at] for name, column in self._fixed.items()}
        return PointColumns(self.parameters, codes, len(at), fixed)

    def with_codes(self, name: str, codes: Column) -> PointColumns:
        """Return the same rows with one more column of codes."""
        return PointColumns(self.parameters, {**self.codes, name: codes}, self.length, self._fixed)

    def _narrow(self, name: str) -> Column:
        """Return the values of *name* in the narrowest dtype, which makes expressions faster."""
        parameter = self.parameters[name]
        domain = parameter.domain
        if name in self._cache or parameter.when is not None or not isinstance(domain, Elements):
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
