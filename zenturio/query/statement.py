"""A SELECT over the rows of a study, put together from its columns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zenturio.errors import InputError
from zenturio.expression import Expression
from zenturio.query.catalog import ROW, Catalog, Column
from zenturio.query.fragments import Bind, Dialect, Fragment, joined, name, sql, verbatim
from zenturio.query.sql import condition
from zenturio.record.codec import load


@dataclass(frozen=True, slots=True)
class Head:
    """A column of an answer."""

    name: str
    fragment: Fragment
    unit: str = ""
    convert: Callable[[Any], Any] = lambda value: value
    fact: bool = False
    """Whether it stands in the larger view only."""
    wide: bool = False
    """Whether its integers are beyond 63 bits: SQLite has them as texts."""
    parts: tuple[Fragment, ...] = ()
    """Of an aggregate what is asked of a part of the rows; nothing, where that leads nowhere."""
    merge: Callable[..., Any] | None = None
    """Makes the aggregate of all rows of what the parts answered, column by column."""
    check: Check | None = None
    """Of an aggregate, when the database's answer is computed anew."""

    @staticmethod
    def of(column: Column) -> Head:
        """A column of the study as it is."""
        plain = Fragment((column.sql(),), column.type)
        fact = column.role == "fact"
        return Head(column.name, plain, column.unit, column.value, fact, column.wide)


@dataclass(frozen=True, slots=True)
class Check:
    """When an aggregate is computed anew from its values, and how."""

    values: Head
    """The column whose values are aggregated."""
    guards: tuple[Head, ...]
    """Other aggregates that tell whether this one can be trusted."""
    doubtful: Callable[..., bool]
    """Asked with the aggregate and the guards."""
    exact: Callable[[Sequence[float]], float | None]


NOTHING = Fragment(())


class Statement:
    """Rows of a study that succeeded and meet a condition, to be asked in several ways."""

    def __init__(
        self,
        dialect: Dialect,
        known: Catalog,
        where: Expression | None,
        *,
        every_status: bool = False,
        also: Fragment = NOTHING,
        facts: bool = False,
        without: frozenset[str] = frozenset(),
    ) -> None:
        """*facts*: whether *also* needs what every study has. *without*: digests to leave out."""
        self.dialect = dialect
        self._every_status = every_status
        self._facts = facts or bool(without)
        self.known = known
        self._names = where.names if where else frozenset()
        given = [self._condition(where)] if where else []
        held = _without(known.facts["digest"], without, dialect)
        self.condition = joined(" AND ", [*given, *(each for each in (also, held) if each.parts)])
        """What rows must meet, *also* included; no parts where all do."""

    def _condition(self, where: Expression) -> Fragment:
        columns = self.known.columns
        for used in sorted(where.names & columns.keys()):
            if columns[used].mixed:
                why = "integers beyond 63 bits" if columns[used].wide else "values of several types"
                raise InputError(
                    f"{used!r} has {why}: no condition can be put on it",
                    cure="export the study, and choose there",
                )
        fragments = {n: column.fragment(self.dialect) for n, column in columns.items()}
        return condition(where, fragments, self.dialect)

    def select(
        self,
        heads: Sequence[Head],
        *,
        group: int = 0,
        order: Sequence[tuple[Head, bool]] = (),
        facts: bool = False,
        source: str = "",
        among: Fragment = NOTHING,
    ) -> Fragment:
        """SELECT *heads*, grouped by the first *group* of them.

        *facts*: what every study has is needed, even if no head says so. *source*: what has all of
        the larger view, to be asked in its place, for those *among* its rows.
        """
        listed = joined(", ", (sql("{} AS {}", h.fragment, verbatim(name(h.name))) for h in heads))
        larger = facts or any(h.fact for h in (*heads, *(h for h, _ in order)))
        larger = larger or bool(source)
        clauses = [sql("SELECT {}", listed), self._from(larger=larger, source=source, among=among)]
        if group:
            clauses.append(sql("GROUP BY {}", joined(", ", (h.fragment for h in heads[:group]))))
        if order:
            clauses.append(sql("ORDER BY {}", joined(", ", self.orders(order))))
        return joined(" ", clauses)

    def count(self) -> Fragment:
        """How many rows there are."""
        return sql("SELECT count(*) {}", self._from(larger=False))

    def _from(self, *, larger: bool, source: str = "", among: Fragment = NOTHING) -> Fragment:
        """The smaller of the two views that has what is needed, and the condition.

        Unless the condition looks at the status itself, it concerns those that succeeded.
        """
        known = self.known
        facts = {fact.name for fact in known.facts.values()}
        larger = larger or self._every_status or self._facts or bool(facts & self._names)
        view = source or name(known.view_all if larger else known.view)
        status = known.facts["status"]
        conditions = [among] if among.parts else []
        if larger and not self._every_status and status.name not in self._names:
            conditions.append(Fragment((f"{status.sql()} = 'ok'",)))
        if self.condition.parts:
            conditions.append(self.condition)
        rows = verbatim(f"FROM {view} AS {ROW}")
        return sql("{} WHERE {}", rows, joined(" AND ", conditions)) if conditions else rows

    def space_order(self) -> list[tuple[Head, bool]]:
        """The order of the space, in which no two experiments are equal, in any database."""
        facts = self.known.facts
        order = [(Head.of(facts[fact]), False) for fact in ("index", "repeat", "digest")]
        if self.dialect == "sqlite":  # an index beyond 63 bits is a text there
            digits = "CASE typeof({}) WHEN 'text' THEN length({}) ELSE 0 END"
            index = order[0][0].fragment
            order.insert(0, (Head("", sql(digits, index, index), fact=True), False))
        return order

    def orders(self, order: Iterable[tuple[Head, bool]]) -> Iterable[Fragment]:
        """NULL and NaN come last; texts are ordered by their characters' numbers."""
        for head, falling in order:
            by = head.fragment
            if self.dialect == "postgresql" and by.type == "real":
                by = sql("nullif({}, 'NaN')", by)
            yield sql("{} IS NULL", by)
            if self.dialect == "postgresql" and by.type == "str":
                by = sql('{} COLLATE "C"', by)
            wide = head.wide and self.dialect == "sqlite"
            for key, against in _of_digits(by) if wide else [(by, False)]:
                yield sql("{} DESC", key) if falling != against else key


def _of_digits(value: Fragment) -> list[tuple[Fragment, bool]]:
    """What integers are ordered by, some of which are texts, and whether it falls as they rise.

    The sign of a text, its length, and its digits.
    """
    sign = "CASE WHEN typeof({}) <> 'text' THEN 0 WHEN substr({}, 1, 1) = '-' THEN -1 ELSE 1 END"
    length = f"CASE WHEN typeof({{}}) = 'text' THEN ({sign}) * length({{}}) ELSE {{}} END"
    above, below = (f"CASE WHEN ({sign}) = {which} THEN {{}} END" for which in (1, -1))
    keys = (sign, 2, False), (length, 5, False), (above, 3, False), (below, 3, True)
    return [(sql(template, *[value] * count), against) for template, count, against in keys]


def _without(digest: Column, digests: frozenset[str], dialect: Dialect) -> Fragment:
    """The condition that leaves out these experiments; nothing if there are none."""
    if not digests:
        return NOTHING
    listed = Fragment((Bind(json.dumps(sorted(digests))),))
    elements = {
        "sqlite": "SELECT value FROM json_each({})",
        "postgresql": "SELECT json_array_elements_text({}::json)",
    }
    return sql(f"{{}} NOT IN ({elements[dialect]})", verbatim(digest.sql()), listed)


def restored(columns: Sequence[Column], rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows as they were recorded: the last cell are the remarks, which know a NaN from NULL."""
    found = []
    for *cells, remarks in rows:
        values = [column.value(cell) for column, cell in zip(columns, cells, strict=True)]
        if remarks is not None:
            noted = load(remarks)
            for i, column in enumerate(columns):
                said = noted.get(column.name)
                if isinstance(said, float) and values[i] == (None if math.isnan(said) else said):
                    values[i] = said
        found.append(tuple(values))
    return found
