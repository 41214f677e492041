"""The experiments of a study page by page: a page of a million costs what one of ten does.

In the order of the space an index leads to any page. For any other order or condition the numbers
of all experiments are computed once, and pages are cut from these.

SQLite sorts all rows to return the first ones. A sample gives a bound that about the first hundred
rows meet; only rows within the bound are sorted. Where it turns out too narrow, all rows are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from zenturio.annotate.model import MEASURED
from zenturio.experiment import Missing
from zenturio.expression import Expression
from zenturio.query.catalog import (
    MANY_COLUMNS,
    ROW,
    Catalog,
    SnapshotReader,
    StudyColumn,
    key_names,
    open_snapshot,
    read_catalog,
)
from zenturio.query.select_statement import (
    EMPTY_FRAGMENT,
    RowRemarks,
    SelectItem,
    StudySelect,
    column_chunks,
)
from zenturio.query.sql_fragments import (
    DIALECTS,
    BoundValue,
    Fragment,
    join_fragments,
    quote_name,
    sql,
    verbatim,
)
from zenturio.record import ExperimentState, Repository
from zenturio.record.codec import unescape_start
from zenturio.record.row_filter import NEWEST, RowChoice

RowNumbers = np.ndarray[Any, np.dtype[np.int64]]
"""Experiments, by the number of their row."""


@dataclass(frozen=True)
class TableQuery:
    """Which experiments of a study, in which order, and what of them."""

    study: str
    where: Expression | None = None
    states: tuple[ExperimentState, ...] = ()
    """All, if none are named."""
    sort: tuple[str, ...] = ()
    """Columns; with ``-`` before it, the greatest first. Else the order of the space."""
    columns: tuple[str, ...] = ()
    """All parameters and metrics, if none are named."""
    repeats: bool = False
    """Whether the repeat is among those."""
    rows: RowChoice = NEWEST
    """Of which kind of machine, and of which round."""
    own_first: bool = False
    """Whether the study's own metrics stand before those that every study has."""

    @property
    def names(self) -> frozenset[str]:
        """The columns that are asked for."""
        sorts = (column.removeprefix("-") for column in self.sort)
        return frozenset((*(self.where.names if self.where else ()), *sorts, *self.columns))

    @property
    def plain(self) -> bool:
        """Whether it is all experiments in the order of the space: an index leads everywhere."""
        return self.where is None and not self.states and not self.sort


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """One experiment of a page."""

    number: int
    digest: str
    status: ExperimentState
    cells: tuple[Any, ...]
    """By column; a metric that was not measured is `Missing`, and says why where that is known."""


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Experiments that did not succeed for the same cause."""

    status: ExperimentState
    cause: str
    count: int
    example: ExperimentRow


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What a column took."""

    column: StudyColumn
    values: tuple[Any, ...] | None = None
    """None where there are too many to be shown."""
    low: Any = None
    """Of many numbers, the least and the greatest."""
    high: Any = None


MANY_ROWS = 100_000
"""Rows for which this is worth the while."""
LONGEST_CAUSE = 4_000
"""Characters of a cause that a page reads; causes that differ later are one there."""

ROWS_AHEAD = 5_000
"""Rows that are looked at in their order before all are: a condition that many meet needs few."""
SAMPLE_SIZE = 200
"""Rows whose values say from where on a sort is to look."""
SAMPLE_RANK = 3
"""Of the sample's values the one to look from: about as many rows lie before it, times the share
of the sample."""


def top_value_condition(
    reader: SnapshotReader,
    source: Fragment,
    condition: Fragment,
    number: Fragment,
    value: Fragment,
    *,
    falling: bool,
) -> Fragment | None:
    """A condition that the first rows by *value* meet, with some hundreds that come next.

    None where too few of a sample meet the *condition* and have a value: few are soon sorted.
    """
    first, last = (extreme_number(reader, which, number, source) for which in ("min", "max"))
    every = range(first, last + 1)
    # A fixed seed: the same page is found the same way each time.
    drawn = random.Random(1).sample(every, min(SAMPLE_SIZE, len(every)))  # noqa: S311 - no secret
    marks = join_fragments(", ", (Fragment((BoundValue(sampled),)) for sampled in sorted(drawn)))
    among = sql("{} IN ({})", number, marks)
    rows = join_fragments(
        " AND ", (condition_part for condition_part in (among, condition) if condition_part.parts)
    )
    sample = reader.rows(sql("SELECT {} {} WHERE {}", value, source, rows))
    values = sorted((v for (v,) in sample if v is not None), reverse=falling)
    if len(values) < SAMPLE_SIZE // 2:
        return None
    return sql(
        f"{{}} {'>=' if falling else '<='} {{}}",
        value,
        Fragment((BoundValue(values[SAMPLE_RANK]),)),
    )


def extreme_number(reader: SnapshotReader, which: str, number: Fragment, source: Fragment) -> int:
    """The least or the greatest number; the two at once would be looked for among all rows."""
    ((number_found,),) = reader.rows(sql(f"SELECT {which}({{}}) {{}}", number, source))
    return int(number_found)


def numbers_by_value(
    rows: Iterable[tuple[int, float | None]], *, whole: bool, falling: bool
) -> RowNumbers:
    """The numbers of *rows*, ordered by what stands beside them; what is NULL comes last.

    Rows of the same value stay as they come. SQLite takes twice the time and memory for it.
    """
    kind = np.int64 if whole else np.float64
    fields = np.dtype([("number", np.int64), ("none", np.bool_), ("value", kind)])
    table = np.fromiter(((n, v is None, v or 0) for n, v in rows), dtype=fields)
    value = table["value"]
    rising = value if not falling else ~value if whole else -value  # the least has no negative
    numbers: RowNumbers = table["number"][np.lexsort((rising, table["none"]))]
    return numbers


Answer = TypeVar("Answer")
FAILED: tuple[ExperimentState, ...] = ("failed", "timeout", "cancelled")


def query_listing(
    repository: Repository, query: TableQuery, question: Callable[[Listing], Answer]
) -> Answer:
    """What *question* finds in the listing of what is wanted, all of one moment."""
    with open_snapshot(repository) as reader:
        catalog = read_catalog(reader, query.study, query.rows, query.names)
        keys = key_names(catalog)

        def source(*, facts: bool, columns: Sequence[StudyColumn] = ()) -> str:
            rows: str = reader.repository.ordered_rows_sql(
                query.study,
                keys,
                facts=facts,
                names=_named(catalog, query, columns),
                rows=catalog.rows,
            )
            return rows

        return question(Listing(reader, catalog, query, keys, source))


class Listing:
    """What is wanted of a study, as of one moment."""

    def __init__(
        self,
        reader: SnapshotReader,
        catalog: Catalog,
        query: TableQuery,
        keys: tuple[str, str, str],
        source: Callable[..., str],
    ) -> None:
        self._reader = reader
        self._source = source
        self._names = keys
        self.query = query
        self.catalog = catalog
        self.columns = _columns(catalog, query)
        self._order = [
            (SelectItem.of(catalog.column(column.removeprefix("-"))), column.startswith("-"))
            for column in query.sort
        ]
        also = _of_states(catalog, query)
        self._select = StudySelect(
            reader.dialect, catalog, query.where, every_status=True, also=also
        )

    @property
    def empty(self) -> bool:
        """Whether the study has none in these states: nothing needs to be looked for."""
        states = self.query.states
        return bool(states) and not any(self.catalog.counts[state] for state in states)

    def first(self, count: int) -> list[ExperimentRow]:
        """The first rows."""
        return self.those(self.numbers(count))

    def behind(self, number: int, count: int) -> list[ExperimentRow]:
        """Those behind an experiment, in the order of the space."""
        return self._rows(self._beyond(">", number), self._keys, count)

    def before(self, number: int | None, count: int) -> list[ExperimentRow]:
        """Those before an experiment, in the order of the space; with none the last of all."""
        condition = EMPTY_FRAGMENT if number is None else self._beyond("<", number)
        # Read backwards along the index, then turned: the page before needs no offset.
        return self._rows(condition, [sql("{} DESC", key) for key in self._keys], count)[::-1]

    def rank(self, number: int) -> int:
        """How many stand before an experiment, in the order of the space."""
        before = self._beyond("<", number)
        ((count,),) = self._reader.rows(sql("SELECT count(*) {} WHERE {}", self._from(), before))
        return int(count)

    def those(self, numbers: Iterable[int]) -> list[ExperimentRow]:
        """The experiments of these numbers, in their order."""
        ordered = list(map(int, numbers))
        marks = join_fragments(", ", (Fragment((BoundValue(number),)) for number in ordered))
        among = sql("{} IN ({})", self._keys[2], marks)
        rows_by_number = (
            {row.number: row for row in self._rows(among, [], len(ordered))} if ordered else {}
        )
        return [rows_by_number[number] for number in ordered if number in rows_by_number]

    def numbers(self, count: int | None = None) -> RowNumbers:
        """All that are wanted, or the first *count*, in their order."""
        if self.empty:
            return np.empty(0, dtype=np.int64)
        if (
            count is not None
            and self._reader.dialect == "sqlite"
            and self.catalog.total >= MANY_ROWS
        ):
            some = self._ahead(count)
            if len(some) == count:
                return some
        # SQLite takes twice the time and memory to sort all rows by a number.
        if count is None and self._sorts_by_number:
            return self._by_value(*self._order[0])
        # Where few rows meet a condition, to walk along the index of the order takes longer.
        key_form = (
            "+{}" if count and self.query.where and self._reader.dialect == "sqlite" else "{}"
        )
        order = [*self._select.orders(self._order), *(sql(key_form, key) for key in self._keys)]
        source = self._from(facts=self._looks_at_facts())
        return self._numbers(source, self._select.condition, order, count)

    def _ahead(self, count: int) -> RowNumbers:
        """The first *count*, if they are found without looking at all rows for long; or fewer."""
        source, condition = self._from(facts=self._looks_at_facts()), self._select.condition
        order = [*self._select.orders(self._order), *self._keys]
        if not self._order:
            rows = sql(
                f"SELECT * {{}} ORDER BY {{}} LIMIT {ROWS_AHEAD}",
                source,
                join_fragments(", ", order),
            )
            return self._numbers(sql(f"FROM ({{}}) AS {ROW}", rows), condition, order, count)
        ((head, falling), *_) = self._order
        if not _is_number(head):
            return np.empty(0, dtype=np.int64)
        value = head.fragment
        number = self._keys[2]
        near = top_value_condition(self._reader, source, condition, number, value, falling=falling)
        if near is None:
            return np.empty(0, dtype=np.int64)
        both = sql("{} AND {}", condition, near) if condition.parts else near
        return self._numbers(source, both, order, count)

    @property
    def _sorts_by_number(self) -> bool:
        many = self._reader.dialect == "sqlite" and self.catalog.total >= MANY_ROWS
        return many and len(self._order) == 1 and _is_number(self._order[0][0])

    def _by_value(self, head: SelectItem, falling: bool) -> RowNumbers:
        """All in the order of one value."""
        source = self._from(facts=self._looks_at_facts())
        columns = join_fragments(", ", (self._keys[2], head.fragment))
        where, keys = _where(self._select.condition), join_fragments(", ", self._keys)
        statement = sql("SELECT {} {}{} ORDER BY {}", columns, source, where, keys)
        rows = self._reader.each(statement)
        return numbers_by_value(rows, whole=head.fragment.type == "int", falling=falling)

    def _numbers(
        self, source: Fragment, condition: Fragment, order: Iterable[Fragment], count: int | None
    ) -> RowNumbers:
        by = join_fragments(", ", order)
        statement = sql("SELECT {} {}{} ORDER BY {}", self._keys[2], source, _where(condition), by)
        statement = statement if count is None else sql(f"{{}} LIMIT {count}", statement)
        return np.fromiter((row[0] for row in self._reader.each(statement)), dtype=np.int64)

    def repeated(self) -> bool:
        """Whether any experiment is the second of its point."""
        repeat = self._keys[1]
        statement = sql("SELECT 1 {} WHERE {} > 1 LIMIT 1", self._from(), repeat)
        return bool(self._reader.rows(statement))

    def causes(self, most: int) -> list[FailureCause]:
        """Why experiments did not succeed: the frequent causes first, up to *most* of them."""
        if not any(self.catalog.counts[state] for state in FAILED):
            return []
        example = sql("min({})", self._keys[2])
        statement = self._causes(most, self._from(facts=True), example)
        causes = self._reader.rows(statement)
        shown = {row.number: row for row in self.those(number for *_, number in causes)}
        return [
            FailureCause(status, unescape_start(cause), int(count), shown[number])
            for status, cause, count, number in causes
        ]

    def causes_sql(self, most: int) -> str:
        """That question as somebody asks it of the study's view."""
        return self._causes(most, self._view()).plain(self._reader.dialect)

    def _causes(self, most: int, source: Fragment, *also: Fragment) -> Fragment:
        status, cause = (verbatim(self.catalog.facts[fact].sql()) for fact in ("status", "cause"))
        if also:  # for a page: a cause of a hundred megabytes is not to fill its memory
            cause = sql(f"substr({{}}, 1, {LONGEST_CAUSE})", cause)
        states = join_fragments(", ", (Fragment((BoundValue(state),)) for state in FAILED))
        return sql(
            f"SELECT {{}} {{}} WHERE {{}} IN ({{}}) GROUP BY 1, 2 ORDER BY 3 DESC, {{}}, {{}}"
            f" LIMIT {most}",
            join_fragments(", ", (status, cause, verbatim("count(*)"), *also)),
            source,
            status,
            states,
            *(
                sql(f"{{}}{DIALECTS[self._reader.dialect].collation}", column)
                for column in (status, cause)
            ),
        )

    def taken(self, column: StudyColumn, most: int) -> ColumnRange:
        """What a column took; its values themselves where there are up to *most* of them."""
        values, source = verbatim(column.sql()), self._from(columns=[column], facts=column.wide)
        exact = column.exact(self._reader.dialect)
        some = self._reader.rows(_distinct(exact, most + 1, source))
        distinct = [column.value(value) for (value,) in some]
        if len(distinct) <= most:
            return ColumnRange(column, tuple(sorted(distinct, key=_ranked)))
        if not column.number:
            return ColumnRange(column)
        ((low, high),) = self._reader.rows(
            sql("SELECT min({}), max({}) {}", values, values, source)
        )
        return ColumnRange(column, None, column.value(low), column.value(high))

    def taken_sql(self, column: StudyColumn, most: int) -> str:
        """The same for somebody who asks the study's view."""
        return _distinct(verbatim(column.sql()), most, self._view()).plain(self._reader.dialect)

    def sql(self, count: int | None = None) -> str:
        """The question as somebody asks it of the study's view."""
        facts = self.catalog.facts
        order = [*self._order, *self._select.space_order()]
        columns = (facts["digest"], facts["status"], *self.columns)
        select = self._select.select([SelectItem.of(column) for column in columns], order=order)
        text = select.plain(self._reader.dialect)
        return text if count is None else f"{text} LIMIT {count}"

    def _looks_at_facts(self) -> bool:
        facts = {fact.name for fact in self.catalog.facts.values()}
        used = set(self.query.where.names) if self.query.where else set()
        used |= {column.removeprefix("-") for column in self.query.sort}
        names = self.catalog.columns
        by_digits = any(head.wide for head, _ in self._order)
        by_digits = by_digits or any(names[column].wide for column in used & names.keys())
        return bool(self.query.states) or bool(used & facts) or by_digits

    @property
    def _keys(self) -> list[Fragment]:
        """Position, repeat and number."""
        return [verbatim(f"{ROW}.{quote_name(key)}") for key in self._names]

    def _beyond(self, sign: str, number: int) -> Fragment:
        """Whether a row stands behind or before an experiment, in the order of the space."""
        anchor = sql(
            "SELECT {} {} WHERE {} = {}",
            join_fragments(", ", self._keys),
            self._from(),
            self._keys[2],
            Fragment((BoundValue(number),)),
        )
        return sql(f"({{}}) {sign} ({{}})", join_fragments(", ", self._keys), anchor)

    def _from(self, *, facts: bool = False, columns: Sequence[StudyColumn] = ()) -> Fragment:
        return verbatim(f"FROM ({self._source(facts=facts, columns=columns)}) AS {ROW}")

    def _view(self) -> Fragment:
        """The same rows as they have a name in the database."""
        return verbatim(f"FROM {quote_name(self.catalog.view_all)} AS {ROW}")

    def _rows(
        self, condition: Fragment, order: Iterable[Fragment], count: int
    ) -> list[ExperimentRow]:
        facts = [self.catalog.facts[fact] for fact in ("digest", "status", "remarks")]
        first, *others = list(column_chunks(self.columns)) or [[]]
        rows = self._cells([*facts, *first], condition, order, count)
        cells_by_number = {row[0]: list(row) for row in rows}
        marks = verbatim(", ".join(map(str, cells_by_number)))
        among = sql("{} IN ({})", self._keys[2], marks)
        for columns in others if cells_by_number else ():
            for number, *cells in self._cells(columns, among, [], len(cells_by_number)):
                cells_by_number[number] += cells
        return [self._row(*row) for row in cells_by_number.values()]

    def _cells(
        self,
        columns: Sequence[StudyColumn],
        condition: Fragment,
        order: Iterable[Fragment],
        count: int,
    ) -> list[tuple[Any, ...]]:
        """The number of each row, and what stands in *columns*."""
        heads = [self._keys[2], *(verbatim(column.sql()) for column in columns)]
        by = join_fragments(", ", order)
        statement = sql(
            f"SELECT {{}} {{}}{{}}{{}} LIMIT {count}",
            join_fragments(", ", heads),
            self._from(facts=True, columns=columns),
            _where(condition),
            sql(" ORDER BY {}", by) if by.parts else by,
        )
        return self._reader.rows(statement)

    def _row(
        self, number: int, digest: str, status: ExperimentState, remarks: str | None, *cells: object
    ) -> ExperimentRow:
        remarks_of_row = RowRemarks(remarks)
        pairs = zip(self.columns, cells, strict=True)
        return ExperimentRow(
            number, digest, status, tuple(_cell(c, cell, remarks_of_row) for c, cell in pairs)
        )


def _distinct(value: Fragment, most: int, source: Fragment) -> Fragment:
    return sql(f"SELECT DISTINCT {{}} {{}} LIMIT {most}", value, source)


def _columns(catalog: Catalog, query: TableQuery) -> Sequence[StudyColumn]:
    if query.columns:
        return [catalog.column(column) for column in query.columns]
    repeat = [catalog.facts["repeat"]] if query.repeats else []
    metrics = sorted(catalog.metrics, key=lambda m: query.own_first and m.name in MEASURED)
    return [*catalog.parameters, *catalog.seeds, *repeat, *metrics]


def _named(catalog: Catalog, query: TableQuery, columns: Sequence[StudyColumn]) -> set[str] | None:
    """The fields that are needed for *columns*, and to choose and order what is wanted.

    None where a study has few, so that all will do.
    """
    if len(catalog.columns) <= MANY_COLUMNS:
        return None
    names = {column.name for column in columns}
    names |= {column.removeprefix("-") for column in query.sort}
    names |= set(query.where.names) if query.where else set()
    return {catalog.columns[column].view for column in names if column in catalog.columns}


def _of_states(catalog: Catalog, query: TableQuery) -> Fragment:
    """The condition on the state; nothing where all are wanted."""
    if not query.states:
        return EMPTY_FRAGMENT
    states = join_fragments(", ", (Fragment((BoundValue(state),)) for state in query.states))
    return sql("{} IN ({})", verbatim(catalog.facts["status"].sql()), states)


def _ranked(value: Any) -> tuple[bool, bool, Any]:
    """Numbers by size, then texts, then what there is none of."""
    return value is None, isinstance(value, str), value if value is not None else 0


def _is_number(head: SelectItem) -> bool:
    """Whether a column holds numbers, and is the study's own."""
    return head.fragment.type in ("int", "real") and not head.wide and not head.fact


def _where(condition: Fragment) -> Fragment:
    return sql(" WHERE {}", condition) if condition.parts else EMPTY_FRAGMENT


def _cell(column: StudyColumn, cell: Any, remarks_of_row: RowRemarks) -> Any:
    """A value as it was recorded: the remarks know NaN and infinity, and why one is missing."""
    remark = remarks_of_row.on(column)
    if isinstance(remark, bool | int | float | Missing):
        return remark
    return column.value(cell)
