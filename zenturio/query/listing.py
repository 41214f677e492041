"""The experiments of a study page by page: a page of a million costs what one of ten does.

In the order of the space an index leads to any page. Any other order, and any condition, is found
out once for the whole study, as the numbers of its experiments: pages are cut from those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from zenturio.annotate.model import MEASURED
from zenturio.experiment import Missing
from zenturio.query import ahead
from zenturio.query.catalog import MANY_COLUMNS, ROW, Catalog, Column, catalog, keys_of
from zenturio.query.dialects import WORDS
from zenturio.query.fragments import Bind, Fragment, joined, name, sql, verbatim
from zenturio.query.reading import Reader, reading
from zenturio.query.statement import NOTHING, Head, Remarks, Statement
from zenturio.query.wanted import Cause, Numbers, Row, Taken, Wanted
from zenturio.query.wide import in_widths
from zenturio.record import Repository, State
from zenturio.record.codec import unescape

Answer = TypeVar("Answer")
FAILED: tuple[State, ...] = ("failed", "timeout", "cancelled")


def listed(repository: Repository, wanted: Wanted, question: Callable[[Listing], Answer]) -> Answer:
    """What *question* finds in the listing of what is wanted, all of one moment."""
    with reading(repository) as reader:
        known = catalog(reader, wanted.study, wanted.rows, wanted.names)
        keys = keys_of(known)

        def source(*, facts: bool, columns: Sequence[Column] = ()) -> str:
            found: str = reader.repository.keyed(
                wanted.study,
                keys,
                facts=facts,
                names=_named(known, wanted, columns),
                rows=known.rows,
            )
            return found

        return question(Listing(reader, known, wanted, keys, source))


class Listing:
    """What is wanted of a study, as of one moment."""

    def __init__(
        self,
        reader: Reader,
        known: Catalog,
        wanted: Wanted,
        keys: tuple[str, str, str],
        source: Callable[..., str],
    ) -> None:
        self._reader = reader
        self._source = source
        self._names = keys
        self.wanted = wanted
        self.known = known
        self.columns = _columns(known, wanted)
        self._order = [
            (Head.of(known.column(each.removeprefix("-"))), each.startswith("-"))
            for each in wanted.sort
        ]
        also = _of_states(known, wanted)
        self._told = Statement(reader.dialect, known, wanted.where, every_status=True, also=also)

    @property
    def empty(self) -> bool:
        """Whether the study has none in these states: nothing needs to be looked for."""
        states = self.wanted.states
        return bool(states) and not any(self.known.counts[state] for state in states)

    def first(self, count: int) -> list[Row]:
        """The first rows."""
        return self.those(self.numbers(count))

    def behind(self, number: int, count: int) -> list[Row]:
        """Those behind an experiment, in the order of the space."""
        return self._rows(self._beyond(">", number), self._keys, count)

    def before(self, number: int | None, count: int) -> list[Row]:
        """Those before an experiment, in the order of the space; with none the last of all."""
        condition = NOTHING if number is None else self._beyond("<", number)
        return self._rows(condition, [sql("{} DESC", key) for key in self._keys], count)[::-1]

    def rank(self, number: int) -> int:
        """How many stand before an experiment, in the order of the space."""
        before = self._beyond("<", number)
        ((found,),) = self._reader.rows(sql("SELECT count(*) {} WHERE {}", self._from(), before))
        return int(found)

    def those(self, numbers: Iterable[int]) -> list[Row]:
        """The experiments of these numbers, in their order."""
        wanted = list(map(int, numbers))
        marks = joined(", ", (Fragment((Bind(number),)) for number in wanted))
        among = sql("{} IN ({})", self._keys[2], marks)
        found = {row.number: row for row in self._rows(among, [], len(wanted))} if wanted else {}
        return [found[number] for number in wanted if number in found]

    def numbers(self, count: int | None = None) -> Numbers:
        """All that are wanted, or the first *count*, in their order."""
        if self.empty:
            return np.empty(0, dtype=np.int64)
        if (
            count is not None
            and self._reader.dialect == "sqlite"
            and self.known.total >= ahead.MANY
        ):
            some = self._ahead(count)
            if len(some) == count:
                return some
        if count is None and self._sorts_by_number:
            return self._by_value(*self._order[0])
        # Where few rows meet a condition, to walk along the index of the order takes longer.
        away = "+{}" if count and self.wanted.where and self._reader.dialect == "sqlite" else "{}"
        order = [*self._told.orders(self._order), *(sql(away, key) for key in self._keys)]
        source = self._from(facts=self._looks_at_facts())
        return self._numbers(source, self._told.condition, order, count)

    def _ahead(self, count: int) -> Numbers:
        """The first *count*, if they are found without looking at all rows for long; or fewer."""
        source, condition = self._from(facts=self._looks_at_facts()), self._told.condition
        order = [*self._told.orders(self._order), *self._keys]
        if not self._order:
            rows = sql(
                f"SELECT * {{}} ORDER BY {{}} LIMIT {ahead.AHEAD}", source, joined(", ", order)
            )
            return self._numbers(sql(f"FROM ({{}}) AS {ROW}", rows), condition, order, count)
        ((head, falling), *_) = self._order
        if not _is_number(head):
            return np.empty(0, dtype=np.int64)
        value = head.fragment
        number = self._keys[2]
        near = ahead.bound(self._reader, source, condition, number, value, falling=falling)
        if near is None:
            return np.empty(0, dtype=np.int64)
        both = sql("{} AND {}", condition, near) if condition.parts else near
        return self._numbers(source, both, order, count)

    @property
    def _sorts_by_number(self) -> bool:
        many = self._reader.dialect == "sqlite" and self.known.total >= ahead.MANY
        return many and len(self._order) == 1 and _is_number(self._order[0][0])

    def _by_value(self, head: Head, falling: bool) -> Numbers:
        """All in the order of one value."""
        source = self._from(facts=self._looks_at_facts())
        asked = joined(", ", (self._keys[2], head.fragment))
        where, keys = _where(self._told.condition), joined(", ", self._keys)
        statement = sql("SELECT {} {}{} ORDER BY {}", asked, source, where, keys)
        rows = self._reader.each(statement)
        return ahead.by_value(rows, whole=head.fragment.type == "int", falling=falling)

    def _numbers(
        self, source: Fragment, condition: Fragment, order: Iterable[Fragment], count: int | None
    ) -> Numbers:
        by = joined(", ", order)
        statement = sql("SELECT {} {}{} ORDER BY {}", self._keys[2], source, _where(condition), by)
        statement = statement if count is None else sql(f"{{}} LIMIT {count}", statement)
        return np.fromiter((row[0] for row in self._reader.each(statement)), dtype=np.int64)

    def repeated(self) -> bool:
        """Whether any experiment is the second of its point."""
        repeat = self._keys[1]
        statement = sql("SELECT 1 {} WHERE {} > 1 LIMIT 1", self._from(), repeat)
        return bool(self._reader.rows(statement))

    def causes(self, most: int) -> list[Cause]:
        """Why experiments did not succeed: the frequent causes first, up to *most* of them."""
        if not any(self.known.counts[state] for state in FAILED):
            return []
        example = sql("min({})", self._keys[2])
        statement = self._causes(most, self._from(facts=True), example)
        found = self._reader.rows(statement)
        shown = {row.number: row for row in self.those(number for *_, number in found)}
        return [
            Cause(status, unescape(cause or ""), int(count), shown[number])
            for status, cause, count, number in found
        ]

    def causes_sql(self, most: int) -> str:
        """That question as somebody asks it of the study's view."""
        return self._causes(most, self._view()).plain(self._reader.dialect)

    def _causes(self, most: int, source: Fragment, *also: Fragment) -> Fragment:
        status, cause = (verbatim(self.known.facts[fact].sql()) for fact in ("status", "cause"))
        states = joined(", ", (Fragment((Bind(state),)) for state in FAILED))
        return sql(
            f"SELECT {{}} {{}} WHERE {{}} IN ({{}}) GROUP BY 1, 2 ORDER BY 3 DESC, {{}}, {{}}"
            f" LIMIT {most}",
            joined(", ", (status, cause, verbatim("count(*)"), *also)),
            source,
            status,
            states,
            *(
                sql(f"{{}}{WORDS[self._reader.dialect].collation}", each)
                for each in (status, cause)
            ),
        )

    def taken(self, column: Column, most: int) -> Taken:
        """What a column took; its values themselves where there are up to *most* of them."""
        values, source = verbatim(column.sql()), self._from(columns=[column], facts=column.wide)
        exact = column.exact(self._reader.dialect)
        some = self._reader.rows(_distinct(exact, most + 1, source))
        found = [column.value(value) for (value,) in some]
        if len(found) <= most:
            return Taken(column, tuple(sorted(found, key=_ranked)))
        if not column.number:
            return Taken(column)
        ((low, high),) = self._reader.rows(
            sql("SELECT min({}), max({}) {}", values, values, source)
        )
        return Taken(column, None, column.value(low), column.value(high))

    def taken_sql(self, column: Column, most: int) -> str:
        """The same for somebody who asks the study's view."""
        return _distinct(verbatim(column.sql()), most, self._view()).plain(self._reader.dialect)

    def sql(self, count: int | None = None) -> str:
        """The question as somebody asks it of the study's view."""
        facts = self.known.facts
        order = [*self._order, *self._told.space_order()]
        columns = (facts["digest"], facts["status"], *self.columns)
        found = self._told.select([Head.of(column) for column in columns], order=order)
        text = found.plain(self._reader.dialect)
        return text if count is None else f"{text} LIMIT {count}"

    def _looks_at_facts(self) -> bool:
        facts = {fact.name for fact in self.known.facts.values()}
        used = set(self.wanted.where.names) if self.wanted.where else set()
        used |= {each.removeprefix("-") for each in self.wanted.sort}
        names = self.known.columns
        by_digits = any(head.wide for head, _ in self._order)
        by_digits = by_digits or any(names[each].wide for each in used & names.keys())
        return bool(self.wanted.states) or bool(used & facts) or by_digits

    @property
    def _keys(self) -> list[Fragment]:
        """Position, repeat and number."""
        return [verbatim(f"{ROW}.{name(each)}") for each in self._names]

    def _beyond(self, sign: str, number: int) -> Fragment:
        """Whether a row stands behind or before an experiment, in the order of the space."""
        anchor = sql(
            "SELECT {} {} WHERE {} = {}",
            joined(", ", self._keys),
            self._from(),
            self._keys[2],
            Fragment((Bind(number),)),
        )
        return sql(f"({{}}) {sign} ({{}})", joined(", ", self._keys), anchor)

    def _from(self, *, facts: bool = False, columns: Sequence[Column] = ()) -> Fragment:
        return verbatim(f"FROM ({self._source(facts=facts, columns=columns)}) AS {ROW}")

    def _view(self) -> Fragment:
        """The same rows as they have a name in the database."""
        return verbatim(f"FROM {name(self.known.view_all)} AS {ROW}")

    def _rows(self, condition: Fragment, order: Iterable[Fragment], count: int) -> list[Row]:
        facts = [self.known.facts[fact] for fact in ("digest", "status", "remarks")]
        first, *others = list(in_widths(self.columns)) or [[]]
        rows = self._cells([*facts, *first], condition, order, count)
        found = {row[0]: list(row) for row in rows}
        marks = verbatim(", ".join(map(str, found)))
        among = sql("{} IN ({})", self._keys[2], marks)
        for columns in others if found else ():
            for number, *cells in self._cells(columns, among, [], len(found)):
                found[number] += cells
        return [self._row(*row) for row in found.values()]

    def _cells(
        self, columns: Sequence[Column], condition: Fragment, order: Iterable[Fragment], count: int
    ) -> list[tuple[Any, ...]]:
        """The number of each row, and what stands in *columns*."""
        heads = [self._keys[2], *(verbatim(column.sql()) for column in columns)]
        by = joined(", ", order)
        statement = sql(
            f"SELECT {{}} {{}}{{}}{{}} LIMIT {count}",
            joined(", ", heads),
            self._from(facts=True, columns=columns),
            _where(condition),
            sql(" ORDER BY {}", by) if by.parts else by,
        )
        return self._reader.rows(statement)

    def _row(
        self, number: int, digest: str, status: State, remarks: str | None, *cells: object
    ) -> Row:
        noted = Remarks(remarks)
        pairs = zip(self.columns, cells, strict=True)
        return Row(number, digest, status, tuple(_cell(c, cell, noted) for c, cell in pairs))


def _distinct(value: Fragment, most: int, source: Fragment) -> Fragment:
    return sql(f"SELECT DISTINCT {{}} {{}} LIMIT {most}", value, source)


def _columns(known: Catalog, wanted: Wanted) -> Sequence[Column]:
    if wanted.columns:
        return [known.column(each) for each in wanted.columns]
    repeat = [known.facts["repeat"]] if wanted.repeats else []
    metrics = sorted(known.metrics, key=lambda m: wanted.own_first and m.name in MEASURED)
    return [*known.parameters, *known.seeds, *repeat, *metrics]


def _named(known: Catalog, wanted: Wanted, columns: Sequence[Column]) -> set[str] | None:
    """The fields that are needed for *columns*, and to choose and order what is wanted.

    None where a study has few, so that all will do.
    """
    if len(known.columns) <= MANY_COLUMNS:
        return None
    names = {column.name for column in columns}
    names |= {each.removeprefix("-") for each in wanted.sort}
    names |= set(wanted.where.names) if wanted.where else set()
    return {known.columns[each].view for each in names if each in known.columns}


def _of_states(known: Catalog, wanted: Wanted) -> Fragment:
    """The condition on the state; nothing where all are wanted."""
    if not wanted.states:
        return NOTHING
    states = joined(", ", (Fragment((Bind(state),)) for state in wanted.states))
    return sql("{} IN ({})", verbatim(known.facts["status"].sql()), states)


def _ranked(value: Any) -> tuple[bool, bool, Any]:
    """Numbers by size, then texts, then what there is none of."""
    return value is None, isinstance(value, str), value if value is not None else 0


def _is_number(head: Head) -> bool:
    """Whether a column holds numbers, and is the study's own."""
    return head.fragment.type in ("int", "real") and not head.wide and not head.fact


def _where(condition: Fragment) -> Fragment:
    return sql(" WHERE {}", condition) if condition.parts else NOTHING


def _cell(column: Column, cell: Any, noted: Remarks) -> Any:
    """A value as it was recorded: the remarks know NaN and infinity, and why one is missing."""
    said = noted.on(column)
    if isinstance(said, bool | int | float | Missing):
        return said
    return column.value(cell)
