"""How a search went: the best so far over the points visited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from zenturio.errors import InputError
from zenturio.show.aims import Aim, numbers, visits
from zenturio.show.cells import missing, text
from zenturio.show.charts import Axis, Chart, Panel, Series
from zenturio.show.table import Table

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
