"""Which parameters never meet: a space is the product of its independent components."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from zenturio.space.continuous import Continuous
from zenturio.space.definition import Condition, Definition
from zenturio.space.dependent import Dependent
from zenturio.space.parameter import Parameter


@dataclass(frozen=True)
class Part:
    """Dimensions, each behind those that it needs, and what must hold between them."""

    dimensions: tuple[Parameter, ...]
    conditions: tuple[Condition, ...] = ()
    zips: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.dimensions)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        return {each.name: each for each in self.dimensions}

    @cached_property
    def leaders(self) -> dict[str, tuple[str, ...]]:
        """For each dimension that runs with others: those of them before it."""
        return {name: group[:at] for group in self.zips for at, name in enumerate(group)}

    @cached_property
    def needs(self) -> dict[str, frozenset[str]]:
        """For each dimension: it, and all that must be chosen before it."""
        needs: dict[str, frozenset[str]] = {}
        for each in self.dimensions:
            direct = each.needs.union(self.leaders.get(each.name, ()))
            needs[each.name] = frozenset({each.name}).union(*(needs[name] for name in direct))
        return needs

    def closure(self, names: Iterable[str]) -> frozenset[str]:
        """*names*, and all that must be chosen before them."""
        return frozenset[str]().union(*(self.needs[name] for name in names))

    @cached_property
    def ranks(self) -> dict[str, int]:
        return {name: rank for rank, name in enumerate(self.names)}

    def place(self, name: str, among: Sequence[str]) -> int:
        """How many of the names *among* which *name* comes stand before it."""
        return sum(self.ranks[other] < self.ranks[name] for other in among)

    @property
    def finite(self) -> bool:
        return not any(isinstance(each.domain, Continuous) for each in self.dimensions)

    @property
    def plain(self) -> bool:
        """Whether it is one dimension that takes any of its values."""
        return len(self.dimensions) == 1 and not self.conditions and is_plain(self.dimensions[0])


def is_plain(parameter: Parameter) -> bool:
    """Whether the choices for *parameter* are the same everywhere."""
    return parameter.when is None and not isinstance(parameter.domain, Dependent)


def split(definition: Definition) -> tuple[Part, ...]:
    """The independent parts of a space, in the order of their first dimensions.

    Constraints that name no dimension are a part of their own, which holds one point or none.
    """
    return parted(definition.dimensions, definition.conditions, definition.zips)


def parted(
    dimensions: Iterable[Parameter],
    conditions: Iterable[Condition],
    zips: Iterable[tuple[str, ...]],
) -> tuple[Part, ...]:
    """Parts that no condition, zip, bound or WHEN joins, by union and find."""
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


def _naming(conditions: Iterable[Condition], names: frozenset[str]) -> tuple[Condition, ...]:
    """The conditions that concern dimensions among *names*; for no names, those without any."""
    if not names:
        return tuple(each for each in conditions if not each.names)
    return tuple(each for each in conditions if each.names and each.names <= names)
