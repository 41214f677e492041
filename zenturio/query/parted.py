"""Groups of very many rows, part by part.

SQLite groups by sorting. To sort a thousand rows a thousand times takes a third of the time of
sorting a million, and next to no memory; so each part is grouped by itself, and what comes of
the parts is put together here. PostgreSQL groups without sorting: it is asked for all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zenturio.query.ahead import extreme_number
from zenturio.query.catalog import ROW, key_names, used_columns
from zenturio.query.doubts import guard_items, recompute_doubtful
from zenturio.query.fragments import BoundValue, Fragment, join_fragments, quote_name, sql, verbatim
from zenturio.query.reading import SnapshotReader
from zenturio.query.statement import SelectItem, StudySelect
from zenturio.query.wide import WIDTH, column_chunks, group_in_python, group_key

MANY_EXPERIMENTS = 20_000
"""Experiments of a study that are grouped in parts."""
PART_SIZE = 1000
"""Experiments of a part, where these make few groups."""
PART_SHARE = 8
"""Experiments of a part at least, for each group in it: else parts save nothing."""
GUARDED_COLUMNS = 5
"""Columns of an answer that an aggregate may need, with its guards."""
LARGEST_PART = 40
"""Times a usual part: no part is larger, or where all groups are wanted, the rest is one part."""


def select_groups(
    reader: SnapshotReader,
    statement: StudySelect,
    heads: Sequence[SelectItem],
    keys: int,
    *,
    order: Sequence[tuple[SelectItem, bool]] = (),
    most: int | None = None,
) -> list[tuple[Any, ...]]:
    """The *heads* for each combination of the first *keys* of them, in that *order*.

    Rows that are equal in it stand in the order of their keys. Where there are more than *most*
    combinations, some of them, but more than so many.
    """
    asked = [*heads, *guard_items(heads)]
    if len(asked) > WIDTH:
        rows = _in_columns(reader, statement, heads, keys)
        return _ordered(rows, heads, total_order(order, heads[:keys]))
    parts = all(head.parts for head in asked[keys:])
    plain = all(head.fragment.type and not head.wide for head, _ in order)
    total = total_order(order, heads[:keys])
    if parts and plain and reader.dialect == "sqlite" and statement.known.total >= MANY_EXPERIMENTS:
        rows = _in_parts(reader, statement, asked, keys, most)
        in_order = False
    else:
        # Keys of any size are texts to the database: here they are numbers again.
        in_order = not any(head.wide for head in heads[:keys])
        wanted = statement.select(asked, group=keys, order=total if in_order else ())
        rows = reader.rows(wanted if most is None else sql(f"{{}} LIMIT {most + 1}", wanted))
    rows, changed = recompute_doubtful(reader, statement, rows, heads, keys)
    return rows if in_order and not changed else _ordered(rows, heads, total)


def total_order(
    order: Sequence[tuple[SelectItem, bool]], keys: Sequence[SelectItem]
) -> list[tuple[SelectItem, bool]]:
    """*order*, and behind it each of the *keys* that is not in it."""
    named = {head.name for head, _ in order}
    return [*order, *((key, False) for key in keys if key.name not in named)]


def _in_columns(
    reader: SnapshotReader, statement: StudySelect, heads: Sequence[SelectItem], keys: int
) -> list[tuple[Any, ...]]:
    """The *heads*, of which there are too many for one answer."""
    if keys > WIDTH // 2:
        return group_in_python(reader, statement, heads, keys)
    width = (WIDTH - keys) // GUARDED_COLUMNS
    found: dict[tuple[Any, ...], list[Any]] = {}
    for some in column_chunks(heads[keys:], width):
        for row in select_groups(reader, statement, [*heads[:keys], *some], keys):
            found.setdefault(group_key(row[:keys]), [*row[:keys]]).extend(row[keys:])
    return [tuple(row) for row in found.values()]


def _in_parts(
    reader: SnapshotReader,
    statement: StudySelect,
    heads: Sequence[SelectItem],
    keys: int,
    most: int | None,
) -> list[tuple[Any, ...]]:
    known = statement.known
    names = key_names(known)
    number = verbatim(f"{ROW}.{quote_name(names[2])}")
    everything = join_fragments(" ", [statement.condition, *(head.fragment for head in heads)])
    fields = used_columns(known, everything.plain(reader.dialect))
    seen = known.rows
    ordered_rows_sql = reader.repository.ordered_rows_sql
    plain, source = (
        f"({ordered_rows_sql(known.study, names, facts=facts, names=fields, rows=seen)})"
        for facts in (False, True)
    )
    rows = verbatim(f"FROM {plain} AS {ROW}")
    first, last = (extreme_number(reader, which, number, rows) for which in ("min", "max"))
    asked = [
        *heads[:keys],
        *(SelectItem("part", each) for head in heads[keys:] for each in head.parts),
    ]
    within = sql("{} >= {} AND {} < {}", number, _bound(first), number, _bound(last))
    whole = statement.select(asked, group=keys, source=source, among=within)
    text, values = whole.bound(reader.dialect)  # the bounds come first, for heads hold no values
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    usual = size = max(PART_SIZE * (last - first + 1) // known.total, 1)
    while first <= last and (most is None or len(found) <= most):
        size = (
            size
            if size <= LARGEST_PART * usual
            else LARGEST_PART * usual
            if most
            else last + 1 - first
        )
        until = first + size
        answers = reader.fetch(text, [first, until, *values[2:]])
        for row in answers:
            found.setdefault(row[:keys], []).append(row[keys:])
        first, size = until, usual * max(PART_SHARE * len(answers) // PART_SIZE, 1)
    return [(*key, *_merged(heads[keys:], each)) for key, each in found.items()]


def _bound(number: int) -> Fragment:
    return Fragment((BoundValue(number),))


def _merged(heads: Sequence[SelectItem], answers: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Each head's value, of what all parts answered for one group."""
    columns = list(zip(*answers, strict=True))
    found, place = [], 0
    for head in heads:
        assert head.merge is not None, "what has parts says how they are merged"
        value = head.merge(*columns[place : place + len(head.parts)])
        found.append(None if value != value else value)  # noqa: PLR0124 - NaN, which SQLite has not
        place += len(head.parts)
    return found


def _ordered(
    rows: list[tuple[Any, ...]],
    heads: Sequence[SelectItem],
    order: Sequence[tuple[SelectItem, bool]],
) -> list[tuple[Any, ...]]:
    """The rows as `StudySelect` has them ordered: what is NULL or NaN comes last."""
    places = {head.name: at for at, head in enumerate(heads)}
    found = list(rows)
    for head, falling in reversed(order):
        at, convert = places[head.name], head.convert if head.wide else _same
        found.sort(key=lambda row: _rank(convert(row[at]), falling=falling), reverse=falling)
    return found


def _same(value: Any) -> Any:
    return value


def _rank(value: Any, *, falling: bool) -> tuple[bool, bool, Any]:
    """Where SQLite puts a value among others: numbers, then texts, then what there is none of."""
    none = value is None or value != value  # noqa: PLR0124 - NaN
    return none != falling, isinstance(value, str), 0 if none else value
