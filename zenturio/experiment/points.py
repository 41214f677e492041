"""What expressions ask of a point besides its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zenturio.expression import Expression, Value
    from zenturio.space import Point


class ExperimentValues(dict[str, "Value"]):
    """Values that are no point any more, and where those of the point stand in their sets."""

    def __init__(self, values: Mapping[str, Value], where: Point | Mapping[str, int]) -> None:
        """*where* is the point itself, or its positions."""
        super().__init__(values)
        self._where = where

    @property
    def positions(self) -> Mapping[str, object]:
        known: Mapping[str, object] = getattr(self._where, "positions", self._where)
        return known


def positions_of(values: Mapping[str, Value], names: frozenset[str]) -> dict[str, int]:
    """Where the values of *names* stand in their sets, as far as it is known."""
    known: Mapping[str, object] = getattr(values, "positions", {})
    return {name: at for name, at in known.items() if name in names and isinstance(at, int)}


def value_at(
    expression: Expression,
    values: Mapping[str, Value],
    *,
    point: Mapping[str, Value] | None = None,
    host: Mapping[str, Value] | None = None,
) -> Value:
    """The expression's value; ``index(name)`` asks where a value stands in the set of *point*."""
    positions: dict[str, int] | None = None
    if expression.indexed:
        positions = positions_of(values if point is None else point, expression.indexed)
    return expression.value(values, positions, host)
