"""Aggregates and groups: computed by the database, and anew where it computes them wrongly.

The aggregates of databases are fast and nearly always right. They are wrong where sums overflow
(PostgreSQL fails then, SQLite says infinity), where nearly everything cancels, and where very many
values are added without compensation. Guards, a few more aggregates in the same statement, tell
such a group; only its values are read and aggregated in Python.

SQLite groups by sorting. Sorting a thousand rows a thousand times takes a third of the time of
sorting a million, and next to no memory; so rows are grouped in parts whose answers are merged
here. PostgreSQL groups by hashing: it is asked for all rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

from zenturio.errors import unknown_name
from zenturio.experiment import aggregates
from zenturio.experiment.experiment import UNKNOWN_KIND, machine_notes
from zenturio.expression import Type
from zenturio.query import statistics
from zenturio.query.catalog import (
    ROW,
    Catalog,
    SnapshotReader,
    StudyColumn,
    key_names,
    used_columns,
)
from zenturio.query.select_statement import (
    WIDTH,
    AggregateFallback,
    SelectItem,
    StudySelect,
    column_chunks,
    extreme_number,
    group_in_python,
    group_key,
)
from zenturio.query.sql_fragments import (
    BoundValue,
    Dialect,
    Fragment,
    exact_decimal,
    join_fragments,
    quote_name,
    sql,
    verbatim,
)
from zenturio.record.entities import round_notes
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


class PrecisionGuards(NamedTuple):
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


def sum_is_doubtful(total_value: float | None, guards: PrecisionGuards) -> bool:
    """Return whether *total_value* may not be the sum to twelve digits."""
    if total_value is None or not guards.size < HUGE:
        return True
    return abs(total_value) * CANCELLED < guards.size


def mean_is_doubtful(mean_value: float | None, guards: PrecisionGuards) -> bool:
    """Return whether *mean_value* may not be the mean to twelve digits."""
    return sum_is_doubtful(None if mean_value is None else mean_value * guards.values, guards)


def deviation_is_doubtful(deviation: float | None, guards: PrecisionGuards) -> bool:
    """Return whether *deviation* may not be the deviation to twelve digits."""
    # Equal values deviate by exactly 0, but rounding may say otherwise.
    if guards.values < 2 or guards.low == guards.high:
        return bool(deviation)
    if deviation is None or not guards.greatest < HUGE_SQUARE:
        return math.isfinite(guards.greatest)
    # Squares of tiny values vanish.
    return deviation * CANCELLED < guards.greatest or deviation < 1 / HUGE_SQUARE


def median_is_doubtful(median_value: float | None, guards: PrecisionGuards) -> bool:
    """Return whether *median_value* may not be the median to twelve digits."""
    if median_value is None or not guards.greatest < HUGE or 0 < abs(median_value) < 1 / HUGE:
        return True
    return guards.low < 0 < guards.high and abs(median_value) * CANCELLED < guards.greatest


DoubtRule = tuple[
    Callable[[float | None, PrecisionGuards], bool], Callable[[Sequence[float]], float | None]
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
    """Return the rule for an aggregate; None where the database is always right."""
    if kind not in _AGGREGATE_SQL[dialect]:
        # SQLite calls the definition itself; what PostgreSQL says is near enough to sort by.
        return (
            None if dialect == "sqlite" else (lambda _value, _guards: True, exact_aggregate(kind))
        )
    rule = DOUBT_RULES.get(kind)
    if rule is None or kind not in ("sum", "mean") or dialect != "sqlite" or _compensated():
        return rule
    doubtful, exact = rule
    return (
        lambda value, guards: guards.values > MOST_UNCOMPENSATED or doubtful(value, guards),
        exact,
    )


@cache
def _compensated() -> bool:
    version: tuple[int, ...] = sqlite_module().sqlite_version_info
    return version >= COMPENSATED


def guard_items(heads: Iterable[SelectItem]) -> list[SelectItem]:
    """Return the columns selected in addition to the *heads*, each once."""
    guards = {guard.name: guard for head in heads if head.check for guard in head.check.guards}
    return list(guards.values())


def recompute_doubtful(
    reader: SnapshotReader,
    statement: StudySelect,
    rows: Sequence[tuple[Any, ...]],
    heads: Sequence[SelectItem],
    keys: int,
) -> tuple[list[tuple[Any, ...]], bool]:
    """Return *rows* without guards, doubtful values computed again; and whether any were.

    A row is a value for each of the *heads*, the first *keys* of which make the group, and then
    one for each of their guards.
    """
    beside = {guard.name: len(heads) + i for i, guard in enumerate(guard_items(heads))}
    answers = [list(row[: len(heads)]) for row in rows]
    doubts: dict[int, set[int]] = {}
    for at, head in enumerate(heads):
        if head.check is None:
            continue
        places = [beside[guard.name] for guard in head.check.guards]
        for number, row in enumerate(rows):
            value = answers[number][at] = _plain(row[at])
            count, *others = (row[place] for place in places)
            if not count:
                continue
            guards = PrecisionGuards(count, *(float(bound) for bound in others))
            if head.check.doubtful(value, guards):
                doubts.setdefault(at, set()).add(number)
    for at, numbers in doubts.items():
        check = heads[at].check
        assert check is not None, "only what has a check is doubtful"
        numbers_by_key = {group_key(rows[number][:keys]): number for number in numbers}
        values = _values(reader, statement, [*heads[:keys], check.values], numbers_by_key)
        for number in numbers:
            answers[number][at] = check.exact(values[number])
    return [tuple(row) for row in answers], bool(doubts)


def _values(
    reader: SnapshotReader,
    statement: StudySelect,
    heads: Sequence[SelectItem],
    numbers_by_key: dict[Any, int],
) -> dict[int, list[float]]:
    """Return the values behind the rows of these keys."""
    # Read from the same snapshot as the aggregate, so both speak of the same rows.
    values_by_number: dict[int, list[float]] = {number: [] for number in numbers_by_key.values()}
    for *key, cell in reader.each(statement.select(heads)):
        number = numbers_by_key.get(group_key(key))
        value = heads[-1].convert(cell)
        if number is not None and value is not None and not math.isnan(value):
            values_by_number[number].append(value)
    return values_by_number


def _plain(value: Any) -> float | None:
    """Return *value* as a float; None for NULL, and for NaN, which PostgreSQL returns instead."""
    if value is None or math.isnan(value):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


Aggregate = str
"""One of `AGGREGATES`, or a quantile: ``p5``, ``p99.9``."""


AGGREGATES: tuple[Aggregate, ...] = (
    "mean", "min", "max", "std", "count", "median", "sum", *statistics.DEFINED_AGGREGATES,
    "p5", "p25", "p75", "p90", "p95", "p99",
)  # fmt: skip
"""Those that have a name, and the quantiles that forms offer; others are written alike."""


def check_aggregate(name: str) -> None:
    """InputError if there is no such aggregate."""
    if name not in AGGREGATES and aggregates.quantile_share(name) is None:
        raise unknown_name("aggregate", name, AGGREGATES)


def exact_aggregate(kind: Aggregate) -> Callable[[Sequence[Any]], Any]:
    """Return the one definition of an aggregate: what computes it of the values themselves."""
    share = aggregates.quantile_share(kind)
    if share is not None:
        return lambda values: aggregates.quantile(values, share)
    return _COMPUTED[kind] if kind in _COMPUTED else statistics.DEFINED_AGGREGATES[kind]


_AGGREGATE_SQL: dict[Dialect, dict[str, str]] = {
    "sqlite": {
        "mean": "avg({})",
        "min": "min({})",
        "max": "max({})",
        "std": "stddev_samp({})",
        "count": "count({})",
        "median": "median({})",
        "sum": "sum(CAST({} AS REAL))",
        "size": f"sum(min(abs(CAST({{}} AS REAL)), {HUGE}))",
    },
    # Sums of binary reals fail there when they overflow, and they lose digits; of decimals they
    # are exact. A cast without the text between would keep 15 digits of 17.
    "postgresql": {
        "mean": "avg({}::text::numeric)",
        "min": "min({})",
        "max": "max({})",
        # Its stddev_samp has as many decimals as the variance, which leaves too few digits of it.
        "std": (
            "CASE WHEN var_samp({}::text::numeric) = 0 THEN 0"
            " WHEN var_samp({}::text::numeric) BETWEEN 1e-290 AND 1e300"
            " THEN sqrt(var_samp({}::text::numeric)::double precision) END"
        ),
        "count": "count({})",
        "median": "percentile_cont(0.5) WITHIN GROUP (ORDER BY {}::double precision)",
        "sum": "sum({}::text::numeric)",
        "size": f"sum(least(abs({{}}::double precision), {HUGE}))",
    },
}
"""What each database says; *size* is the sum of the magnitudes, see `PrecisionGuards`."""
_GUARDS = ("count", "min", "max", "size")


def _student_sql(count: str) -> str:
    """Return the quantile of Student's distribution for so many values, as SQL: exact up to 30."""
    quantiles = ", ".join(f"{statistics.student(0.975, freedom):.6g}" for freedom in range(1, 30))
    return f"(ARRAY[{quantiles}, 1.96])[greatest(least({count} - 1, 30), 1)]"


def _defined_sql(kind: str, dialect: Dialect) -> str:
    """Return how a database says one of the defined aggregates, or a quantile."""
    share = aggregates.quantile_share(kind)
    if dialect == "sqlite":
        if share is not None:
            return f"quantile({{}}, {share!r})"
        return f"{'var_samp' if kind == 'var' else kind}({{}})"
    place = "percentile_cont({}) WITHIN GROUP (ORDER BY {{}}::double precision)"
    error = "sqrt(var_samp({}::text::numeric) / count({}))"
    ranks = "greatest(floor((count({}) - 1.96 * sqrt(count({}))) / 2), 1)::int"
    values = "(array_agg({}::double precision ORDER BY {}::double precision {} NULLS LAST))"
    half = f"{_student_sql('count({})::int')} * {error}"
    return {
        "var": "var_samp({}::text::numeric)",
        "sem": error,
        "iqr": f"{place.format(0.75)} - {place.format(0.25)}",
        "geomean": (
            "CASE WHEN min({}) > 0 THEN"
            " exp(avg(ln(CASE WHEN {} > 0 THEN {}::double precision END))) END"
        ),
        "mean_low": f"avg({{}}::text::numeric) - {half}",
        "mean_high": f"avg({{}}::text::numeric) + {half}",
        "median_low": f"{values.replace(' {} NULLS', ' NULLS')}[{ranks}]",
        "median_high": f"{values.replace(' {} NULLS', ' DESC NULLS')}[{ranks}]",
    }.get(kind) or place.format(share)


def aggregate_item(kind: Aggregate, column: StudyColumn, dialect: Dialect) -> SelectItem:
    """Return the column of an answer that holds an aggregate; NULL and NaN do not count."""
    keeps = kind in ("min", "max") and column.type == "int"
    type_: Type = "int" if keeps or kind == "count" else "real"
    fragment = _database_item(kind, column, dialect).fragment.typed(type_)
    return replace(
        _database_item(kind, column, dialect),
        fragment=fragment,
        unit=aggregate_unit(kind, column.unit),
        convert=_whole if keeps else _number_or_none,
        check=_check(kind, column, dialect),
        values=SelectItem.of(column),
        compute=exact_aggregate(kind),
        column=column,
        aggregate=kind,
    )


def aggregate_unit(kind: Aggregate, unit: str) -> str:
    """Return the unit of an aggregate of values in this *unit*."""
    if kind == "count":
        return ""
    return f"({unit})²" if kind == "var" and unit else unit


def _database_item(kind: str, column: StudyColumn, dialect: Dialect) -> SelectItem:
    """Return an aggregate as the database computes it, and of parts of the rows."""
    needed, merge = _PARTS.get(kind, ((), None))
    fragment = column.fragment(dialect)
    has_digits = kind in ("min", "max") and dialect == "postgresql" and column.type == "real"
    if has_digits and fragment.digits is not None:
        fragment = exact_decimal(fragment, fragment.digits)
    known = _AGGREGATE_SQL[dialect]
    templates = [known.get(word) or _defined_sql(word, dialect) for word in (kind, *needed)]
    whole, *parts = (sql(text, *[fragment] * text.count("{}")) for text in templates)
    name = f"{kind}({column.name})"
    return SelectItem(name, whole, parts=tuple(parts), merge=merge, fact=has_digits and column.wide)


def _check(kind: Aggregate, column: StudyColumn, dialect: Dialect) -> AggregateFallback | None:
    rule = doubt_rule(kind, dialect)
    if rule is None:
        return None
    guards = tuple(_database_item(guard, column, dialect) for guard in _GUARDS)
    return AggregateFallback(SelectItem.of(column), guards, *rule)


def row_count_item(title: str) -> SelectItem:
    """Return the column that counts the experiments of a group."""
    count = Fragment(("count(*)",), "int")
    return SelectItem(title, count, parts=(count,), merge=sum, compute=len, aggregate="rows")


def _there(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _total(sums: Sequence[Any], counts: Sequence[int]) -> float | None:
    """Return the sum of sums; NULL where nothing is counted, or infinities of both signs are."""
    measured = [sum_ for sum_, count in zip(sums, counts, strict=True) if count]
    return aggregates.total(measured) if measured and None not in measured else None


def _mean(sums: Sequence[Any], counts: Sequence[int]) -> float | None:
    whole = _total(sums, counts)
    return None if whole is None else whole / sum(counts)


def _deviation(spreads: Sequence[Any], sums: Sequence[Any], counts: Sequence[int]) -> float | None:
    """Combine the deviations and means of parts (Chan, Golub and LeVeque 1979)."""
    count, mean = sum(counts), _mean(sums, counts)
    if count < 2 or mean is None or not math.isfinite(mean):
        return None
    parts = zip(spreads, sums, counts, strict=True)
    inside = ((spread or 0.0) ** 2 * (n - 1) + n * (sum_ / n - mean) ** 2
              for spread, sum_, n in parts if n)  # fmt: skip
    try:
        return math.sqrt(math.fsum(inside) / (count - 1))
    except OverflowError:  # it is doubtful, and computed anew
        return None


def _least(values: Iterable[Any]) -> Any:
    return min(_there(values), default=None)


def _greatest(values: Iterable[Any]) -> Any:
    return max(_there(values), default=None)


_PARTS: dict[str, tuple[tuple[Aggregate, ...], Callable[..., Any]]] = {
    "mean": (("sum", "count"), _mean),
    "min": (("min",), _least),
    "max": (("max",), _greatest),
    "std": (("std", "sum", "count"), _deviation),
    "count": (("count",), sum),
    "sum": (("sum", "count"), _total),
    "size": (("size", "count"), _total),
}
"""The columns selected from each part of the rows, and how they are combined."""


_COMPUTED: dict[Aggregate, Callable[[Sequence[Any]], Any]] = {
    "mean": aggregates.mean,
    "min": _least,
    "max": _greatest,
    "std": aggregates.deviation,
    "count": len,
    "median": aggregates.median,
    "sum": aggregates.total,
}
"""Each aggregate of the values themselves."""


def _whole(value: object) -> object:
    """PostgreSQL answers with decimals, where it computed with them."""
    is_beyond_reals = isinstance(value, float) and math.isinf(value)
    return value if value is None or is_beyond_reals else int(str(value))


def _number_or_none(value: Any) -> float | None:
    """Return NULL for NaN: results with infinities are NULL in one database, NaN in the other.

    Of decimals those are integers that no real is equal to.
    """
    if value is None or math.isnan(value):
        return None
    if not isinstance(value, Decimal):
        return value  # type: ignore[no-any-return] # a number of the database
    real = float(value)
    is_real = not math.isfinite(real) or abs(real) < 2**53 or real == value
    return real if is_real else int(value)


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
    """Return the *heads* for each combination of the first *keys* of them, in that *order*.

    Rows that are equal in it stand in the order of their keys. Where there are more than *most*
    combinations, some of them, but more than so many.
    """
    items = [*heads, *guard_items(heads)]
    if len(items) > WIDTH:
        rows = _in_columns(reader, statement, heads, keys)
        return ordered_rows(rows, heads, total_order(order, heads[:keys]))
    parts = all(head.parts for head in items[keys:])
    plain = all(head.fragment.type and not head.wide for head, _ in order)
    total = total_order(order, heads[:keys])
    if (
        parts
        and plain
        and reader.dialect == "sqlite"
        and statement.catalog.total >= MANY_EXPERIMENTS
    ):
        rows = _in_parts(reader, statement, items, keys, most)
        in_order = False
    else:
        # Keys of any size are texts to the database: here they are numbers again.
        in_order = not any(head.wide for head in heads[:keys])
        select = statement.select(items, group=keys, order=total if in_order else ())
        rows = reader.rows(select if most is None else sql(f"{{}} LIMIT {most + 1}", select))
    rows, changed = recompute_doubtful(reader, statement, rows, heads, keys)
    return rows if in_order and not changed else ordered_rows(rows, heads, total)


def total_order(
    order: Sequence[tuple[SelectItem, bool]], keys: Sequence[SelectItem]
) -> list[tuple[SelectItem, bool]]:
    """Return *order*, followed by each of the *keys* that is not in it."""
    named = {head.name for head, _ in order}
    return [*order, *((key, False) for key in keys if key.name not in named)]


def _in_columns(
    reader: SnapshotReader, statement: StudySelect, heads: Sequence[SelectItem], keys: int
) -> list[tuple[Any, ...]]:
    """Return the *heads*, which are too many for one statement."""
    # Too many keys for GROUP BY: the rows are read and grouped in Python.
    if keys > WIDTH // 2:
        return group_in_python(reader, statement, heads, keys)
    width = (WIDTH - keys) // GUARDED_COLUMNS
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for chunk in column_chunks(heads[keys:], width):
        for row in select_groups(reader, statement, [*heads[:keys], *chunk], keys):
            groups.setdefault(group_key(row[:keys]), [*row[:keys]]).extend(row[keys:])
    return [tuple(row) for row in groups.values()]


def _in_parts(
    reader: SnapshotReader,
    statement: StudySelect,
    heads: Sequence[SelectItem],
    keys: int,
    most: int | None,
) -> list[tuple[Any, ...]]:
    catalog = statement.catalog
    names = key_names(catalog)
    number = verbatim(f"{ROW}.{quote_name(names[2])}")
    everything = join_fragments(" ", [statement.condition, *(head.fragment for head in heads)])
    fields = used_columns(catalog, everything.plain(reader.dialect))
    seen = catalog.rows
    ordered_rows_sql = reader.repository.ordered_rows_sql
    plain, source = (
        f"({ordered_rows_sql(catalog.study, names, facts=facts, names=fields, rows=seen)})"
        for facts in (False, True)
    )
    rows = verbatim(f"FROM {plain} AS {ROW}")
    # Numbers of rows are dense enough in a study, so that a range of them is a part of about equal
    # size, and the primary key leads to it.
    first, last = (extreme_number(reader, extreme, number, rows) for extreme in ("min", "max"))
    items = [
        *heads[:keys],
        *(SelectItem("part", part) for head in heads[keys:] for part in head.parts),
    ]
    within = sql("{} >= {} AND {} < {}", number, _bound(first), number, _bound(last))
    whole = statement.select(items, group=keys, source=source, among=within)
    # One text for all parts: SQLite then prepares it once.
    text, values = whole.bound(reader.dialect)  # the bounds come first, for heads hold no values
    answers_by_key: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    usual = size = max(PART_SIZE * (last - first + 1) // catalog.total, 1)
    while first <= last and (most is None or len(answers_by_key) <= most):
        # A part that made many groups was grouped for little: the next one has PART_SHARE rows for
        # each of them, within limits.
        size = (
            size
            if size <= LARGEST_PART * usual
            else LARGEST_PART * usual
            if most
            else last + 1 - first
        )
        until = first + size
        rows_of_part = reader.fetch(text, [first, until, *values[2:]])
        for row in rows_of_part:
            answers_by_key.setdefault(row[:keys], []).append(row[keys:])
        first, size = until, usual * max(PART_SHARE * len(rows_of_part) // PART_SIZE, 1)
    return [(*key, *_merged(heads[keys:], answers)) for key, answers in answers_by_key.items()]


def _bound(number: int) -> Fragment:
    return Fragment((BoundValue(number),))


def _merged(heads: Sequence[SelectItem], answers: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return each head's value, of what all parts answered for one group."""
    columns = list(zip(*answers, strict=True))
    merged, place = [], 0
    for head in heads:
        assert head.merge is not None, "what has parts says how they are merged"
        value = head.merge(*columns[place : place + len(head.parts)])
        merged.append(None if value != value else value)  # noqa: PLR0124 - NaN, which SQLite has not
        place += len(head.parts)
    return merged


def ordered_rows(
    rows: list[tuple[Any, ...]],
    heads: Sequence[SelectItem],
    order: Sequence[tuple[SelectItem, bool]],
) -> list[tuple[Any, ...]]:
    """Return the rows as `StudySelect` has them ordered: what is NULL or NaN comes last."""
    places = {head.name: at for at, head in enumerate(heads)}
    ordered = list(rows)
    for head, falling in reversed(order):
        at, convert = places[head.name], head.convert if head.wide else _same
        ordered.sort(key=lambda row: sort_rank(convert(row[at]), falling=falling), reverse=falling)
    return ordered


def _same(value: Any) -> Any:
    return value


def sort_rank(value: Any, *, falling: bool = False) -> tuple[bool, bool, Any]:
    """Where SQLite puts a value among others: numbers, then texts, then what there is none of."""
    none = value is None or value != value  # noqa: PLR0124 - NaN
    return none != falling, isinstance(value, str), 0 if none else value


@dataclass(frozen=True, slots=True)
class MachineRoundCounts:
    """Results by their kind of machine and by their round; empty where all are of one."""

    machines: Mapping[str, int] = field(default_factory=dict)
    rounds: Mapping[int, int] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is said of an answer that mixes them."""
        return (*machine_notes(self.machines), *round_notes(self.rounds))

    @property
    def columns(self) -> tuple[str, ...]:
        """What tells the rows of one experiment apart."""
        return (*(["machine"] if self.machines else ()), *(["round"] if self.rounds else ()))

    def attrs(self) -> dict[Hashable, Any]:
        """Return the same as a table of pandas carries it."""
        return {"machines": dict(self.machines), "rounds": dict(self.rounds)}

    @staticmethod
    def of(attrs: Mapping[Any, Any]) -> MachineRoundCounts:
        """Of a table of pandas."""
        return MachineRoundCounts(attrs.get("machines", {}), attrs.get("rounds", {}))

    @staticmethod
    def together(parts: Iterable[Mapping[Any, Any]]) -> MachineRoundCounts:
        """Of several tables, by their attributes."""
        machines: dict[str, int] = {}
        rounds: dict[int, int] = {}
        for origins in map(MachineRoundCounts.of, parts):
            for label, count in origins.machines.items():
                machines[label] = machines.get(label, 0) + count
            for number, count in origins.rounds.items():
                rounds[number] = rounds.get(number, 0) + count
        return MachineRoundCounts(machines, rounds)


def count_origins(
    reader: SnapshotReader,
    catalog: Catalog,
    statement: StudySelect,
    keys: Collection[StudyColumn] = (),
) -> MachineRoundCounts:
    """Count the rows of *statement* by kind of machine and by round, where they are of several.

    The study's counters tell whether they can be: only then rows are looked at. What is among the
    *keys* tells groups apart, and mixes nothing.
    """
    counts_by_fact: list[dict[Any, int]] = []
    for fact, numbers in (("machine", catalog.machines), ("round", catalog.rounds)):
        column = catalog.facts[fact]
        counts: dict[Any, int] = {}
        if len(numbers) > 1 and column not in keys:
            heads = [SelectItem.of(column), row_count_item("count(*)")]
            rows = reader.rows(statement.select(heads, group=1, facts=True))
            counts = {value: int(count) for value, count in rows}
        counts_by_fact.append(counts if len(counts) > 1 else {})
    machines = {label or UNKNOWN_KIND: count for label, count in counts_by_fact[0].items()}
    return MachineRoundCounts(
        machines, {int(number): count for number, count in counts_by_fact[1].items()}
    )
