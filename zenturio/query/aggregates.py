"""What can be said of many values of a metric at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from zenturio.experiment import aggregates
from zenturio.expression import Type
from zenturio.query.catalog import StudyColumn
from zenturio.query.doubts import HUGE, doubt_rule
from zenturio.query.fragments import Dialect, Fragment, sql
from zenturio.query.statement import AggregateCheck, SelectItem

Aggregate = Literal["mean", "min", "max", "std", "count", "median", "sum"]
AGGREGATES: tuple[Aggregate, ...] = get_args(Aggregate)

_WORDS: dict[Dialect, dict[str, str]] = {
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
        "std": "stddev_samp({}::text::numeric)",
        "count": "count({})",
        "median": "percentile_cont(0.5) WITHIN GROUP (ORDER BY {}::double precision)",
        "sum": "sum({}::text::numeric)",
        "size": f"sum(least(abs({{}}::double precision), {HUGE}))",
    },
}
"""What each database says; *size* is the sum of the magnitudes, see `Guards`."""
_GUARDS = ("count", "min", "max", "size")


def aggregate_item(kind: Aggregate, column: StudyColumn, dialect: Dialect) -> SelectItem:
    """The column of an answer that holds an aggregate; NULL and NaN do not count."""
    keeps = kind in ("min", "max") and column.type == "int"
    type_: Type = "int" if keeps or kind == "count" else "real"
    found = _asked(kind, column, dialect).fragment.typed(type_)
    return replace(
        _asked(kind, column, dialect),
        fragment=found,
        unit="" if kind == "count" else column.unit,
        convert=_whole if keeps else _known,
        check=_check(kind, column, dialect),
        values=SelectItem.of(column),
        compute=_COMPUTED[kind],
    )


def _asked(kind: str, column: StudyColumn, dialect: Dialect) -> SelectItem:
    """An aggregate as the database computes it, and of parts of the rows."""
    needed, merge = _PARTS.get(kind, ((), None))
    fragment = column.fragment(dialect)
    said, *parts = (sql(_WORDS[dialect][each], fragment) for each in (kind, *needed))
    return SelectItem(f"{kind}({column.name})", said, parts=tuple(parts), merge=merge)


def _check(kind: Aggregate, column: StudyColumn, dialect: Dialect) -> AggregateCheck | None:
    found = doubt_rule(kind, dialect)
    if found is None:
        return None
    guards = tuple(_asked(each, column, dialect) for each in _GUARDS)
    return AggregateCheck(SelectItem.of(column), guards, *found)


def row_count_item(title: str) -> SelectItem:
    """The column that counts the experiments of a group."""
    count = Fragment(("count(*)",), "int")
    return SelectItem(title, count, parts=(count,), merge=sum, compute=len)


def _there(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _total(sums: Sequence[Any], counts: Sequence[int]) -> float | None:
    """The sum of sums; NULL where nothing is counted, or infinities of both signs are."""
    there = [sum_ for sum_, count in zip(sums, counts, strict=True) if count]
    return aggregates.total(there) if there and None not in there else None


def _mean(sums: Sequence[Any], counts: Sequence[int]) -> float | None:
    whole = _total(sums, counts)
    return None if whole is None else whole / sum(counts)


def _deviation(spreads: Sequence[Any], sums: Sequence[Any], counts: Sequence[int]) -> float | None:
    """Of parts with their own deviations and means (Chan, Golub and LeVeque 1979)."""
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


_PARTS: dict[str, tuple[tuple[Aggregate | Literal["size"], ...], Callable[..., Any]]] = {
    "mean": (("sum", "count"), _mean),
    "min": (("min",), _least),
    "max": (("max",), _greatest),
    "std": (("std", "sum", "count"), _deviation),
    "count": (("count",), sum),
    "sum": (("sum", "count"), _total),
    "size": (("size", "count"), _total),
}
"""What is asked of each part of the rows, and how one answer is made of theirs."""


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
    return None if value is None else int(str(value))


def _known(value: Any) -> float | None:
    """What comes of infinities is NULL in one database and NaN in the other: here it is NULL."""
    return None if value is None or math.isnan(value) else value
