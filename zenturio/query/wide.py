"""Rows of more columns than a database answers with: asked part by part, and put together.

SQLite answers with 2,000 columns at the most, PostgreSQL with 1,664, and so long may a list of keys
be by which rows are grouped. The parts are of one moment; their rows are told apart by the number
that each result has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from zenturio.query.catalog import ROW, key_names, used_columns
from zenturio.query.fragments import Fragment, join_fragments, quote_name, sql, verbatim
from zenturio.query.reading import SnapshotReader
from zenturio.query.statement import EMPTY_FRAGMENT, SelectItem, StudySelect

WIDTH = 800
"""Columns that are asked for at a time: far from the limits, for a column may have a few beside it,
such as its count."""
_NAMED = 10_000
"""Rows that a statement names one by one at the most."""

Element = TypeVar("Element")
Rows = list[tuple[Any, ...]]


def column_chunks(elements: Sequence[Element], width: int = WIDTH) -> Iterator[Sequence[Element]]:
    """The *elements* in parts of at most *width*."""
    for start in range(0, len(elements), width):
        yield elements[start : start + width]


def select_rows(
    reader: SnapshotReader,
    statement: StudySelect,
    heads: Sequence[SelectItem],
    *,
    order: Sequence[tuple[SelectItem, bool]] = (),
    limit: int | None = None,
) -> Rows:
    """The *heads* of each row of *statement*, in that *order*; only the first *limit* of them."""
    if len(heads) <= WIDTH:
        return reader.rows(with_limit(statement.select(heads, order=order), limit))
    names = key_names(statement.known)
    number = SelectItem(names[2], verbatim(f"{ROW}.{quote_name(names[2])}"))

    def part(
        asked: Sequence[SelectItem],
        order: Sequence[tuple[SelectItem, bool]] = (),
        limit: int | None = None,
        among: Fragment = EMPTY_FRAGMENT,
    ) -> Rows:
        shown = [head.fragment for head in (*asked, *(head for head, _ in order))]
        text = join_fragments(" ", [statement.condition, *shown]).plain(reader.dialect)
        known = statement.known
        source = reader.repository.ordered_rows_sql(
            known.study, names, facts=True, names=used_columns(known, text), rows=known.rows
        )
        wanted = [number, *asked]
        selected = statement.select(wanted, order=order, source=f"({source})", among=among)
        return reader.rows(with_limit(selected, limit))

    numbers = [row[0] for row in part([], [*order, (number, False)], limit)]
    among = EMPTY_FRAGMENT
    if limit is not None and 0 < len(numbers) <= _NAMED:
        among = sql("{} IN ({})", number.fragment, verbatim(", ".join(map(str, numbers))))
    found: dict[int, list[Any]] = {number: [] for number in numbers}
    for some in column_chunks(heads):
        for this, *cells in part(some, among=among):
            if this in found:
                found[this] += cells
    return [tuple(found[this]) for this in numbers]


def with_limit(statement: Fragment, limit: int | None) -> Fragment:
    """The first rows alone, if there is a limit."""
    return statement if limit is None else sql(f"{{}} LIMIT {limit}", statement)


def group_in_python(
    reader: SnapshotReader, statement: StudySelect, heads: Sequence[SelectItem], keys: int
) -> Rows:
    """The *heads* for each combination of the first *keys* of them, computed from the rows.

    For more keys than a database groups by.
    """
    values = {head.values.name: head.values for head in heads[keys:] if head.values}
    rows = select_rows(reader, statement, [*heads[:keys], *values.values()])
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(group_key(row[:keys]), []).append(row)
    places = {name: keys + at for at, name in enumerate(values)}
    found = []
    for members in groups.values():
        cells = [
            _computed(head, members, places[head.values.name] if head.values else None)
            for head in heads[keys:]
        ]
        found.append((*members[0][:keys], *cells))
    return found


def _computed(head: SelectItem, rows: Rows, place: int | None) -> Any:
    """An aggregate; of values at a *place* those count that are numbers."""
    assert head.compute is not None, "what is aggregated says how"
    if place is None or head.values is None:
        return head.compute(rows)
    cells = (head.values.convert(row[place]) for row in rows)
    return head.compute([cell for cell in cells if cell is not None and not math.isnan(cell)])


def group_key(cells: Sequence[Any]) -> tuple[Any, ...]:
    """A group's key that is found again: NaN is not equal to itself."""
    return tuple("NaN" if cell != cell else cell for cell in cells)  # noqa: PLR0124 - NaN
