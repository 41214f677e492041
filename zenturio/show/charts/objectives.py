"""Objectives of a search chart: columns and their directions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from zenturio.errors import InputError, did_you_mean
from zenturio.search.objective import Direction
from zenturio.show.chart import Axis
from zenturio.show.charts.chart_options import Wish
from zenturio.show.charts.chart_table import is_number

Superlative = Literal["least", "greatest"]


@dataclass(frozen=True, slots=True)
class Aim:
    """A column that is to be low or high; no direction: nobody said which."""

    name: str
    direction: Direction | None = None

    @staticmethod
    def of(text: str) -> Aim:
        """``minimize wtime``"""
        word, _, name = text.strip().partition(" ")
        if name and word.lower() in get_args(Direction):
            return Aim(name.strip(), cast("Direction", word.lower()))
        return Aim(text.strip())

    def known(self) -> Aim:
        """The aim itself, if it has a direction."""
        if self.direction is None:
            raise InputError(
                f"is {self.name!r} to be low or high?",
                hint=f"say it as an objective: 'MINIMIZE {self.name}' or 'MAXIMIZE {self.name}'",
            )
        return self

    @property
    def sign(self) -> float:
        """What makes of values losses, the lower the better."""
        return -1.0 if self.direction == "maximize" else 1.0

    @property
    def superlative(self) -> Superlative:
        return "greatest" if self.direction == "maximize" else "least"

    def pointed(self, axis: Axis) -> Axis:
        """*axis* with the direction in which it is better."""
        return replace(axis, better="higher" if self.direction == "maximize" else "lower")


def aims(wish: Wish, frame: pd.DataFrame) -> tuple[Aim, ...]:
    """The goals that are wished for; else the y; else those that the frame names."""
    own = tuple(map(Aim.of, _texts(frame.attrs.get("goals", ()))))
    found = own
    if wish.goals:
        found = tuple(map(Aim.of, _texts(wish.goals)))
    elif wish.y:
        found = (next((aim for aim in own if aim.name == wish.y), Aim(wish.y)),)
    if not found:
        raise InputError(
            f"a {wish.kind} chart shows an objective, and there is none",
            hint="say one, such as 'MINIMIZE wtime'",
        )
    for aim in found:
        if aim.name not in frame.columns:
            hint = did_you_mean(aim.name, map(str, frame.columns))
            raise InputError(f"there is no column {aim.name!r}", hint=hint)
        if not is_number(frame[aim.name]):
            raise InputError(f"{aim.name!r} holds text; what is drawn must be numbers")
    return found


def _texts(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def visits(frame: pd.DataFrame) -> np.ndarray:
    """The number of each row in the order of the search, from 1."""
    name = frame.attrs.get("visit")
    if name is None:
        return np.arange(1, len(frame) + 1)
    found: np.ndarray = frame[name].to_numpy(dtype=np.int64)
    return found


def numbers(column: pd.Series[Any]) -> np.ndarray:
    """*column* as numbers, NaN where there is none."""
    found: np.ndarray = column.to_numpy(dtype=float, na_value=np.nan)
    return found


def distinct(column: pd.Series[Any]) -> list[float]:
    """The numbers in *column*, ascending, each once."""
    found = np.unique(numbers(column))
    return [float(each) for each in found if np.isfinite(each)]


def front(losses: np.ndarray) -> np.ndarray:
    """Which rows of *losses* no other is better than in every respect, by the first loss.

    Of equal ones it is the first. Nothing is better than the row that comes first of all in
    order: it is kept, what it is better than goes, and so on.
    """
    left = np.lexsort(losses.T[::-1])
    if losses.shape[1] == 2:
        second = losses[left, 1]
        return left[np.diff(np.minimum.accumulate(second), prepend=np.inf) < 0]
    kept = []
    while len(left):
        best = losses[left[0]]
        kept.append(left[0])
        left = left[(losses[left] < best).any(axis=1)]
    return np.array(kept, dtype=np.int64)
