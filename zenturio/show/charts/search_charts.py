"""Charts of a search: convergence, importance, slice, Pareto front, parallel axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from zenturio.errors import InputError
from zenturio.query import importances
from zenturio.query.importance import UNKNOWN
from zenturio.show.chart import Axis, Chart, Kind, Panel, Role, Series, Strands
from zenturio.show.charts.chart_options import Wish
from zenturio.show.charts.chart_table import FEW_TICKS, Table, is_number, levels, missing, text
from zenturio.show.charts.objectives import Aim, aims, distinct, front, numbers, visits
from zenturio.show.layout import geometric

MOST_LINES = 20
QUARTILES = (0.5, 0.25, 0.75)


@dataclass(frozen=True)
class _Run:
    """One search: after which visits it had something better, and how good that was."""

    at: np.ndarray
    best: np.ndarray
    """Losses, the lower the better."""
    end: int
    """The number of its last visit."""

    @staticmethod
    def of(numbers: np.ndarray, losses: np.ndarray) -> _Run:
        order = np.argsort(numbers, kind="stable")
        at, best = numbers[order], np.minimum.accumulate(losses[order])
        better = best < np.concatenate([[np.inf], best[:-1]])
        return _Run(at[better], best[better], int(at[-1]))

    def after(self, places: np.ndarray) -> np.ndarray:
        """The best after so many visits; infinite where there was nothing yet.

        A search that has ended keeps its best.
        """
        row = np.searchsorted(self.at, places, side="right")
        found: np.ndarray = np.concatenate([[np.inf], self.best])[row]
        return found


def convergence(table: Table, wanted: tuple[Aim, ...]) -> Chart:
    """A line for each colour; where that has several runs, their median and a band."""
    aim, colour = wanted[0].known(), table.wish.colour
    found = table.split("colour", MOST_LINES)
    groups = [_runs(table, aim, level) for level in found]
    lines = [
        _line(text(level) if colour else "", rank, aim, runs)
        for rank, (level, runs) in enumerate(zip(found, groups, strict=True))
    ]
    _note(table, list(map(len, groups)))
    last = max(run.end for runs in groups for run in runs)
    x = Axis(f"{table.attrs.get('visited', table.noun)} visited", ends=(1.0, float(last)))
    heights = [v for line in lines for v in (*line.y, *line.low, *line.high)]
    y = aim.pointed(table.number_axis(aim.name, "y", heights))
    if "x" in table.wish.log:
        x = Axis(x.name, log=True, ends=x.ends)
    legend = {"colour": Axis(colour, table.unit(colour)), "levels": tuple(map(text, found))}
    said = f"{aim.superlative} {aim.name} so far" + (f", by {colour}" if colour else "")
    return table.chart([Panel(series=tuple(lines))], x, y, said=said, **(legend if colour else {}))


def _note(table: Table, counts: Sequence[int]) -> None:
    if max(counts) > 1:
        several = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else max(counts)
        table.notes.append(f"median of {several} runs; band: quartiles")


def _runs(table: Table, aim: Aim, level: object) -> list[_Run]:
    """The searches of one colour, failures included: they were visits, too."""
    frame, colour = table.given, table.wish.colour
    losses = aim.sign * numbers(frame[aim.name])
    rows = pd.DataFrame({
        "number": visits(frame), "loss": np.where(np.isfinite(losses), losses, np.inf),
    })  # fmt: skip
    keys = [name for name in table.attrs.get("runs", ()) if name in frame and name != colour]
    run = frame.groupby(keys, dropna=False).ngroup().to_numpy() if keys else np.zeros(len(rows))
    there = np.ones(len(rows), dtype=bool)
    if colour:
        column = frame[colour]
        same = column.isna() if missing(level) else column == level
        there = same.to_numpy(bool, na_value=False)
    return [
        _Run.of(each["number"].to_numpy(), each["loss"].to_numpy())
        for _, each in rows[there].groupby(run[there])
    ]


def _line(name: str, rank: int, aim: Aim, runs: Sequence[_Run]) -> Series:
    """The steps of one run, or of the quartiles of several."""
    places = np.unique(np.concatenate([*(run.at for run in runs), [run.end for run in runs]]))
    matrix = np.array([run.after(places) for run in runs])
    rows = _quantiles(matrix, QUARTILES if len(runs) > 1 else QUARTILES[:1])
    changed = np.ones(len(places), dtype=bool)
    changed[1:-1] = (rows[:, 1:-1] != rows[:, :-2]).any(axis=0)
    kept = changed & np.isfinite(rows[0])
    if not kept.any():
        raise InputError(f"no more than half of the runs found a number for {aim.name!r}")
    values = [tuple((aim.sign * row[kept]).tolist()) for row in rows]
    low, high = sorted(values[1:], key=np.nansum) if len(values) > 1 else ((), ())
    return Series(name, rank, tuple(map(float, places[kept])), values[0], low, high)


def _quantiles(matrix: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Of each column, a row for each share; NaN where it lies beyond what is finite.

    NumPy's own are NaN next to an infinite value, even where they are a value of the column.
    """
    ranked = np.sort(matrix, axis=0)
    places = np.array(shares) * (len(ranked) - 1)
    below = ranked[np.floor(places).astype(int)]
    above = ranked[np.ceil(places).astype(int)]
    part = (places % 1)[:, None]
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.where(below == above, below, below + (above - below) * part)
    found[~np.isfinite(found)] = np.nan
    return found


MOST_STRANDS = 2_000
MANY_STRANDS = 400
STRONG = 40
"""Of many strands so many stand out, the best."""
MOST_POINTS = 20_000
MOST_SLICED = 24_000
"""Points in all panels together."""
MOST_PANELS = 24
MOST_BARS = 30
SPREAD = 0.5
"""How wide the points of one text lie, of the way to the next text."""
GOLDEN = 0.6180339887498949
"""Steps of this, modulo 1, fill an interval evenly however many they are."""


def of_search(wish: Wish, frame: pd.DataFrame) -> Chart:
    """The chart of one of the kinds that look at an objective."""
    if wish.facet:
        raise InputError(f"a {wish.kind} chart has no facets", hint="choose rows by a condition")
    if wish.colour and wish.kind != "convergence":
        raise InputError(f"the colours of a {wish.kind} chart are its own", hint="no colour")
    wanted = aims(wish, frame)
    names = [aim.name for aim in wanted]
    table = Table(frame, replace(wish, y=names[0]), names if wish.kind == "pareto" else ())
    builders: dict[Kind, Callable[[Table, tuple[Aim, ...]], Chart]] = {
        "parallel": _parallel, "slice": _slice, "pareto": _pareto, "importance": _importance,
        "convergence": convergence,
    }  # fmt: skip
    return builders[wish.kind](table, wanted)


def _varied(table: Table) -> list[str]:
    """The parameters to be shown: those that are named, else all with several values."""
    names = list(table.wish.axes) or [
        name
        for name in table.attrs.get("parameters", ())
        if table.frame[name].nunique(dropna=False) > 1
    ]
    if not names:
        raise InputError("no parameter varies", hint="name the columns: axes=…")
    return [name for name in names if name != table.wish.y]


def _best(table: Table, aim: Aim, count: int = 1) -> np.ndarray:
    """Where the best rows are, the first of equal ones; none if nobody said what is good."""
    order = np.argsort(aim.sign * numbers(table.frame[aim.name]), kind="stable")
    return order[: count if aim.direction else 0]


def _even(table: Table, most: int, what: str, best: np.ndarray) -> np.ndarray:
    """Which rows are drawn: one of every few, and the best."""
    rows = np.zeros(len(table.frame), dtype=bool)
    rows[:: -(-len(rows) // most)] = True
    rows[best] = True
    table.thinned(most, what)
    return np.flatnonzero(rows)


def _parallel(table: Table, wanted: tuple[Aim, ...]) -> Chart:
    """A line for each row across an axis for each column, coloured by the metric."""
    aim = wanted[0]
    names = [*_varied(table), aim.name]
    best = _best(table, aim, STRONG)
    rows = table.frame.iloc[_even(table, MOST_STRANDS, "lines", best)]
    strong = len(best) if len(rows) > MANY_STRANDS else 0
    if len(best) and len(rows) < len(table.frame):
        table.notes.append(f"the best {len(best)} are among them")
    axes, columns = zip(*(_strand(table, rows, name) for name in names), strict=True)
    shades = tuple(map(float, rows[aim.name]))
    lowest = aim.direction == "minimize"
    panel = Panel(strands=Strands(axes, columns, shades, lowest_on_top=lowest, strong=strong))
    metric = Axis(aim.name, table.unit(aim.name))
    said = f"{aim.name} across the parameters"
    return table.chart([panel], Axis(""), metric, said=said, colour=metric, ordered=True)


def _strand(table: Table, rows: pd.DataFrame, name: str) -> tuple[Axis, tuple[float, ...]]:
    column, unit = rows[name], table.unit(name)
    if is_number(column) and not column.isna().any():
        log = name != table.wish.y and geometric(distinct(table.frame[name]))
        return Axis(name, unit, log), tuple(map(float, column))
    found = levels(table.frame[name])
    number = {text(level): float(i) for i, level in enumerate(found)}
    axis = Axis(name, unit, categories=tuple(number))
    return axis, tuple(number[text(value)] for value in column)


def _slice(table: Table, wanted: tuple[Aim, ...]) -> Chart:
    """A panel for each parameter: its values, and what came of them; colours tell when."""
    aim, names = wanted[0], _varied(table)
    if len(names) > MOST_PANELS:
        raise InputError(
            f"{len(names)} parameters vary, and {MOST_PANELS} panels can be looked at",
            hint="name the ones to be shown: axes (--axes a,b)",
        )
    best = _best(table, aim)
    rows = _even(table, max(MOST_SLICED // len(names), 1), "points", best)
    order = visits(table.frame)
    panels = [_sliced(table, name, rows, order, best) for name in names]
    if any(panel.x is not None and panel.x.categories for panel in panels):
        table.notes.append("points of a text lie side by side")
    if len(best):
        table.notes.append(f"ring: {aim.superlative} {aim.name}")
    y = table.value_axis("y", table.parts["value"])
    y = aim.pointed(y) if aim.direction else y
    said = f"{aim.name} by each parameter" if len(names) > 1 else f"{aim.name} by {names[0]}"
    visit = Axis("order of visit", ends=(float(order.min()), float(order.max())))
    return table.chart(panels, Axis(""), y, said=said, colour=visit, ordered=True)


def _sliced(
    table: Table, name: str, rows: np.ndarray, order: np.ndarray, best: np.ndarray
) -> Panel:
    """The panel of one parameter; a row in which it is inactive is in none."""
    axis, places = _placed(table, name)
    values = numbers(table.frame[table.wish.y])
    there = rows[np.isfinite(places[rows])]

    def series(chosen: np.ndarray, role: Role) -> Series:
        x, y, shades = (tuple(part[chosen].tolist()) for part in (places, values, order))
        return Series("", 0, x, y, shades=shades, role=role)

    marked = best[np.isfinite(places[best])]
    ring = (series(marked, "best"),) if len(marked) else ()
    return Panel(series=(series(there, "plain"), *ring), x=axis)


def _placed(table: Table, name: str) -> tuple[Axis, np.ndarray]:
    """The axis of a parameter, and where each row stands on it."""
    column, unit = table.frame[name], table.unit(name)
    if is_number(column):
        places = numbers(column)
        known = distinct(column)
        log = geometric(known) or ("x" in table.wish.log and known[0] > 0)
        ticks = tuple(known) if len(known) <= FEW_TICKS else ()
        return Axis(name, unit, log, ticks=ticks, ends=(known[0], known[-1])), places
    number = {text(level): i for i, level in enumerate(levels(column))}
    places = np.array([number[text(value)] for value in column], dtype=float)
    aside = (np.arange(len(places)) * GOLDEN % 1 - 0.5) * SPREAD
    return Axis(name, unit, categories=tuple(number)), places + aside


def _pareto(table: Table, wanted: tuple[Aim, ...]) -> Chart:
    """Points by two goals, or by three with colours for the last; the front stands out."""
    if len(wanted) not in (2, 3):
        raise InputError(
            f"a Pareto front is drawn of two or three goals, not of {len(wanted)}",
            hint="name them, such as 'MINIMIZE wtime, MAXIMIZE gflops'",
        )
    values = np.column_stack([numbers(table.frame[aim.known().name]) for aim in wanted])
    best = front(values * [aim.sign for aim in wanted])
    behind = np.setdiff1d(np.arange(len(values)), best)
    others = ", all others pale" if len(wanted) == 3 else ""
    table.notes.append(f"{len(best):,} on the front{others}")
    step = -(-len(behind) // MOST_POINTS) or 1
    drawn = behind[::step]
    if step > 1:
        table.notes.append(f"{len(drawn):,} of {len(behind):,} others drawn")
    x, y, *third = (
        aim.pointed(table.number_axis(aim.name, letter, column))
        for aim, letter, column in zip(wanted, "xyz", values.T, strict=False)
    )

    def series(rows: np.ndarray, rank: int, role: Role) -> Series:
        parts = [tuple(column[rows].tolist()) for column in values.T]
        names = ("on the front", "dominated")
        shades = parts[2] if len(parts) > 2 else ()
        return Series(names[rank], rank, parts[0], parts[1], shades=shades, role=role)

    panel = Panel(series=(series(drawn, 1, "faint"), series(best, 0, "front")))
    words = [f"{aim.superlative} {aim.name}" for aim in wanted]
    said = f"Pareto front of {', '.join(words[:-1])} and {words[-1]}"
    colours: dict[str, Any] = (
        {"colour": third[0], "ordered": True}
        if third
        else {"colour": Axis(""), "levels": ("on the front", "dominated")}
    )
    return table.chart([panel], x, y, said=said, **colours)


def _importance(table: Table, wanted: tuple[Aim, ...]) -> Chart:
    """A bar for each parameter: how much of the variance goes with it."""
    aim = wanted[0]
    found = importances(table.frame, aim.name, tuple(table.wish.axes))
    shown = found.parameters[:MOST_BARS]
    if len(shown) < len(found.parameters):
        table.notes.append(f"{len(shown)} of {len(found.parameters)} parameters")

    def series(name: str, rank: int, role: Role, bars: list[tuple[str, float]]) -> Series:
        return Series(name, rank, tuple(n for n, _ in bars), tuple(v for _, v in bars), role=role)

    told = [each for each in shown if each.verdict != UNKNOWN]
    sure = [(each.parameter, 100 * each.share) for each in told if each.matters]
    unsure = [(each.parameter, 100 * each.share) for each in told if not each.matters]
    whole = [(e.parameter, 100 * e.total) for e in told if e.total is not None]
    groups: list[tuple[str, int, Role, list[tuple[str, float]]]] = [
        ("(with its interactions)", 1, "front", whole),
        ("alone", 0, "plain", sure),
        ("alone, may be chance", 2, "faint", unsure),
    ]
    drawn = tuple(series(*group) for group in groups if group[3])
    table.notes += found.notes
    names = tuple(each.parameter for each in shown)
    x = Axis(
        "share of the variance",
        "%",
        ends=(0.0, max((v for s in drawn for v in s.y), default=100.0)),
    )
    return table.chart(
        [Panel(series=drawn)],
        x,
        Axis("", categories=names),
        said=f"what matters for {aim.name}",
        colour=Axis("of each parameter"),
        levels=tuple(each.name for each in drawn),
    )
