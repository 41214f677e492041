"""The points that a search tried: a row for each, in the order in which they started."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zenturio.annotate.grammar import read
from zenturio.annotate.model import ObjectiveStatement
from zenturio.errors import ExpressionError, InputError, Passage
from zenturio.expression import Expression, Value, parse
from zenturio.query import study_frame
from zenturio.query.origins import Origins
from zenturio.record import Repository
from zenturio.record.row_filter import NEWEST, RowChoice
from zenturio.show.charts.chart_query import ChartQuery
from zenturio.show.charts.chart_table import is_missing, is_number
from zenturio.show.charts.objectives import as_floats


def search_points(
    repository: Repository,
    studies: Sequence[str],
    *,
    where: str | Passage | None = None,
    objective: str = "",
    y: str = "",
    apart: bool = False,
    most: int | None = None,
    outside: bool = True,
    rows: RowChoice = NEWEST,
) -> pd.DataFrame:
    """Return the points of *studies* that started and meet *where*, with their scores.

    After parameters and metrics come ``visit``, a number for each point in the order in which they
    started, ``study`` if there are several, and a column for each objective. The objectives are
    those of the study, or of the *objective* (``MINIMIZE expr, MAXIMIZE expr``), or the formula
    *y*. The score of a point is the mean of its repeats; *apart*, each repeat has its own row. The
    score of a failed point is NaN. Of more experiments than *most* there is a sample. Without
    *outside*, points that the present space does not contain are left out. *rows* chooses the kind
    of machine and the round.
    """
    query = _PointQuery(where, objective, y, apart, most, outside, rows)
    tables = [_points_of_study(repository, study, query) for study in studies]
    if len(tables) == 1:
        return tables[0]
    study_column = _unused_name("study", {name for table in tables for name in table.columns})
    named = zip(tables, studies, strict=True)
    joined = pd.concat(
        [table.assign(**{study_column: study}) for table, study in named], ignore_index=True
    )
    attrs = [table.attrs for table in tables]
    if any(attr["goals"] != attrs[0]["goals"] for attr in attrs):
        raise InputError(
            f"{', '.join(studies)} have different objectives",
            hint="name one for all: --objective 'MINIMIZE wtime'",
        )
    parameters = dict.fromkeys(name for attr in attrs for name in attr["parameters"])
    joined.attrs = attrs[0] | {
        "study": ", ".join(studies),
        "parameters": [*parameters, study_column],
        "of": sum(attr["of"] for attr in attrs),
        "left_out": sum(attr["left_out"] for attr in attrs),
        **Origins.together(attrs).attrs(),
        "sql": "\n\n".join(attr["sql"] for attr in attrs),
        "runs": [study_column, *attrs[0]["runs"]],
    }
    return joined


def points_for_chart(
    repository: Repository, query: ChartQuery, *, most: int | None = None
) -> pd.DataFrame:
    """Return the points that the chart of *query* is made from.

    Repeats have rows of their own where the chart shows their noise, or where each is a search.
    Convergence shows the history of a search, with points that the space does not contain any more.
    """
    if query.objective and query.y:
        raise InputError("a y and an objective contradict each other", hint="name one of them")
    y = query.y_column
    if query.kind == "parallel" and not query.objective:
        goals = repository.definition(query.studies[0]).goals
        y = y or (goals[0]["expression"] if goals else "wtime")
    is_convergence = query.kind == "convergence"
    has_several_searches = query.aggregate == "median" or query.colour == "repeat"
    return search_points(
        repository,
        query.studies,
        where=query.where or None,
        objective=query.objective,
        y=y,
        apart=query.kind == "importance" or (is_convergence and has_several_searches),
        most=most,
        outside=query.outside or is_convergence,
        rows=query.row_choice,
    )


@dataclass(frozen=True, slots=True)
class _PointQuery:
    where: str | Passage | None
    objective: str
    y: str
    apart: bool
    most: int | None
    outside: bool
    rows: RowChoice


def _points_of_study(repository: Repository, study: str, query: _PointQuery) -> pd.DataFrame:
    table = study_frame(
        repository, study, where=query.where, everything=True, most=query.most,
        outside=query.outside, rows=query.rows,
    )  # fmt: skip
    facts, parameters = table.attrs["facts"], table.attrs["parameters"]
    objectives = _objectives(repository.definition(study).goals, query, table)
    order = [facts["started"], facts["index"], facts["repeat"]]
    started = table[table[facts["started"]].notna()]
    started = started.sort_values(order, kind="stable", ignore_index=True)
    is_ok = (started[facts["status"]] == "ok").to_numpy(dtype=bool, na_value=False)
    scores = {o.column: np.where(is_ok, _scores(o, started), np.nan) for o in objectives}
    visit = _unused_name("visit", started.columns)
    hidden = [column for fact, column in facts.items() if fact != "repeat"]
    points: pd.DataFrame = started.drop(columns=hidden, errors="ignore")
    points = points.assign(**scores, **{visit: _point_numbers(started, parameters)})
    total = len(points)
    if not query.apart:
        total = int(points[visit].max()) if len(points) else 0
        points = _mean_of_repeats(points, visit, parameters, [*table.attrs["metrics"], *scores])
    points.attrs = dict(table.attrs) | {
        "visit": visit,
        "goals": [f"{o.direction} {o.column}".strip() for o in objectives],
        "noun": "experiments" if query.apart else "points",
        "visited": "points",
        "runs": [facts["repeat"]] if query.apart else [],
        "of": total,
    }
    return points


@dataclass(frozen=True, slots=True)
class _ScoreFormula:
    """An objective as a formula of the columns."""

    direction: str
    """Empty if the objective has none."""
    formula: Expression

    @property
    def column(self) -> str:
        """The name of its column: the formula, or the name that the formula consists of."""
        text = self.formula.text
        return next((name for name in self.formula.names if text in (name, f"`{name}`")), text)


def _objectives(
    own: Iterable[Mapping[str, str]], query: _PointQuery, table: pd.DataFrame
) -> list[_ScoreFormula]:
    """Return the objectives of the query, or the study's *own*."""
    columns = dict.fromkeys([*table.attrs["parameters"], *table.attrs["metrics"]])
    objectives = [_ScoreFormula(goal["direction"], parse(goal["expression"])) for goal in own]
    if query.objective:
        statement = read(Passage.of(f"OBJECTIVE {query.objective}", "--objective"))
        assert isinstance(statement, ObjectiveStatement), "an OBJECTIVE states objectives"
        objectives = [_ScoreFormula(goal.direction, goal.expression) for goal in statement.goals]
    elif query.y:
        text = f"`{query.y}`" if query.y in columns else query.y
        chosen = _ScoreFormula("", parse(Passage.of(text, "--y")))
        objectives = [o for o in objectives if o.column == chosen.column] or [chosen]
    for objective in objectives:
        objective.formula.check(columns)
    return objectives


def _scores(objective: _ScoreFormula, table: pd.DataFrame) -> np.ndarray:
    """Return the objective's value in each row; NaN where it has none, or a text."""
    if objective.column in table.columns and is_number(table[objective.column]):
        return as_floats(table[objective.column])
    formula = objective.formula
    names = sorted(formula.names & set(table.columns))
    columns = [table[name].astype(object).tolist() for name in names]
    rows = zip(*columns, strict=True) if columns else ((),) * len(table)
    return np.array([_score(formula, dict(zip(names, row, strict=True))) for row in rows])


def _score(formula: Expression, row: Mapping[str, Any]) -> float:
    values: dict[str, Value] = {n: None if is_missing(v) else v for n, v in row.items()}
    try:
        score = formula.value(values)
    except ExpressionError:  # it has no value at this point, such as 1 / 0
        return math.nan
    return math.nan if score is None or isinstance(score, str) else float(score)


def _point_numbers(started: pd.DataFrame, parameters: Sequence[str]) -> np.ndarray:
    """Return the number of each row's point, in the order in which points started."""
    if not parameters or started.empty:
        return np.ones(len(started), dtype=np.int64)
    groups = started.groupby(list(parameters), sort=False, dropna=False, observed=True)
    numbers: np.ndarray = groups.ngroup().to_numpy() + 1
    return numbers


def _mean_of_repeats(
    rows: pd.DataFrame, visit: str, parameters: Sequence[str], metrics: Iterable[str]
) -> pd.DataFrame:
    """Return a row for each point: its parameters, and the means of its metrics."""
    first = rows.drop_duplicates(visit).set_index(visit)[list(parameters)]
    numeric = [name for name in dict.fromkeys(metrics) if is_number(rows[name])]
    values = rows[[name for name in numeric if name not in parameters]].astype(float)
    points: pd.DataFrame = first.join(values.groupby(rows[visit]).mean())
    return points.reset_index()


def _unused_name(name: str, names: Iterable[str]) -> str:
    """Return *name*, with underscores added until no column has it."""
    while name in names:
        name += "_"
    return name
