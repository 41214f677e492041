"""A study as a table of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from zenturio.errors import Passage
from zenturio.expression import Expression, Type, parse
from zenturio.query.catalog import Catalog, Column, catalog
from zenturio.query.reading import reading
from zenturio.query.statement import Head, Statement, restored
from zenturio.record import Repository

_DTYPES: dict[Type, tuple[str, str]] = {
    "int": ("int64", "Int64"),
    "real": ("float64", "float64"),
    "bool": ("bool", "boolean"),
    "str": ("string", "string"),
}
"""By type: without NULL, and with it."""


def frame(
    repository: Repository,
    study: str,
    *,
    where: str | Passage | Expression | None = None,
    everything: bool = False,
) -> pd.DataFrame:
    """The experiments of *study* that succeeded and meet *where*: a row each, in their order.

    Columns are the parameters, a seed, ``repeat`` and the metrics; *everything* adds status, cause,
    host and times, and the experiments that did not succeed. ``attrs`` tells ``study``, ``units``
    by column, ``parameters``, ``metrics``, and ``of``: how many experiments there are; with
    *everything* also ``facts``: which column is the status ..., for a parameter may be called so.
    """
    condition = parse(where) if isinstance(where, str | Passage) else where
    with reading(repository) as reader:
        known = catalog(reader, study)
        statement = Statement(reader.dialect, known, condition, every_status=everything)
        columns = _columns(known, everything)
        heads = [Head.of(column) for column in (*columns, known.facts["remarks"])]
        order = [(Head.of(known.facts[fact]), False) for fact in ("index", "repeat")]
        rows = restored(columns, reader.rows(statement.select(heads, order=order)))
    values = list(zip(*rows, strict=True)) if rows else [() for _ in columns]
    table = pd.DataFrame(
        {c.name: _series(c, cells) for c, cells in zip(columns, values, strict=True)},
        columns=[column.name for column in columns],
    )
    table.attrs = {
        "study": study,
        "units": {column.name: column.unit for column in columns if column.unit},
        "parameters": [column.name for column in known.parameters],
        "metrics": [column.name for column in known.metrics],
        "of": known.total,
    }
    if everything:
        table.attrs["facts"] = {fact: column.name for fact, column in known.facts.items()}
    return table


def _columns(known: Catalog, everything: bool) -> list[Column]:
    facts = ["repeat"]
    if everything:
        facts += ["index", "status", "cause", "host", "attempt", "started", "ended", "digest"]
    return [*known.parameters, *known.seeds, *(known.facts[fact] for fact in facts), *known.metrics]


def _series(column: Column, values: Sequence[Any]) -> pd.Series[Any]:
    """The values in the narrowest type that holds them all, NULL included."""
    if column.type is None:
        return pd.Series(list(values), dtype=object)
    plain, nullable = _DTYPES[column.type]
    missing = any(value is None for value in values)
    try:
        return pd.Series(list(values), dtype=nullable if missing else plain)
    except OverflowError:
        return pd.Series(list(values), dtype=object)
