"""Charts of searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from zenturio.annotate.grammar import read
from zenturio.annotate.model import ObjectiveStatement
from zenturio.errors import ExpressionError, InputError, Passage, did_you_mean
from zenturio.experiment.aggregates import default_aggregate
from zenturio.experiment.signed_ranks import Interval
from zenturio.expression import Expression, Value, parse
from zenturio.query import importances, study_frame
from zenturio.query.aggregates import MachineRoundCounts
from zenturio.query.forest import Dependence, forest_shares
from zenturio.query.frames import as_reals
from zenturio.query.importance import UNKNOWN
from zenturio.query.points_outside import declared_ranks, present_space
from zenturio.query.sensitivity import Sensitivity
from zenturio.record import Repository
from zenturio.record.entities import NEWEST, RowChoice
from zenturio.search.objective import Direction
from zenturio.show.chart import (
    Bars,
    Chart,
    ChartAxis,
    Line,
    Panel,
    Points,
    Role,
    Strands,
    is_geometric,
)
from zenturio.show.charts.chart_query import ChartQuery
from zenturio.show.charts.chart_table import (
    MOST_EXACT_TICKS,
    ChartTable,
    is_missing,
    is_number,
    label_of,
    levels,
)
from zenturio.show.renderers.plotly import NotebookChart
from zenturio.space import Continuous, Space

Superlative = Literal["least", "greatest"]


@dataclass(frozen=True, slots=True)
class ChartObjective:
    """A column to minimize or maximize; without a direction it is only shown."""

    name: str
    direction: Direction | None = None

    @staticmethod
    def of(text: str) -> ChartObjective:
        """Parse ``minimize wtime``, or a name alone."""
        word, _, name = text.strip().partition(" ")
        if name and word.lower() in get_args(Direction):
            return ChartObjective(name.strip(), cast("Direction", word.lower()))
        return ChartObjective(text.strip())

    def with_direction(self) -> ChartObjective:
        """Return the objective itself; raise InputError if it has no direction."""
        if self.direction is None:
            raise InputError(
                f"the objective {self.name!r} has no direction",
                hint=f"name it with one: 'MINIMIZE {self.name}' or 'MAXIMIZE {self.name}'",
            )
        return self

    @property
    def sign(self) -> float:
        """The factor that turns values into losses, which are better when lower."""
        return -1.0 if self.direction == "maximize" else 1.0

    @property
    def superlative(self) -> Superlative:
        return "greatest" if self.direction == "maximize" else "least"

    def mark_better(self, axis: ChartAxis) -> ChartAxis:
        """Return *axis* with the direction in which it is better."""
        return replace(axis, better="higher" if self.direction == "maximize" else "lower")


def objectives_of(query: ChartQuery, frame: pd.DataFrame) -> tuple[ChartObjective, ...]:
    """Return the objectives of the query, or its y, or those that the frame names.

    Raise InputError if there is none, or a column of them is missing or holds text.
    """
    declared = tuple(map(ChartObjective.of, _as_tuple(frame.attrs.get("goals", ()))))
    objectives = declared
    if query.goals:
        objectives = tuple(map(ChartObjective.of, query.goals))
    elif query.y:
        name = query.y_column
        objectives = (next((o for o in declared if o.name == name), ChartObjective(name)),)
    if not objectives:
        raise InputError(
            f"a {query.kind} chart needs an objective, and the study has none",
            hint="name one: --objective 'MINIMIZE wtime'",
        )
    for objective in objectives:
        if objective.name not in frame.columns:
            hint = did_you_mean(objective.name, map(str, frame.columns))
            raise InputError(f"there is no column {objective.name!r}", hint=hint)
        if not is_number(frame[objective.name]):
            raise InputError(
                f"{objective.name!r} holds text; an objective needs numbers",
                hint="choose another column",
            )
    return objectives


def _as_tuple(texts: str | Iterable[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def visit_numbers(frame: pd.DataFrame) -> np.ndarray:
    """Return the number of each row in the order of the search, from 1."""
    name = frame.attrs.get("visit")
    if name is None:
        return np.arange(1, len(frame) + 1)
    visits: np.ndarray = frame[name].to_numpy(dtype=np.int64)
    return visits


def distinct_numbers(column: pd.Series[Any]) -> list[float]:
    """Return the finite numbers in *column*, ascending, each once."""
    return [float(value) for value in np.unique(as_reals(column)) if np.isfinite(value)]


def pareto_front(losses: np.ndarray) -> np.ndarray:
    """Return the rows of *losses* that no other row dominates, ordered by the first loss.

    Of equal rows all are in it, or none, as `zenturio.study.best_points.best` has them.
    """
    # In lexicographic order nothing dominates the first row: keep it, drop what it dominates,
    # and go on with the rest.
    distinct, number = np.unique(losses, axis=0, return_inverse=True)
    in_front = np.zeros(len(distinct), dtype=np.bool_)
    if losses.shape[1] == 2:
        in_front = np.diff(np.minimum.accumulate(distinct[:, 1]), prepend=np.inf) < 0
    else:
        candidates = np.arange(len(distinct))
        while len(candidates):
            best = candidates[0]
            in_front[best] = True
            candidates = candidates[(distinct[candidates] < distinct[best]).any(axis=1)]
    number = number.ravel()
    rows = np.flatnonzero(in_front[number])
    return rows[np.argsort(number[rows], kind="stable")]


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
    *y*. The score of a point is the median of its repeats where it is a time, else their mean, as
    `best_points.best` has it; *apart*, each repeat has its own row. The score of a failed point is
    NaN. Of more experiments than *most* there is a sample. Without
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
        "derived": [name for attr in attrs for name in attr["derived"]],
        "left_out": sum(attr["left_out"] for attr in attrs),
        **MachineRoundCounts.together(attrs).attrs(),
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


def derived_parameters(space: Space | None) -> list[str]:
    """Return the parameters that others determine."""
    return [p.name for p in space.parameters if p.derived is not None] if space else []


def _log_uniform_parameters(space: Space | None) -> list[str]:
    """Return the parameters whose numbers are drawn on a logarithmic axis."""
    parameters = space.parameters if space else ()
    return [p.name for p in parameters if isinstance(p.domain, Continuous) and p.domain.log]


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
    total, of_repeats = len(points), ""
    if not query.apart:
        total = int(points[visit].max()) if len(points) else 0
        units = table.attrs["units"]
        if total < len(points):
            kinds = {name: default_aggregate(units.get(name, "")) for name in scores}
            of_repeats = _aggregate_note(kinds)
        names = [*table.attrs["metrics"], *scores]
        points = _reduce_repeats(points, visit, parameters, names, units)
    texts = [name for name in parameters if not is_number(points[name])]
    space = present_space(repository, study)
    points.attrs = dict(table.attrs) | {
        "visit": visit,
        "goals": [f"{o.direction} {o.column}".strip() for o in objectives],
        "noun": "experiments" if query.apart else "points",
        "visited": "points",
        "runs": [facts["repeat"]] if query.apart else [],
        "of": total,
        "of_repeats": of_repeats,
        "derived": derived_parameters(space),
        "ranks": declared_ranks(space, texts),
        "log": _log_uniform_parameters(space),
    }
    return points


def _aggregate_note(kinds: Mapping[str, str]) -> str:
    """Return what the scores of a point with repeats are, by the *kinds* of aggregates."""
    if len(set(kinds.values())) == 1:
        return f"{next(iter(kinds.values()))} of repeats"
    return "of repeats: " + ", ".join(f"{kind} {name}" for name, kind in kinds.items())


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
    declared: Iterable[Mapping[str, str]], query: _PointQuery, table: pd.DataFrame
) -> list[_ScoreFormula]:
    """Return the objectives of the query, or the study's *declared*."""
    columns = dict.fromkeys([*table.attrs["parameters"], *table.attrs["metrics"]])
    objectives = [_ScoreFormula(goal["direction"], parse(goal["expression"])) for goal in declared]
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
        return as_reals(table[objective.column])
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


def _reduce_repeats(
    rows: pd.DataFrame,
    visit: str,
    parameters: Sequence[str],
    metrics: Iterable[str],
    units: Mapping[str, str],
) -> pd.DataFrame:
    """Return a row for each point: its parameters, and the medians or means of its metrics."""
    first = rows.drop_duplicates(visit).set_index(visit)[list(parameters)]
    numeric = [name for name in dict.fromkeys(metrics) if is_number(rows[name])]
    values = rows[[name for name in numeric if name not in parameters]].astype(float)
    is_time = np.array([default_aggregate(units.get(n, "")) == "median" for n in map(str, values)])
    points: pd.DataFrame = first.join(values.loc[:, ~is_time].groupby(rows[visit]).mean())
    if is_time.any():
        points = points.join(values.loc[:, is_time].groupby(rows[visit]).median())
    return points.reset_index()


def _unused_name(name: str, names: Iterable[str]) -> str:
    """Return *name*, with underscores added until no column has it."""
    while name in names:
        name += "_"
    return name


MOST_LINES = 20
QUARTILES = (0.5, 0.25, 0.75)
MOST_STRANDS = 2_000
MANY_STRANDS = 400
STRONG_STRANDS = 40
"""Of many strands, how many stand out: the best."""
MOST_POINTS = 20_000
MOST_SLICE_POINTS = 24_000
"""Points in all panels together."""
MOST_PANELS = 24
MOST_BARS = 30
MOST_DEPENDENCES = 12
JITTER_WIDTH = 0.5
"""How far the points of one category are spread, of the way to the next category."""
GOLDEN_RATIO = 0.6180339887498949
"""Multiples of this, modulo 1, fill an interval evenly, however many they are."""


def search_chart(query: ChartQuery, frame: pd.DataFrame) -> Chart:
    """Return the chart of a kind that shows objectives; raise InputError if it cannot be drawn."""
    if query.facet:
        raise InputError(f"a {query.kind} chart has no facets", hint="choose rows by a condition")
    if query.colour and query.kind != "convergence":
        raise InputError(
            f"a {query.kind} chart has no colour to choose", hint="leave out the colour"
        )
    objectives = objectives_of(query, frame)
    names = [objective.name for objective in objectives]
    needed = names if query.kind == "pareto" else ()
    table = ChartTable(frame, replace(query, y=(names[0],)), needed)
    if note := frame.attrs.get("of_repeats"):
        table.notes.append(note)
    return _BUILDERS[query.kind](table, objectives)


# Convergence


@dataclass(frozen=True)
class _SearchHistory:
    """The points of one search that were better than all before."""

    visits: np.ndarray
    """Their numbers."""
    best: np.ndarray
    """Their losses, which are better when lower."""
    last_visit: int

    @staticmethod
    def of(visits: np.ndarray, losses: np.ndarray) -> _SearchHistory:
        order = np.argsort(visits, kind="stable")
        visits, best = visits[order], np.minimum.accumulate(losses[order])
        is_better = best < np.concatenate([[np.inf], best[:-1]])
        return _SearchHistory(visits[is_better], best[is_better], int(visits[-1]))

    def best_after(self, visits: np.ndarray) -> np.ndarray:
        """Return the best loss after so many visits; infinite before the first number.

        A search that has ended keeps its best.
        """
        row = np.searchsorted(self.visits, visits, side="right")
        losses: np.ndarray = np.concatenate([[np.inf], self.best])[row]
        return losses


def _convergence(table: ChartTable, objectives: Sequence[ChartObjective]) -> Chart:
    """Return a line for each colour: of one search, or the median of several with a band."""
    objective, colour = objectives[0].with_direction(), table.query.colour
    colours = table.split("colour", MOST_LINES)
    groups = [_histories(table, objective, level) for level in colours]
    lines = [
        _convergence_line(label_of(level) if colour else "", rank, objective, histories)
        for rank, (level, histories) in enumerate(zip(colours, groups, strict=True))
    ]
    _note_searches(table, list(map(len, groups)))
    last = max(history.last_visit for histories in groups for history in histories)
    x = ChartAxis(
        f"{table.attrs.get('visited', table.noun)} visited",
        log="x" in table.query.log,
        ends=(1.0, float(last)),
    )
    heights = [value for line in lines for value in (*line.y, *line.low, *line.high)]
    y = objective.mark_better(table.number_axis(objective.name, "y", heights))
    subject = f"{objective.superlative} {objective.name} so far"
    legend: dict[str, Any] = {}
    if colour:
        subject += f", by {colour}"
        axis = ChartAxis(colour, table.unit(colour))
        legend = {"colour": axis, "levels": tuple(map(label_of, colours))}
    return table.chart([Panel(marks=tuple(lines))], x, y, subject=subject, **legend)


def _note_searches(table: ChartTable, counts: Sequence[int]) -> None:
    least, greatest = min(counts), max(counts)
    if greatest > 1:
        count = f"{least} to {greatest}" if least < greatest else greatest
        table.notes.append(f"median of {count} runs; band: quartiles")


def _histories(table: ChartTable, objective: ChartObjective, level: object) -> list[_SearchHistory]:
    """Return the searches of one colour. Failed points count as visits."""
    frame, colour = table.all_rows, table.query.colour
    losses = objective.sign * as_reals(frame[objective.name])
    rows = pd.DataFrame({
        "visit": visit_numbers(frame), "loss": np.where(np.isfinite(losses), losses, np.inf),
    })  # fmt: skip
    keys = [name for name in table.attrs.get("runs", ()) if name in frame and name != colour]
    search = frame.groupby(keys, dropna=False).ngroup().to_numpy() if keys else np.zeros(len(rows))
    has_colour = np.ones(len(rows), dtype=bool)
    if colour:
        column = frame[colour]
        same = column.isna() if is_missing(level) else column == level
        has_colour = same.to_numpy(bool, na_value=False)
    return [
        _SearchHistory.of(points["visit"].to_numpy(), points["loss"].to_numpy())
        for _, points in rows[has_colour].groupby(search[has_colour])
    ]


def _convergence_line(
    name: str, rank: int, objective: ChartObjective, histories: Sequence[_SearchHistory]
) -> Line:
    """Return the steps of one search, or the median and the quartiles of several."""
    lasts = [history.last_visit for history in histories]
    visits = np.unique(np.concatenate([*(history.visits for history in histories), lasts]))
    matrix = np.array([history.best_after(visits) for history in histories])
    rows = _quantiles(matrix, QUARTILES if len(histories) > 1 else QUARTILES[:1])
    has_changed = np.ones(len(visits), dtype=bool)
    has_changed[1:-1] = (rows[:, 1:-1] != rows[:, :-2]).any(axis=0)
    shown = has_changed & np.isfinite(rows[0])
    if not shown.any():
        raise InputError(
            f"at most half of the searches have a number for {objective.name!r}",
            hint="check the failures of the study",
        )
    values = [tuple((objective.sign * row[shown]).tolist()) for row in rows]
    # When maximizing, the sign has exchanged the quartiles.
    low, high = sorted(values[1:], key=np.nansum) if len(values) > 1 else ((), ())
    x = tuple(map(float, visits[shown]))
    return Line(name, rank, x, values[0], low, high, is_stepped=True)


def _quantiles(matrix: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Return a row for each share of each column; NaN where it lies beyond the finite values.

    NumPy's quantiles are NaN next to an infinite value, even where they are a value of the column.
    """
    ranked = np.sort(matrix, axis=0)
    places = np.array(shares) * (len(ranked) - 1)
    below = ranked[np.floor(places).astype(int)]
    above = ranked[np.ceil(places).astype(int)]
    weight = (places % 1)[:, None]
    with np.errstate(invalid="ignore"):
        quantiles: np.ndarray = np.where(below == above, below, below + (above - below) * weight)
    quantiles[~np.isfinite(quantiles)] = np.nan
    return quantiles


# Charts of all points


def _varying_parameters(table: ChartTable) -> list[str]:
    """Return the parameters to show: those of the query, else all with several values."""
    names = list(table.query.axes) or [
        name
        for name in table.attrs.get("parameters", ())
        if table.frame[name].nunique(dropna=False) > 1
    ]
    if not names:
        raise InputError("no parameter varies", hint="name the columns: axes (--axes a,b)")
    return [name for name in names if name != table.query.y_column]


def _best_rows(table: ChartTable, objective: ChartObjective, count: int = 1) -> np.ndarray:
    """Return the best rows, the first of equal ones; none if the objective has no direction."""
    order = np.argsort(objective.sign * as_reals(table.frame[objective.name]), kind="stable")
    return order[: count if objective.direction else 0]


def _thinned_rows(table: ChartTable, most: int, noun: str, best: np.ndarray) -> np.ndarray:
    """Return the rows to draw: one of every few, and the best."""
    is_drawn = np.zeros(len(table.frame), dtype=bool)
    is_drawn[:: -(-len(is_drawn) // most)] = True
    is_drawn[best] = True
    table.thinned(most, noun)
    return np.flatnonzero(is_drawn)


def _parallel(table: ChartTable, objectives: Sequence[ChartObjective]) -> Chart:
    """Return a line for each row across an axis for each column, coloured by the metric."""
    objective = objectives[0]
    names = [*_varying_parameters(table), objective.name]
    best = _best_rows(table, objective, STRONG_STRANDS)
    rows = table.frame.iloc[_thinned_rows(table, MOST_STRANDS, "lines", best)]
    strong = len(best) if len(rows) > MANY_STRANDS else 0
    if len(best) and len(rows) < len(table.frame):
        table.notes.append(f"including the best {len(best)}")
    axes, columns = zip(*(_strand_axis(table, rows, name) for name in names), strict=True)
    shades = tuple(map(float, rows[objective.name]))
    lowest_on_top = objective.direction == "minimize"
    strands = Strands(axes, columns, shades, lowest_on_top=lowest_on_top, strong=strong)
    metric = ChartAxis(objective.name, table.unit(objective.name))
    return table.chart(
        [Panel(marks=(strands,))],
        ChartAxis(""),
        metric,
        subject=f"{objective.name} across the parameters",
        colour=metric,
        ordered=True,
    )


def _strand_axis(
    table: ChartTable, rows: pd.DataFrame, name: str
) -> tuple[ChartAxis, tuple[float, ...]]:
    column, unit = rows[name], table.unit(name)
    if is_number(column) and not column.isna().any():
        is_metric = name == table.query.y_column
        is_declared = name in table.frame.attrs.get("log", ())
        log = not is_metric and (is_declared or is_geometric(distinct_numbers(table.frame[name])))
        return ChartAxis(name, unit, log), tuple(map(float, column))
    categories = map(label_of, levels(table.frame[name], _ranks(table, name)))
    number = {text: float(i) for i, text in enumerate(categories)}
    axis = ChartAxis(name, unit, categories=tuple(number))
    return axis, tuple(number[label_of(value)] for value in column)


def _ranks(table: ChartTable, name: str) -> Mapping[Any, int] | None:
    """Return the places of texts in the set of a parameter, where they are known."""
    ranks: Mapping[str, Mapping[Any, int]] = table.frame.attrs.get("ranks", {})
    return ranks.get(name)


def _slice(table: ChartTable, objectives: Sequence[ChartObjective]) -> Chart:
    """Return a panel for each parameter with the metric over its values; colours show the order."""
    objective, names = objectives[0], _varying_parameters(table)
    if len(names) > MOST_PANELS:
        raise InputError(
            f"{len(names)} parameters vary; a chart can show {MOST_PANELS} panels",
            hint="name the parameters to show: axes (--axes a,b)",
        )
    best = _best_rows(table, objective)
    rows = _thinned_rows(table, max(MOST_SLICE_POINTS // len(names), 1), "points", best)
    visits = visit_numbers(table.frame)
    panels = [_slice_panel(table, name, rows, visits, best) for name in names]
    if any(panel.x is not None and panel.x.categories for panel in panels):
        table.notes.append("points of a text are spread sideways")
    if len(best):
        table.notes.append(f"ring: {objective.superlative} {objective.name}")
    y = table.value_axis("y", table.parts["value"])
    return table.chart(
        panels,
        ChartAxis(""),
        objective.mark_better(y) if objective.direction else y,
        subject=f"{objective.name} by {'each parameter' if len(names) > 1 else names[0]}",
        colour=ChartAxis("order of visit", ends=(float(visits.min()), float(visits.max()))),
        ordered=True,
    )


def _slice_panel(
    table: ChartTable, name: str, rows: np.ndarray, visits: np.ndarray, best: np.ndarray
) -> Panel:
    """Return the panel of one parameter, without the points in which it is inactive."""
    axis, places = _parameter_places(table, name)
    values = as_reals(table.frame[table.query.y_column])

    def points(chosen: np.ndarray, role: Role) -> Points:
        x, y, shades = (tuple(column[chosen].tolist()) for column in (places, values, visits))
        return Points("", 0, x, y, shades=shades, role=role)

    active = rows[np.isfinite(places[rows])]
    active_best = best[np.isfinite(places[best])]
    ring = (points(active_best, "best"),) if len(active_best) else ()
    return Panel(marks=(points(active, "plain"), *ring), x=axis)


def _parameter_places(table: ChartTable, name: str) -> tuple[ChartAxis, np.ndarray]:
    """Return the axis of a parameter, and the position of each row on it."""
    column, unit = table.frame[name], table.unit(name)
    if is_number(column):
        distinct = distinct_numbers(column)
        is_log = "x" in table.query.log or name in table.frame.attrs.get("log", ())
        log = is_geometric(distinct) or (is_log and distinct[0] > 0)
        ticks = tuple(distinct) if len(distinct) <= MOST_EXACT_TICKS else ()
        ends = (distinct[0], distinct[-1])
        return ChartAxis(name, unit, log, ticks=ticks, ends=ends), as_reals(column)
    number = {label_of(level): i for i, level in enumerate(levels(column, _ranks(table, name)))}
    places = np.array([number[label_of(value)] for value in column], dtype=float)
    offsets = (np.arange(len(places)) * GOLDEN_RATIO % 1 - 0.5) * JITTER_WIDTH
    return ChartAxis(name, unit, categories=tuple(number), is_spread=True), places + offsets


def _pareto(table: ChartTable, objectives: Sequence[ChartObjective]) -> Chart:
    """Return points by two objectives, a third one as their colour; the front stands out."""
    if len(objectives) not in (2, 3):
        raise InputError(
            f"a Pareto front needs two or three objectives, not {len(objectives)}",
            hint="name them, such as 'MINIMIZE wtime, MAXIMIZE gflops'",
        )
    values = np.column_stack(
        [as_reals(table.frame[objective.with_direction().name]) for objective in objectives]
    )
    front = pareto_front(values * [objective.sign for objective in objectives])
    dominated = np.setdiff1d(np.arange(len(values)), front)
    note = f"{len(front):,} on the front"
    table.notes.append(note + (", all others pale" if len(objectives) == 3 else ""))
    step = -(-len(dominated) // MOST_POINTS) or 1
    drawn = dominated[::step]
    if step > 1:
        table.notes.append(f"{len(drawn):,} of {len(dominated):,} others drawn")
    x, y, *third = (
        objective.mark_better(table.number_axis(objective.name, letter, column))
        for objective, letter, column in zip(objectives, "xyz", values.T, strict=False)
    )

    def points(rows: np.ndarray, rank: int, role: Role) -> Points:
        across, up, *shades = (tuple(column[rows].tolist()) for column in values.T)
        is_joined = role == "front" and not shades
        return Points(
            names[rank], rank, across, up, shades[0] if shades else (), role, is_joined=is_joined
        )

    names = ("on the front", "dominated")
    panel = Panel(marks=(points(drawn, 1, "faint"), points(front, 0, "front")))
    subjects = [f"{objective.superlative} {objective.name}" for objective in objectives]
    colours: dict[str, Any] = {"colour": ChartAxis(""), "levels": names}
    if third:
        colours = {"colour": third[0], "ordered": True}
    subject = f"Pareto front of {', '.join(subjects[:-1])} and {subjects[-1]}"
    return table.chart([panel], x, y, subject=subject, **colours)


def _importance(table: ChartTable, objectives: Sequence[ChartObjective]) -> Chart:
    """Return a bar for each parameter: its share of the metric's variance."""
    objective = objectives[0]
    result = importances(table.frame, objective.name, tuple(table.query.axes))
    shown = result.parameters[:MOST_BARS]
    if len(shown) < len(result.parameters):
        table.notes.append(f"{len(shown)} of {len(result.parameters)} parameters")
    assessed = [item for item in shown if item.verdict != UNKNOWN]
    if not assessed:
        raise InputError(
            f"{UNKNOWN} which parameters matter for {objective.name}",
            hint="\n".join(result.notes[:-1] or result.notes),
        )
    groups: list[tuple[str, int, Role, dict[str, float]]] = [
        (
            "(with its interactions)", 1, "front",
            {item.parameter: 100 * item.total for item in assessed if item.total is not None},
        ),
        (
            "alone", 0, "plain",
            {item.parameter: 100 * item.share for item in assessed if item.matters},
        ),
        (
            "alone, may be due to chance", 2, "faint",
            {item.parameter: max(0.0, 100 * item.share) for item in assessed if not item.matters},
        ),
    ]  # fmt: skip
    bars = [
        Bars(name, rank, tuple(shares), tuple(shares.values()), role=role, is_lying=True)
        for name, rank, role, shares in groups
        if shares
    ]
    table.notes += result.notes
    longest = max((value for mark in bars for value in mark.y), default=100.0)
    return table.chart(
        [Panel(marks=tuple(bars))],
        ChartAxis("share of the variance", "%", ends=(0.0, longest)),
        ChartAxis("", categories=tuple(item.parameter for item in shown), is_reversed=True),
        # zen explain has a model, whose shares differ and which needs more points.
        subject=f"importance for {objective.name} by analysis of variance",
        colour=ChartAxis("of each parameter"),
        levels=tuple(mark.name for mark in bars),
    )


def _dependence(table: ChartTable, objectives: Sequence[ChartObjective]) -> Chart:
    """Return a panel for each parameter: the mean of the metric over all others, by its value."""
    objective, axes = objectives[0], table.query.axes
    # All parameters are fitted, whichever are shown: others would be taken for noise.
    result = forest_shares(table.frame, objective.name)
    by_name = {dependence.bins.name: dependence for dependence in result.dependences}
    for name in axes:
        if name not in by_name:
            raise InputError(f"{name!r} does not vary", hint=did_you_mean(name, by_name))
    if not axes and not result.has_skill:
        table.notes.append(UNKNOWN)
    names = list(axes) or list(by_name)
    shown = names[:MOST_DEPENDENCES]
    if len(shown) < len(names):
        table.notes.append(f"{len(shown)} of {len(names)} parameters, the most important ones")
    table.notes += [
        "mean over all others",
        f"a forest predicts {max(result.explained, 0.0):.0%} of the variance of points left out",
        "bars: 95 % of its trees",
    ]
    panels = [_dependence_panel(table, by_name[name]) for name in shown]
    heights = [end for panel in panels for mark in panel.marks if isinstance(mark, Points)
               for end in (*mark.low, *mark.high)]  # fmt: skip
    y = table.number_axis(objective.name, "y", heights)
    return table.chart(
        panels,
        ChartAxis(""),
        objective.mark_better(y) if objective.direction else y,
        subject=f"{objective.name} by {'each parameter' if len(shown) > 1 else shown[0]}",
    )


def _dependence_panel(table: ChartTable, dependence: Dependence) -> Panel:
    bins = dependence.bins
    is_number = bins.is_ordered and all(map(math.isfinite, bins.values))
    low, high = (tuple(interval[end] for interval in dependence.intervals) for end in (0, 1))
    places = bins.values if is_number else tuple(map(float, range(len(bins.labels))))
    axis = ChartAxis(bins.name, table.unit(bins.name), categories=bins.labels, is_spread=True)
    if is_number:
        ticks = places if len(places) <= MOST_EXACT_TICKS else ()
        log = bins.log or is_geometric(places)
        axis = replace(axis, categories=None, is_spread=False, log=log, ticks=ticks,
                       ends=(places[0], places[-1]))  # fmt: skip
    return Panel(marks=(Points("", 0, places, dependence.means, low=low, high=high),), x=axis)


def sensitivity_chart(study: str, answer: Sensitivity, title: str = "") -> Chart:
    """Return bars with the shares or effects of each factor, and their 95% intervals."""
    series: dict[str, list[tuple[str, float, Interval]]] = {}
    if answer.shares:
        series["first order"] = [(s.factor, s.first, s.first_interval) for s in answer.shares]
        series["total"] = [(s.factor, s.total, s.total_interval) for s in answer.shares]
    if answer.shapley:
        series["Shapley"] = [(e.parameter, e.share, e.interval) for e in answer.shapley]
    if answer.effects:
        series["mean absolute change"] = [
            (e.factor, e.size, e.size_interval) for e in answer.effects
        ]
    bars = [
        Bars(
            name, rank, tuple(item[0] for item in items), tuple(item[1] for item in items),
            tuple(item[2].low for item in items), tuple(item[2].high for item in items),
        )
        for rank, (name, items) in enumerate(series.items())
    ]  # fmt: skip
    ends = [0.0, *(end for bar in bars for end in (*bar.low, *bar.high))]
    axis_label = f"change of {answer.metric}" if answer.effects else "share of the variance"
    return NotebookChart(
        "sensitivity",
        title or f"{study}: sensitivity of {answer.metric}, {answer.design.text}",
        "; ".join(["bars: 95 % intervals", *answer.notes[1:], answer.notes[0]]),
        ChartAxis("factor", categories=tuple(dict.fromkeys(x for bar in bars for x in bar.x))),
        ChartAxis(axis_label, answer.unit if answer.effects else "", ends=(min(ends), max(ends))),
        (Panel(marks=tuple(bars)),),
        colour=ChartAxis(""),
        levels=tuple(series),
    )


_BUILDERS: Mapping[str, Callable[[ChartTable, Sequence[ChartObjective]], Chart]] = {
    "convergence": _convergence,
    "dependence": _dependence,
    "importance": _importance,
    "parallel": _parallel,
    "pareto": _pareto,
    "slice": _slice,
}
