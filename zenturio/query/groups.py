"""Groups of experiments as a chart needs them, counted and aggregated by the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from zenturio.errors import InputError, Passage
from zenturio.expression import Expression, parse
from zenturio.query.aggregates import Aggregate, aggregate_item, row_count_item
from zenturio.query.catalog import Catalog, StudyColumn, read_catalog
from zenturio.query.fragments import Fragment, sql, verbatim
from zenturio.query.frames import column_series
from zenturio.query.origins import count_origins
from zenturio.query.parted import select_groups
from zenturio.query.present import digests_outside
from zenturio.query.reading import SnapshotReader, open_snapshot
from zenturio.query.statement import EMPTY_FRAGMENT, SelectItem, StudySelect
from zenturio.record import Repository
from zenturio.record.row_filter import NEWEST, RowChoice

GREATEST_REAL = "1.7976931348623157e308"
"""Of finite numbers: what is beyond it has no place on an axis."""
MOST_GROUPS = 20_000
"""Groups that are drawn at most."""
FIRST_INDEX = "min(index)"
"""What texts are ordered by; numbers need no such thing."""

Deviation = Literal["no", "yes", "of repeats"]
"""Whether deviations are asked for; of repeats: only where no parameter varies inside of groups."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """What stands beside the groups of a frame, in its ``attrs["grouped"]``."""

    value: str
    """The column with the aggregate."""
    rows: str
    """The column that counts the experiments of each group."""
    deviation: str
    """The column with the sample's standard deviation; empty, if nobody asked."""
    hidden: tuple[str, ...]
    """Parameters that vary inside of groups."""


def group_frame(
    repository: Repository,
    study: str,
    by: Sequence[str],
    metric: str,
    kind: Aggregate = "mean",
    *,
    where: str | Passage | Expression | None = None,
    finite: Collection[str] = (),
    deviation: Deviation = "no",
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
    condition = parse(where) if isinstance(where, str | Passage) else where
    without = frozenset() if outside else digests_outside(repository, study)
    with open_snapshot(repository) as reader:
        names = {*by, metric, *finite, *(condition.names if condition else ())}
        known = read_catalog(reader, study, rows, names)
        keys = [known.column(each) for each in dict.fromkeys(by)]
        column = known.column(metric)
        _check(column, kind)
        needed = [column, *map(known.column, finite)]
        facts = any(each.role == "fact" for each in needed)
        also = _counted(reader, needed)
        statement = StudySelect(
            reader.dialect, known, condition, also=also, facts=facts, without=without
        )
        others = [each for each in known.parameters if each not in keys]
        hidden = tuple(each.name for each in others if _varies(reader, statement, each))
        spread = deviation == "yes" or (deviation == "of repeats" and not hidden)
        heads = _heads(reader, known, keys, column, kind, deviation=spread)
        found = select_groups(reader, statement, heads, len(keys), most=MOST_GROUPS)
        text = statement.select(heads, group=len(keys)).plain(reader.dialect)
        origins = count_origins(reader, known, statement, keys)
    if len(found) > MOST_GROUPS:
        raise InputError(
            f"{' and '.join(by)} have more than {MOST_GROUPS:,} combinations",
            hint="draw the experiments themselves (scatter), or choose some by a condition",
        )
    if heads[-1].name == FIRST_INDEX:  # of equal ones the order of the keys stays
        found.sort(key=lambda row: (len(str(row[-1])), str(row[-1])))
    table = _table(keys, metric, found, deviation=spread)
    table.attrs = {
        "study": study,
        "units": {each.name: each.unit for each in known.columns.values() if each.unit},
        "parameters": [each.name for each in known.parameters],
        "metrics": [each.name for each in known.metrics],
        "of": known.total,
        "noun": known.noun,
        "sql": text,
        "left_out": len(without),
        **origins.attrs(),
        "grouped": _grouping(list(table.columns), len(keys), hidden, deviation=spread),
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
    """The parameters that have several values among the experiments that succeeded."""
    without = frozenset() if outside else digests_outside(repository, study)
    with open_snapshot(repository) as reader:
        known = read_catalog(reader, study, rows, where.names if where else ())
        statement = StudySelect(reader.dialect, known, where, without=without)
        return [c.name for c in known.parameters if _varies(reader, statement, c)]


def _check(column: StudyColumn, kind: Aggregate) -> None:
    if not column.number and kind != "count":
        raise InputError(f"{column.name!r} holds text; what is drawn must be numbers")


def _counted(reader: SnapshotReader, columns: Sequence[StudyColumn]) -> Fragment:
    """The condition that rows have a number wherever a place on an axis needs one."""
    found = EMPTY_FRAGMENT
    for column in dict.fromkeys(columns):
        value = column.fragment(reader.dialect)
        whole = column.type == "int" and not column.wide
        test = f"abs({{}}) <= {GREATEST_REAL}" if column.number and not whole else "{} IS NOT NULL"
        each = sql(test, value)
        found = sql("{} AND {}", found, each) if found.parts else each
    return found


def _heads(
    reader: SnapshotReader,
    known: Catalog,
    keys: Sequence[StudyColumn],
    metric: StudyColumn,
    kind: Aggregate,
    *,
    deviation: bool,
) -> list[SelectItem]:
    """Keys, the aggregate, how many rows, how far apart they are, and where they begin."""
    count = row_count_item("count(*)")
    value = count if kind == "count" else aggregate_item(kind, metric, reader.dialect)
    heads = [*(SelectItem.key(key, reader.dialect) for key in keys), value, count]
    if deviation:
        heads.append(aggregate_item("std", metric, reader.dialect))
    if not all(key.number and not key.wide for key in keys):
        index = sql("min({})", verbatim(known.facts["index"].sql()))
        heads.append(SelectItem(FIRST_INDEX, index, fact=True, parts=(index,), merge=_earliest))
    return heads


def _earliest(indices: Sequence[Any]) -> Any:
    """The least of indices, some of which are too large to be more than texts."""
    return min(indices, key=lambda index: (len(str(index)), str(index)))


def _varies(reader: SnapshotReader, statement: StudySelect, column: StudyColumn) -> bool:
    """Whether some row differs from the first: the database stops at that one."""
    differs = {"sqlite": "IS NOT", "postgresql": "IS DISTINCT FROM"}[reader.dialect]
    head = SelectItem.key(column, reader.dialect)
    values = statement.select([replace(head, name="value")])
    first = sql("{} LIMIT 1", values)
    other = sql(f"SELECT 1 FROM ({{}}) AS t WHERE value {differs} ({{}})", values, first)  # noqa: S608 - no value is in it
    ((found,),) = reader.rows(sql("SELECT EXISTS ({})", other))
    return bool(found)


def _table(
    keys: Sequence[StudyColumn], metric: str, rows: Sequence[tuple[Any, ...]], *, deviation: bool
) -> pd.DataFrame:
    """Keys as a frame of experiments has them; the rest as plain numbers."""
    width = len(keys) + 2 + deviation
    columns = list(zip(*rows, strict=True)) if rows else [()] * width
    table: dict[str, Any] = {
        key.name: column_series(key, [key.value(value) for value in values])
        for key, values in zip(keys, columns, strict=False)
    }
    for name, values in zip(
        (metric, "rows", "deviation"), columns[len(keys) : width], strict=False
    ):
        found = np.array(values, dtype=float)
        table[_unused(name, table)] = found.astype(np.int64) if name == "rows" else found
    return pd.DataFrame(table)


def _unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _grouping(
    names: Sequence[str], keys: int, hidden: tuple[str, ...], *, deviation: bool
) -> Grouping:
    return Grouping(names[keys], names[keys + 1], names[keys + 2] if deviation else "", hidden)
