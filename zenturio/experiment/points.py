"""What expressions ask of a point besides its values."""

from __future__ import annotations

from collections.abc import Mapping

from zenturio.expression import Expression, Value
from zenturio.space import Point


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
        where = values if point is None else point
        known = where.positions if isinstance(where, Point) else {}
        positions = {name: at for name, at in known.items() if isinstance(at, int)}
    return expression.value(values, positions, host)
