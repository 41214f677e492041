"""Results of a study: chosen, grouped and sorted by the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zenturio.errors import InputError, Passage, did_you_mean, unknown_name
from zenturio.expression import Expression, parse
from zenturio.query.aggregates import (
    AGGREGATES,
    Aggregate,
    aggregate_item,
    count_origins,
    row_count_item,
    select_groups,
)
from zenturio.query.catalog import (
    Catalog,
    SnapshotReader,
    StudyColumn,
    connections_of,
    open_snapshot,
    read_catalog,
)
from zenturio.query.columns import choose_columns, compute_rows, study_columns
from zenturio.query.present import digests_outside, left_out_notes
from zenturio.query.result_table import ResultTable
from zenturio.query.select_statement import (
    SelectItem,
    StudySelect,
    restore_rows,
    select_rows,
    with_limit,
)
from zenturio.query.sql_fragments import sql
from zenturio.record import Repository
from zenturio.record.row_filter import RowChoice, read_round

ROW_COUNT = "count(*)"
"""The column that counts the experiments of a group."""


@dataclass(frozen=True, slots=True)
class ResultsQuery:
    """What is asked of a study."""

    study: str
    where: Expression | None = None
    by: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    metrics: tuple[str, ...] = ()
    """Which metrics are shown; all, if none are named."""
    sort: tuple[str, ...] = ()
    """Columns; with ``-`` before it, the greatest first."""
    limit: int | None = None
    without: frozenset[str] = frozenset()
    """Digests of experiments that are left out."""
    columns: tuple[str, ...] = ()
    """What is shown of each experiment; all parameters and metrics, if none are named."""

    @property
    def names(self) -> frozenset[str]:
        """The columns that are asked for."""
        sorts = (column.removeprefix("-") for column in self.sort)
        return frozenset(
            (
                *(self.where.names if self.where else ()),
                *self.by,
                *sorts,
                *self.metrics,
                *self.columns,
            )
        )


def results(
    repository: Repository,
    study: str,
    *,
    where: str | Passage | Expression | None = None,
    by: Sequence[str] = (),
    aggregates: Sequence[str] = (),
    metrics: Sequence[str] = (),
    columns: Sequence[str] = (),
    sort: Sequence[str] = (),
    limit: int | None = None,
    outside: bool = False,
    machine: str = "",
    round: int | str = "",  # noqa: A002 - as the column is called
) -> ResultTable:
    """Return the experiments of *study* that succeeded and meet the condition *where*.

    With *by* they are grouped, and each metric is aggregated (``mean``, if nothing is named);
    with *aggregates* alone over repeats, that is, by all parameters. NULL and NaN are left out of
    aggregates, and counted in the notes.

    *columns* are shown in their order: parameters, metrics, facts such as ``status``, and columns
    of plug-ins (see `result_columns`). A condition on ``status`` looks at failures too.
    Experiments whose points the present space does not hold take part only with *outside*.

    *machine*: only what that kind of machine measured, by its label or a part of it. *round*: a
    number or ``all``; the newest of each experiment, if none is named, unless a column asked for
    is the round.
    """
    for name in aggregates:
        if name not in AGGREGATES:
            raise unknown_name("aggregate", name, AGGREGATES)
    if limit is not None and limit < 0:
        raise InputError(f"the limit is {limit} rows", hint="0 or more")
    if columns and (by or aggregates or metrics):
        raise InputError(
            "columns are chosen of single experiments, not of groups or of metrics alone",
            hint="leave out the columns, or what groups and the metrics",
        )
    chosen = parse(where) if isinstance(where, str | Passage) else where
    named: tuple[Any, ...] = tuple(aggregates)
    connections_of(repository)
    without = frozenset() if outside else digests_outside(repository, study)
    query = ResultsQuery(
        study,
        chosen,
        by=tuple(by),
        aggregates=named,
        metrics=tuple(metrics),
        sort=tuple(sort),
        limit=limit,
        without=without,
        columns=tuple(columns),
    )
    with open_snapshot(repository) as reader:
        catalog = read_catalog(
            reader, study, RowChoice(machine, read_round(str(round))), query.names
        )
        if by or aggregates:
            return _grouped(reader, catalog, query)
        return _listed(reader, catalog, query)


def _listed(reader: SnapshotReader, catalog: Catalog, query: ResultsQuery) -> ResultTable:
    """Every experiment by itself, in the order of the space."""
    repeats = [catalog.facts["repeat"]] if _repeated(reader, catalog) else []
    statement = StudySelect(reader.dialect, catalog, query.where, without=query.without)
    origins = count_origins(reader, catalog, statement)
    apart = [catalog.facts[fact] for fact in origins.columns]
    metrics = [column for column in _metrics(catalog, query) if column not in apart]
    columns = (
        choose_columns(catalog, query.columns)
        if query.columns
        else [*catalog.parameters, *catalog.seeds, *repeats, *apart, *metrics]
    )
    selected = study_columns(columns)
    order = _order(catalog, query, statement)
    heads = [SelectItem.of(column) for column in selected]
    shown = with_limit(statement.select(heads, order=order), query.limit)
    items = [*heads, SelectItem.of(catalog.facts["remarks"])]
    found_rows = select_rows(reader, statement, items, order=order, limit=query.limit)
    recorded = restore_rows(selected, found_rows)
    rows = compute_rows(columns, selected, recorded)
    count = len(rows) if query.limit is None else _count(reader, statement)
    return ResultTable(
        columns=tuple(column.name for column in columns),
        rows=tuple(rows),
        units={column.name: column.unit for column in columns if column.unit},
        found=count,
        experiments=count,
        total=catalog.total,
        noun=catalog.noun,
        notes=(
            *left_out_notes(len(query.without)),
            *origins.notes,
            *_gaps(selected, recorded),
        ),
        sql=shown.plain(reader.dialect),
    )


def _grouped(reader: SnapshotReader, catalog: Catalog, query: ResultsQuery) -> ResultTable:
    """Groups of experiments, with an aggregate of each metric."""
    keys = [catalog.column(name) for name in query.by] or list(catalog.parameters)
    metrics = [c for c in _metrics(catalog, query, numbers=True) if c not in keys]
    aggregates = query.aggregates or ("mean",)
    heads = [SelectItem.key(key, reader.dialect) for key in keys]
    heads.append(row_count_item(ROW_COUNT))
    heads += [aggregate_item(kind, c, reader.dialect) for c in metrics for kind in aggregates]
    counts = [aggregate_item("count", column, reader.dialect) for column in metrics]
    statement = StudySelect(reader.dialect, catalog, query.where, without=query.without)
    order = _group_order(query, keys, heads, metrics)
    shown = with_limit(statement.select(heads, group=len(keys), order=order), query.limit)
    everything = select_groups(reader, statement, [*heads, *counts], len(keys), order=order)
    rows = [
        tuple(head.convert(value) for head, value in zip(heads, row, strict=False))
        for row in everything[: query.limit]
    ]
    experiments = sum(row[len(keys)] for row in everything)
    measured = [sum(row[len(heads) + i] for row in everything) for i in range(len(metrics))]
    return ResultTable(
        columns=tuple(head.name for head in heads),
        rows=tuple(rows),
        units={head.name: head.unit for head in heads if head.unit},
        found=len(everything),
        experiments=experiments,
        total=catalog.total,
        noun=catalog.noun,
        notes=(
            *left_out_notes(len(query.without)),
            *count_origins(reader, catalog, statement, keys).notes,
            *_missing(zip((c.name for c in metrics), measured, strict=True), experiments),
        ),
        sql=shown.plain(reader.dialect),
    )


def _metrics(catalog: Catalog, query: ResultsQuery, *, numbers: bool = False) -> list[StudyColumn]:
    """The metrics that are asked for; all, if none are."""
    if not query.metrics:
        return [c for c in catalog.metrics if c.number or not numbers]
    chosen = [catalog.column(name) for name in query.metrics]
    for column in chosen:
        if numbers and not column.number:
            raise InputError(
                f"{column.name!r} is not a number, so it cannot be aggregated",
                hint=f"group by it: --by {column.name}",
            )
    return chosen


def _repeated(reader: SnapshotReader, catalog: Catalog) -> bool:
    repeat = catalog.facts["repeat"]
    later = sql("{} > 1", repeat.fragment(reader.dialect))
    statement = StudySelect(reader.dialect, catalog, None, also=later, facts=True)
    # The first one answers: the greatest would need all rows.
    return bool(reader.rows(with_limit(statement.select([SelectItem.of(repeat)]), 1)))


def _count(reader: SnapshotReader, statement: StudySelect) -> int:
    """How many rows there are; the study's counters know it where no condition is put."""
    if not statement.condition.parts:
        return statement.catalog.counts["ok"]
    ((count,),) = reader.rows(statement.count())
    return int(count)


def _order(
    catalog: Catalog, query: ResultsQuery, statement: StudySelect
) -> list[tuple[SelectItem, bool]]:
    """Columns to sort by, and whether the greatest comes first; then the order of the space."""
    sorts = [(catalog.column(column.removeprefix("-")), column) for column in query.sort]
    order = [(SelectItem.of(column), written.startswith("-")) for column, written in sorts]
    return [*order, *statement.space_order()]


def _group_order(
    query: ResultsQuery,
    keys: Sequence[StudyColumn],
    heads: Sequence[SelectItem],
    metrics: Sequence[StudyColumn],
) -> list[tuple[SelectItem, bool]]:
    """Columns of the answer to sort by: a metric's name stands for its first aggregate."""
    named = {head.name: head for head in heads}
    width = (len(heads) - len(keys) - 1) // max(len(metrics), 1)
    for place, metric in enumerate(metrics):
        named.setdefault(metric.name, heads[len(keys) + 1 + place * width])
    order = []
    for written in query.sort:
        column = written.removeprefix("-")
        if column not in named:
            hint = did_you_mean(column, named)
            raise InputError(f"the answer has no column {column!r}", hint=hint)
        order.append((named[column], written.startswith("-")))
    return order or [(head, False) for head in heads[: len(keys)]]


def _gaps(columns: Sequence[StudyColumn], rows: Sequence[tuple[Any, ...]]) -> tuple[str, ...]:
    """Metrics that are missing in some of the rows that are shown."""
    counted = (
        (column.name, sum(row[i] is not None for row in rows))
        for i, column in enumerate(columns)
        if column.role == "metric"
    )
    return _missing(counted, len(rows))


def _missing(measured: Iterable[tuple[str, int]], total: int) -> tuple[str, ...]:
    return tuple(
        f"{metric} is missing in {total - count:,} of {total:,}"
        for metric, count in measured
        if count < total
    )
