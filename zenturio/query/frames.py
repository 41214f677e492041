"""A study as a table of pandas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from zenturio.errors import Passage
from zenturio.expression import Expression, Type, parse
from zenturio.query.catalog import Catalog, StudyColumn, read_catalog
from zenturio.query.dialects import DIALECTS
from zenturio.query.fragments import Fragment, bound_value, sql, verbatim
from zenturio.query.origins import count_origins
from zenturio.query.present import digests_outside
from zenturio.query.reading import SnapshotReader, open_snapshot
from zenturio.query.statement import SelectItem, StudySelect, restore_rows
from zenturio.query.wide import select_rows
from zenturio.record import Repository
from zenturio.record.row_filter import NEWEST, RowChoice

DIGITS = 6
"""Of a digest, its last ones: they say whether an experiment is in a sample."""

_DTYPES: dict[Type, tuple[str, str]] = {
    "int": ("int64", "Int64"),
    "real": ("float64", "float64"),
    "bool": ("bool", "boolean"),
    "str": ("string", "string"),
}
"""By type: without NULL, and with it."""


def study_frame(
    repository: Repository,
    study: str,
    *,
    where: str | Passage | Expression | None = None,
    everything: bool = False,
    columns: Collection[str] | None = None,
    most: int | None = None,
    outside: bool | None = None,
    rows: RowChoice = NEWEST,
) -> pd.DataFrame:
    """The experiments of *study* that succeeded and meet *where*: a row each, in their order.

    *columns*: only these of the parameters and metrics. *most*: of more experiments a sample of
    about so many, always the same; ``attrs["sampled"]`` says how many of how many they are.

    *outside*: also those whose points the present space does not hold; else ``attrs["left_out"]``
    counts them. Where nothing is said, they take part if *everything* does. *rows*: of which kind
    of machine, and of which round.

    Columns are the parameters, a seed, ``repeat`` and the metrics; *everything* adds status, cause,
    host and times, and the experiments that did not succeed. ``attrs`` tells ``study``, ``units``
    by column, ``parameters``, ``metrics``, ``sql``, and ``of``: how many experiments there are;
    where they are of several kinds of machine or rounds, ``machines`` and ``rounds`` count those
    of each;
    with *everything* also ``facts``: which column is the status ..., for a parameter may be called
    so.
    """
    condition = parse(where) if isinstance(where, str | Passage) else where
    takes_all = everything if outside is None else outside
    without = frozenset() if takes_all else digests_outside(repository, study)
    with open_snapshot(repository) as reader:
        names = {*(condition.names if condition else ()), *(columns or ())}
        known = read_catalog(reader, study, rows, names)
        statement = StudySelect(
            reader.dialect, known, condition, every_status=everything, without=without
        )
        found = _found(reader, statement) if most is not None else 0
        sampled = most is not None and found > most
        if most is not None and sampled:
            also = _share(reader, known, most / found)
            statement = StudySelect(
                reader.dialect, known, condition, every_status=everything, also=also,
                without=without,
            )  # fmt: skip
        shown = _columns(known, everything, columns)
        heads = [SelectItem.of(column) for column in (*shown, known.facts["remarks"])]
        order = statement.space_order()
        cells = restore_rows(shown, select_rows(reader, statement, heads, order=order))
        text = statement.select(heads[:-1], order=order).plain(reader.dialect)
        origins = count_origins(reader, known, statement)
    values = list(zip(*cells, strict=True)) if cells else [() for _ in shown]
    table = pd.DataFrame(
        {
            column.name: column_series(column, each)
            for column, each in zip(shown, values, strict=True)
        },
        columns=[column.name for column in shown],
    )
    table.attrs = {
        "study": study,
        "units": {column.name: column.unit for column in shown if column.unit},
        "parameters": [column.name for column in known.parameters],
        "metrics": [column.name for column in known.metrics],
        "of": known.total,
        "noun": known.noun,
        "sql": text,
        "left_out": len(without),
        **origins.attrs(),
    }
    if columns is not None:
        for role in ("parameters", "metrics"):
            table.attrs[role] = [name for name in table.attrs[role] if name in table]
    if sampled:
        table.attrs["sampled"] = (len(table), found)
    if everything:
        table.attrs["facts"] = {fact: column.name for fact, column in known.facts.items()}
    return table


def _columns(
    known: Catalog, everything: bool, wanted: Collection[str] | None = None
) -> list[StudyColumn]:
    facts = ["repeat"]
    if everything:
        facts += [
            "index", "round", "machine", "status", "cause", "host", "attempt", "started", "ended",
            "digest",
        ]  # fmt: skip
    own = [*known.parameters, *known.seeds]
    built_in = [known.facts[fact] for fact in facts]
    if wanted is None:
        return [*own, *built_in, *known.metrics]
    named = [known.column(each) for each in wanted]
    kept = built_in if everything else []
    return [
        *(each for each in own if each in named), *kept,
        *(each for each in named if each.role == "fact" and each not in kept),
        *(each for each in known.metrics if each in named),
    ]  # fmt: skip


def _found(reader: SnapshotReader, statement: StudySelect) -> int:
    ((found,),) = reader.rows(statement.count())
    return int(found)


def _share(reader: SnapshotReader, known: Catalog, share: float) -> Fragment:
    """Experiments by the end of their digests: as good as drawn by lot, and the same each time."""
    collation = DIALECTS[reader.dialect].collation
    digest = verbatim(known.facts["digest"].sql())
    end = bound_value(f"{int(share * 16**DIGITS):0{DIGITS}x}", "str")
    return sql(f"substr({{}}, {33 - DIGITS}){collation} < {{}}", digest, end)


def column_series(column: StudyColumn, values: Sequence[Any]) -> pd.Series[Any]:
    """The values in the narrowest type that holds them all, NULL included."""
    if column.type is None:
        return pd.Series(list(values), dtype=object)
    plain, nullable = _DTYPES[column.type]
    missing = any(value is None for value in values)
    try:
        return pd.Series(list(values), dtype=nullable if missing else plain)
    except OverflowError:
        return pd.Series(list(values), dtype=object)
