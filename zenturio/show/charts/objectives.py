"""Objectives of a search chart: columns and their directions, and the Pareto front."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from zenturio.errors import InputError, did_you_mean
from zenturio.search.objective import Direction
from zenturio.show.chart import ChartAxis
from zenturio.show.charts.chart_query import ChartQuery
from zenturio.show.charts.chart_table import is_number

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
    own = tuple(map(ChartObjective.of, _as_tuple(frame.attrs.get("goals", ()))))
    objectives = own
    if query.goals:
        objectives = tuple(map(ChartObjective.of, query.goals))
    elif query.y:
        name = query.y_column
        objectives = (next((o for o in own if o.name == name), ChartObjective(name)),)
    if not objectives:
        raise InputError(
            f"a {query.kind} chart needs an objective, and the study has none",
            hint="name one, such as 'MINIMIZE wtime'",
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


def as_floats(column: pd.Series[Any]) -> np.ndarray:
    """Return *column* as floats, with NaN for NULL."""
    values: np.ndarray = column.to_numpy(dtype=float, na_value=np.nan)
    return values


def distinct_numbers(column: pd.Series[Any]) -> list[float]:
    """Return the finite numbers in *column*, ascending, each once."""
    return [float(value) for value in np.unique(as_floats(column)) if np.isfinite(value)]


def pareto_front(losses: np.ndarray) -> np.ndarray:
    """Return the rows of *losses* that no other row dominates, ordered by the first loss.

    Of equal rows the first is kept.
    """
    # In lexicographic order nothing dominates the first row: keep it, drop what it dominates,
    # and go on with the rest.
    candidates = np.lexsort(losses.T[::-1])
    if losses.shape[1] == 2:
        second = losses[candidates, 1]
        return candidates[np.diff(np.minimum.accumulate(second), prepend=np.inf) < 0]
    front = []
    while len(candidates):
        best = losses[candidates[0]]
        front.append(candidates[0])
        candidates = candidates[(losses[candidates] < best).any(axis=1)]
    return np.array(front, dtype=np.int64)
