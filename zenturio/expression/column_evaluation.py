"""Evaluates an expression on many rows at once, bit-identical to evaluating each point."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any, Protocol

import numpy as np

from zenturio.errors import ExpressionError, Passage
from zenturio.expression.column_evaluator import ColumnEvaluator
from zenturio.expression.column_values import Array, ColumnValues, merged, of_list
from zenturio.expression.point_compiler import Key
from zenturio.expression.row_blocks import RowBlock, by_nulls
from zenturio.expression.scalar_functions import Type, Value
from zenturio.expression.syntax_tree import Node

BLOCK = 1 << 15
"""Rows are taken in blocks whose columns stay in the processor's cache."""

FEW = 8
"""Up to so many rows are computed one by one: sooner done than NumPy's calls are prepared."""

_DTYPES: dict[Any, Any] = {"int": np.int64, "real": np.float64, "bool": np.bool_}
_TYPES: dict[str, Type] = {"b": "bool", "i": "int", "u": "int", "f": "real", "U": "str"}


class Formula(Protocol):
    """What columns need of an expression."""

    @property
    def node(self) -> Node: ...
    @property
    def passage(self) -> Passage: ...
    @property
    def names(self) -> frozenset[str]: ...
    @property
    def indexed(self) -> frozenset[str]: ...
    def check(self, types: Mapping[str, Type | None]) -> Type | None: ...
    def value(self, values: Mapping[str, Value], positions: Mapping[str, int]) -> Value: ...


def evaluate(
    expression: Formula,
    columns: Mapping[str, Array],
    length: int,
    positions: Mapping[str, Array] | None = None,
) -> Array:
    """The value of *expression* in each of *length* rows."""
    if length == 0:
        return _nothing(expression, columns)
    if length <= FEW and expression.names <= columns.keys():
        return _one_by_one(expression, columns, length, positions or {})
    source: dict[Key, Array] = {}
    source.update(columns.items())
    source.update((("index", name), column) for name, column in (positions or {}).items())
    names = expression.names & columns.keys()
    evaluator = ColumnEvaluator(expression.passage, source)
    with np.errstate(all="ignore"):
        parts = []
        for start in range(0, length, BLOCK):
            block = RowBlock(source, start, min(start + BLOCK, length))
            parts.append((slice(start, start + BLOCK), _block(evaluator, expression, block, names)))
    return _whole(parts, length)


def _one_by_one(
    expression: Formula,
    columns: Mapping[str, Array],
    length: int,
    positions: Mapping[str, Array],
) -> Array:
    names = list(expression.names)
    spots = [name for name in expression.indexed if name in positions]
    width = len(names)
    series = [columns[name][:length].tolist() for name in names]
    series += [positions[name][:length].tolist() for name in spots]
    found: list[Value] = []
    try:
        for row in zip(*series, strict=False) if series else repeat((), length):
            values = dict(zip(names, row, strict=False))
            found.append(expression.value(values, dict(zip(spots, row[width:], strict=True))))
    except ExpressionError as error:
        error.row = len(found)
        raise
    return _wide(of_list(found))


def _block(
    evaluator: ColumnEvaluator, expression: Formula, block: RowBlock, names: frozenset[str]
) -> ColumnValues:
    groups = [
        (group.picked, evaluator.cells(expression.node, group)) for group in by_nulls(block, names)
    ]
    return merged(groups, block.length) if groups else evaluator.cells(expression.node, block)


def _whole(parts: list[tuple[slice, ColumnValues]], length: int) -> Array:
    """The blocks one behind the other, in 64 bits."""
    cells = parts[0][1]
    if len(parts) > 1 or cells.constant:
        cells = merged(parts, length)
    return _wide(cells)


def _wide(cells: ColumnValues) -> Array:
    found: Array = cells.data
    if cells.kind == "int":
        return found.astype(np.int64)
    # A column that is only named would else be the caller's own.
    return found if found.base is None else found.copy()


def _nothing(expression: Formula, columns: Mapping[str, Array]) -> Array:
    """No rows, of the type that rows would have."""
    types = {name: _TYPES.get(column.dtype.kind) for name, column in columns.items()}
    types.update(dict.fromkeys(expression.indexed, "int"))
    try:
        found = expression.check(types)
    except ExpressionError:
        found = None
    return np.empty(0, dtype=_DTYPES.get(found, object))
