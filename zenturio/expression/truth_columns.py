"""Three-valued logic on columns of true, false and NULL."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenturio.expression import vector_operators
from zenturio.expression.column_values import ColumnValues, by_rows, constant
from zenturio.expression.scalar_functions import both, either


def are(cells: ColumnValues, wanted: bool) -> Any:
    """Which of the cells, true, false or NULL, are *wanted*."""
    if cells.constant:
        return cells.data is wanted
    if cells.kind == "bool":
        return cells.data if wanted else ~cells.data
    return np.fromiter((value is wanted for value in cells.list()), bool, len(cells.data))


def combined(operator: str, a: ColumnValues, b: ColumnValues) -> ColumnValues:
    """Truths connected row by row, as in SQL where NULL is among them."""
    if a.kind == b.kind == "bool" and not (a.constant and b.constant):
        return ColumnValues("bool", a.data & b.data if operator == "and" else a.data | b.data)
    return by_rows(both if operator == "and" else either, [a, b])


def equals_one(item: ColumnValues, *options: ColumnValues) -> ColumnValues | None:
    """Whether the item equals one of the options, if no row needs a closer look."""
    if item.kind == "int" and not item.constant and all(_is_integer(o) for o in options):
        wanted = [o.data for o in options if item.low <= o.data <= item.high]
        return ColumnValues("bool", np.isin(item.data, np.array(wanted, dtype=item.data.dtype)))
    if item.constant and all(option.constant for option in options):
        return None
    answers = [vector_operators.relation("==", item, option) for option in options]
    found: Any = False
    for answer in answers:
        if answer is None:
            return None
        found = found | answer.data
    return constant(bool(found)) if np.ndim(found) == 0 else ColumnValues("bool", found)


def _is_integer(cells: ColumnValues) -> bool:
    return cells.constant and cells.kind == "int"
