"""Columns of true, false and NULL: which are which, and how they are connected."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenturio.expression import vectors
from zenturio.expression.cells import Cells, by_rows, constant
from zenturio.expression.operations import both, either


def are(cells: Cells, wanted: bool) -> Any:
    """Which of the cells, true, false or NULL, are *wanted*."""
    if cells.constant:
        return cells.data is wanted
    if cells.kind == "bool":
        return cells.data if wanted else ~cells.data
    return np.fromiter((value is wanted for value in cells.list()), bool, len(cells.data))


def combined(operator: str, a: Cells, b: Cells) -> Cells:
    """Truths connected row by row, as in SQL where NULL is among them."""
    if a.kind == b.kind == "bool" and not (a.constant and b.constant):
        return Cells("bool", a.data & b.data if operator == "and" else a.data | b.data)
    return by_rows(both if operator == "and" else either, [a, b])


def equals_one(item: Cells, *options: Cells) -> Cells | None:
    """Whether the item equals one of the options, if no row needs a closer look."""
    if item.kind == "int" and not item.constant and all(_is_integer(o) for o in options):
        wanted = [o.data for o in options if item.low <= o.data <= item.high]
        return Cells("bool", np.isin(item.data, np.array(wanted, dtype=item.data.dtype)))
    if item.constant and all(option.constant for option in options):
        return None
    answers = [vectors.relation("==", item, option) for option in options]
    found: Any = False
    for answer in answers:
        if answer is None:
            return None
        found = found | answer.data
    return constant(bool(found)) if np.ndim(found) == 0 else Cells("bool", found)


def _is_integer(cells: Cells) -> bool:
    return cells.constant and cells.kind == "int"
