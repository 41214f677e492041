"""The checked definition of a space, its parts that share no constraint, and its decoder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from zenturio.errors import Diagnostic, InputError, Place, SpaceError, unknown_name
from zenturio.expression import Expression, Type, Value, holds
from zenturio.space.domain import Column, Continuous, Domain, Elements
from zenturio.space.parameter import Dependent, Parameter, Zip
from zenturio.space.point import CodedTexts, Layout, Point, PointBlock, PointColumns, Position

Constraint = Expression | Zip


@dataclass(frozen=True)
class ExpandedConstraint:
    """A constraint's expression over dimensions, with derived parameters expanded."""

    expression: Expression
    source: Expression
    """The expression as it was declared."""

    @cached_property
    def names(self) -> frozenset[str]:
        return self.expression.names | self.expression.indexed


@dataclass(frozen=True)
class Definition:
    """The parameters and constraints of a space, checked for consistency."""

    layout: Layout
    constraints: tuple[Constraint, ...]
    ordered: tuple[Parameter, ...]
    """All parameters in dependency order."""

    @cached_property
    def definitions(self) -> dict[str, Expression]:
        """The expressions of derived parameters by name."""
        return {
            parameter.name: parameter.derived
            for parameter in self.ordered
            if parameter.derived is not None
        }

    @cached_property
    def dimensions(self) -> tuple[Parameter, ...]:
        """The parameters that are chosen, in dependency order, with derived ones expanded."""
        return tuple(
            self._written(parameter) for parameter in self.ordered if parameter.derived is None
        )

    @cached_property
    def conditions(self) -> tuple[ExpandedConstraint, ...]:
        expressions = (
            constraint for constraint in self.constraints if isinstance(constraint, Expression)
        )
        return tuple(
            ExpandedConstraint(expression.replace(self.definitions), expression)
            for expression in expressions
        )

    @cached_property
    def zips(self) -> tuple[tuple[str, ...], ...]:
        """The groups of dimensions that vary together, in the order of dimensions."""
        groups: list[set[str]] = []
        for constraint in self.constraints:
            if isinstance(constraint, Zip):
                # Zips that share a name are one group: a == b and b == c are a == b == c.
                touched = [group for group in groups if group & set(constraint.names)]
                groups = [group for group in groups if group not in touched]
                groups.append(set(constraint.names).union(*touched))
        names = [parameter.name for parameter in self.dimensions]
        return tuple(tuple(sorted(group, key=names.index)) for group in groups)

    def _written(self, parameter: Parameter) -> Parameter:
        when = parameter.when and parameter.when.replace(self.definitions)
        domain = parameter.domain
        if isinstance(domain, Dependent):
            domain = domain.replaced(self.definitions)
        return replace(parameter, when=when, domain=domain)


def define(parameters: Sequence[Parameter], constraints: Sequence[Constraint]) -> Definition:
    """Define a space of *parameters* under *constraints*; SpaceError lists all diagnostics."""
    _refuse_duplicates(parameters)
    ordered = _in_order(parameters)
    diagnostics: list[Diagnostic] = []
    types: dict[str, Type | None] = {}
    checked: dict[str, Parameter] = {}
    for parameter in ordered:
        try:
            for expression in _expressions(parameter):
                _check_positions(expression, checked)
            checked[parameter.name] = _checked(parameter, types)
        except InputError as error:
            diagnostics += [
                _placed(diagnostic, parameter.place) for diagnostic in error.diagnostics
            ]
            checked[parameter.name] = parameter
            types.setdefault(parameter.name, None)
    for constraint in constraints:
        try:
            _check_constraint(constraint, types, checked)
        except InputError as error:
            diagnostics += error.diagnostics
    if diagnostics:
        raise SpaceError.all(diagnostics)
    layout = Layout(tuple(checked[parameter.name] for parameter in parameters))
    return Definition(
        layout, tuple(constraints), tuple(checked[parameter.name] for parameter in ordered)
    )


def _placed(diagnostic: Diagnostic, place: Place | None) -> Diagnostic:
    return diagnostic if diagnostic.place else replace(diagnostic, place=place)


def _refuse_duplicates(parameters: Iterable[Parameter]) -> None:
    seen: dict[str, Parameter] = {}
    for parameter in parameters:
        if not parameter.name:
            raise SpaceError(
                "a parameter has no name", place=parameter.place, hint="give it a name"
            )
        if parameter.name in seen:
            other = seen[parameter.name].place
            first = f", first at {other}" if other else ""
            raise SpaceError(
                f"parameter {parameter.name!r} is declared twice{first}",
                place=parameter.place,
                hint="give one of them another name",
            )
        seen[parameter.name] = parameter


def _in_order(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Return *parameters* in a stable dependency order; SpaceError for a cycle."""
    by_name = {parameter.name: parameter for parameter in parameters}
    rank = {name: number for number, name in enumerate(by_name)}
    done: dict[str, Parameter] = {}
    for parameter in parameters:
        path = [parameter.name]
        while path:
            name = path[-1]
            missing = [n for n in by_name[name].needs if n in by_name and n not in done]
            if name in done or not missing:
                done.setdefault(path.pop(), by_name[name])
                continue
            following = min(missing, key=rank.__getitem__)
            if following in path:
                raise _cycle(by_name, [*path[path.index(following) :], following])
            path.append(following)
    return tuple(done.values())


def _cycle(by_name: dict[str, Parameter], names: Sequence[str]) -> SpaceError:
    return SpaceError(
        f"parameter {names[0]!r} needs itself: {' -> '.join(names)}",
        place=by_name[names[0]].place,
        hint="remove one of these dependencies",
    )


def _checked(parameter: Parameter, types: dict[str, Type | None]) -> Parameter:
    """Check *parameter*, and add its type to *types*."""
    if parameter.derived is not None:
        types[parameter.name] = parameter.derived.check(types)
        return parameter
    domain = parameter.domain
    assert domain is not None, "a parameter without a set is derived"
    if isinstance(domain, Dependent):
        domain = domain.checked(types)
    if parameter.when is not None:
        _check_truth(parameter.when, types)
    types[parameter.name] = domain.type
    return replace(parameter, domain=domain)


def _expressions(parameter: Parameter) -> tuple[Expression, ...]:
    bounds = parameter.domain.bounds if isinstance(parameter.domain, Dependent) else ()
    candidates = (parameter.when, parameter.derived, *bounds)
    return tuple(expression for expression in candidates if expression is not None)


def _check_positions(expression: Expression, parameters: dict[str, Parameter]) -> None:
    """Refuse ``index(name)`` of parameters whose values have no positions."""
    for name in expression.indexed & parameters.keys():
        domain = parameters[name].domain
        if domain is None or isinstance(domain, Continuous):
            kind = "derived" if domain is None else "continuous"
            raise SpaceError(
                f"{name!r} is {kind}, so its values have no index",
                place=expression.passage.place(0, len(expression.passage.text)),
                hint=f"use {name} itself, or the index of a parameter that it depends on",
            )


def _check_truth(expression: Expression, types: dict[str, Type | None]) -> None:
    type_ = expression.check(types)
    if type_ not in ("bool", None):
        raise SpaceError(
            f"a condition is true or false, but {expression.text} is {type_}",
            place=expression.passage.place(0, len(expression.passage.text)),
            hint="compare it with something, such as '... > 0'",
        )


def _check_constraint(
    constraint: Constraint, types: dict[str, Type | None], parameters: dict[str, Parameter]
) -> None:
    if isinstance(constraint, Expression):
        _check_truth(constraint, types)
        _check_positions(constraint, parameters)
        return
    sizes = {}
    for name in constraint.names:
        if name not in parameters:
            raise unknown_name("parameter", name, parameters, SpaceError, constraint.place)
        domain = parameters[name].domain
        if domain is None or isinstance(domain, Continuous | Dependent):
            raise SpaceError(
                f"{name!r} cannot vary together with others: its set has no fixed size",
                place=constraint.place,
                hint="relate them with CONSTRAINT VALUE",
            )
        sizes[name] = domain.size
    if len(sizes) < 2 or len(set(sizes.values())) > 1:
        lengths = " and ".join(f"{name} has {size}" for name, size in sizes.items())
        raise SpaceError(
            f"parameters that vary together need sets of the same size: {lengths}",
            place=constraint.place,
            hint="give their sets the same number of elements",
        )


@dataclass(frozen=True)
class Part:
    """Dimensions in dependency order, and the conditions between them."""

    dimensions: tuple[Parameter, ...]
    conditions: tuple[ExpandedConstraint, ...] = ()
    zips: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.dimensions)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        return {parameter.name: parameter for parameter in self.dimensions}

    @cached_property
    def leaders(self) -> dict[str, tuple[str, ...]]:
        """For each dimension that varies together with others: those before it."""
        return {name: group[:at] for group in self.zips for at, name in enumerate(group)}

    @cached_property
    def needs(self) -> dict[str, frozenset[str]]:
        """For each dimension: itself, and all that must be chosen before it."""
        needs: dict[str, frozenset[str]] = {}
        for parameter in self.dimensions:
            direct = parameter.needs.union(self.leaders.get(parameter.name, ()))
            needs[parameter.name] = frozenset({parameter.name}).union(
                *(needs[name] for name in direct)
            )
        return needs

    def closure(self, names: Iterable[str]) -> frozenset[str]:
        """Return *names* and all that must be chosen before them."""
        return frozenset[str]().union(*(self.needs[name] for name in names))

    @cached_property
    def ranks(self) -> dict[str, int]:
        return {name: rank for rank, name in enumerate(self.names)}

    def place(self, name: str, among: Sequence[str]) -> int:
        """Return how many of the names *among* stand before *name*."""
        return sum(self.ranks[other] < self.ranks[name] for other in among)

    @property
    def finite(self) -> bool:
        return not any(isinstance(parameter.domain, Continuous) for parameter in self.dimensions)

    @property
    def plain(self) -> bool:
        """Whether it is a single dimension without conditions."""
        return len(self.dimensions) == 1 and not self.conditions and is_plain(self.dimensions[0])


def is_plain(parameter: Parameter) -> bool:
    """Return whether the choices of *parameter* are the same at every point."""
    return parameter.when is None and not isinstance(parameter.domain, Dependent)


def split(definition: Definition) -> tuple[Part, ...]:
    """Return the independent parts of a space, in the order of their first dimensions.

    Constraints without dimensions are a part of their own, with one combination or none.
    """
    return parted(definition.dimensions, definition.conditions, definition.zips)


def parted(
    dimensions: Iterable[Parameter],
    conditions: Iterable[ExpandedConstraint],
    zips: Iterable[tuple[str, ...]],
) -> tuple[Part, ...]:
    """Return the parts that no condition, zip, bound or WHEN connects, by union-find."""
    dimensions, conditions, zips = tuple(dimensions), tuple(conditions), tuple(zips)
    parent = {parameter.name: parameter.name for parameter in dimensions}

    def find(name: str) -> str:
        while parent[name] != name:
            # Path halving keeps the trees flat.
            parent[name] = name = parent[parent[name]]
        return name

    links = [condition.names for condition in conditions] + [frozenset(group) for group in zips]
    links += [parameter.needs | {parameter.name} for parameter in dimensions]
    for link in links:
        first, *others = link or [None]
        for other in others:
            parent[find(other)] = find(first)  # type: ignore[arg-type]
    members: dict[str, list[Parameter]] = {}
    for parameter in dimensions:
        members.setdefault(find(parameter.name), []).append(parameter)
    # Conditions without names hold everywhere or nowhere: a part of no dimensions, with one
    # combination or none.
    parts = [Part((), constant)] if (constant := _naming(conditions, frozenset())) else []
    for group in members.values():
        names = frozenset(parameter.name for parameter in group)
        joined = tuple(zipped for zipped in zips if names.issuperset(zipped))
        parts.append(Part(tuple(group), _naming(conditions, names), joined))
    return tuple(parts)


def _naming(
    conditions: Iterable[ExpandedConstraint], names: frozenset[str]
) -> tuple[ExpandedConstraint, ...]:
    """Return the conditions on dimensions among *names*; for no names, the constant ones."""
    if not names:
        return tuple(condition for condition in conditions if not condition.names)
    return tuple(
        condition for condition in conditions if condition.names and condition.names <= names
    )


# Decoding: from codes to points and columns, from values to points; and a point's neighbours


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
