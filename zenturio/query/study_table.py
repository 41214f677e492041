"""Queries for tables of a study's results, and their execution by the database or the copy.

Each reader of rows, groups, pages or columns of a study (``zen results``, frames, charts, the
portal) describes them by a `TableQuery`; `open_table` opens what answers it, all as of one moment.

SQLite sorts all rows to return the first ones. A sample gives a bound that about the first hundred
rows meet; only rows within the bound are sorted. Where it turns out too narrow, all rows are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from zenturio.errors import Passage
from zenturio.expression import Expression, parse
from zenturio.query.aggregates import ordered_rows, select_groups, total_order
from zenturio.query.catalog import (
    MANY_COLUMNS,
    ROW,
    Catalog,
    SnapshotReader,
    StudyColumn,
    connections_of,
    key_names,
    open_snapshot,
    read_catalog,
)
from zenturio.query.columnar_table import CopiedPage, CopiedTable
from zenturio.query.excluded_points import digests_outside
from zenturio.query.select_statement import (
    EMPTY_FRAGMENT,
    NAMED_ROWS,
    SelectItem,
    StudySelect,
    column_chunks,
    extreme_number,
    restore_rows,
    select_rows,
    where_clause,
)
from zenturio.query.sql_fragments import (
    BoundValue,
    Fragment,
    join_fragments,
    quote_name,
    sql,
    verbatim,
)
from zenturio.record import ExperimentState, Repository, columnar_copy
from zenturio.record.columnar_copy import ColumnarCopy, NotInCopyError
from zenturio.record.entities import NEWEST, RowChoice

RowNumbers = np.ndarray[Any, np.dtype[np.int64]]
"""Experiments, by the number of their row."""

MANY_ROWS = 100_000
"""Rows for which a sample is worth the while."""
ROWS_AHEAD = 5_000
"""Rows that are looked at in their order before all are: a condition that many meet needs few."""
SAMPLE_SIZE = 200
"""Rows whose values say from where on a sort is to look."""
SAMPLE_RANK = 3
"""Of the sample's values the one to look from: about as many rows lie before it, times the share
of the sample."""

COUNTED_ROWS = 10_000
"""Rows of which those that meet a condition are counted, to say how many do of a large study."""
LEAST_MET = 25
"""Of them that must meet it: an estimate is off by a fifth then (one standard deviation)."""


@dataclass(frozen=True)
class TableQuery:
    """Which experiments of a study, in which order or groups, and what of them."""

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
    by: tuple[str, ...] = ()
    """Columns that make groups."""
    aggregates: tuple[str, ...] = ()
    """Of the metrics of each group."""
    metrics: tuple[str, ...] = ()
    """Which metrics are shown or aggregated; all, if none are named."""
    limit: int | None = None
    succeeded: bool = False
    """Only experiments that succeeded, unless the condition looks at the status."""
    outside: bool = True
    """Whether experiments take part whose points the present space does not hold."""

    @property
    def names(self) -> frozenset[str]:
        """The requested columns."""
        sorts = (column.removeprefix("-") for column in self.sort)
        named = (*sorts, *self.columns, *self.by, *self.metrics)
        return frozenset((*(self.where.names if self.where else ()), *named))

    @property
    def plain(self) -> bool:
        """Whether it is all experiments in the order of the space: an index leads everywhere."""
        return self.where is None and not self.states and not self.sort


def condition_of(where: str | Passage | Expression | None) -> Expression | None:
    """Return a condition, parsed if it is a text; ExpressionError with its place if it is none."""
    return parse(where) if isinstance(where, str | Passage) else where


@contextmanager
def open_table(repository: Repository, query: TableQuery) -> Iterator[StudyTable]:
    """Return the table for *query*; InputError if *repository* is not a database."""
    connections_of(repository)
    without = frozenset() if query.outside else digests_outside(repository, query.study)
    with open_snapshot(repository) as reader:
        catalog = read_catalog(reader, query.study, query.rows, query.names)
        yield StudyTable(reader, catalog, query, without)


class StudyTable:
    """The rows of a `TableQuery`, as of one moment."""

    def __init__(
        self,
        reader: SnapshotReader,
        catalog: Catalog,
        query: TableQuery,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.reader = reader
        self.catalog = catalog
        self.query = query
        self.without = without
        """Digests of the experiments that are left out."""
        self.statement = self.narrowed()
        self._opened_copy: ColumnarCopy | None = None

    def narrowed(self, also: Fragment = EMPTY_FRAGMENT, *, facts: bool = False) -> StudySelect:
        """The rows that meet another condition, too; *facts*: it needs what every study has."""
        query = self.query
        conditions = [part for part in (_of_states(self.catalog, query), also) if part.parts]
        return StudySelect(
            self.reader.dialect,
            self.catalog,
            query.where,
            every_status=not query.succeeded,
            also=join_fragments(" AND ", conditions),
            facts=facts,
            without=self.without,
        )

    @cached_property
    def names(self) -> tuple[str, str, str]:
        """What position, repeat and number of a row are called."""
        return key_names(self.catalog)

    @property
    def keys(self) -> list[Fragment]:
        """Position, repeat and number: the order of the space, in which no two rows are equal."""
        return [verbatim(f"{ROW}.{quote_name(key)}") for key in self.names]

    @cached_property
    def order(self) -> list[tuple[SelectItem, bool]]:
        """Columns to sort by, and whether the greatest comes first; the keys come behind."""
        return [
            (SelectItem.of(self.catalog.column(column.removeprefix("-"))), column.startswith("-"))
            for column in self.query.sort
        ]

    @property
    def is_empty(self) -> bool:
        """Whether the study has none in these states: nothing needs to be looked for."""
        states = self.query.states
        return bool(states) and not any(self.catalog.counts[state] for state in states)

    def source(self, *, facts: bool = False, columns: Sequence[StudyColumn] = ()) -> Fragment:
        """FROM the rows of the study with their keys; *columns*: what else is asked for."""
        query = self.query
        rows: str = self.reader.repository.ordered_rows_sql(
            query.study,
            self.names,
            facts=facts,
            names=_named(self.catalog, query, columns),
            rows=self.catalog.rows,
        )
        return verbatim(f"FROM ({rows}) AS {ROW}")

    def text(self, columns: Sequence[StudyColumn], limit: int | None = None) -> str:
        """Return the query as SQL over the study's view."""
        order = [*self.order, *self.statement.space_order()]
        select = self.statement.select([SelectItem.of(column) for column in columns], order=order)
        text = select.plain(self.reader.dialect)
        return text if limit is None else f"{text} LIMIT {limit}"

    def copied(
        self, finite: Sequence[StudyColumn] = (), *, build: bool = True
    ) -> CopiedTable | None:
        """The same rows out of the columnar copy, those with a number in the *finite* columns.

        None for a study that has none: a small one, or without *build* one that was not copied yet.
        """
        copy = self._copy(build)
        if copy is None:
            return None
        query, status = self.query, self.catalog.facts["status"].name
        names = query.where.names if query.where else ()
        succeeded = query.succeeded and status not in names
        return CopiedTable(
            copy,
            self.catalog,
            where=query.where.node if query.where else None,
            states=query.states or (("ok",) if succeeded else ()),
            without=self._numbers_left_out,
            finite=finite,
        )

    def _copy(self, build: bool) -> ColumnarCopy | None:
        if self.catalog.total < columnar_copy.COPY_ROWS:
            return None
        if self._opened_copy is None:
            repository = self.reader.repository
            self._opened_copy = columnar_copy.open_copy(
                self.reader.fetch,
                self.reader.dialect,
                repository.location,
                self.catalog.version,
                self.catalog.fields,
                build=build and repository.copy_wanted is None,
            )
            if self._opened_copy is None and build and repository.copy_wanted is not None:
                repository.copy_wanted(self.catalog.study)
        return self._opened_copy

    @cached_property
    def _numbers_left_out(self) -> Collection[int]:
        """The numbers of the rows whose digests are left out."""
        literal = {"sqlite": "x'{}'", "postgresql": "'\\x{}'::bytea"}[self.reader.dialect]
        numbers: set[int] = set()
        for digests in column_chunks(sorted(self.without)):
            listed = ", ".join(literal.format(digest) for digest in digests)
            text = f"SELECT id FROM results WHERE digest IN ({listed})"  # noqa: S608 - digests
            numbers |= {number for (number,) in self.reader.fetch(text)}
        return numbers

    def groups(
        self,
        heads: Sequence[SelectItem],
        keys: int,
        *,
        statement: StudySelect | None = None,
        finite: Sequence[StudyColumn] = (),
        order: Sequence[tuple[SelectItem, bool]] = (),
        most: int | None = None,
    ) -> list[tuple[Any, ...]]:
        """Return the *heads* for each combination of the first *keys* of them: see `select_groups`.

        *statement* asks for the rows with a number in the *finite* columns, if there are any.
        """
        with suppress(NotInCopyError):
            if table := self.copied(finite):
                rows = table.groups(heads, keys)
                return ordered_rows(rows, heads, total_order(order, heads[:keys]))
        statement = statement or self.statement
        return select_groups(self.reader, statement, heads, keys, order=order, most=most)

    def count(self) -> int:
        """How many rows there are; the study's counters know it where no condition is put."""
        if not self.statement.condition.parts:
            counts = self.catalog.counts
            return counts["ok"] if self.query.succeeded else sum(counts.values())
        with suppress(NotInCopyError):
            if table := self.copied(build=False):
                return table.count
        ((count,),) = self.reader.rows(self.statement.count())
        return int(count)

    def count_or_estimate(self) -> tuple[int, bool]:
        """Return how many rows there are, and whether that is an estimate.

        A condition on a large study without a copy is asked of a sample, unless few rows meet it.
        """
        estimate = self._estimated_count()
        return (self.count(), False) if estimate is None else (estimate, True)

    def _estimated_count(self) -> int | None:
        every = sum(self.catalog.counts.values())
        if not self.statement.condition.parts or every < columnar_copy.COPY_ROWS:
            return None
        with suppress(NotInCopyError):
            if (table := self.copied(build=False)) and table.count >= 0:  # reads the condition
                return None
        source, number = self._rows_looked_at, self.keys[2]
        first, last = (extreme_number(self.reader, name, number, source) for name in ("min", "max"))
        among = sql("{} IN ({})", number, _sampled_numbers(first, last, COUNTED_ROWS))
        met = sql("{} AND {}", among, self._condition)
        counts = [
            int(self.reader.rows(sql("SELECT count(*) {} WHERE {}", source, rows))[0][0])
            for rows in (among, met)
        ]
        if counts[1] < LEAST_MET:
            return None
        estimate = every * counts[1] / counts[0]
        return int(float(f"{estimate:.2g}"))

    def rows(
        self, columns: Sequence[StudyColumn], inapplicable: Counter[str] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the values of *columns* in each row, in order, as they were recorded.

        Metrics whose WHEN does not hold are counted in *inapplicable*.
        """
        items = [SelectItem.of(column) for column in (*columns, self.catalog.facts["remarks"])]
        limit = self.query.limit
        numbers = None
        if limit is not None and limit <= NAMED_ROWS:
            numbers = self.numbers(limit).tolist()
        rows = select_rows(
            self.reader, self.statement, items, order=self.order, numbers=numbers, limit=limit
        )
        return restore_rows(columns, rows, inapplicable)

    def has_repeats(self) -> bool:
        """Return whether any experiment, whatever the condition, is the second of its point."""
        with suppress(NotInCopyError):
            if self.query.where is None and (table := self.copied(build=False)):
                return table.has_repeats
        later = sql("{} > 1", self.keys[1])
        if self.query.succeeded:
            later = sql("{} AND {} = 'ok'", later, verbatim(self.catalog.facts["status"].sql()))
        source = self.source(facts=self.query.succeeded)
        return bool(self.reader.rows(sql("SELECT 1 {} WHERE {} LIMIT 1", source, later)))

    def numbers(self, count: int | None = None) -> RowNumbers:
        """Return the numbers of all rows, or of the first *count*, in their order."""
        if self.is_empty:
            return np.empty(0, dtype=np.int64)
        # A condition that many rows meet needs no copy to find the first ones.
        quick = [self._copied_numbers, self._numbers_ahead]
        for find in quick if self.query.sort else reversed(quick):
            numbers = find(count)
            if numbers is not None:
                return numbers
        # SQLite takes twice the time and memory to sort all rows by a number.
        is_one = count is None and self._is_large and len(self.order) == 1
        if is_one and _is_number(self.order[0][0]):
            return self._by_value(*self.order[0])
        # Where few rows meet a condition, to walk along the index of the order takes longer.
        key_form = "+{}" if count and self.query.where and self.reader.dialect == "sqlite" else "{}"
        order = [*self.statement.orders(self.order), *(sql(key_form, key) for key in self.keys)]
        return self._numbers(self._rows_looked_at, self._condition, order, count)

    @property
    def _is_large(self) -> bool:
        """Whether SQLite would read many rows to find the first ones."""
        return self.reader.dialect == "sqlite" and self.catalog.total >= MANY_ROWS

    def _copied_numbers(self, count: int | None) -> RowNumbers | None:
        """What `numbers` returns, by the copy; None where it cannot tell."""
        if self.query.plain:
            return None
        with suppress(NotInCopyError):
            if table := self.copied(build=count is None):
                return table.numbers(self.sorted_by, count)
        return None

    def _numbers_ahead(self, count: int | None) -> RowNumbers | None:
        """What `first_numbers` found in a large study, if it found as many as are asked for."""
        if count is None or not self._is_large:
            return None
        some = self.first_numbers(count)
        return some if len(some) == count else None

    @property
    def sorted_by(self) -> list[tuple[StudyColumn, bool]]:
        """The columns of the order, and whether the greatest comes first."""
        return [(self.catalog.column(head.name), falling) for head, falling in self.order]

    def page(
        self, limit: int, at: int | None = None, *, is_backwards: bool = False
    ) -> CopiedPage | None:
        """Return the rows after or before number *at*, by the copy; None if it cannot tell."""
        if len(self.order) > 1 or self.is_empty:
            return None
        with suppress(NotInCopyError):
            if table := self.copied(build=False):
                return table.page(self.sorted_by, limit, at, is_backwards=is_backwards)
        return None

    def first_numbers(self, count: int) -> RowNumbers:
        """The first *count*, if they are found without looking at all rows for long; or fewer."""
        source, condition = self._rows_looked_at, self._condition
        order = [*self.statement.orders(self.order), *self.keys]
        if not self.order:
            by = join_fragments(", ", order)
            rows = sql(f"SELECT * {{}} ORDER BY {{}} LIMIT {ROWS_AHEAD}", source, by)
            return self._numbers(sql(f"FROM ({{}}) AS {ROW}", rows), condition, order, count)
        ((head, falling), *_) = self.order
        if not _is_number(head):
            return np.empty(0, dtype=np.int64)
        near = top_value_condition(
            self.reader, source, condition, self.keys[2], head.fragment, falling=falling
        )
        if near is None:
            return np.empty(0, dtype=np.int64)
        both = sql("{} AND {}", condition, near) if condition.parts else near
        return self._numbers(source, both, order, count)

    @property
    def _condition(self) -> Fragment:
        """What rows meet, the status included."""
        return self.statement.whole_condition

    @property
    def _rows_looked_at(self) -> Fragment:
        """FROM what conditions and the order need."""
        facts = {fact.name for fact in self.catalog.facts.values()}
        used = set(self.query.where.names) if self.query.where else set()
        used |= {column.removeprefix("-") for column in self.query.sort}
        columns = self.catalog.columns
        by_digits = any(columns[column].wide for column in used & columns.keys())
        needed = bool(self.query.states or self.query.succeeded or self.without or used & facts)
        return self.source(facts=needed or by_digits)

    def _by_value(self, head: SelectItem, falling: bool) -> RowNumbers:
        """Return all rows in the order of one value."""
        columns = join_fragments(", ", (self.keys[2], head.fragment))
        where, keys = where_clause(self._condition), join_fragments(", ", self.keys)
        statement = sql("SELECT {} {}{} ORDER BY {}", columns, self._rows_looked_at, where, keys)
        rows = self.reader.each(statement)
        return numbers_by_value(rows, whole=head.fragment.type == "int", falling=falling)

    def _numbers(
        self, source: Fragment, condition: Fragment, order: Iterable[Fragment], count: int | None
    ) -> RowNumbers:
        by = join_fragments(", ", order)
        where = where_clause(condition)
        statement = sql("SELECT {} {}{} ORDER BY {}", self.keys[2], source, where, by)
        statement = statement if count is None else sql(f"{{}} LIMIT {count}", statement)
        return np.fromiter((row[0] for row in self.reader.each(statement)), dtype=np.int64)


def top_value_condition(
    reader: SnapshotReader,
    source: Fragment,
    condition: Fragment,
    number: Fragment,
    value: Fragment,
    *,
    falling: bool,
) -> Fragment | None:
    """Return a condition that the first rows by *value* meet, with some hundreds that come next.

    None where too few of a sample meet the *condition* and have a value: few are soon sorted.
    """
    first, last = (extreme_number(reader, extreme, number, source) for extreme in ("min", "max"))
    among = sql("{} IN ({})", number, _sampled_numbers(first, last, SAMPLE_SIZE))
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


def _sampled_numbers(first: int, last: int, count: int) -> Fragment:
    """Some of the numbers from *first* to *last*, between commas."""
    every = range(first, last + 1)
    # A fixed seed: the same page is found the same way each time.
    drawn = random.Random(1).sample(every, min(count, len(every)))  # noqa: S311 - no secret
    return verbatim(", ".join(map(str, sorted(drawn))))


def numbers_by_value(
    rows: Iterable[tuple[int, float | None]], *, whole: bool, falling: bool
) -> RowNumbers:
    """Return the numbers of *rows*, ordered by what stands beside them; what is NULL comes last.

    Rows of the same value stay as they come. SQLite takes twice the time and memory for it.
    """
    kind = np.int64 if whole else np.float64
    fields = np.dtype([("number", np.int64), ("none", np.bool_), ("value", kind)])
    table = np.fromiter(((n, v is None, v or 0) for n, v in rows), dtype=fields)
    value = table["value"]
    rising = value if not falling else ~value if whole else -value  # the least has no negative
    numbers: RowNumbers = table["number"][np.lexsort((rising, table["none"]))]
    return numbers


def numbers_where(
    repository: Repository, study: str, where: str | Passage | None, rows: RowChoice = NEWEST
) -> frozenset[int] | None:
    """The numbers of the rows of *study* that meet *where*; None where there is no condition."""
    if where is None:
        return None
    with open_table(repository, TableQuery(study, condition_of(where), rows=rows)) as table:
        return frozenset(table.numbers().tolist())


def _named(catalog: Catalog, query: TableQuery, columns: Sequence[StudyColumn]) -> set[str] | None:
    """Return the fields that are needed for *columns*, and to choose and order what is wanted.

    None where a study has few, so that all will do.
    """
    if len(catalog.columns) <= MANY_COLUMNS:
        return None
    names = {column.name for column in columns}
    names |= {column.removeprefix("-") for column in query.sort}
    names |= set(query.where.names) if query.where else set()
    return {catalog.columns[column].view for column in names if column in catalog.columns}


def _of_states(catalog: Catalog, query: TableQuery) -> Fragment:
    """Return the condition on the state; nothing where all are wanted."""
    if not query.states:
        return EMPTY_FRAGMENT
    states = join_fragments(", ", (Fragment((BoundValue(state),)) for state in query.states))
    return sql("{} IN ({})", verbatim(catalog.facts["status"].sql()), states)


def _is_number(head: SelectItem) -> bool:
    """Return whether a column holds numbers, and is the study's own."""
    return head.fragment.type in ("int", "real") and not head.wide and not head.fact
