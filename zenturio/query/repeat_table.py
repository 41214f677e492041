"""What the repeats of each point say: the median and its interval, outliers, why there are no more.

An outlier is marked and stays: a value that is far off may be the machine's doing or the program's,
and who drops it decides which without knowing. The median and its interval hardly feel it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from zenturio.errors import ExpressionError, Passage, unknown_name
from zenturio.experiment.aggregates import deviation, mean, median, median_interval, outliers
from zenturio.experiment.repeat_rule import (
    STOPPED,
    UNTIL,
    RepeatRule,
    depends_on_order,
    relative_width,
)
from zenturio.expression import Expression, parse
from zenturio.query.aggregates import count_origins
from zenturio.query.catalog import StudyColumn
from zenturio.query.present import left_out_notes
from zenturio.query.result_table import ResultTable
from zenturio.query.study_table import StudyTable, TableQuery, condition_of, open_table
from zenturio.record import ExperimentState, Repository, StudyDefinition
from zenturio.record.entities import RowChoice, read_round

TRIED: tuple[ExperimentState, ...] = ("ok", "failed", "wrong", "timeout")


@dataclass(slots=True)
class _Repeats:
    tried: int = 0
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
    formula = parse(metric or default_metric(definition))
    rule = RepeatRule.of(definition.notes, formula.text)
    query = TableQuery(
        study,
        condition_of(where),
        states=TRIED,
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
        left_out, total = len(table.without), table.catalog.total
    heads, others, cells = _CELLS[centre]
    stopped = ("stopped",) if rule else ()
    rows = []
    for point, repeats in points.items():
        reason = (STOPPED[rule.stop(repeats.values, repeats.tried)],) if rule else ()
        rows.append((*point, len(repeats.values), repeats.tried, *cells(repeats.values), *reason))
    named = tuple(f"{head}({formula.text})" for head in heads)
    return ResultTable(
        columns=(*(key.name for key in keys), "repeats", "tried", *named, *others, *stopped),
        rows=tuple(rows[:limit]),
        units=units | (dict.fromkeys(named, unit) if unit else {}),
        found=len(rows),
        experiments=sum(repeats.tried for repeats in points.values()),
        total=total,
        notes=(
            *left_out_notes(left_out),
            *origins.notes,
            *_notes(list(points.values()), centre),
        ),
    )


def default_metric(definition: StudyDefinition) -> str:
    """Return the metric of UNTIL, of the first objective, or the wall time."""
    if UNTIL in definition.notes:
        return str(definition.notes[UNTIL]["metric"])
    metrics = {field.name for field in definition.metrics}
    goals = (goal["expression"] for goal in definition.goals)
    return next((goal for goal in goals if goal in metrics), "wtime")


def _points(
    table: StudyTable, keys: Sequence[StudyColumn], formula: Expression
) -> dict[tuple[Any, ...], _Repeats]:
    names = sorted(formula.names)
    columns = [table.catalog.facts["status"], *map(table.catalog.column, names)]
    points: dict[tuple[Any, ...], _Repeats] = {}
    for row in table.rows([*keys, *columns]):
        point, status, values = row[: len(keys)], row[len(keys)], row[len(keys) + 1 :]
        repeats = points.setdefault(point, _Repeats())
        repeats.tried += 1
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


def _notes(points: Sequence[_Repeats], centre: str) -> Iterator[str]:
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
