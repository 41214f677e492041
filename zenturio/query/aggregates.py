"""What can be said of many values of a metric at once."""

from __future__ import annotations

import math
from typing import Literal, get_args

from zenturio.query.catalog import Column
from zenturio.query.fragments import Dialect, sql
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
    return Head(
        f"{kind}({column.name})",
        found.typed("int" if keeps or kind == "count" else "real"),
        unit="" if kind == "count" else column.unit,
        convert=_whole if keeps else _known,
    )


def _whole(value: object) -> object:
    """PostgreSQL answers with decimals, where it computed with them."""
    return None if value is None else int(str(value))


def _known(value: object) -> object:
    """What comes of infinities is NULL in one database and NaN in the other: here it is NULL."""
    return None if isinstance(value, float) and math.isnan(value) else value
