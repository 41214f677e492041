"""The experiments of a study page by page: a page of a million costs what one of ten does.

In the order of the space an index leads to any page. For any other order or condition the numbers
of all experiments are computed once, and pages are cut from these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from zenturio.annotate.model import MEASURED
from zenturio.experiment import Missing
from zenturio.query.catalog import ROW, Catalog, StudyColumn
from zenturio.query.select_statement import (
    EMPTY_FRAGMENT,
    CellRemarks,
    column_chunks,
    where_clause,
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
from zenturio.query.study_table import StudyTable, TableQuery, open_table
from zenturio.record import ExperimentState, Repository
from zenturio.record.codec import unescape_start
from zenturio.record.columnar_copy import NotInCopyError


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


LONGEST_CAUSE = 4_000
"""Characters of a cause that a page reads; causes that differ later are one there."""

Answer = TypeVar("Answer")
FAILED: tuple[ExperimentState, ...] = ("failed", "wrong", "timeout", "cancelled")
FEW_FAILURES = 8
"""Results for each failure, from which on failures are looked up one by one."""
_LISTED = {
    "sqlite": "SELECT value FROM json_each({})",
    "postgresql": "SELECT json_array_elements_text({}::json)::bigint",
}
"""The numbers of a list."""


def query_listing(
    repository: Repository, query: TableQuery, question: Callable[[Listing], Answer]
) -> Answer:
    """What *question* finds in the listing of what is wanted, all of one moment."""
    with open_table(repository, query) as table:
        return question(Listing(table))


class Listing:
    """What is wanted of a study, as of one moment."""

    def __init__(self, table: StudyTable) -> None:
        self._table = table
        self._reader = table.reader
        self.query = table.query
        self.catalog = table.catalog
        self.columns = _columns(table.catalog, table.query)
        self.numbers = table.numbers
        self.page = table.page
        self.repeated = table.has_repeats

    def first(self, count: int) -> list[ExperimentRow]:
        """Return the first rows."""
        return self.those(self.numbers(count))

    def behind(self, number: int, count: int) -> list[ExperimentRow]:
        """Return those behind an experiment, in the order of the space."""
        return self._rows(self._beyond(">", number), self._table.keys, count)

    def before(self, number: int | None, count: int) -> list[ExperimentRow]:
        """Those before an experiment, in the order of the space; with none the last of all."""
        condition = EMPTY_FRAGMENT if number is None else self._beyond("<", number)
        # Read backwards along the index, then turned: the page before needs no offset.
        return self._rows(condition, [sql("{} DESC", key) for key in self._table.keys], count)[::-1]

    def rank(self, number: int) -> int:
        """Return how many stand before an experiment, in the order of the space."""
        before = self._beyond("<", number)
        ((count,),) = self._reader.rows(
            sql("SELECT count(*) {} WHERE {}", self._table.source(), before)
        )
        return int(count)

    def those(self, numbers: Iterable[int]) -> list[ExperimentRow]:
        """Return the experiments of these numbers, in their order."""
        ordered = list(map(int, numbers))
        marks = join_fragments(", ", (Fragment((BoundValue(number),)) for number in ordered))
        among = sql("{} IN ({})", self._table.keys[2], marks)
        rows_by_number = (
            {row.number: row for row in self._rows(among, [], len(ordered))} if ordered else {}
        )
        return [rows_by_number[number] for number in ordered if number in rows_by_number]

    def causes(self, most: int) -> list[FailureCause]:
        """Why experiments did not succeed: the frequent causes first, up to *most* of them."""
        if not any(self.catalog.counts[state] for state in FAILED):
            return []
        example = sql("min({})", self._table.keys[2])
        source = self._table.source(facts=True)
        causes = self._reader.rows(self._causes(most, source, self._is_among_failed(), example))
        shown = {row.number: row for row in self.those(number for *_, number in causes)}
        return [
            FailureCause(status, unescape_start(cause), int(count), shown[number])
            for status, cause, count, number in causes
        ]

    def _is_failed(self) -> Fragment:
        """Whether a row failed."""
        status = verbatim(self.catalog.facts["status"].sql())
        states = join_fragments(", ", (Fragment((BoundValue(state),)) for state in FAILED))
        return sql("{} IN ({})", status, states)

    def _is_among_failed(self) -> Fragment:
        """The same, by the numbers of the failed rows if they are few and in the columnar copy."""
        condition = self._is_failed()
        count = sum(self.catalog.counts[state] for state in FAILED)
        if self.query.where or count > self.catalog.total // FEW_FAILURES:
            return condition
        table = StudyTable(self._reader, self.catalog, replace(self.query, states=FAILED))
        with suppress(NotInCopyError):
            if copied := table.copied(build=False):
                listed = Fragment((BoundValue(json.dumps(copied.row_numbers.tolist())),))
                among = f"{{}} IN ({_LISTED[self._reader.dialect]})"
                return sql("{} AND {}", sql(among, self._table.keys[2], listed), condition)
        return condition

    def causes_sql(self, most: int) -> str:
        """Return the same query as SQL over the study's view."""
        return self._causes(most, self._view(), self._is_failed()).plain(self._reader.dialect)

    def _causes(self, most: int, source: Fragment, failed: Fragment, *also: Fragment) -> Fragment:
        status, cause = (verbatim(self.catalog.facts[fact].sql()) for fact in ("status", "cause"))
        if also:  # for a page: a cause of a hundred megabytes is not to fill its memory
            cause = sql(f"substr({{}}, 1, {LONGEST_CAUSE})", cause)
        return sql(
            f"SELECT {{}} {{}} WHERE {{}} GROUP BY 1, 2 ORDER BY 3 DESC, {{}}, {{}} LIMIT {most}",
            join_fragments(", ", (status, cause, verbatim("count(*)"), *also)),
            source,
            failed,
            *(
                sql(f"{{}}{DIALECTS[self._reader.dialect].collation}", column)
                for column in (status, cause)
            ),
        )

    def taken(self, column: StudyColumn, most: int) -> ColumnRange:
        """What a column took; its values themselves where there are up to *most* of them."""
        values, source = (
            verbatim(column.sql()),
            self._table.source(columns=[column], facts=column.wide),
        )
        distinct = self._copied_values(column)
        if distinct is None:
            exact = column.exact(self._reader.dialect)
            some = self._reader.rows(_distinct(exact, most + 1, source))
            distinct = [column.value(value) for (value,) in some]
        elif column.number and len(distinct) > most:
            numbers = [value for value in distinct if value is not None]
            return ColumnRange(column, None, min(numbers), max(numbers))
        if len(distinct) <= most:
            return ColumnRange(column, tuple(sorted(distinct, key=_ranked)))
        if not column.number:
            return ColumnRange(column)
        ((low, high),) = self._reader.rows(
            sql("SELECT min({}), max({}) {}", values, values, source)
        )
        return ColumnRange(column, None, column.value(low), column.value(high))

    def _copied_values(self, column: StudyColumn) -> list[Any] | None:
        """Return all values of a column, by the columnar copy; None where it cannot tell."""
        if self.query.where or self.query.states:  # which are not asked about here
            return None
        with suppress(NotInCopyError):
            if table := self._table.copied(build=False):
                return [column.value(value) for value in table.distinct(column)]
        return None

    def taken_sql(self, column: StudyColumn, most: int) -> str:
        """Return the same for somebody who asks the study's view."""
        return _distinct(verbatim(column.sql()), most, self._view()).plain(self._reader.dialect)

    def sql(self, count: int | None = None) -> str:
        """Return the query as SQL over the study's view."""
        facts = self.catalog.facts
        return self._table.text([facts["digest"], facts["status"], *self.columns], count)

    def _beyond(self, sign: str, number: int) -> Fragment:
        """Whether a row stands behind or before an experiment, in the order of the space."""
        anchor = sql(
            "SELECT {} {} WHERE {} = {}",
            join_fragments(", ", self._table.keys),
            self._table.source(),
            self._table.keys[2],
            Fragment((BoundValue(number),)),
        )
        return sql(f"({{}}) {sign} ({{}})", join_fragments(", ", self._table.keys), anchor)

    def _view(self) -> Fragment:
        """Return the same rows as they have a name in the database."""
        return verbatim(f"FROM {quote_name(self.catalog.view_all)} AS {ROW}")

    def _rows(
        self, condition: Fragment, order: Iterable[Fragment], count: int
    ) -> list[ExperimentRow]:
        facts = [self.catalog.facts[fact] for fact in ("digest", "status", "remarks")]
        first, *others = list(column_chunks(self.columns)) or [[]]
        rows = self._cells([*facts, *first], condition, order, count)
        cells_by_number = {row[0]: list(row) for row in rows}
        marks = verbatim(", ".join(map(str, cells_by_number)))
        among = sql("{} IN ({})", self._table.keys[2], marks)
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
        """Return the number of each row, and what stands in *columns*."""
        heads = [self._table.keys[2], *(verbatim(column.sql()) for column in columns)]
        by = join_fragments(", ", order)
        statement = sql(
            f"SELECT {{}} {{}}{{}}{{}} LIMIT {count}",
            join_fragments(", ", heads),
            self._table.source(facts=True, columns=columns),
            where_clause(condition),
            sql(" ORDER BY {}", by) if by.parts else by,
        )
        return self._reader.rows(statement)

    def _row(
        self, number: int, digest: str, status: ExperimentState, remarks: str | None, *cells: object
    ) -> ExperimentRow:
        remarks_of_row = CellRemarks(remarks)
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


def _ranked(value: Any) -> tuple[bool, bool, Any]:
    """Numbers by size, then texts, then what there is none of."""
    return value is None, isinstance(value, str), value if value is not None else 0


def _cell(column: StudyColumn, cell: Any, remarks_of_row: CellRemarks) -> Any:
    """A value as it was recorded: the remarks know NaN and infinity, and why one is missing."""
    remark = remarks_of_row.on(column)
    if isinstance(remark, bool | int | float | Missing):
        return remark
    return column.value(cell)
