"""What can be said of many values of a metric at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

from zenturio.query.catalog import Column
from zenturio.query.fragments import Dialect, Fragment, sql
from zenturio.query.statement import Head

Aggregate = Literal["mean", "min", "max", "std", "count", "median", "sum"]
AGGREGATES: tuple[Aggregate, ...] = get_args(Aggregate)

_WORDS: dict[Dialect, dict[Aggregate, str]] = {
    "sqlite": {
        "mean": "avg({})",
        "min": "min({})",
        "max": "max({})",
        "std": "stddev_samp({})",
        "count": "count({})",
        "median": "median({})",
        "sum": "sum(CAST({} AS REAL))",
    },
    "postgresql": {
        "mean": "avg({}::double precision)",
        "min": "min({})",
        "max": "max({})",
        "std": "stddev_samp({}::double precision)",
        "count": "count({})",
        "median": "percentile_cont(0.5) WITHIN GROUP (ORDER BY {}::double precision)",
        "sum": "sum({}::double precision)",
    },
}


def aggregate(kind: Aggregate, column: Column, dialect: Dialect) -> Head:
    """The column of an answer that holds an aggregate; NULL and NaN do not count."""
    found = sql(_WORDS[dialect][kind], column.fragment(dialect))
    keeps = kind in ("min", "max") and column.type == "int"
    needed, merge = _PARTS.get(kind, ((), None))
    words = [_WORDS[dialect][each] for each in needed]
    return Head(
        f"{kind}({column.name})",
        found.typed("int" if keeps or kind == "count" else "real"),
        unit="" if kind == "count" else column.unit,
        convert=_whole if keeps else _known,
        parts=tuple(sql(each, column.fragment(dialect)) for each in words),
        merge=merge,
    )


def rows_counted(title: str) -> Head:
    """The column that counts the experiments of a group."""
    count = Fragment(("count(*)",), "int")
    return Head(title, count, parts=(count,), merge=sum)


def _there(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _total(sums: Sequence[Any], counts: Sequence[int]) -> float | None:
    """The sum of sums; NULL where nothing is counted, or infinities of both signs are."""
    there = [sum_ for sum_, count in zip(sums, counts, strict=True) if count]
    if not there or None in there:
        return None
    try:
        return math.fsum(there)
    except (OverflowError, ValueError):  # of infinities, or of what adds up to one
        return float(sum(there))


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
    return math.sqrt(math.fsum(inside) / (count - 1))


def _least(values: Iterable[Any]) -> Any:
    return min(_there(values), default=None)


def _greatest(values: Iterable[Any]) -> Any:
    return max(_there(values), default=None)


_PARTS: dict[Aggregate, tuple[tuple[Aggregate, ...], Callable[..., Any]]] = {
    "mean": (("sum", "count"), _mean),
    "min": (("min",), _least),
    "max": (("max",), _greatest),
    "std": (("std", "sum", "count"), _deviation),
    "count": (("count",), sum),
    "sum": (("sum", "count"), _total),
}
"""What is asked of each part of the rows, and how one answer is made of theirs."""


def _whole(value: object) -> object:
    """PostgreSQL answers with decimals, where it computed with them."""
    return None if value is None else int(str(value))


def _known(value: object) -> object:
    """What comes of infinities is NULL in one database and NaN in the other: here it is NULL."""
    return None if isinstance(value, float) and math.isnan(value) else value
