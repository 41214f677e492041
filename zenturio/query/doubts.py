"""Aggregates that a database computes wrongly: recognised, and computed anew from the rows.

Its own aggregates are fast and nearly always right. They are wrong where sums overflow (PostgreSQL
fails then, SQLite says infinity), where nearly everything cancels, and where very many values are
added without compensation. Beside each aggregate a few others are asked that tell such a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from zenturio.experiment import aggregates
from zenturio.query.fragments import Dialect
from zenturio.query.reading import SnapshotReader
from zenturio.query.statement import SelectItem, StudySelect
from zenturio.query.wide import group_key
from zenturio.record.sqlite import sqlite_module

HUGE = 1e290
"""From here on a database's sum may overflow."""
HUGE_SQUARE = 1e140
"""From here on its sum of squares may."""
CANCELLED = 1e3
"""How much smaller than the values a sum or a deviation may be before its twelfth digit suffers."""
MOST_UNCOMPENSATED = 4000
"""How many values may be added without compensation before the twelfth digit of a sum suffers."""
COMPENSATED = (3, 43, 0)
"""From this version on SQLite compensates its sums (Neumaier)."""


class GroupGuards(NamedTuple):
    """What a database says of the values of a group, beside the aggregate."""

    values: int
    low: float
    high: float
    size: float
    """The sum of the magnitudes, each cut off at `HUGE`."""

    @property
    def greatest(self) -> float:
        """The greatest magnitude."""
        return max(abs(self.low), abs(self.high))


def sum_is_doubtful(found: float | None, guards: GroupGuards) -> bool:
    """Whether *found* may not be the sum to twelve digits."""
    if found is None or not guards.size < HUGE:
        return True
    return abs(found) * CANCELLED < guards.size


def mean_is_doubtful(found: float | None, guards: GroupGuards) -> bool:
    """Whether *found* may not be the mean to twelve digits."""
    return sum_is_doubtful(None if found is None else found * guards.values, guards)


def deviation_is_doubtful(found: float | None, guards: GroupGuards) -> bool:
    """Whether *found* may not be the deviation to twelve digits."""
    if guards.values < 2 or guards.low == guards.high:
        return bool(found)
    if found is None or not guards.greatest < HUGE_SQUARE:
        return math.isfinite(guards.greatest)
    # Squares of tiny values vanish.
    return found * CANCELLED < guards.greatest or found < 1 / HUGE_SQUARE


def median_is_doubtful(found: float | None, guards: GroupGuards) -> bool:
    """Whether *found* may not be the median to twelve digits: of two values it is between them."""
    if found is None or not guards.greatest < HUGE or 0 < abs(found) < 1 / HUGE:
        return True
    return guards.low < 0 < guards.high and abs(found) * CANCELLED < guards.greatest


DoubtRule = tuple[
    Callable[[float | None, GroupGuards], bool], Callable[[Sequence[float]], float | None]
]
"""When an aggregate is doubtful, and what computes it then."""

DOUBT_RULES: dict[str, DoubtRule] = {
    "sum": (sum_is_doubtful, aggregates.total),
    "mean": (mean_is_doubtful, aggregates.mean),
    "std": (deviation_is_doubtful, aggregates.deviation),
    "median": (median_is_doubtful, aggregates.median),
}
"""Least and greatest values and counts are right in every database."""


def doubt_rule(kind: str, dialect: Dialect) -> DoubtRule | None:
    """The rule for an aggregate; None where the database is always right."""
    found = DOUBT_RULES.get(kind)
    if found is None or kind not in ("sum", "mean") or dialect != "sqlite" or _compensated():
        return found
    doubtful, exact = found
    return (
        lambda value, guards: guards.values > MOST_UNCOMPENSATED or doubtful(value, guards),
        exact,
    )


@cache
def _compensated() -> bool:
    found: tuple[int, ...] = sqlite_module().sqlite_version_info
    return found >= COMPENSATED


def guard_items(heads: Iterable[SelectItem]) -> list[SelectItem]:
    """What is asked beside the *heads*, each once."""
    found = {guard.name: guard for head in heads if head.check for guard in head.check.guards}
    return list(found.values())


def recompute_doubtful(
    reader: SnapshotReader,
    statement: StudySelect,
    rows: Sequence[tuple[Any, ...]],
    heads: Sequence[SelectItem],
    keys: int,
) -> tuple[list[tuple[Any, ...]], bool]:
    """*rows* with what was doubtful computed anew, without guards; and whether anything was.

    A row is a value for each of the *heads*, the first *keys* of which make the group, and then
    one for each of their guards.
    """
    beside = {guard.name: len(heads) + i for i, guard in enumerate(guard_items(heads))}
    found = [list(row[: len(heads)]) for row in rows]
    doubts: dict[int, set[int]] = {}
    for at, head in enumerate(heads):
        if head.check is None:
            continue
        places = [beside[guard.name] for guard in head.check.guards]
        for number, row in enumerate(rows):
            value = found[number][at] = _plain(row[at])
            count, *others = (row[place] for place in places)
            if not count:
                continue
            guards = GroupGuards(count, *(float(each) for each in others))
            if head.check.doubtful(value, guards):
                doubts.setdefault(at, set()).add(number)
    for at, numbers in doubts.items():
        check = heads[at].check
        assert check is not None, "only what has a check is doubtful"
        wanted = {group_key(rows[number][:keys]): number for number in numbers}
        values = _values(reader, statement, [*heads[:keys], check.values], wanted)
        for number in numbers:
            found[number][at] = check.exact(values[number])
    return [tuple(row) for row in found], bool(doubts)


def _values(
    reader: SnapshotReader,
    statement: StudySelect,
    heads: Sequence[SelectItem],
    wanted: dict[Any, int],
) -> dict[int, list[float]]:
    """The values behind the rows of these keys."""
    found: dict[int, list[float]] = {number: [] for number in wanted.values()}
    for *key, cell in reader.each(statement.select(heads)):
        number = wanted.get(group_key(key))
        value = heads[-1].convert(cell)
        if number is not None and value is not None and not math.isnan(value):
            found[number].append(value)
    return found


def _plain(value: Any) -> float | None:
    """What PostgreSQL answers as a decimal, and what is NULL in one database and NaN in another."""
    if value is None or math.isnan(value):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)
