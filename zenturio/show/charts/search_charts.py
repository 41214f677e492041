"""Charts of a search: convergence, importance, slice, Pareto front, parallel axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from zenturio.errors import InputError
from zenturio.query import importances
from zenturio.query.importance import UNKNOWN
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
from zenturio.show.charts.objectives import (
    ChartObjective,
    as_floats,
    distinct_numbers,
    objectives_of,
    pareto_front,
    visit_numbers,
)

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
    losses = objective.sign * as_floats(frame[objective.name])
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
    order = np.argsort(objective.sign * as_floats(table.frame[objective.name]), kind="stable")
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
        log = not is_metric and is_geometric(distinct_numbers(table.frame[name]))
        return ChartAxis(name, unit, log), tuple(map(float, column))
    categories = map(label_of, levels(table.frame[name]))
    number = {text: float(i) for i, text in enumerate(categories)}
    axis = ChartAxis(name, unit, categories=tuple(number))
    return axis, tuple(number[label_of(value)] for value in column)


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
    values = as_floats(table.frame[table.query.y_column])

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
        log = is_geometric(distinct) or ("x" in table.query.log and distinct[0] > 0)
        ticks = tuple(distinct) if len(distinct) <= MOST_EXACT_TICKS else ()
        ends = (distinct[0], distinct[-1])
        return ChartAxis(name, unit, log, ticks=ticks, ends=ends), as_floats(column)
    number = {label_of(level): i for i, level in enumerate(levels(column))}
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
        [as_floats(table.frame[objective.with_direction().name]) for objective in objectives]
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
            {item.parameter: 100 * item.share for item in assessed if not item.matters},
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
        subject=f"importance for {objective.name}",
        colour=ChartAxis("of each parameter"),
        levels=tuple(mark.name for mark in bars),
    )


_BUILDERS: Mapping[str, Callable[[ChartTable, Sequence[ChartObjective]], Chart]] = {
    "convergence": _convergence,
    "importance": _importance,
    "parallel": _parallel,
    "pareto": _pareto,
    "slice": _slice,
}
