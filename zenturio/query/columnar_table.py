"""A `TableQuery` answered by the columnar copy of a study: the second reader of tables.

It answers what reads all rows: groups, orders, columns and counts. Where it cannot say exactly what
the database would (`NotInCopyError`), the database is asked.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from zenturio.experiment.aggregates import quantile_share
from zenturio.expression.syntax_tree import (
    Compare,
    Constant,
    Logic,
    Member,
    Name,
    Not,
    SyntaxNode,
)
from zenturio.query.aggregates import (
    CANCELLED,
    DOUBT_RULES,
    HUGE,
    PrecisionGuards,
    exact_aggregate,
)
from zenturio.query.catalog import Catalog, StudyColumn
from zenturio.query.select_statement import SelectItem
from zenturio.record.columnar_copy import (
    Array,
    ColumnarCopy,
    CopiedColumn,
    NotInCopyError,
    Reals,
    look_up,
    row_parts,
)
from zenturio.record.columnar_groups import GroupedValues, RowGroups

_FACTS = {"index": "position", "repeat": "repeat", "round": "round", "status": "status"}
"""What the copy calls the facts that it has."""
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXACT = 2**53

Condition = Callable[[slice], Array]
"""Says which of some rows meet it."""
Truth = Callable[[slice], tuple[Array, Array]]
"""Says of which of some rows it is true, and of which it is false."""


class CopiedPage(NamedTuple):
    """Some rows that follow each other in an order."""

    numbers: Array
    """Of the rows, in their order."""
    start: int
    """How many rows come before them."""
    total: int
    """How many rows there are."""


class CopiedTable:
    """The rows of a study that a query selects, from the columnar copy."""

    def __init__(
        self,
        copy: ColumnarCopy,
        catalog: Catalog,
        *,
        where: SyntaxNode | None,
        states: Collection[str],
        without: Collection[int],
        finite: Sequence[StudyColumn] = (),
    ) -> None:
        """*states*: all, if none are named. *without*: numbers of rows to leave out.

        *finite*: columns that must have a finite number.
        """
        self._copy = copy
        self._catalog = catalog
        self._where = where
        self._states = states
        self._without = without
        self._finite = finite

    @cached_property
    def _mask(self) -> Array | None:
        """Which rows take part; None for all."""
        conditions = list(self._conditions())
        if not conditions:
            return None
        mask = np.empty(self._copy.rows, dtype=np.bool_)
        for part in row_parts(len(mask)):
            mask[part] = conditions[0](part)
            for condition in conditions[1:]:
                mask[part] &= condition(part)
        return None if mask.all() else mask

    @cached_property
    def _chosen(self) -> Array | None:
        """The places of the rows that take part; None for all."""
        return None if self._mask is None else np.flatnonzero(self._mask)

    def _conditions(self) -> Iterator[Condition]:
        """Yield which rows meet each condition; nothing for one that all meet."""
        rows, copy = self._catalog.rows, self._copy
        if rows.round == "newest":
            yield from self._equal("newest", {1})
        elif rows.round != "all":
            yield from self._equal("round", {rows.round})
        if rows.machine is not None:
            yield from self._equal("machine", {rows.machine})
        if self._states:
            yield from self._equal("status", set(self._states))
        if self._without:
            left_out = np.fromiter(self._without, dtype=np.int64)
            numbers = copy.column("number").data
            yield lambda part: ~np.isin(numbers[part], left_out)
        if self._where is not None:
            truth = self._truth(self._where)
            yield lambda part: truth(part)[0]
        for column in self._finite:
            yield self._is_finite(self._copy.reals(self._key(column)))

    def _equal(self, key: str, allowed: Collection[Any]) -> Iterator[Condition]:
        codes, values = self._copy.column(key).codes()
        is_allowed = np.array([value in allowed for value in values], dtype=np.bool_)
        if not is_allowed.all():
            yield lambda part: is_allowed[codes[part]]

    @staticmethod
    def _is_finite(reals: Reals) -> Condition:
        return lambda part: np.isfinite(reals[part])

    def _column(self, column: StudyColumn) -> CopiedColumn:
        return self._copy.column(self._key(column))

    def _key(self, column: StudyColumn) -> str:
        """What the copy calls a column."""
        if column.role == "fact":
            names = {fact.name: name for name, fact in self._catalog.facts.items()}
            key = _FACTS.get(names.get(column.name, ""))
            if key is None:
                raise NotInCopyError(column.name)
            return key
        role = "metric" if column.role == "metric" else "parameter"
        return f"{role}:{column.name}"

    def _take(self, data: Array) -> Array:
        return data if self._chosen is None else data[self._chosen]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self._copy.rows if self._mask is None else int(np.count_nonzero(self._mask))

    @property
    def row_numbers(self) -> Array:
        """The number of each row in the database."""
        return self._take(self._copy.column("number").data).astype(np.int64, copy=False)

    def reals(self, column: StudyColumn) -> Array:
        """Return the values of a column in each row, NaN where there is none."""
        return self._take(self._column(column).reals())

    def cells(self, column: StudyColumn) -> tuple[Array, list[Any]]:
        """Return a code for the value of a column in each row, and the values."""
        codes, values = self._column(column).codes()
        return self._take(codes), values

    def ids(self, fact: Literal["machine", "host"]) -> tuple[Array, list[Any]]:
        """Return a code for the machine or host of each row, and their numbers in the database."""
        codes, values = self._copy.column(fact).codes()
        return self._take(codes), values

    def whole_numbers(self, column: StudyColumn) -> tuple[Array, Array | None]:
        """The integers of a column in each row, and where there is none, if any is missing."""
        copied = self._column(column)
        if copied.field.kind != "int":
            raise NotInCopyError(column.name)
        if copied.values is not None:
            try:
                table = np.array([*copied.values, 0], dtype=np.int64)
            except OverflowError as error:
                raise NotInCopyError(column.name) from error
            codes = self._take(copied.data)
            numbers, nulls = table[codes], codes < 0
        else:
            numbers = self._take(copied.data).astype(np.int64)
            nulls = np.zeros(0, np.bool_) if copied.nulls is None else self._take(copied.nulls)
        return numbers, nulls if nulls.any() else None

    def varies(self, column: StudyColumn) -> bool:
        """Return whether a column has several values, NULL being one."""
        codes, _ = self._column(column).codes()
        first = 0 if self._mask is None else int(self._mask.argmax())
        return self._any(codes != codes[first]) if len(codes) else False

    def distinct(self, column: StudyColumn) -> list[Any]:
        """The values of a column, None for NULL; NotInCopyError where they are not numbered."""
        copied = self._column(column)
        if copied.values is None:
            raise NotInCopyError(column.name)
        codes, values = copied.codes()
        rows = np.zeros(len(values), dtype=np.int64)
        for part in row_parts(len(codes)):
            some = codes[part] if self._mask is None else codes[part][self._mask[part]]
            rows += np.bincount(some, minlength=len(values))
        return [values[code] for code in np.flatnonzero(rows).tolist()]

    def _any(self, rows: Array) -> bool:
        """Return whether any of *rows* takes part."""
        return bool(rows.any() if self._mask is None else (rows & self._mask).any())

    @property
    def has_repeats(self) -> bool:
        """Whether any row is of the second repeat of its point."""
        codes, values = self._copy.column("repeat").codes()
        later = np.array([value > 1 for value in values], dtype=np.bool_)
        return bool(later.any()) and self._any(look_up(later, codes))

    @property
    def in_space(self) -> Array:
        """The places of the rows in the order of the space."""
        order = self.space_order
        return np.arange(self.count) if isinstance(order, slice) else order

    @cached_property
    def space_order(self) -> Array | slice:
        """What puts rows into the order of the space: a slice of all where they stand in it."""
        position, repeat = (self._copy.column(key) for key in ("position", "repeat"))
        if position.nulls is not None:
            raise NotInCopyError("position")
        places = self._take(position.data)
        codes, values = repeat.codes()
        repeats = np.array(values, dtype=np.int64)[self._take(codes)]
        later = places[1:] > places[:-1]
        if (later | ((places[1:] == places[:-1]) & (repeats[1:] >= repeats[:-1]))).all():
            return slice(None)
        return np.lexsort((repeats, places))  # of equal ones the lower number stays first

    def numbers(self, order: Sequence[tuple[StudyColumn, bool]], limit: int | None) -> Array:
        """Return the numbers of the rows in an order, behind which that of the space comes."""
        if limit is not None and len(order) <= 1:
            return self.page(order, limit).numbers
        rows = self.in_space
        for column, falling in reversed(order):
            keys = self._take(self._sort_keys(column, falling=falling)(slice(None)))[rows]
            rows = rows[np.argsort(keys, kind="stable")]
        return self.row_numbers[rows[:limit]]

    def page(
        self,
        order: Sequence[tuple[StudyColumn, bool]],
        limit: int,
        at: int | None = None,
        *,
        is_backwards: bool = False,
    ) -> CopiedPage:
        """Return the first *limit* rows by one column at most, and then by the order of the space.

        Those behind the row of number *at*; *is_backwards*: the last ones, before it. All rows are
        looked at once, and those sorted that may be among the first. NotInCopyError if *at* is no
        row of the copy.
        """
        position, repeat, number = map(self._copy.column, ("position", "repeat", "number"))
        if position.nulls is not None:
            raise NotInCopyError("position")
        codes, repeats = repeat.codes()
        values = np.array(repeats, dtype=np.int64)

        def ties(rows: Array) -> list[Array]:
            """What decides between rows of equal keys."""
            return [position.data[rows], values[codes[rows]], number.data[rows]]

        keys_of: Condition = lambda part: position.data[part]  # noqa: E731 - or that of a column
        for column, falling in order:
            keys_of = self._sort_keys(column, falling=falling)
        anchor = None
        if at is not None:
            anchor = np.flatnonzero(number.data == at)[:1]
            if not len(anchor):
                raise NotInCopyError(f"row {at}")
            anchor_key = keys_of(slice(int(anchor[0]), int(anchor[0]) + 1))
        first: Array = np.empty(0, dtype=np.intp)
        first_keys: Array = np.empty(0)
        count = start = 0
        for part in row_parts(self._copy.rows):
            rows, keys = np.arange(part.start, part.stop), keys_of(part)
            if self._mask is not None:
                rows, keys = rows[self._mask[part]], keys[self._mask[part]]
            count += len(rows)
            if anchor is not None:
                side = _sides(rows, keys, anchor, anchor_key, ties)
                start += int(np.count_nonzero(side < 0 if is_backwards else side <= 0))
                is_there = side < 0 if is_backwards else side > 0
                rows, keys = rows[is_there], keys[is_there]
            if len(first) == limit > 0:
                # Those beyond the last of the first ones so far are none of them.
                last = slice(0, 1) if is_backwards else slice(limit - 1, limit)
                side = _sides(rows, keys, first[last], first_keys[last], ties)
                is_there = side > 0 if is_backwards else side < 0
                rows, keys = rows[is_there], keys[is_there]
            if len(rows):
                rows, keys = np.concatenate([first, rows]), np.concatenate([first_keys, keys])
                places = np.lexsort((*reversed(ties(rows)), keys))
                places = places[max(len(places) - limit, 0) :] if is_backwards else places[:limit]
                first, first_keys = rows[places], keys[places]
        if is_backwards:
            start = (count if anchor is None else start) - len(first)
        return CopiedPage(number.data[first].astype(np.int64, copy=False), start, count)

    def _sort_keys(self, column: StudyColumn, *, falling: bool) -> Condition:
        """Return numbers that some rows are ordered by, NaN for NULL: it comes last."""
        key, sign = self._key(column), -1.0 if falling else 1.0
        if self._copy.field(key).kind in ("int", "real"):
            reals = self._copy.reals(key)
            return lambda part: sign * reals[part]
        # Texts are ordered by their characters' numbers, as the databases are told to.
        codes, values = self._copy.column(key).codes()
        ordered = sorted(value for value in values if value is not None)
        ranks = {value: sign * rank for rank, value in enumerate(ordered)} | {None: math.nan}
        table = np.array([ranks[value] for value in values])
        return lambda part: table[codes[part]]

    def groups(self, heads: Sequence[SelectItem], keys: int) -> list[tuple[Any, ...]]:
        """Return the *heads* for each combination of the first *keys* of them, in any order."""
        columns = [self._measured(head) for head in heads[:keys]]
        coded = [self._column(column).codes() for column in columns]
        groups = RowGroups(
            [codes for codes, _ in coded], [len(values) for _, values in coded],
            self._copy.rows, self._mask,
        )  # fmt: skip
        answers: list[Sequence[Any]] = []
        for (_, values), codes in zip(coded, groups.codes, strict=True):
            answers.append([values[code] for code in codes.tolist()])
        grouped: dict[str, GroupedValues] = {}
        answers += [self._aggregated(head, groups, grouped) for head in heads[keys:]]
        return list(zip(*answers, strict=True)) if groups.count else []

    def _measured(self, head: SelectItem) -> StudyColumn:
        if head.column is None:
            raise NotInCopyError(head.name)
        return head.column

    def _aggregated(
        self, head: SelectItem, groups: RowGroups, grouped: dict[str, GroupedValues]
    ) -> Sequence[Any]:
        if head.aggregate == "rows":
            return list(groups.rows.tolist())
        column = self._measured(head)
        if head.aggregate == "first":
            position = self._column(column)
            if position.nulls is not None:
                raise NotInCopyError("position")
            return list(groups.least(position.data).tolist())
        if head.aggregate in ("min", "max") and self._copy.field(self._key(column)).is_mixed:
            raise NotInCopyError(column.name)
        if column.name not in grouped:
            grouped[column.name] = GroupedValues(groups, self._copy.reals(self._key(column)))
        values = grouped[column.name]
        if head.aggregate not in DOUBT_RULES and head.aggregate not in ("count", "min", "max"):
            return _defined(head.aggregate, values)
        answer: Array = {
            "count": lambda: values.counts,
            "mean": lambda: values.means,
            "sum": lambda: values.sums,
            "std": lambda: values.deviations,
            "median": lambda: values.medians,
            "min": lambda: values.lows,
            "max": lambda: values.highs,
        }[head.aggregate]()
        if head.aggregate == "count":
            return list(answer.tolist())
        needed = 2 if head.aggregate == "std" else 1
        whole = head.aggregate in ("min", "max") and column.type == "int"
        cells = [
            None if count < needed else int(cell) if whole else cell
            for cell, count in zip(answer.tolist(), values.counts.tolist(), strict=True)
        ]
        # Sums by columns are rounded in another order than the definition. Groups in which that
        # could show are computed again, value by value, so that all ways of asking answer the same
        # digits.
        rule = DOUBT_RULES.get(head.aggregate)
        if rule is not None:
            is_doubtful, exact = rule
            for group in _suspects(head.aggregate, values, answer).tolist():
                members = values.values_of(group)
                if members and is_doubtful(cells[group], _guards(members)):
                    cells[group] = exact(members)
        return cells

    def _truth(self, node: SyntaxNode) -> Truth:
        """Return in which rows a condition is true, and in which false; elsewhere it is NULL."""
        match node:
            case Logic("and" | "or" as word, operands):
                return _joined([self._truth(operand) for operand in operands], word)
            case Not(operand):
                truth = self._truth(operand)
                return lambda part: truth(part)[::-1]
            case Compare(Name(name), (step,)) if isinstance(step.operand, Constant):
                return self._compared(name, step.operator, [step.operand.value])
            case Compare(Constant(value), (step,)) if isinstance(step.operand, Name):
                return self._compared(step.operand.name, _MIRRORED[step.operator], [value])
            case Member(Name(name), options, negated) if all(
                isinstance(option, Constant) for option in options
            ):
                values = [option.value for option in options if isinstance(option, Constant)]
                truth = self._compared(name, "==", values)
                return (lambda part: truth(part)[::-1]) if negated else truth
        raise NotInCopyError("a condition of another form")

    def _compared(self, name: str, sign: str, values: Sequence[Any]) -> Truth:
        """In which rows a column stands so to one of *values*, and in which to none."""
        key = self._key(self._catalog.column(name))
        relation, kind = _RELATIONS[sign], self._copy.field(key).kind
        is_number = kind in ("int", "real")
        for value in values:
            fits = type(value) in ((int, float) if is_number else ())
            fits = fits or (kind == "str" and isinstance(value, str))
            if not fits or (is_number and not abs(value) < _EXACT):
                raise NotInCopyError(name)
        if self._copy.is_coded(key):
            column = self._copy.column(key)
            table = [
                None if value is None else any(relation(value, other) for other in values)
                for value in (*(column.values or ()), None)
            ]
            true, false = (np.array([t is wanted for t in table]) for wanted in (True, False))
            return lambda part: (true[column.data[part]], false[column.data[part]])
        reals = self._copy.reals(key)

        def truth(part: slice) -> tuple[Array, Array]:
            data = reals[part]
            has_value = ~np.isnan(data)
            true = np.logical_or.reduce([relation(data, value) for value in values]) & has_value
            return true, has_value & ~true

        return truth


def _joined(parts: Sequence[Truth], word: Literal["and", "or"]) -> Truth:
    """Return in which rows all of *parts* are true, or any of them."""
    join, meet = (np.logical_and, np.logical_or)[:: 1 if word == "and" else -1]

    def truth(rows: slice) -> tuple[Array, Array]:
        pairs = [part(rows) for part in parts]
        return join.reduce([t for t, _ in pairs]), meet.reduce([f for _, f in pairs])

    return truth


def _sides(
    rows: Array, keys: Array, anchor: Array, anchor_key: Array, ties: Callable[[Array], list[Array]]
) -> Array:
    """Of each of *rows* whether it comes before the one row *anchor* (-1), behind it (1), or is it.

    By *keys*, among which NaN comes last, and where these are equal by what *ties* says.
    """
    (bound,) = anchor_key.tolist()
    if bound != bound:  # noqa: PLR0124 - NaN
        is_equal = np.isnan(keys)
        is_before = ~is_equal
    else:
        is_equal, is_before = keys == bound, keys < bound
    sides: Array = 1 - 2 * is_before.astype(np.int8)
    equal = np.flatnonzero(is_equal)
    decided: Array = np.zeros(len(equal), dtype=np.int8)
    for tie, limit in zip(ties(rows[equal]), ties(anchor), strict=True):
        side = (tie > limit[0]).astype(np.int8) - (tie < limit[0])
        decided = np.where(decided == 0, side, decided)
    sides[equal] = decided
    return sides


_MEDIAN_ENDS: Mapping[str, Literal[0, 1]] = {"median_low": 0, "median_high": 1}
"""Aggregates that are one end of the interval of the median."""


def _defined(kind: str, values: GroupedValues) -> list[Any]:
    """An aggregate that databases do not have: quantiles of all groups at once, others of each."""
    share = quantile_share(kind)
    exact = exact_aggregate(kind)
    if kind in _MEDIAN_ENDS:
        ends = values.median_ends(_MEDIAN_ENDS[kind]).tolist()
        return [None if math.isnan(end) else end for end in ends]
    if share is None:
        return [exact(members) if members else None for members in values.members()]
    answers = values.quantiles(share)
    cells = [
        cell if count else None
        for cell, count in zip(answers.tolist(), values.counts.tolist(), strict=True)
    ]
    for group in _suspects("median", values, answers).tolist():
        cells[group] = exact(values.values_of(group)) if cells[group] is not None else None
    return cells


def _suspects(kind: str, values: GroupedValues, answers: Array) -> Array:
    """The groups whose aggregate may have lost digits: `DOUBT_RULES` decide with their values."""
    if kind in ("sum", "mean"):
        suspected = np.abs(values.sums) * CANCELLED < values.sizes
    elif kind == "std":
        suspected = answers * CANCELLED < values.greatest
    else:
        suspected = (answers != 0) & (np.abs(answers) < 1 / HUGE)
        if not values.is_one_signed:
            suspected |= np.abs(answers) * CANCELLED < values.greatest
    return np.flatnonzero(suspected)


def _guards(members: Sequence[float]) -> PrecisionGuards:
    size = math.fsum(map(abs, members))
    return PrecisionGuards(len(members), min(members), max(members), size)
