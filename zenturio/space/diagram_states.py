"""What conditions still need of the dimensions that are bound: partial values, remaining codes.

A decision diagram merges rows that continue alike. Of ``a + b + c + d == 100`` with a, b and c
bound, only their sum matters; of ``a != c`` and ``b != c`` only which codes of c remain. So a row
is known by values of parts of conditions (and by sets of codes) instead of by all its codes: ten
shares that add up to 100 have some 200 states for each dimension instead of 10**12.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zenturio.expression import Expression, Type
from zenturio.expression.expression import Checker
from zenturio.expression.syntax_tree import (
    Arithmetic,
    Constant,
    HostAttribute,
    Index,
    Name,
    OperatorStep,
    SyntaxNode,
    rebuilt,
    walk,
)
from zenturio.space.code_table import Choices, EncodedTable, TooManyRows, narrow
from zenturio.space.column_join import PairTable
from zenturio.space.definition import ExpandedConstraint, Part
from zenturio.space.domain import Column
from zenturio.space.point import PointColumns

FEWEST_NAMES = 3
"""A condition on fewer dimensions is evaluated as soon as the second one is bound."""

FEWEST_PAIRS = 2
"""With one pair, the codes that remain tell no more than the code of the partner."""

MAX_CELLS = 1 << 26
"""The most cells of a table of remaining codes."""

_MARK = "\0"
"""Begins the names of partial values: no parameter has such a name."""


class PartialValues:
    """The conditions of *part* on three dimensions and more, while dimensions are bound in order.

    Bound parts of a condition are replaced by their values, which are columns of the table: codes
    that number the distinct values.
    """

    def __init__(self, part: Part, conditions: Iterable[ExpandedConstraint]) -> None:
        self.part = part
        self._types = {name: _type_of(part, name) for name in part.names}
        self._pending: dict[ExpandedConstraint, Expression] = {
            condition: self._reordered(condition.expression)
            for condition in conditions
            if len(condition.names) >= FEWEST_NAMES
        }
        self._tracked = frozenset(self._pending)
        self._values: dict[str, Column] = {}
        self._count = 0

    def __contains__(self, condition: object) -> bool:
        return condition in self._tracked

    @property
    def names(self) -> frozenset[str]:
        """The dimensions and partial values that pending conditions read."""
        return frozenset[str]().union(
            *(pending.names | pending.indexed for pending in self._pending.values())
        )

    def kept(self, table: EncodedTable, condition: ExpandedConstraint) -> Column:
        """Return the mask of the rows that *condition*, all bound by now, keeps."""
        expression = self._pending.pop(condition, None)
        if expression is None:  # an equal one was applied before
            return np.ones(table.length, dtype=np.bool_)
        return self._rows(table).kept(expression)

    def advance(self, table: EncodedTable, bound: Collection[str], name: str) -> EncodedTable:
        """Return *table* with the partial values that exist now that *name* is bound, too."""
        rows = self._rows(table)
        columns: dict[str, Column] = {}
        names_by_part: dict[SyntaxNode, Name] = {}
        for condition, expression in self._pending.items():
            if name not in expression.names:
                continue
            reduced = _Reduction({*bound, *self._values}, names_by_part, self._count)
            node = reduced.of(expression.node)
            self._count = reduced.count
            for partial, whole in reduced.new_values.items():
                values = rows.of(Expression(expression.passage, whole, expression.text))
                self._values[partial], columns[partial] = _numbered(values)
            self._pending[condition] = replace(expression, node=node)
        return EncodedTable(
            (*table.names, *columns),
            (*table.columns, *map(narrow, columns.values())),
            table.length,
        )

    def _rows(self, table: EncodedTable) -> PointColumns:
        codes = table.codes
        partial = {
            name: self._values[name][codes.pop(name)] for name in self._values.keys() & codes
        }
        return PointColumns(self.part.parameters, codes, table.length, partial)

    def _reordered(self, expression: Expression) -> Expression:
        """Return *expression* with sums and products of integers in the order of binding.

        Then what is bound stands at their beginning. Integers are exact, so the value is the same;
        a sum of reals stays as it is written, for its rounding depends on the order.
        """
        return replace(expression, node=self._ordered(expression.node, expression))

    def _ordered(self, node: SyntaxNode, expression: Expression) -> SyntaxNode:
        node = rebuilt(node, lambda child: self._ordered(child, expression))
        if not isinstance(node, Arithmetic):
            return node
        steps = (OperatorStep("+", node.first), *node.steps)
        operators = {step.operator for step in node.steps}
        is_sum = operators <= {"+", "-"}
        if not is_sum and operators != {"*"}:
            return node
        checker = Checker(expression.passage, self._types, host=False)
        if any(checker.type(step.operand) != "int" for step in steps):
            return node
        ordered = sorted(steps, key=lambda step: self._rank(step.operand))
        if not is_sum:
            first, *factors = (step.operand for step in ordered)
            steps = tuple(OperatorStep("*", factor) for factor in factors)
            return replace(node, first=first, steps=steps)
        if ordered[0].operator == "-":
            return replace(node, first=Constant(0), steps=tuple(ordered))
        return replace(node, first=ordered[0].operand, steps=tuple(ordered[1:]))

    def _rank(self, node: SyntaxNode) -> int:
        """Return the rank of the dimension that is bound last of those that *node* names."""
        return max((self.part.ranks[name] for name in _names(node)), default=-1)


class _Reduction:
    """Replaces the largest bound parts of an expression by names of partial values."""

    def __init__(
        self, bound: Collection[str], names_by_part: dict[SyntaxNode, Name], count: int
    ) -> None:
        self.bound = bound
        self.names_by_part = names_by_part
        """Shared by conditions: what two of them compute is one value."""
        self.count = count
        self.new_values: dict[str, SyntaxNode] = {}

    def of(self, node: SyntaxNode) -> SyntaxNode:
        if isinstance(node, Name | Index | HostAttribute | Constant):
            return node
        if self._is_bound(node):
            return self._named(node) if _names(node) else node
        if isinstance(node, Arithmetic):
            # A chain is computed from left to right: what is bound at its beginning is a value.
            length = 0
            if self._is_bound(node.first):
                bound = [self._is_bound(step.operand) for step in node.steps]
                length = (*bound, False).index(False)
            if length:
                head = replace(node, steps=node.steps[:length], end=node.steps[length - 1].end)
                node = replace(node, first=self.of(head), steps=node.steps[length:])
        return rebuilt(node, self.of)

    def _is_bound(self, node: SyntaxNode) -> bool:
        return all(name in self.bound for name in _names(node))

    def _named(self, node: SyntaxNode) -> Name:
        if node not in self.names_by_part:
            self.count += 1
            name = Name(f"{_MARK}{self.count}", start=node.start, end=node.end)
            self.names_by_part[node] = name
            self.new_values[name.name] = node
        return self.names_by_part[node]


def _names(node: SyntaxNode) -> set[str]:
    return {part.name for part in walk(node) if isinstance(part, Name | Index)}


def _type_of(part: Part, name: str) -> Type | None:
    domain = part.parameters[name].domain
    return None if domain is None else domain.type


def _numbered(values: Column) -> tuple[Column, Column]:
    """Return the distinct *values*, and the number of each row's value among them."""
    if values.dtype.kind == "f":
        # By their bits: 0.0 and -0.0 are equal, but not to str().
        distinct, numbers = np.unique(values.view(np.int64), return_inverse=True)
        return distinct.view(np.float64), numbers
    if values.dtype.kind != "O":
        return np.unique(values, return_inverse=True)
    codes: dict[tuple[type, object], int] = {}
    rows = [codes.setdefault((type(value), value), len(codes)) for value in values.tolist()]
    distinct = np.fromiter((value for _, value in codes), np.object_, len(codes))
    return distinct, np.array(rows, dtype=np.int64)


@dataclass(frozen=True)
class _CodeSets:
    """Distinct sets of codes of one dimension: a row of *cells* for each."""

    cells: Column

    def choices(self, numbers: Column, window: tuple[int, int] | None) -> Choices:
        """Return the codes in the sets with these *numbers*, inside *window*."""
        cells = self.cells
        if window is not None:
            cells = cells.copy()
            cells[:, : window[0]] = cells[:, window[1] :] = False
        counts = cells.sum(axis=1)
        flat = narrow(np.nonzero(cells)[1])
        starts = np.cumsum(counts) - counts
        return Choices(flat, starts.take(numbers), counts.take(numbers))


class RemainingCodes:
    """For dimensions in several pairs: the codes that the partners bound before them leave."""

    def __init__(self, pairs: Sequence[PairTable], order: Sequence[str]) -> None:
        ranks = {name: rank for rank, name in enumerate(order)}
        by_last: dict[str, list[PairTable]] = {}
        for pair in pairs:
            by_last.setdefault(max(pair.names, key=ranks.__getitem__), []).append(pair)
        self._by_last = {
            name: users for name, users in by_last.items() if len(users) >= FEWEST_PAIRS
        }
        self._pairs = {pair for users in self._by_last.values() for pair in users}
        self.partners = frozenset(
            pair.other(last) for last, users in self._by_last.items() for pair in users
        )
        """The dimensions whose codes decide which of others remain."""
        self._sets: dict[str, _CodeSets] = {}

    def __contains__(self, pair: object) -> bool:
        return pair in self._pairs

    @property
    def names(self) -> frozenset[str]:
        """The columns that say which codes remain."""
        return frozenset(map(_set_name, self._sets))

    def choices(
        self, table: EncodedTable, name: str, window: tuple[int, int] | None
    ) -> Choices | None:
        """Return the remaining codes of *name* in each row; None if they are not tracked."""
        sets = self._sets.pop(name, None)
        return None if sets is None else sets.choices(table.codes[_set_name(name)], window)

    def advance(
        self, table: EncodedTable, name: str, allowed: Mapping[str, Column]
    ) -> tuple[EncodedTable, Column]:
        """Return *table* with what *name*, bound now, leaves of others, and the rows it kept.

        Rows that leave nothing of a dimension are dropped.
        """
        at = np.arange(table.length)
        for last, pairs in self._by_last.items():
            for pair in pairs:
                if name in pair.names and name != last:
                    table, alive = self._intersected(table, last, pair, allowed.get(last))
                    at = at.take(alive)
        return table, at

    def _intersected(
        self, table: EncodedTable, last: str, pair: PairTable, allowed: Column | None
    ) -> tuple[EncodedTable, Column]:
        columns = table.codes
        partner_rows = pair.seen_from(pair.other(last))
        codes = columns[pair.other(last)].astype(np.int64)
        column = _set_name(last)
        if last in self._sets:
            before = self._sets[last].cells
        else:
            before = np.ones((1, partner_rows.shape[1]), dtype=np.bool_)
            if allowed is not None:
                before[0] = False
                before[0, allowed] = True
            columns[column] = np.zeros(table.length, dtype=np.uint8)
        # Rows with equal sets and equal codes have the same remaining set: it is computed once.
        keys, rows = np.unique(
            columns[column].astype(np.int64) * partner_rows.shape[0] + codes, return_inverse=True
        )
        if len(keys) * partner_rows.shape[1] > MAX_CELLS:
            raise TooManyRows(len(keys) * partner_rows.shape[1])
        remaining = (
            before[keys // partner_rows.shape[0]] & partner_rows[keys % partner_rows.shape[0]]
        )
        # Equal sets get one number. As rows of bytes they compare by one memory comparison.
        packed = np.packbits(remaining, axis=1)
        bits = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, numbers = np.unique(bits, return_index=True, return_inverse=True)
        self._sets[last] = _CodeSets(remaining[first])
        columns[column] = narrow(numbers.take(rows))
        alive = np.flatnonzero(remaining.any(axis=1).take(rows))
        whole = EncodedTable(tuple(columns), tuple(columns.values()), table.length)
        return (whole if len(alive) == table.length else whole.take(alive)), alive


def _set_name(name: str) -> str:
    return f"{_MARK}{name}"
