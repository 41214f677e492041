"""Results of a study: chosen, grouped and sorted by the database."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zenturio.errors import ExpressionError, InputError, Passage, did_you_mean, unknown_name
from zenturio.experiment.aggregates import (
    STOPPED,
    UNTIL,
    RepeatRule,
    default_aggregate,
    depends_on_order,
    deviation,
    mean,
    median,
    median_interval,
    outliers,
    relative_width,
)
from zenturio.expression import Expression, Value, parse
from zenturio.query.aggregates import (
    aggregate_item,
    check_aggregate,
    count_origins,
    row_count_item,
    sort_rank,
)
from zenturio.query.catalog import (
    Catalog,
    StudyColumn,
    hint_without_values,
    open_snapshot,
    read_catalog,
)
from zenturio.query.excluded_points import left_out_notes
from zenturio.query.result_table import ResultTable, choose_columns, compute_rows, study_columns
from zenturio.query.select_statement import SelectItem, group_key, is_inapplicable, with_limit
from zenturio.query.sql_fragments import Fragment, literal, sql, verbatim
from zenturio.query.study_table import StudyTable, TableQuery, condition_of, open_table
from zenturio.record import ExperimentState, Repository, StudyDefinition
from zenturio.record.codec import Form
from zenturio.record.entities import ALWAYS, RowChoice, read_round

if TYPE_CHECKING:
    from zenturio.space import Point, Space


ROW_COUNT = "count(*)"
"""The column that counts the experiments of a group."""
TRIED = "tried"
"""The aggregate, and its column, that counts all experiments of a group that ran to an end."""
_NUMBERS = Form.REAL | Form.INTEGER | Form.BIG
TRIED_STATES: tuple[ExperimentState, ...] = ("ok", "failed", "wrong", "timeout")


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
    exact: bool = True,
) -> ResultTable:
    """Return the experiments of *study* that succeeded and meet the condition *where*.

    With *by* they are grouped, and each metric is aggregated: by the median if it is a time, else
    by the mean, if nothing is named; with *aggregates* alone over repeats, that is, by all
    parameters. NULL and NaN are left out of aggregates, and counted in the notes.

    *columns* are shown in their order: parameters, metrics, facts such as ``status``, and columns
    of plug-ins (see `result_columns`). A condition on ``status`` looks at failures too.
    Experiments whose points the present space does not hold take part only with *outside*.

    *machine*: only what that kind of machine measured, by its label or a part of it. *round*: a
    number or ``all``; the newest of each experiment, if none is named, unless a column asked for
    is the round.

    Without *exact* the table may say of about how many rows it shows the first ones, where to count
    them takes long: a condition on a million results and more (``is_estimate``).
    """
    for name in aggregates:
        if name != TRIED:
            check_aggregate(name)
    if limit is not None and limit < 0:
        raise InputError(f"the limit is {limit} rows", hint="0 or more")
    if columns and (by or aggregates or metrics):
        raise InputError(
            "columns can be chosen for single experiments, not for groups or for metrics alone",
            hint="leave out the columns, or what groups and the metrics",
        )
    query = TableQuery(
        study,
        condition_of(where),
        sort=tuple(sort),
        columns=tuple(columns),
        rows=RowChoice(machine, read_round(str(round))),
        by=tuple(by),
        aggregates=tuple(aggregates),
        metrics=tuple(metrics),
        limit=limit,
        succeeded=True,
        outside=outside,
    )
    with open_table(repository, query) as table:
        return _group_table(table) if by or aggregates else _experiment_table(table, exact=exact)


def points_measured(repository: Repository, study: str, space: Space, where: str) -> list[Point]:
    """Return the points of *space* of which a result of *study* meets the condition *where*.

    Results are the newest ones; while a round is open, those of before it: so a run that goes on
    has the same points. A condition on ``status`` looks at failures too.
    """
    with open_snapshot(repository) as reader:
        facts = read_catalog(reader, study).facts
    round_, repeat, status = (facts[fact].name for fact in ("round", "repeat", "status"))
    names = [parameter.name for parameter in space.dimensions]
    rounds = repository.rounds(study)
    before = rounds[-1].number if len(rounds) > 1 and rounds[-1].is_open else None

    def rows(condition: str) -> Iterable[tuple[Any, ...]]:
        chosen = "newest" if before is None else "all"
        columns = [*names, repeat, round_]
        return results(repository, study, where=condition, columns=columns, round=chosen).rows

    matches = rows(where)
    if before is not None:
        newest: dict[tuple[Any, ...], int] = {}
        for *experiment, number in rows(f"{round_} < {before} and {status} != ''"):
            newest[tuple(experiment)] = max(number, newest.get(tuple(experiment), 0))
        matches = [row for row in matches if newest.get(row[:-1]) == row[-1]]
    values = (dict(zip(names, row, strict=False)) for row in matches)
    return list(dict.fromkeys(space.find(value) for value in values))


def _experiment_table(table: StudyTable, *, exact: bool) -> ResultTable:
    """Return a row for each experiment, in the order of the space."""
    catalog, query = table.catalog, table.query
    repeats = [catalog.facts["repeat"]] if table.has_repeats() else []
    origins = count_origins(table.reader, catalog, table.statement)
    origin_columns = [catalog.facts[fact] for fact in origins.columns]
    metrics = [column for column in _metrics(catalog, query) if column not in origin_columns]
    columns = (
        choose_columns(catalog, query.columns)
        if query.columns
        else [*catalog.parameters, *catalog.seeds, *repeats, *origin_columns, *metrics]
    )
    selected_columns = study_columns(columns)
    inapplicable = Counter[str]()
    recorded_rows = table.rows(selected_columns, inapplicable)
    rows = compute_rows(columns, selected_columns, recorded_rows)
    count, is_estimate = len(rows), False
    if query.limit is not None and len(rows) == query.limit:
        count, is_estimate = (table.count(), False) if exact else table.count_or_estimate()
    return ResultTable(
        columns=tuple(column.name for column in columns),
        rows=tuple(rows),
        units={column.name: column.unit for column in columns if column.unit},
        found=count,
        experiments=count,
        is_estimate=is_estimate,
        total=max(catalog.countable, count),
        noun=catalog.noun,
        notes=(
            *left_out_notes(len(table.without)),
            *origins.notes,
            *_gaps(selected_columns, recorded_rows, inapplicable),
        ),
        sql=table.text(selected_columns, query.limit),
    )


def _group_table(table: StudyTable) -> ResultTable:
    """Groups of experiments, with an aggregate of each metric."""
    reader, catalog, query, statement = table.reader, table.catalog, table.query, table.statement
    keys = [catalog.column(name) for name in query.by] or list(catalog.parameters)
    metrics = [c for c in _metrics(catalog, query, numbers=True) if c not in keys]
    aggregates = tuple(name for name in query.aggregates if name != TRIED)
    heads = [SelectItem.key(key, reader.dialect) for key in keys]
    heads.append(row_count_item(ROW_COUNT))
    heads += [
        aggregate_item(kind, column, reader.dialect)
        for column in metrics
        for kind in aggregates or (default_aggregate(column.unit),)
    ]
    counts = [aggregate_item("count", column, reader.dialect) for column in metrics]
    order = _group_order(query, keys, heads, metrics)
    group_rows = table.groups([*heads, *counts], len(keys), order=order)
    ranks = {} if query.sort or len(group_rows) < 2 else _declared_ranks(table, keys)
    if ranks:
        group_rows = _in_declared_order(ranks, heads[: len(keys)], keys, group_rows)
    if any(len(places) <= MOST_WRITTEN for places in ranks.values()):
        by = list(_declared_order_sql(ranks, heads, keys, table))
        grouped_statement = statement.select(heads, group=len(keys), keys=by)
    else:
        grouped_statement = statement.select(heads, group=len(keys), order=order)
    limited_statement = with_limit(grouped_statement, query.limit)
    rows = [_converted(heads, row) for row in group_rows[: query.limit]]
    names = [head.name for head in heads]
    if TRIED in query.aggregates:
        rows = _with_tried(table, rows, heads, len(keys))
        names.insert(len(keys) + 1, TRIED)
    experiments = sum(row[len(keys)] for row in group_rows)
    value_counts = [sum(row[len(heads) + i] for row in group_rows) for i in range(len(metrics))]
    measured = list(zip((column.name for column in metrics), value_counts, strict=True))
    return ResultTable(
        columns=tuple(names),
        rows=tuple(rows),
        units={head.name: head.unit for head in heads if head.unit},
        found=len(group_rows),
        experiments=experiments,
        total=max(catalog.countable, experiments),
        noun=catalog.noun,
        notes=(
            *left_out_notes(len(table.without)),
            *count_origins(reader, catalog, statement, keys).notes,
            *_missing(measured, experiments, _inapplicable(table, measured, experiments)),
            *(_not_aggregated(catalog.metrics, keys) if experiments and not query.metrics else ()),
        ),
        sql=limited_statement.plain(reader.dialect),
    )


_Ranks = Mapping[str, Mapping[Value, int]]
MOST_WRITTEN = 50
"""Texts of a set whose order a statement of SQL writes down."""


def _declared_ranks(table: StudyTable, keys: Sequence[StudyColumn]) -> _Ranks:
    """Return the places of texts in the sets of those *keys* that are parameters of texts."""
    names = {key.name for key in keys if key.role == "parameter" and key.type == "str"}
    if not names:
        return {}
    # It reads the files of the study, which loads NumPy and the parser of directives.
    from zenturio.query.points_outside import declared_ranks, present_space  # noqa: PLC0415

    ranks = declared_ranks(present_space(table.reader.repository, table.query.study), names)
    return {name: places for name, places in ranks.items() if places}


def _declared_order_sql(
    ranks: _Ranks, heads: Sequence[SelectItem], keys: Sequence[StudyColumn], table: StudyTable
) -> Iterator[Fragment]:
    """What a statement sorts by for the order of `_in_declared_order`."""
    for head, key in zip(heads, keys, strict=False):
        places = ranks.get(key.name, {})
        if 0 < len(places) <= MOST_WRITTEN:
            cases = " ".join(
                f"WHEN {literal(text, table.reader.dialect)} THEN {place}"
                for text, place in places.items()
            )
            yield sql("CASE {} {} END", head.fragment, verbatim(f"{cases} ELSE {len(places)}"))
        yield from table.statement.orders([(head, False)], digits=False)


def _in_declared_order(
    ranks: _Ranks,
    heads: Sequence[SelectItem],
    keys: Sequence[StudyColumn],
    rows: list[tuple[Any, ...]],
) -> list[tuple[Any, ...]]:
    """Groups in the order of their keys: a text stands where the set of its parameter has it."""

    def rank(row: tuple[Any, ...]) -> list[tuple[int, tuple[bool, bool, Any]]]:
        # What a set does not have any more comes behind it, and a missing value last.
        cells = zip(keys, _converted(heads, row), strict=True)
        ranked_values = ((ranks.get(key.name, {}), value) for key, value in cells)
        return [
            (places.get(value, len(places)), sort_rank(value)) for places, value in ranked_values
        ]

    return sorted(rows, key=rank)


def _with_tried(
    table: StudyTable, rows: Sequence[tuple[Any, ...]], heads: Sequence[SelectItem], keys: int
) -> list[tuple[Any, ...]]:
    """Return *rows* with the number of experiments of each group that were tried."""
    query = replace(table.query, states=TRIED_STATES, succeeded=False, aggregates=(), sort=())
    with open_table(table.reader.repository, query) as tried_table:
        groups = tried_table.groups([*heads[:keys], row_count_item(TRIED)], keys)
    counts_by_key = {group_key(_converted(heads, row[:keys])): row[keys] for row in groups}
    return [
        (*row[: keys + 1], counts_by_key.get(group_key(row[:keys]), 0), *row[keys + 1 :])
        for row in rows
    ]


def _converted(heads: Sequence[SelectItem], row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(head.convert(value) for head, value in zip(heads, row, strict=False))


def _metrics(catalog: Catalog, query: TableQuery, *, numbers: bool = False) -> list[StudyColumn]:
    """Return the requested metrics; all, if none are."""
    if not query.metrics:
        return [c for c in catalog.metrics if c.number or not numbers]
    columns = [catalog.column(name) for name in query.metrics]
    for column in columns:
        if numbers and not column.number:
            if column.lacks_values:
                raise InputError(
                    f"{column.name!r} has no value in any experiment",
                    hint=hint_without_values(query.study),
                )
            raise InputError(
                f"{column.name!r} is not {'always ' if column.forms & _NUMBERS else ''}a number,"
                " so it cannot be aggregated",
                hint=f"group by a label: --by {column.name}; for a number, correct its METRIC and"
                f" run zen extract {query.study}",
            )
    return columns


def _not_aggregated(metrics: Iterable[StudyColumn], keys: Collection[StudyColumn]) -> Iterator[str]:
    """Yield notes on metrics that one would expect in a table of numbers, and that are not in it.

    Those that hold only texts, truths or series are not expected there.
    """
    other_metrics = [column for column in metrics if not column.number and column not in keys]
    for column in other_metrics:
        if column.forms & _NUMBERS and not column.forms & Form.SERIES:
            yield f"{column.name} is not always a number, so it is left out"
    if names_without_values := [column.name for column in other_metrics if column.lacks_values]:
        yield f"no experiment has a value of {', '.join(names_without_values)}"


def _group_order(
    query: TableQuery,
    keys: Sequence[StudyColumn],
    heads: Sequence[SelectItem],
    metrics: Sequence[StudyColumn],
) -> list[tuple[SelectItem, bool]]:
    """Columns of the answer to sort by: a metric's name stands for its first aggregate."""
    heads_by_name = {head.name: head for head in heads}
    width = (len(heads) - len(keys) - 1) // max(len(metrics), 1)
    for place, metric in enumerate(metrics):
        heads_by_name.setdefault(metric.name, heads[len(keys) + 1 + place * width])
    order = []
    for sort_key in query.sort:
        column = sort_key.removeprefix("-")
        if column not in heads_by_name:
            hint = did_you_mean(column, heads_by_name)
            raise InputError(f"the answer has no column {column!r}", hint=hint)
        order.append((heads_by_name[column], sort_key.startswith("-")))
    return order or [(head, False) for head in heads[: len(keys)]]


def _gaps(
    columns: Sequence[StudyColumn],
    rows: Sequence[tuple[Any, ...]],
    inapplicable: Mapping[str, int],
) -> tuple[str, ...]:
    """Metrics that are missing in some of the rows that are shown."""
    value_counts = (
        (column.name, sum(row[i] is not None for row in rows))
        for i, column in enumerate(columns)
        if column.role == "metric"
    )
    return _missing(value_counts, len(rows), inapplicable)


def _missing(
    measured: Iterable[tuple[str, int]], total: int, inapplicable: Mapping[str, int]
) -> tuple[str, ...]:
    """Notes on metrics that are missing in rows in which their WHEN, if any, holds."""
    counts = ((metric, count, total - inapplicable.get(metric, 0)) for metric, count in measured)
    return tuple(
        f"{metric} is missing in {expected - count:,} of {expected:,}"
        for metric, count, expected in counts
        if count < expected
    )


def _inapplicable(
    table: StudyTable, measured: Iterable[tuple[str, int]], total: int
) -> Mapping[str, int]:
    """In how many rows the WHEN of a metric does not hold, of those that lack values."""
    names = [metric for metric, count in measured if count < total]
    if not names or not _has_conditional_metrics(table):
        return {}
    dialect, columns = table.reader.dialect, table.catalog.columns
    counts = {}
    for name in names:
        rows = table.narrowed(is_inapplicable(columns[name], dialect), facts=True)
        counts[name] = int(table.reader.rows(rows.count())[0][0])
    return counts


def _has_conditional_metrics(table: StudyTable) -> bool:
    """Whether the study may have a METRIC with WHEN: remarks on many rows take long to read."""
    definition = table.reader.repository.definition(table.query.study)
    return any(b"WHEN" in content for content in definition.sources.values())


# Repeats of each point: the median and its interval, outliers, why there are no more
#
# An outlier is marked and stays: a value that is far off may be the machine's doing or the
# program's, and who drops it decides which without knowing. The median and its interval hardly
# feel it.


@dataclass(slots=True)
class _MetricRepeats:
    tried_count: int = 0
    values: list[float] = field(default_factory=list)
    """In the order of the repeats."""


def point_repeats(
    repository: Repository,
    study: str,
    *,
    metric: str = "",
    centre: str = "median",
    where: str | Passage | Expression | None = None,
    limit: int | None = None,
    outside: bool = False,
    machine: str = "",
    round: int | str = "",  # noqa: A002 - as the column is called
) -> ResultTable:
    """Return a row for each point of *study*: how often it ran, and what that says of *metric*.

    The metric is that of UNTIL, if none is named, else that of the objective, else ``wtime``. The
    *centre* is the median with its 95% interval, or the mean with the standard deviation.
    """
    if centre not in _CELLS:
        raise unknown_name("--agg of --repeats", centre, _CELLS)
    definition = repository.definition(study)
    until = definition.notes.get(UNTIL, {}).get("metric", "")
    formula = parse(metric or until or default_metric(definition))
    rule = RepeatRule.of(definition.notes, formula.text)
    query = TableQuery(
        study,
        condition_of(where),
        states=TRIED_STATES,
        rows=RowChoice(machine, read_round(str(round))),
        outside=outside,
    )
    with open_table(repository, query) as table:
        origins = count_origins(table.reader, table.catalog, table.statement)
        keys = [*table.catalog.parameters, *map(table.catalog.column, origins.columns)]
        units = {column.name: column.unit for column in keys if column.unit}
        points = _points(table, keys, formula)
        column = table.catalog.columns.get(formula.text)
        unit = column.unit if column else ""
        left_out_count, total = len(table.without), table.catalog.total
    heads, other_heads, cells = _CELLS[centre]
    stopped = ("stopped",) if rule else ()
    rows = []
    for point, repeats in points.items():
        reason = (STOPPED[rule.stop(repeats.values, repeats.tried_count)],) if rule else ()
        rows.append(
            (*point, len(repeats.values), repeats.tried_count, *cells(repeats.values), *reason)
        )
    metric_heads = tuple(f"{head}({formula.text})" for head in heads)
    return ResultTable(
        columns=(
            *(key.name for key in keys),
            "repeats",
            "tried",
            *metric_heads,
            *other_heads,
            *stopped,
        ),
        rows=tuple(rows[:limit]),
        units=units | (dict.fromkeys(metric_heads, unit) if unit else {}),
        found=len(rows),
        experiments=sum(repeats.tried_count for repeats in points.values()),
        total=total,
        notes=(
            *left_out_notes(left_out_count),
            *origins.notes,
            *_notes(list(points.values()), centre),
        ),
    )


def default_metric(definition: StudyDefinition) -> str:
    """Return the metric that the first objective is or depends on, else wall time or the first.

    Of a formula, declared metrics come before those that every study has.
    """
    fields = sorted(definition.metrics, key=lambda field: field.how == ALWAYS)
    names = [field.name for field in fields]
    objectives = [parse(goal["expression"]).names for goal in definition.goals[:1]]
    objective_names = [name for name in names if any(name in objective for objective in objectives)]
    return next((name for name in (*objective_names, "wtime", *names) if name in names), "wtime")


def _points(
    table: StudyTable, keys: Sequence[StudyColumn], formula: Expression
) -> dict[tuple[Any, ...], _MetricRepeats]:
    names = sorted(formula.names)
    columns = [table.catalog.facts["status"], *map(table.catalog.column, names)]
    points: dict[tuple[Any, ...], _MetricRepeats] = {}
    for row in table.rows([*keys, *columns]):
        point, status, values = row[: len(keys)], row[len(keys)], row[len(keys) + 1 :]
        repeats = points.setdefault(point, _MetricRepeats())
        repeats.tried_count += 1
        if status == "ok":
            repeats.values += _number(formula, dict(zip(names, values, strict=True)))
    return points


def _number(formula: Expression, values: dict[str, Any]) -> Iterator[float]:
    try:
        value = formula.value(values)
    except ExpressionError:
        return
    if isinstance(value, int | float) and math.isfinite(value):
        yield float(value)


def _median_cells(values: Sequence[float]) -> tuple[float | int | None, ...]:
    low, high = median_interval(values) or (None, None)
    width = relative_width(values)
    return median(values), low, high, width, sum(outliers(values))


def _mean_cells(values: Sequence[float]) -> tuple[float | int | None, ...]:
    return mean(values), deviation(values), sum(outliers(values))


_CELLS = {
    "median": (("median", "low", "high"), ("width", "outliers"), _median_cells),
    "mean": (("mean", "std"), ("outliers",), _mean_cells),
}
"""The heads of columns in the unit of the metric and of others, and what stands in them."""


def _notes(points: Sequence[_MetricRepeats], centre: str) -> Iterator[str]:
    if centre == "median":
        yield (
            "low and high: the 95% interval of the median, from 6 repeats on; width: how far it"
            " reaches, as a share of the median"
        )
    count = sum(sum(outliers(repeats.values)) for repeats in points)
    if count:
        noun = "value is an outlier" if count == 1 else "values are outliers"
        yield f"{count:,} {noun} (beyond 3 robust deviations of the median); none is left out"
    dependent = sum(depends_on_order(repeats.values) for repeats in points)
    if dependent:
        noun = "point has" if dependent == 1 else "points have"
        yield (
            f"{dependent:,} {noun} runs that depend on each other (drift, bursts): their intervals"
            " are too narrow"
        )
