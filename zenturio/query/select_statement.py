"""SELECT statements over the rows of a study, with any number of columns.

SQLite returns at most 2,000 columns, PostgreSQL 1,664, and both limit the keys of GROUP BY
likewise. Wider results are selected in chunks of columns within one transaction, so that all see
the same snapshot; the number of each row joins the chunks.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from zenturio.errors import InputError
from zenturio.experiment.experiment import MEASURED_WHEN, Missing
from zenturio.expression import Expression
from zenturio.query.catalog import (
    DIGITS,
    ROW,
    Catalog,
    SnapshotReader,
    StudyColumn,
    key_names,
    used_columns,
)
from zenturio.query.sql_fragments import (
    DIALECTS,
    BoundValue,
    Dialect,
    Fragment,
    join_fragments,
    quote_name,
    sql,
    verbatim,
)
from zenturio.query.sql_writer import write_condition
from zenturio.record import codec


@dataclass(frozen=True, slots=True)
class SelectItem:
    """A column of the result of a SELECT, or an aggregate in it."""

    name: str
    fragment: Fragment
    unit: str = ""
    convert: Callable[[Any], Any] = lambda value: value
    fact: bool = False
    """Whether only the larger view has it."""
    wide: str = ""
    """If it has integers beyond 63 bits, which SQL may hold as reals: the key of the remarks with
    their digits.
    """
    parts: tuple[Fragment, ...] = ()
    """Of an aggregate: the columns to select from a part of the rows; empty if parts cannot be
    combined.
    """
    merge: Callable[..., Any] | None = None
    """Combines the columns of all parts into the aggregate of all rows."""
    check: AggregateFallback | None = None
    """Of an aggregate: when its value is computed again from the rows."""
    values: SelectItem | None = None
    """The column that is aggregated; None if rows are counted."""
    compute: Callable[[Sequence[Any]], Any] | None = None
    """Computes the aggregate of values that the database cannot group."""
    column: StudyColumn | None = None
    """The column that is shown or aggregated; None if rows are counted."""
    aggregate: str = ""
    """Which aggregate; ``rows`` counts rows, ``first`` is the least value."""

    @staticmethod
    def of(column: StudyColumn) -> SelectItem:
        """Return a column of the study without an aggregate."""
        plain = Fragment((column.sql(),), column.type)
        fact = column.role == "fact"
        key = codec.remark_key(column.role, column.name) if column.wide else ""
        return SelectItem(column.name, plain, column.unit, column.value, fact, key, column=column)

    @staticmethod
    def key(column: StudyColumn, dialect: Dialect) -> SelectItem:
        """Return a column of the study to group by, which distinguishes integers of any size."""
        return replace(
            SelectItem.of(column),
            fragment=column.exact(dialect),
            fact=column.wide or column.role == "fact",
        )


@dataclass(frozen=True, slots=True)
class AggregateFallback:
    """When an aggregate has to be computed again from its values, and how."""

    values: SelectItem
    """The column whose values are aggregated."""
    guards: tuple[SelectItem, ...]
    """Aggregates that show whether the result of the database can be trusted."""
    doubtful: Callable[..., bool]
    """Called with the aggregate and the guards; whether to compute it again."""
    exact: Callable[[Sequence[float]], float | None]


EMPTY_FRAGMENT = Fragment(())

_REASON: dict[Dialect, str] = {
    "sqlite": (
        "(SELECT json_extract(value, '$.missing')"  # noqa: S608 - names alone
        f' FROM json_each({ROW}."remarks") WHERE key = {{}})'
    ),
    "postgresql": f"({ROW}.\"remarks\"::json -> {{}} ->> 'missing')",
}
"""Where the remarks of a row say why a metric is missing, by its key."""


def is_inapplicable(column: StudyColumn, dialect: Dialect) -> Fragment:
    """Return the condition that the WHEN of a metric does not hold, by what every study has."""
    key = verbatim(_text(codec.remark_key("metric", column.name)))
    text = verbatim(_text(MEASURED_WHEN))
    return sql(DIALECTS[dialect].contains, sql(_REASON[dialect], key), text)


class StudySelect:
    """The successful rows of a study that meet a condition, and the SELECTs over them."""

    def __init__(
        self,
        dialect: Dialect,
        catalog: Catalog,
        where: Expression | None,
        *,
        every_status: bool = False,
        also: Fragment = EMPTY_FRAGMENT,
        facts: bool = False,
        without: frozenset[str] = frozenset(),
    ) -> None:
        """*facts*: whether *also* uses columns that every study has. *without*: digests to leave
        out.
        """
        self.dialect = dialect
        self._every_status = every_status
        self.catalog = catalog
        self._names = where.names if where else frozenset()
        columns = (catalog.columns.get(name) for name in self._names)
        self._facts = facts or bool(without) or any(c.wide for c in columns if c)
        conditions = [self._condition(where)] if where else []
        held = _without(catalog.facts["digest"], without, dialect)
        self.condition = join_fragments(
            " AND ", [*conditions, *(condition for condition in (also, held) if condition.parts)]
        )
        """The condition on rows, *also* included; empty if all rows meet it."""

    def _condition(self, where: Expression) -> Fragment:
        columns = self.catalog.columns
        for used in sorted(where.names & columns.keys()):
            if columns[used].mixed:
                raise InputError(
                    f"{used!r} has values of several types: it cannot be used in a condition",
                    hint="export the study, and filter the rows there",
                )
        fragments = {n: column.fragment(self.dialect) for n, column in columns.items()}
        return write_condition(where, fragments, self.dialect)

    def select(
        self,
        heads: Sequence[SelectItem],
        *,
        group: int = 0,
        order: Sequence[tuple[SelectItem, bool]] = (),
        keys: Sequence[Fragment] = (),
        facts: bool = False,
        source: str = "",
        among: Fragment = EMPTY_FRAGMENT,
    ) -> Fragment:
        """SELECT *heads*, grouped by the first *group* of them.

        *keys*, never NULL, end the *order*. *facts*: columns that every study has are needed, even
        if no head is one. *source*: a relation with all columns of the larger view, to use in its
        place, for the rows *among* it.
        """
        listed = join_fragments(
            ", ", (sql("{} AS {}", h.fragment, verbatim(quote_name(h.name))) for h in heads)
        )
        larger = facts or any(h.fact for h in heads) or any(h.fact or h.wide for h, _ in order)
        larger = larger or bool(source)
        clauses = [sql("SELECT {}", listed), self._from(larger=larger, source=source, among=among)]
        if group:
            clauses.append(
                sql("GROUP BY {}", join_fragments(", ", (h.fragment for h in heads[:group])))
            )
        if order or keys:
            by = [*self.orders(order, digits=not group), *keys]
            clauses.append(sql("ORDER BY {}", join_fragments(", ", by)))
        return join_fragments(" ", clauses)

    def count(self) -> Fragment:
        """Return the statement that counts the rows."""
        return sql("SELECT count(*) {}", self._from(larger=False))

    def _from(
        self, *, larger: bool, source: str = "", among: Fragment = EMPTY_FRAGMENT
    ) -> Fragment:
        """Return FROM with the smaller view that has all columns needed, and WHERE.

        Unless the condition uses the status, only successful rows are selected.
        """
        catalog = self.catalog
        facts = {fact.name for fact in catalog.facts.values()}
        larger = larger or self._every_status or self._facts or bool(facts & self._names)
        view = source or quote_name(catalog.view_all if larger else catalog.view)
        met = self.whole_condition if larger else self.condition
        conditions = [condition for condition in (among, met) if condition.parts]
        rows = verbatim(f"FROM {view} AS {ROW}")
        return sql("{}{}", rows, where_clause(join_fragments(" AND ", conditions)))

    @property
    def whole_condition(self) -> Fragment:
        """The condition on rows of the larger view, success included."""
        status = self.catalog.facts["status"]
        if self._every_status or status.name in self._names:
            return self.condition
        succeeded = Fragment((f"{status.sql()} = 'ok'",))
        return sql("{} AND {}", succeeded, self.condition) if self.condition.parts else succeeded

    def space_order(self) -> list[tuple[SelectItem, bool]]:
        """Return the keys of a total order: that of the space, the same in any database."""
        # Index, repeat, digest and attempt together are unique: without a total order, LIMIT would
        # return different rows from one run of a statement to the next.
        facts = self.catalog.facts
        order = [
            (SelectItem.of(facts[fact]), False) for fact in ("index", "repeat", "digest", "attempt")
        ]
        if self.dialect == "sqlite":  # an index beyond 63 bits is a text in SQLite
            digits = "CASE typeof({}) WHEN 'text' THEN length({}) ELSE 0 END"
            index = order[0][0].fragment
            order.insert(0, (SelectItem("", sql(digits, index, index), fact=True), False))
        return order

    def orders(
        self, order: Iterable[tuple[SelectItem, bool]], *, digits: bool = True
    ) -> Iterable[Fragment]:
        """Return ORDER BY: NULL and NaN last, texts by code points.

        *digits*: integers that SQL holds as the nearest real are ordered by their digits.
        """
        for head, falling in order:
            by = head.fragment
            if self.dialect == "postgresql" and by.type == "real":
                by = sql("nullif({}, 'NaN')", by)
            # PostgreSQL puts NULL last and SQLite first: a key of its own makes both agree.
            yield sql("{} IS NULL", by)
            if self.dialect == "postgresql" and by.type == "str":
                by = sql('{} COLLATE "C"', by)
            keys = [(by, False), *(self._by_digits(head) if head.wide and digits else ())]
            for key, against in keys:
                yield sql("{} DESC", key) if falling != against else key

    def _by_digits(self, head: SelectItem) -> list[tuple[Fragment, bool]]:
        """Return the keys that order integers with the same nearest real.

        With each key, whether it is descending for ascending integers.
        """
        digits = verbatim(DIGITS[self.dialect].replace("{key}", _text(head.wide)))
        if self.dialect == "postgresql":
            return [(sql("{}::numeric", digits), False)]
        # Digits of one length compare as texts do; those of negative numbers in reverse.
        length = "CASE WHEN {} < 0 THEN -length({}) ELSE length({}) END"
        above, below = (f"CASE WHEN {{}} {sign} 0 THEN {{}} END" for sign in (">=", "<"))
        by = head.fragment
        return [
            (sql(length, by, digits, digits), False),
            (sql(above, by, digits), False),
            (sql(below, by, digits), True),
        ]


def _text(key: str) -> str:
    return "'" + key.replace("'", "''") + "'"


def _without(digest: StudyColumn, digests: frozenset[str], dialect: Dialect) -> Fragment:
    """Return the condition that leaves out these experiments; empty without any."""
    if not digests:
        return EMPTY_FRAGMENT
    listed = Fragment((BoundValue(json.dumps(sorted(digests))),))
    elements = {
        "sqlite": "SELECT value FROM json_each({})",
        "postgresql": "SELECT json_array_elements_text({}::json)",
    }
    return sql(f"{{}} NOT IN ({elements[dialect]})", verbatim(digest.sql()), listed)


def restore_rows(
    columns: Sequence[StudyColumn],
    rows: Iterable[tuple[Any, ...]],
    inapplicable: Counter[str] | None = None,
) -> list[tuple[Any, ...]]:
    """Return rows with the values as recorded: the remarks, the last cell, have what SQL cannot
    hold.

    Metrics whose WHEN does not hold are counted in *inapplicable*.
    """
    restored = []
    for *cells, remarks in rows:
        values = [column.value(cell) for column, cell in zip(columns, cells, strict=True)]
        if remarks is not None:
            row_remarks = CellRemarks(remarks)
            for i, column in enumerate(columns):
                remark = row_remarks.on(column)
                if isinstance(remark, bool | int | float):
                    values[i] = remark
                elif inapplicable is not None and isinstance(remark, Missing):
                    inapplicable[column.name] += MEASURED_WHEN in remark.why
        restored.append(tuple(values))
    return restored


class CellRemarks:
    """The remarks of a row: for a column, the exact value, or why there is none."""

    def __init__(self, text: str | None) -> None:
        self._metrics = codec.remarks_on(text)
        self._parameters = codec.remarks_on_parameters(text)

    def on(self, column: StudyColumn) -> Any:
        """Return the remark on a column; None if there is none."""
        if column.role == "fact":
            return None
        return (self._metrics if column.role == "metric" else self._parameters).get(column.name)


WIDTH = 800
"""Columns selected at a time: far below the limits, because a column may come with a few others,
such as its count.
"""
NAMED_ROWS = 10_000
"""The most rows that a statement names one by one."""

Element = TypeVar("Element")
Rows = list[tuple[Any, ...]]


def column_chunks(elements: Sequence[Element], width: int = WIDTH) -> Iterator[Sequence[Element]]:
    """Return the *elements* in chunks of at most *width*."""
    for start in range(0, len(elements), width):
        yield elements[start : start + width]


def select_rows(
    reader: SnapshotReader,
    statement: StudySelect,
    heads: Sequence[SelectItem],
    *,
    order: Sequence[tuple[SelectItem, bool]] | None = None,
    numbers: Sequence[int] | None = None,
    limit: int | None = None,
) -> Rows:
    """Return the *heads* of each row of *statement*, or of the rows with these *numbers*, in turn.

    Rows are sorted by *order* and then by their place in the space, and cut off after *limit*;
    without *order* they come in any order.
    """
    keys = _key_items(statement.catalog)
    number = keys[2]

    def part(
        items: Sequence[SelectItem],
        order: Sequence[tuple[SelectItem, bool]] | None = None,
        limit: int | None = None,
        among: Fragment = EMPTY_FRAGMENT,
    ) -> Rows:
        shown = [head.fragment for head in (*items, *(head for head, _ in order or ()))]
        selected = statement.select(
            items,
            order=order or (),
            keys=() if order is None else [key.fragment for key in keys],
            source=_source(reader, statement, shown),
            among=among,
        )
        return reader.rows(with_limit(selected, limit))

    if numbers is None and len(heads) <= WIDTH:
        return part(heads, order, limit)
    # First the numbers of the rows in their order, then each chunk of columns for these rows.
    if numbers is None:
        numbers = [row[0] for row in part([number], order, limit)]
    among = EMPTY_FRAGMENT
    if 0 < len(numbers) <= NAMED_ROWS:
        among = _named(number, numbers)
    cells_by_number: dict[int, list[Any]] = {number: [] for number in numbers}
    for chunk in column_chunks(heads) if numbers else ():
        for key, *cells in part([number, *chunk], among=among):
            if key in cells_by_number:
                cells_by_number[key] += cells
    return [tuple(cells_by_number[key]) for key in numbers]


def select_rows_among(
    reader: SnapshotReader,
    statement: StudySelect,
    heads: Sequence[SelectItem],
    numbers: Sequence[int],
) -> Rows:
    """Return the *heads* of those rows of *statement* that have one of these *numbers*.

    In the order of the space; no other rows are looked at.
    """
    keys = _key_items(statement.catalog)
    columns = list(column_chunks(heads))
    keyed_rows: list[tuple[tuple[Any, ...], list[Any]]] = []
    for named in column_chunks(numbers, NAMED_ROWS):
        cells_by_key: dict[tuple[Any, ...], list[Any]] = {}
        for chunk in columns:
            items = [*keys, *chunk]
            source = _source(reader, statement, [item.fragment for item in items])
            among = _named(keys[2], named)
            for row in reader.rows(statement.select(items, source=source, among=among)):
                cells_by_key.setdefault(row[:3], []).extend(row[3:])
        keyed_rows += cells_by_key.items()
    # SQLite has positions beyond 63 bits as texts, which come behind all numbers.
    keyed_rows.sort(key=lambda pair: (isinstance(pair[0][0], str), *pair[0]))
    return [tuple(cells) for _, cells in keyed_rows]


def _key_items(catalog: Catalog) -> list[SelectItem]:
    """Position, repeat and number of a row, as `_source` has them."""
    return [SelectItem(name, verbatim(f"{ROW}.{quote_name(name)}")) for name in key_names(catalog)]


def _source(reader: SnapshotReader, statement: StudySelect, shown: Iterable[Fragment]) -> str:
    """The rows of the study with their keys, and the columns that are *shown* or looked at."""
    catalog = statement.catalog
    text = join_fragments(" ", [statement.condition, *shown]).plain(reader.dialect)
    rows = reader.repository.ordered_rows_sql(
        catalog.study, key_names(catalog), facts=True, names=used_columns(catalog, text),
        rows=catalog.rows,
    )  # fmt: skip
    return f"({rows})"


def _named(number: SelectItem, numbers: Iterable[int]) -> Fragment:
    """Return the condition that a row has one of these numbers."""
    return sql("{} IN ({})", number.fragment, verbatim(", ".join(map(str, numbers))))


def extreme_number(reader: SnapshotReader, extreme: str, number: Fragment, source: Fragment) -> int:
    """Return the least or the greatest number: asked for both at once, SQLite scans all rows."""
    ((number_found,),) = reader.rows(sql(f"SELECT {extreme}({{}}) {{}}", number, source))
    return int(number_found)


def where_clause(condition: Fragment) -> Fragment:
    """Return the WHERE clause; empty without a condition."""
    return sql(" WHERE {}", condition) if condition.parts else EMPTY_FRAGMENT


def with_limit(statement: Fragment, limit: int | None) -> Fragment:
    """Return *statement* with LIMIT, if there is a limit."""
    return statement if limit is None else sql(f"{{}} LIMIT {limit}", statement)


def group_in_python(
    reader: SnapshotReader, statement: StudySelect, heads: Sequence[SelectItem], keys: int
) -> Rows:
    """Return the *heads* for each combination of the first *keys* of them, from the rows.

    It is for more keys than a database can group by.
    """
    values = {head.values.name: head.values for head in heads[keys:] if head.values}
    rows = select_rows(reader, statement, [*heads[:keys], *values.values()])
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(group_key(row[:keys]), []).append(row)
    places = {name: keys + at for at, name in enumerate(values)}
    answers = []
    for members in groups.values():
        cells = [
            _computed(head, members, places[head.values.name] if head.values else None)
            for head in heads[keys:]
        ]
        answers.append((*members[0][:keys], *cells))
    return answers


def _computed(head: SelectItem, rows: Rows, place: int | None) -> Any:
    """Return the aggregate of *rows*, or of the numbers at *place* in them."""
    assert head.compute is not None, "what is aggregated says how"
    if place is None or head.values is None:
        return head.compute(rows)
    cells = (head.values.convert(row[place]) for row in rows)
    return head.compute([cell for cell in cells if cell is not None and not math.isnan(cell)])


def group_key(cells: Sequence[Any]) -> tuple[Any, ...]:
    """Return the key of a group as a key of a dict, in which NaN equals NaN."""
    return tuple("NaN" if cell != cell else cell for cell in cells)  # noqa: PLR0124 - NaN
