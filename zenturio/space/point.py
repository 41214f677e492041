"""Points: one value for each parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zenturio.errors import NotFoundError, did_you_mean
from zenturio.expression import Value, text_of
from zenturio.space.dependent import Dependent
from zenturio.space.domain import Elements
from zenturio.space.parameter import Parameter

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
        return tuple(each.name for each in self.parameters if each.derived is None)

    @cached_property
    def listed(self) -> tuple[tuple[str, Sequence[str] | None, int], ...]:
        """For each parameter its texts by position if they are listed, and its place."""
        return tuple(
            (each.name, each.domain.listed, self.places[each.name])
            if isinstance(each.domain, Elements) and each.when is None
            else (each.name, None, 0)
            for each in self.parameters
        )

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each dimension's position."""
        return {name: place for place, name in enumerate(self.dimensions)}


class Point(Mapping[str, Value]):
    """A value for each parameter, derived ones included; ``None`` where one is inactive.

    Points are equal if their dimensions have the same names and values, whatever their order.
    """

    __slots__ = ("_layout", "_positions", "_values")

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
            raise NotFoundError(
                f"no parameter is named {name!r}", hint=did_you_mean(name, self._layout.names)
            )
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
        if self._layout is other._layout:
            return self._values == other._values
        return self._chosen() == other._chosen()

    def __hash__(self) -> int:
        return hash(frozenset((name, self[name]) for name in self._layout.dimensions))

    def _chosen(self) -> dict[str, tuple[type, Value]]:
        return {name: (type(self[name]), self[name]) for name in self._layout.dimensions}

    def __repr__(self) -> str:
        return f"Point({', '.join(f'{name}={value!r}' for name, value in self.items())})"
