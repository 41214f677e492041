"""Decoding: from codes to points and columns, from values to points; and a point's neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from zenturio.errors import SpaceError, unknown_name
from zenturio.expression import Value, holds
from zenturio.space.definition import Definition
from zenturio.space.domain import Column, Continuous, Domain, Elements
from zenturio.space.parameter import Dependent, Parameter
from zenturio.space.point import CodedTexts, Point, PointBlock, PointColumns, Position


class Decoder:
    """Makes points and columns of a space from codes."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.layout = definition.layout
        self.parameters = {parameter.name: parameter for parameter in self.layout.parameters}

    def columns(self, codes: Mapping[str, Column], length: int) -> dict[str, Column]:
        """Return a column of values for each parameter, derived ones included."""
        rows = PointColumns(self.parameters, codes, length, self._numbers(codes, length))
        return {name: rows[name] for name in self.layout.names}

    def _numbers(self, codes: Mapping[str, Column], length: int) -> dict[str, Column]:
        """Return the columns of plain numbers in one allocation, which is several times faster."""
        numbers: dict[str, Column] = {}
        for kind in (np.int64, np.float64):
            plain = {
                parameter.name: parameter.domain
                for parameter in self.layout.parameters
                if isinstance(parameter.domain, Elements) and parameter.when is None
            }
            plain = {
                name: domain for name, domain in plain.items() if domain.values().dtype == kind
            }
            block = np.empty((len(plain), length), dtype=kind)
            for row, (name, domain) in zip(block, plain.items(), strict=True):
                numbers[name] = domain.fill(row, codes[name])
        return numbers

    def points(self, codes: Mapping[str, Column], length: int) -> Iterator[Point]:
        """Return the points of *codes*."""
        values = [column.tolist() for column in self.columns(codes, length).values()]
        positions = [self._positions(name, codes[name]) for name in self.layout.dimensions]
        if not self.layout.parameters:
            return iter([Point(self.layout, (), ())] * length)
        # zip() of no columns would be empty: a space without dimensions has derived values all the
        # same.
        every = zip(*positions, strict=True) if positions else iter([()] * length)
        return (
            Point(self.layout, chosen, places)
            for chosen, places in zip(zip(*values, strict=True), every, strict=True)
        )

    def block(self, codes: Mapping[str, Column], length: int) -> PointBlock:
        """Return the points of *codes*, not decoded yet."""
        coded = {
            parameter.name: (codes[parameter.name], CodedTexts(domain, parameter.when is not None))
            for parameter in self.definition.dimensions
            if (domain := parameter.domain) is not None
            and not isinstance(domain, Continuous | Dependent)
        }
        return PointBlock(length, lambda: self.points(codes, length), coded)

    def _positions(self, name: str, codes: Column) -> list[Position]:
        listed = codes.tolist()
        if self.parameters[name].when is None:
            return listed  # type: ignore[no-any-return]
        if isinstance(self.parameters[name].domain, Continuous):
            return [None if math.isnan(code) else code for code in listed]
        return [code - 1 if code else None for code in listed]

    def codes(self, point: Point) -> dict[str, Any]:
        """Return the codes of the dimensions of *point*."""
        codes: dict[str, Any] = {}
        for name, position in point.positions.items():
            if isinstance(self.parameters[name].domain, Continuous):
                codes[name] = math.nan if position is None else position
                continue
            # Code 0 means inactive where there is a WHEN.
            shift = 0 if self.parameters[name].when is None else 1
            codes[name] = 0 if position is None else int(position) + shift
        return codes

    def point(self, values_by_name: Mapping[str, Any]) -> Point:
        """Return the point with *values_by_name*; SpaceError says why it is not valid."""
        unknown = [name for name in values_by_name if name not in self.parameters]
        if unknown:
            raise unknown_name("parameter", unknown[0], self.parameters, SpaceError)
        values: dict[str, Value] = {}
        positions: dict[str, Any] = {}
        for parameter in self.definition.dimensions:
            place = _choose(parameter, values_by_name, values, positions)
            if place is None:
                values[parameter.name] = positions[parameter.name] = None
            else:
                positions[parameter.name], values[parameter.name] = place
        self._refuse_invalid(values, positions)
        for parameter in self.definition.ordered:
            if parameter.derived is not None:
                self._derive(parameter, values_by_name, values, positions)
        return Point(
            self.layout,
            tuple(values[name] for name in self.layout.names),
            tuple(positions[name] for name in self.layout.dimensions),
        )

    def _refuse_invalid(self, values: Mapping[str, Value], positions: Mapping[str, Any]) -> None:
        for condition in self.definition.conditions:
            if not holds(condition.expression.value(values, positions)):
                expression = condition.source
                raise SpaceError(
                    f"the constraint {expression.text} does not hold",
                    place=expression.passage.place(0, len(expression.passage.text)),
                )
        for group in self.definition.zips:
            if len({positions[name] for name in group} - {None}) > 1:
                raise SpaceError(f"{' and '.join(group)} vary together, position by position")

    def _derive(
        self,
        parameter: Parameter,
        values_by_name: Mapping[str, Any],
        values: dict[str, Value],
        positions: Mapping[str, Any],
    ) -> None:
        assert parameter.derived is not None, "called for derived parameters only"
        name = parameter.name
        values[name] = parameter.derived.value(values, positions)
        # A stored point names derived values, too; they must still be what the space computes.
        if name in values_by_name and values_by_name[name] != values[name]:
            raise SpaceError(
                f"{name} is derived, and it is {values[name]!r}, not {values_by_name[name]!r}"
            )


def _choose(
    parameter: Parameter,
    values_by_name: Mapping[str, Any],
    values: Mapping[str, Value],
    positions: Mapping[str, Any],
) -> tuple[Position, Value] | None:
    """Return the position and the value of *parameter*; ``None`` if it is inactive."""
    name, value = parameter.name, values_by_name.get(parameter.name)
    if parameter.when is not None and parameter.when.value(values, positions) is not True:
        if value is not None:
            raise SpaceError(f"{name} is inactive here, so it has no value", place=parameter.place)
        return None
    if value is None:
        raise SpaceError(f"{name} has no value", place=parameter.place, hint="give it a value")
    domain = domain_at(parameter, values, positions)
    if domain is None:
        raise SpaceError(f"the set of {name} is empty here", place=parameter.place)
    try:
        position: Position = domain.position(value)
    except SpaceError as error:
        (diagnostic,) = error.diagnostics
        message = f"{name}: {diagnostic.message}"
        raise SpaceError(message, place=parameter.place, hint=diagnostic.hint) from None
    return position, domain.value(position)


def domain_at(
    parameter: Parameter, values: Mapping[str, Value], positions: Mapping[str, Any]
) -> Domain | None:
    """Return the set of *parameter* at a point; None if its bounds make it empty there."""
    domain = parameter.domain
    if isinstance(domain, Dependent):
        return domain.domain(values, positions)
    return domain


Choice = tuple[dict[str, Value], dict[str, Any]]


def neighbours(decoder: Decoder, point: Point) -> Iterator[Point]:
    """Yield the valid points that differ from *point* in one dimension, by a step if ordered.

    Dimensions that vary together move as one. A dimension that becomes inactive by a move does not
    count as a second difference; one that becomes active takes each of its values.
    """
    groups = {name: group for group in decoder.definition.zips for name in group}
    for parameter in decoder.definition.dimensions:
        group = groups.get(parameter.name, (parameter.name,))
        active = [name for name in group if point[name] is not None]
        if not active or active[0] != parameter.name or isinstance(parameter.domain, Continuous):
            continue
        domains = {name: _domain(decoder, point, name) for name in active}
        # What decides whether the first of them is active comes before it, so no move ends it.
        lead, start = domains[parameter.name], point.positions[parameter.name]
        steps = list(_steps(lead, start))
        is_ordered = all(domain.ordered for domain in domains.values())
        for target in steps if is_ordered else _others(lead, start):
            move = {name: domain.value(target) for name, domain in domains.items()}
            for values, positions in _completions(decoder, point, move):
                # A group moves as one; without an order in all of it there is no next step. Only
                # dimensions active at both ends count, or a neighbour would not be one in return.
                both = [domains[name] for name in active if positions[name] is not None]
                is_near = target in steps or not all(domain.ordered for domain in both)
                if is_near and _valid(decoder, values, positions):
                    yield decoder.point(values)


def _domain(decoder: Decoder, point: Point, name: str) -> Domain:
    domain = domain_at(decoder.parameters[name], point, point.positions)
    assert domain is not None, "a point has a value only where there is one"
    return domain


def _steps(domain: Domain, position: Any) -> Iterable[int]:
    """Return the positions of the next smaller and larger value; of names, all others."""
    if not domain.ordered:
        return _others(domain, position)
    if isinstance(domain, Elements):
        rank = domain.ranked.index(position)
        return [domain.ranked[at] for at in (rank - 1, rank + 1) if 0 <= at < domain.size]
    return [at for at in (position - 1, position + 1) if 0 <= at < domain.size]


def _others(domain: Domain, position: Any) -> Iterable[int]:
    return (at for at in range(domain.size) if at != position)


def _completions(decoder: Decoder, point: Point, move: Mapping[str, Value]) -> list[Choice]:
    """Return the choices that make *move* and keep the other values of *point*."""
    choices: list[Choice] = [({}, {})]
    for parameter in decoder.definition.dimensions:
        target = move.get(parameter.name, point[parameter.name])
        longer = []
        for values, positions in choices:
            if parameter.when is not None and parameter.when.value(values, positions) is not True:
                options: Iterable[tuple[Value, Any]] = [(None, None)]
            else:
                options = _options(domain_at(parameter, values, positions), target)
            longer += [
                ({**values, parameter.name: value}, {**positions, parameter.name: position})
                for value, position in options
            ]
        choices = longer
    return choices


def _options(domain: Domain | None, value: Value) -> Iterator[tuple[Value, Any]]:
    """Yield *value* with its position if it is in the set; each element if *value* is None."""
    if domain is None:
        return
    # It became active by the move: there is no former value to keep.
    if value is None and not isinstance(domain, Continuous | Dependent):
        yield from ((domain.value(at), at) for at in range(domain.size))
        return
    try:
        yield value, domain.position(value)
    except SpaceError:
        return


def _valid(decoder: Decoder, values: Mapping[str, Value], positions: Mapping[str, Any]) -> bool:
    definition = decoder.definition
    return all(
        holds(condition.expression.value(values, positions)) for condition in definition.conditions
    ) and all(len({positions[name] for name in group} - {None}) < 2 for group in definition.zips)
