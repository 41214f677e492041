"""A study as tables of pandas: its experiments, and groups of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from zenturio.errors import InputError, Passage
from zenturio.expression import Expression, Type
from zenturio.query.aggregates import Aggregate, aggregate_item, count_origins, row_count_item
from zenturio.query.catalog import Catalog, SnapshotReader, StudyColumn, hint_without_values
from zenturio.query.columnar_table import CopiedTable
from zenturio.query.select_statement import (
    EMPTY_FRAGMENT,
    SelectItem,
    StudySelect,
    restore_rows,
    select_rows,
    select_rows_among,
)
from zenturio.query.sql_fragments import DIALECTS, Fragment, bound_value, sql, verbatim
from zenturio.query.study_table import StudyTable, TableQuery, condition_of, open_table
from zenturio.record import Repository
from zenturio.record.codec import next_real
from zenturio.record.columnar_copy import NotInCopyError
from zenturio.record.entities import NEWEST, RowChoice

DIGITS = 6
"""Of a digest, its first ones: they say whether an experiment is in a sample, and an index of the
database leads to those that are."""

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
    metrics: Collection[str] | None = None,
    most: int | None = None,
    outside: bool | None = None,
    rows: RowChoice = NEWEST,
    facts: Collection[str] = (),
) -> pd.DataFrame:
    """The experiments of *study* that succeeded and meet *where*: a row each, in their order.

    *columns*: only these of the parameters and metrics. *metrics*: all parameters, but only these
    metrics. *most*: if there are more experiments, a fixed sample of about so many is returned;
    ``attrs["sampled"]`` has both numbers.

    *outside*: also those whose points the present space does not hold; else ``attrs["left_out"]``
    counts them. Where nothing is said, they take part if *everything* does. *rows*: of which kind
    of machine, and of which round.

    Columns are the parameters, a seed, ``repeat`` and the metrics; *everything* adds status, cause,
    host and times, and the experiments that did not succeed; *facts* names more that every study
    has. ``attrs`` tells ``study``, ``units``
    by column, ``parameters``, ``metrics``, ``sql``, and ``of``: how many experiments there are;
    where they are of several kinds of machine or rounds, ``machines`` and ``rounds`` count those
    of each;
    with *everything* also ``facts``: which column is the status ..., for a parameter may be called
    so.
    """
    takes_all = everything if outside is None else outside
    column_names = None if columns is None else tuple(columns)
    query = TableQuery(
        study, condition_of(where), columns=column_names or (), rows=rows, succeeded=not everything,
        outside=takes_all,
    )  # fmt: skip
    with open_table(repository, query) as answers:
        catalog, statement = answers.catalog, answers.statement
        matching = answers.count() if most is not None else 0
        sampled, among = most is not None and matching > most, None
        if most is not None and sampled:
            end = f"{int(most / matching * 16**DIGITS):0{DIGITS}x}"
            among = _numbers_before(answers.reader, catalog, end)
            statement = answers.narrowed(_is_before(answers.reader, catalog, end))
        selected = _columns(catalog, everything, column_names, facts)
        if metrics is not None:
            chosen = {catalog.column(name) for name in metrics}
            selected = [c for c in selected if c.role != "metric" or c in chosen]
        heads = [SelectItem.of(column) for column in (*selected, catalog.facts["remarks"])]
        series = None
        if not everything and not sampled and (columns is not None or metrics is not None):
            series = _copied_series(answers, selected)
        if series is None:
            if among is None:
                found = select_rows(answers.reader, statement, heads, order=())
            else:
                found = select_rows_among(answers.reader, statement, heads, among)
            cells = restore_rows(selected, found)
            values = list(zip(*cells, strict=True)) if cells else [() for _ in selected]
            series = [column_series(c, v) for c, v in zip(selected, values, strict=True)]
        order = statement.space_order()
        text = statement.select(heads[:-1], order=order).plain(answers.reader.dialect)
        origins = count_origins(answers.reader, catalog, statement)
    names = [column.name for column in selected]
    table = pd.DataFrame(dict(zip(names, series, strict=True)), columns=names)
    table.attrs = {
        "study": study,
        "units": {column.name: column.unit for column in selected if column.unit},
        "parameters": [column.name for column in catalog.parameters],
        "metrics": [column.name for column in catalog.metrics],
        "of": catalog.countable,
        "noun": catalog.noun,
        "sql": text,
        "left_out": len(answers.without),
        **origins.attrs(),
    }
    if columns is not None or metrics is not None:
        for role in ("parameters", "metrics"):
            table.attrs[role] = [name for name in table.attrs[role] if name in table]
    if sampled:
        table.attrs["sampled"] = (len(table), matching)
    if everything:
        table.attrs["facts"] = {fact: column.name for fact, column in catalog.facts.items()}
    return table


def _columns(
    catalog: Catalog,
    everything: bool,
    names: Collection[str] | None = None,
    more_facts: Collection[str] = (),
) -> list[StudyColumn]:
    facts = ["repeat", *more_facts]
    if everything:
        facts += [
            "index", "round", "machine", "status", "cause", "host", "attempt", "started", "ended",
            "digest",
        ]  # fmt: skip
    inputs = [*catalog.parameters, *catalog.seeds]
    built_in = [catalog.facts[fact] for fact in facts]
    if names is None:
        return [*inputs, *built_in, *catalog.metrics]
    requested = [catalog.column(name) for name in names]
    always = built_in if everything else []
    return [
        *(column for column in inputs if column in requested), *always,
        *(column for column in requested if column.role == "fact" and column not in always),
        *(column for column in catalog.metrics if column in requested),
    ]  # fmt: skip


def _copied_series(
    answers: StudyTable, columns: Sequence[StudyColumn]
) -> list[pd.Series[Any]] | None:
    """The *columns* of all rows out of the columnar copy; None where that lacks one of them."""
    try:
        table = answers.copied()
        if table is None:
            return None
        rows = table.in_space
        return [_copied_values(table, column, rows) for column in columns]
    except NotInCopyError:
        return None


def _copied_values(
    table: CopiedTable, column: StudyColumn, rows: np.ndarray[Any, Any]
) -> pd.Series[Any]:
    """Return the values of a column, as `column_series` has them."""
    if column.type == "real":
        return pd.Series(table.reals(column)[rows])
    if column.type == "int":
        numbers, nulls = table.whole_numbers(column)
        if nulls is None:
            return pd.Series(numbers[rows])
        return pd.Series(pd.arrays.IntegerArray(numbers[rows], nulls[rows]))
    codes, values = table.cells(column)
    present = np.unique(codes)
    distinct = column_series(column, [values[code] for code in present.tolist()])
    return distinct.take(np.searchsorted(present, codes[rows])).reset_index(drop=True)


def _is_before(reader: SnapshotReader, catalog: Catalog, end: str) -> Fragment:
    """Experiments by the beginning of their digests: as good as drawn by lot, and always the same.

    *end*: digits of a digest, behind those of the experiments.
    """
    collation = DIALECTS[reader.dialect].collation
    digest = verbatim(catalog.facts["digest"].sql())
    return sql(f"{{}}{collation} < {{}}", digest, bound_value(end, "str"))


def _numbers_before(reader: SnapshotReader, catalog: Catalog, end: str) -> list[int]:
    """The numbers of these rows: an index leads to them, where the condition reads all rows."""
    literal = {"sqlite": f"x'{end}'", "postgresql": f"'\\x{end}'::bytea"}[reader.dialect]
    # With a plus SQLite does not take the index of versions, which leads to all rows.
    before = f"WHERE +version = {catalog.version} AND digest < {literal}"
    rows = reader.fetch(f"SELECT id FROM results {before}")  # noqa: S608 - a number and digits
    return [number for (number,) in rows]


def column_series(column: StudyColumn, values: Sequence[Any]) -> pd.Series[Any]:
    """Return the values in the narrowest type that holds them all, NULL included."""
    if column.type is None:
        return pd.Series(list(values), dtype=object)
    plain, nullable = _DTYPES[column.type]
    missing = any(value is None for value in values)
    if column.type == "int" and any(isinstance(value, float) for value in values):
        # Integers, but for a NaN or an infinity that the program printed.
        plain, nullable = _DTYPES["real"]
    try:
        return pd.Series(list(values), dtype=nullable if missing else plain)
    except OverflowError:
        return pd.Series(list(values), dtype=object)


def as_reals(column: pd.Series[Any]) -> np.ndarray:
    """Return *column* as real numbers, NaN for NULL; integers beyond all reals are infinite."""
    try:
        values: np.ndarray = column.to_numpy(dtype=float, na_value=np.nan)
    except OverflowError:
        reals = [np.nan if value is None else next_real(value) for value in column]
        values = np.array(reals, dtype=float)
    return values


GREATEST_REAL = "1.7976931348623157e308"
"""Of finite numbers: an infinite one has no place on an axis."""
MOST_GROUPS = 20_000
"""Groups that are drawn at most."""
FIRST_INDEX = "min(index)"
"""What texts are ordered by; numbers need no such thing."""

Spread = Literal["no", "yes", "of repeats"]
"""Whether a frame of groups says how far their values are apart; of repeats: only where no
parameter varies inside of groups."""


def _spread_of(kind: Aggregate) -> Mapping[str, Aggregate]:
    """Return the columns that say how far values are apart, and their aggregates."""
    if kind == "median":
        return {"low": "median_low", "high": "median_high"}
    return {"deviation": "std", "least": "min", "greatest": "max"}


@dataclass(frozen=True, slots=True)
class Grouping:
    """How the rows of a frame were grouped, in its ``attrs["grouped"]``."""

    value: str
    """The column with the aggregate."""
    rows: str
    """The column that counts the experiments of each group."""
    hidden: tuple[str, ...]
    """Parameters that vary inside of groups."""
    spread: Mapping[str, str]
    """Columns that say how far the values are apart: of a median ``low`` and ``high``, the ends of
    its 95% interval, else ``deviation``, ``least`` and ``greatest``; empty, if nobody asked."""


def group_frame(
    repository: Repository,
    study: str,
    by: Sequence[str],
    metric: str,
    kind: Aggregate = "mean",
    *,
    where: str | Passage | Expression | None = None,
    finite: Collection[str] = (),
    spread: Spread = "no",
    outside: bool = False,
    rows: RowChoice = NEWEST,
) -> pd.DataFrame:
    """The aggregate of *metric* over the experiments that succeeded, for each combination of *by*.

    What counts are rows in which *metric*, and all of *finite* that are numbers, have a finite
    value; with *outside* also experiments whose points the present space does not hold, and of
    results those of *rows*. Texts come
    in the order of their first experiments. ``attrs`` are those of `frame`, ``select_groups`` (a
    `Grouping`) and ``sql``, what was asked.
    """
    query = TableQuery(
        study, condition_of(where), rows=rows, by=tuple(by), metrics=(metric, *finite),
        succeeded=True, outside=outside,
    )  # fmt: skip
    with open_table(repository, query) as answers:
        reader, catalog = answers.reader, answers.catalog
        keys = [catalog.column(name) for name in dict.fromkeys(by)]
        column = catalog.column(metric)
        _check(column, kind, study)
        needed = [column, *map(catalog.column, finite)]
        facts = any(column.role == "fact" for column in needed)
        statement = answers.narrowed(_counted(reader, needed), facts=facts)
        ungrouped = [parameter for parameter in catalog.parameters if parameter not in keys]
        hidden = _varying(answers, ungrouped, statement, needed)
        has_spread = spread == "yes" or (spread == "of repeats" and not hidden)
        spreads = _spread_of(kind) if has_spread else {}
        heads = _heads(reader, catalog, keys, column, kind, spreads)
        group_rows = answers.groups(
            heads, len(keys), statement=statement, finite=needed, most=MOST_GROUPS
        )
        text = statement.select(heads, group=len(keys)).plain(reader.dialect)
        origins = count_origins(reader, catalog, statement, keys)
        drawn = sum(row[len(keys) + 1] for row in group_rows)
        is_all = not finite or drawn == answers.count()
        without = 0 if is_all else _measured_count(answers, column) - drawn
    if len(group_rows) > MOST_GROUPS:
        raise InputError(
            f"{' and '.join(by)} have more than {MOST_GROUPS:,} combinations",
            hint="draw the experiments themselves (scatter), or choose some by a condition",
        )
    if heads[-1].name == FIRST_INDEX:  # of equal ones the order of the keys stays
        group_rows.sort(key=lambda row: (len(str(row[-1])), str(row[-1])))
    table = _table(keys, metric, group_rows, spreads)
    table.attrs = {
        "study": study,
        "units": {column.name: column.unit for column in catalog.columns.values() if column.unit},
        "parameters": [column.name for column in catalog.parameters],
        "metrics": [column.name for column in catalog.metrics],
        "of": catalog.countable,
        "noun": catalog.noun,
        "sql": text,
        "left_out": len(answers.without),
        "without": without,
        **origins.attrs(),
        "grouped": _grouping(list(table.columns), len(keys), hidden, spreads),
    }
    return table


def varying_parameters(
    repository: Repository,
    study: str,
    where: Expression | None = None,
    *,
    outside: bool = False,
    rows: RowChoice = NEWEST,
) -> list[str]:
    """Return the parameters that have several values among the experiments that succeeded."""
    query = TableQuery(study, where, rows=rows, succeeded=True, outside=outside)
    with open_table(repository, query) as answers:
        return list(_varying(answers, answers.catalog.parameters, answers.statement))


def _check(column: StudyColumn, kind: Aggregate, study: str) -> None:
    if not column.forms and column.role == "metric":
        hint = f"check the condition, and the failures of the study; {hint_without_values(study)}"
        raise InputError(
            f"nothing to draw: no row has a number for {column.name!r}",
            hint=hint,
        )
    if not column.number and kind != "count":
        raise InputError(f"{column.name!r} holds text; what is drawn must be numbers")


def _counted(reader: SnapshotReader, columns: Sequence[StudyColumn]) -> Fragment:
    """Return the condition that rows have a number wherever a place on an axis needs one."""
    condition = EMPTY_FRAGMENT
    for column in dict.fromkeys(columns):
        value = column.fragment(reader.dialect)
        is_int = column.type == "int" and not column.wide
        has_limit = column.number and not is_int
        test = f"abs({{}}) <= {GREATEST_REAL}" if has_limit else "{} IS NOT NULL"
        numeric = sql(test, value)
        condition = sql("{} AND {}", condition, numeric) if condition.parts else numeric
    return condition


def _measured_count(answers: StudyTable, metric: StudyColumn) -> int:
    """How many rows have a number of *metric*."""
    with suppress(NotInCopyError):
        if table := answers.copied([metric]):
            return table.count
    condition = _counted(answers.reader, [metric])
    count = answers.narrowed(condition, facts=metric.role == "fact").count()
    return int(answers.reader.rows(count)[0][0])


def _heads(
    reader: SnapshotReader,
    catalog: Catalog,
    keys: Sequence[StudyColumn],
    metric: StudyColumn,
    kind: Aggregate,
    spreads: Mapping[str, Aggregate],
) -> list[SelectItem]:
    """Keys, the aggregate, how many rows, their spread, and where they begin."""
    count = row_count_item("count(*)")
    value = count if kind == "count" else aggregate_item(kind, metric, reader.dialect)
    heads = [*(SelectItem.key(key, reader.dialect) for key in keys), value, count]
    heads += [aggregate_item(kind, metric, reader.dialect) for kind in spreads.values()]
    if not all(key.number and not key.wide for key in keys):
        index = sql("min({})", verbatim(catalog.facts["index"].sql()))
        heads.append(
            SelectItem(
                FIRST_INDEX,
                index,
                fact=True,
                parts=(index,),
                merge=_earliest,
                column=catalog.facts["index"],
                aggregate="first",
            )
        )
    return heads


def _earliest(indices: Sequence[Any]) -> Any:
    """Return the least of indices, some of which are too large to be more than texts."""
    return min(indices, key=lambda index: (len(str(index)), str(index)))


def _varying(
    answers: StudyTable,
    columns: Iterable[StudyColumn],
    statement: StudySelect,
    finite: Sequence[StudyColumn] = (),
) -> tuple[str, ...]:
    """Return those of *columns* that have several values among the rows of *statement*."""
    columns = list(columns)
    with suppress(NotInCopyError):
        if table := answers.copied(finite):
            return tuple(column.name for column in columns if table.varies(column))
    return tuple(c.name for c in columns if _varies(answers.reader, statement, c))


def _varies(reader: SnapshotReader, statement: StudySelect, column: StudyColumn) -> bool:
    """Return whether some row differs from the first: the database stops at that one."""
    # <> would be NULL beside a NULL, and a parameter that is inactive somewhere varies, too.
    differs = {"sqlite": "IS NOT", "postgresql": "IS DISTINCT FROM"}[reader.dialect]
    head = SelectItem.key(column, reader.dialect)
    values = statement.select([replace(head, name="value")])
    first = sql("{} LIMIT 1", values)
    differing = sql(f"SELECT 1 FROM ({{}}) AS t WHERE value {differs} ({{}})", values, first)  # noqa: S608 - no value is in it
    ((varies,),) = reader.rows(sql("SELECT EXISTS ({})", differing))
    return bool(varies)


def _table(
    keys: Sequence[StudyColumn],
    metric: str,
    rows: Sequence[tuple[Any, ...]],
    spreads: Collection[str],
) -> pd.DataFrame:
    """Keys as a frame of experiments has them; the rest as plain numbers."""
    names = (metric, "rows", *spreads)
    width = len(keys) + len(names)
    columns = list(zip(*rows, strict=True)) if rows else [()] * width
    table: dict[str, Any] = {
        key.name: column_series(key, [key.value(value) for value in values])
        for key, values in zip(keys, columns, strict=False)
    }
    for name, values in zip(names, columns[len(keys) : width], strict=True):
        numbers = np.array(values, dtype=float)
        table[_unused(name, table)] = numbers.astype(np.int64) if name == "rows" else numbers
    return pd.DataFrame(table)


def _unused(name: str, used: Collection[str]) -> str:
    while name in used:
        name += "_"
    return name


def _grouping(
    names: Sequence[str], keys: int, hidden: tuple[str, ...], spreads: Collection[str]
) -> Grouping:
    value, rows, *columns = names[keys:]
    return Grouping(value, rows, hidden, dict(zip(spreads, columns, strict=True)))
