"""The neighbours of a point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from zenturio.errors import SpaceError
from zenturio.expression import Value, holds
from zenturio.space.continuous import Continuous
from zenturio.space.decoder import Decoder, domain_at
from zenturio.space.domain import Domain, Elements
from zenturio.space.parameter import Dependent
from zenturio.space.point import Point

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
