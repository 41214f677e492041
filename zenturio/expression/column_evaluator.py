"""Evaluate formulas over columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Protocol

import numpy as np

from zenturio.errors import ExpressionError, Passage
from zenturio.expression import column_values
from zenturio.expression.column_values import (
    FUNCTIONS,
    Array,
    ColumnValues,
    RowBlock,
    RowSelection,
    RowSource,
    are,
    by_nulls,
    by_rows,
    by_values,
    combined,
    constant,
    equals_one,
    merged,
    of_list,
)
from zenturio.expression.scalar_functions import (
    ARITHMETIC,
    CALLED,
    RELATIONS,
    Fault,
    Type,
    Value,
    condition,
    first_known,
    keep,
    member,
    negate,
    negation,
    power,
    within,
)
from zenturio.expression.syntax_tree import (
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Constant,
    HostAttribute,
    Index,
    Key,
    Logic,
    Member,
    Name,
    Negative,
    Not,
    Positive,
    Power,
    SyntaxNode,
    Within,
    located,
    unknown,
)

Fast = Callable[..., ColumnValues | None]


class ColumnEvaluator:
    """Computes trees of one *passage* on rows.

    What may fail in rows that do not reach it is tried in all rows first: mostly it does not fail,
    and no rows need be picked. While *trying*, the first failure ends the attempt, so that the time
    does not double with every level.
    """

    def __init__(self, passage: Passage, source: Mapping[Key, Array]) -> None:
        self.passage = passage
        self.source = source
        self.trying = False

    def cells(self, node: SyntaxNode, rows: RowSource) -> ColumnValues:
        """Return the values of *node* in *rows*, of which there is at least one."""
        return _RULES[type(node)](self, node, rows)

    def literal(self, node: Constant, _: RowSource) -> ColumnValues:
        return constant(node.value)

    def name(self, node: Name, rows: RowSource) -> ColumnValues:
        return self._lookup(node.name, node, rows)

    def index(self, node: Index, rows: RowSource) -> ColumnValues:
        return self._lookup(("index", node.name), node, rows)

    def host(self, node: HostAttribute, rows: RowSource) -> ColumnValues:
        return self._lookup(("host", node.name), node, rows)

    def _lookup(self, key: Key, node: SyntaxNode, rows: RowSource) -> ColumnValues:
        try:
            return rows.cells(key)
        except KeyError:
            raise unknown(key, self.source, node, self.passage) from None
        except Fault as fault:
            raise self._located(fault, node, rows) from None

    def _located(self, fault: Fault, node: SyntaxNode, rows: RowSource) -> ExpressionError:
        error = located(fault, node, self.passage)
        error.row = rows.row(fault.row or 0)
        return error

    def _apply(
        self,
        fast: Fast | None,
        slow: Callable[..., Value],
        operands: Sequence[ColumnValues],
        node: SyntaxNode,
        rows: RowSource,
    ) -> ColumnValues:
        """Return the *fast* way where it is proven to be right, else *slow* row by row."""
        if fast is not None and not all(operand.constant for operand in operands):
            try:
                cells = fast(*operands)
            except Fault as fault:
                raise self._located(fault, node, rows) from None
            if cells is not None:
                return cells
        # NULL in, NULL out: no row needs a look.
        if any(operand.constant and operand.data is None for operand in operands):
            return constant(None)
        return self._slowly(slow, operands, node, rows)

    def _slowly(
        self,
        slow: Callable[..., Value],
        operands: Sequence[ColumnValues],
        node: SyntaxNode,
        rows: RowSource,
    ) -> ColumnValues:
        """Return *slow* for each row, or for each value that occurs if only one operand varies."""
        varying = [at for at, operand in enumerate(operands) if not operand.constant]
        try:
            if len(varying) != 1:
                return by_rows(slow, operands)
            (at,) = varying
            before = [operand.data for operand in operands[:at]]
            after = [operand.data for operand in operands[at + 1 :]]
            # Parameters have few values: a function runs once for each of them, not once for each
            # row.
            return by_values(lambda value: slow(*before, value, *after), operands[at])
        except Fault as fault:
            raise self._located(fault, node, rows) from None

    def arithmetic(self, node: Arithmetic, rows: RowSource) -> ColumnValues:
        cells = self.cells(node.first, rows)
        for step in node.steps:
            right = self.cells(step.operand, rows)
            operator = step.operator
            fast, slow = column_values.ARITHMETIC[operator], ARITHMETIC[operator]
            cells = self._apply(fast, slow, (cells, right), step, rows)
        return cells

    def power(self, node: Power, rows: RowSource) -> ColumnValues:
        operands = (self.cells(node.base, rows), self.cells(node.exponent, rows))
        return self._apply(column_values.power, power, operands, node, rows)

    def negative(self, node: Negative, rows: RowSource) -> ColumnValues:
        return self._apply(
            column_values.negate, negate, (self.cells(node.operand, rows),), node, rows
        )

    def positive(self, node: Positive, rows: RowSource) -> ColumnValues:
        return self._apply(column_values.keep, keep, (self.cells(node.operand, rows),), node, rows)

    def negated(self, node: Not, rows: RowSource) -> ColumnValues:
        operand = self.cells(node.operand, rows)
        return self._apply(column_values.negation, negation, (operand,), node, rows)

    def call(self, node: Call, rows: RowSource) -> ColumnValues:
        operands = [self.cells(argument, rows) for argument in node.arguments]
        if node.function == "coalesce":
            return self._slowly(first_known, operands, node, rows)
        fast = FUNCTIONS.get(node.function)
        return self._apply(fast, CALLED[node.function], operands, node, rows)

    def compare(self, node: Compare, rows: RowSource) -> ColumnValues:
        if len(node.steps) > 1:
            return self.cells(_pairs(node), rows)
        (step,) = node.steps
        operands = (self.cells(node.first, rows), self.cells(step.operand, rows))

        def fast(a: ColumnValues, b: ColumnValues) -> ColumnValues | None:
            return column_values.relation(step.operator, a, b)

        return self._apply(fast, RELATIONS[step.operator], operands, node, rows)

    def member(self, node: Member, rows: RowSource) -> ColumnValues:
        operands = [self.cells(node.item, rows)]
        operands += [self.cells(option, rows) for option in node.options]
        truth = equals_one(*operands) or self._slowly(member, operands, node, rows)
        return self._opposite(truth, node, rows) if node.negated else truth

    def within(self, node: Within, rows: RowSource) -> ColumnValues:
        operands = (self.cells(node.part, rows), self.cells(node.whole, rows))
        truth = self._apply(None, within, operands, node, rows)
        return self._opposite(truth, node, rows) if node.negated else truth

    def _opposite(self, truth: ColumnValues, node: SyntaxNode, rows: RowSource) -> ColumnValues:
        return self._apply(column_values.negation, negation, (truth,), node, rows)

    def logic(self, node: Logic, rows: RowSource) -> ColumnValues:
        truth = self._truth(node.operands[0], rows, node.operator)
        for operand in node.operands[1:]:
            truth = self._further(truth, operand, rows, node.operator)
        return truth

    def _truth(self, node: SyntaxNode, rows: RowSource, operator: str) -> ColumnValues:
        """True, false or NULL in every row."""
        cells = self.cells(node, rows)
        if cells.kind == "bool":
            return cells
        try:
            return by_rows(lambda value: condition(value, operator), [cells])
        except Fault as fault:
            raise self._located(fault, node, rows) from None

    def _further(
        self, first: ColumnValues, operand: SyntaxNode, rows: RowSource, operator: str
    ) -> ColumnValues:
        """*first* and (or) the *operand*, which counts only where *first* decides nothing."""
        decisive = operator == "or"
        if first.constant:
            if first.data is decisive:
                return first
            return combined(operator, first, self._truth(operand, rows, operator))
        # `b != 0 and a / b > 1` must not divide where b is 0.
        undecided = ~are(first, decisive)
        if not undecided.any():
            return first
        if undecided.all():
            return combined(operator, first, self._truth(operand, rows, operator))
        was, self.trying = self.trying, True
        try:
            return combined(operator, first, self._truth(operand, rows, operator))
        except ExpressionError:
            if was:
                raise
        finally:
            self.trying = was
        open_rows, decided = np.flatnonzero(undecided), np.flatnonzero(~undecided)
        right = self._truth(operand, RowSelection(rows, open_rows), operator)
        both = combined(operator, first.take(open_rows), right)
        return merged([(open_rows, both), (decided, first.take(decided))], rows.length)

    def conditional(self, node: Conditional, rows: RowSource) -> ColumnValues:
        condition = self._truth(node.condition, rows, "if")
        mask = np.asarray(are(condition, True))
        if mask.all() or not mask.any():
            return self.cells(node.then if mask.all() else node.other, rows)
        # One branch may fail in rows of the other; mostly none does, and no rows are picked.
        was, self.trying = self.trying, True
        try:
            return self._branches(node, mask, rows)
        except ExpressionError:
            if was:
                raise
        finally:
            self.trying = was
        parts = []
        for branch, picked in ((node.then, mask), (node.other, ~mask)):
            where = np.flatnonzero(picked)
            parts.append((where, self.cells(branch, RowSelection(rows, where))))
        return merged(parts, rows.length)

    def _branches(self, node: Conditional, mask: Array, rows: RowSource) -> ColumnValues:
        then, other = self.cells(node.then, rows), self.cells(node.other, rows)
        chosen = column_values.chosen(mask, then, other)
        if chosen is not None:
            return chosen
        yes, no = np.flatnonzero(mask), np.flatnonzero(~mask)
        return merged([(yes, then.take(yes)), (no, other.take(no))], rows.length)


def _pairs(node: Compare) -> Logic:
    """Return a chain of comparisons as each of them, connected by 'and'."""
    first, pairs = node.first, []
    for step in node.steps:
        pairs.append(Compare(first, (step,), start=step.start, end=step.end))
        first = step.operand
    return Logic("and", tuple(pairs), start=node.start, end=node.end)


_RULES: dict[type[SyntaxNode], Callable[[ColumnEvaluator, Any, RowSource], ColumnValues]] = {
    Constant: ColumnEvaluator.literal,
    Name: ColumnEvaluator.name,
    Index: ColumnEvaluator.index,
    HostAttribute: ColumnEvaluator.host,
    Arithmetic: ColumnEvaluator.arithmetic,
    Power: ColumnEvaluator.power,
    Negative: ColumnEvaluator.negative,
    Positive: ColumnEvaluator.positive,
    Not: ColumnEvaluator.negated,
    Compare: ColumnEvaluator.compare,
    Member: ColumnEvaluator.member,
    Within: ColumnEvaluator.within,
    Logic: ColumnEvaluator.logic,
    Conditional: ColumnEvaluator.conditional,
    Call: ColumnEvaluator.call,
}


BLOCK = 1 << 15
"""Rows are taken in blocks whose columns stay in the processor's cache."""

FEW = 8
"""Up to so many rows are computed one by one: sooner done than NumPy's calls are prepared."""

_DTYPES: dict[Any, Any] = {"int": np.int64, "real": np.float64, "bool": np.bool_}
_TYPES: dict[str, Type] = {"b": "bool", "i": "int", "u": "int", "f": "real", "U": "str"}


class Formula(Protocol):
    """What columns need of an expression."""

    @property
    def node(self) -> SyntaxNode: ...
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
    """Return the value of *expression* in each of *length* rows."""
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
    answers: list[Value] = []
    try:
        for row in zip(*series, strict=False) if series else repeat((), length):
            values = dict(zip(names, row, strict=False))
            answers.append(expression.value(values, dict(zip(spots, row[width:], strict=True))))
    except ExpressionError as error:
        error.row = len(answers)
        raise
    return _wide(of_list(answers))


def _block(
    evaluator: ColumnEvaluator, expression: Formula, block: RowBlock, names: frozenset[str]
) -> ColumnValues:
    groups = [
        (group.picked, evaluator.cells(expression.node, group)) for group in by_nulls(block, names)
    ]
    return merged(groups, block.length) if groups else evaluator.cells(expression.node, block)


def _whole(parts: list[tuple[slice, ColumnValues]], length: int) -> Array:
    """Return the blocks one behind the other, in 64 bits."""
    cells = parts[0][1]
    if len(parts) > 1 or cells.constant:
        cells = merged(parts, length)
    return _wide(cells)


def _wide(cells: ColumnValues) -> Array:
    data: Array = cells.data
    if cells.kind == "int":
        return data.astype(np.int64)
    # A column that is only named would else be the caller's own.
    return data if data.base is None else data.copy()


def _nothing(expression: Formula, columns: Mapping[str, Array]) -> Array:
    """No rows, of the type that rows would have."""
    types = {name: _TYPES.get(column.dtype.kind) for name, column in columns.items()}
    types.update(dict.fromkeys(expression.indexed, "int"))
    try:
        type_ = expression.check(types)
    except ExpressionError:
        type_ = None
    return np.empty(0, dtype=_DTYPES.get(type_, object))
