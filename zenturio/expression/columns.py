"""An expression on many rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zenturio.expression.expression import Expression

Array = np.ndarray[Any, Any]


def evaluate(
    expression: Expression,
    columns: Mapping[str, Array],
    length: int,
    positions: Mapping[str, Array],
) -> Array:
    names = [name for name in expression.names if name in columns]
    values = [columns[name].tolist() for name in names]
    spots = [(name, positions[name].tolist()) for name in expression.indexed]
    result = [
        expression.value(
            {name: value[row] for name, value in zip(names, values, strict=True)},
            {name: spot[row] for name, spot in spots},
        )
        for row in range(length)
    ]
    kinds = set(map(type, result))
    dtype = (
        {int: "int64", float: "float64", bool: "bool"}.get(kinds.pop()) if len(kinds) == 1 else None
    )
    try:
        return np.array(result, dtype=dtype or object)
    except OverflowError:
        return np.array(result, dtype=object)
