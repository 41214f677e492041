"""The independent parts of a space, of whose combinations it is the product."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from zenturio.space.continuous import Continuous
from zenturio.space.definition import Definition, SpaceCondition
from zenturio.space.dependent import Dependent
from zenturio.space.parameter import Parameter


@dataclass(frozen=True)
class Part:
    """Dimensions in dependency order, and the conditions between them."""

    dimensions: tuple[Parameter, ...]
    conditions: tuple[SpaceCondition, ...] = ()
    zips: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.dimensions)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        return {each.name: each for each in self.dimensions}

    @cached_property
    def leaders(self) -> dict[str, tuple[str, ...]]:
        """For each dimension that varies together with others: those before it."""
        return {name: group[:at] for group in self.zips for at, name in enumerate(group)}

    @cached_property
    def needs(self) -> dict[str, frozenset[str]]:
        """For each dimension: itself, and all that must be chosen before it."""
        needs: dict[str, frozenset[str]] = {}
        for each in self.dimensions:
            direct = each.needs.union(self.leaders.get(each.name, ()))
            needs[each.name] = frozenset({each.name}).union(*(needs[name] for name in direct))
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
        return not any(isinstance(each.domain, Continuous) for each in self.dimensions)

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
    conditions: Iterable[SpaceCondition],
    zips: Iterable[tuple[str, ...]],
) -> tuple[Part, ...]:
    """Return the parts that no condition, zip, bound or WHEN connects, by union-find."""
    dimensions, conditions, zips = tuple(dimensions), tuple(conditions), tuple(zips)
    parent = {each.name: each.name for each in dimensions}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    links = [each.names for each in conditions] + [frozenset(group) for group in zips]
    links += [each.needs | {each.name} for each in dimensions]
    for link in links:
        first, *others = link or [None]
        for other in others:
            parent[find(other)] = find(first)  # type: ignore[arg-type]
    members: dict[str, list[Parameter]] = {}
    for each in dimensions:
        members.setdefault(find(each.name), []).append(each)
    parts = [Part((), constant)] if (constant := _naming(conditions, frozenset())) else []
    for group in members.values():
        names = frozenset(each.name for each in group)
        joined = tuple(each for each in zips if names.issuperset(each))
        parts.append(Part(tuple(group), _naming(conditions, names), joined))
    return tuple(parts)


def _naming(
    conditions: Iterable[SpaceCondition], names: frozenset[str]
) -> tuple[SpaceCondition, ...]:
    """Return the conditions on dimensions among *names*; for no names, the constant ones."""
    if not names:
        return tuple(each for each in conditions if not each.names)
    return tuple(each for each in conditions if each.names and each.names <= names)
