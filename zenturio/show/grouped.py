"""A chart's rows where the database has grouped them already."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from zenturio.query.groups import Grouping
from zenturio.query.statistics import CONFIDENCE, student
from zenturio.show.cells import Cell, key_of
from zenturio.show.charts import Errors
from zenturio.show.table import Table
from zenturio.show.wish import Wish


class Groups(Table):
    """A row for each group instead of each experiment; the same pictures come of it."""

    def __init__(self, frame: pd.DataFrame, wish: Wish) -> None:
        self._found: Grouping = frame.attrs["grouped"]
        super().__init__(frame, wish)
        self.parts["value"] = self.frame[self._found.value]

    def _countable(self, frame: pd.DataFrame, needed: Any) -> np.ndarray:  # noqa: ARG002
        """The database has chosen."""
        return np.ones(len(frame), dtype=bool)

    @property
    def counted(self) -> int:
        return int(self.frame[self._found.rows].sum())

    def _repeated(self, keys: tuple[str, ...]) -> bool:  # noqa: ARG002 - as one of experiments
        return bool((self.frame[self._found.rows] > 1).any())

    def _hidden(self) -> list[str]:
        return list(self._found.hidden)

    def _cells(self, keys: tuple[str, ...], errors: Errors) -> dict[tuple[Any, ...], Cell]:
        rows, values = self.frame[self._found.rows], self.frame[self._found.value]
        spread = self.frame[self._found.deviation] if errors != "none" else values
        places = self.parts[list(keys)].itertuples(index=False, name=None)
        found = {}
        for key, value, count, apart in zip(places, values, rows, spread, strict=True):
            half = _half(int(count), float(apart), errors)
            found[key_of(key)] = Cell(float(value), value - half, value + half, int(count))
        return found


def _half(count: int, deviation: float, errors: Errors) -> float:
    """Half of an error bar; NaN where there is none."""
    match errors:
        case "interval":
            return _quantile(count - 1) * deviation / math.sqrt(count) if count > 1 else math.nan
        case "std":
            return deviation
        case "none":
            return math.nan


@cache
def _quantile(freedom: int) -> float:
    return student(0.5 + CONFIDENCE / 2, freedom)
