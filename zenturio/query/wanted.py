"""What is asked of a table of experiments, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from zenturio.expression import Expression
from zenturio.query.catalog import StudyColumn
from zenturio.record import ExperimentState
from zenturio.record.row_filter import NEWEST, RowChoice

RowNumbers = np.ndarray[Any, np.dtype[np.int64]]
"""Experiments, by the number of their row."""


@dataclass(frozen=True)
class TableQuery:
    """Which experiments of a study, in which order, and what of them."""

    study: str
    where: Expression | None = None
    states: tuple[ExperimentState, ...] = ()
    """All, if none are named."""
    sort: tuple[str, ...] = ()
    """Columns; with ``-`` before it, the greatest first. Else the order of the space."""
    columns: tuple[str, ...] = ()
    """All parameters and metrics, if none are named."""
    repeats: bool = False
    """Whether the repeat is among those."""
    rows: RowChoice = NEWEST
    """Of which kind of machine, and of which round."""
    own_first: bool = False
    """Whether the study's own metrics stand before those that every study has."""

    @property
    def names(self) -> frozenset[str]:
        """The columns that are asked for."""
        sorts = (each.removeprefix("-") for each in self.sort)
        return frozenset((*(self.where.names if self.where else ()), *sorts, *self.columns))

    @property
    def plain(self) -> bool:
        """Whether it is all experiments in the order of the space: an index leads everywhere."""
        return self.where is None and not self.states and not self.sort


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """One experiment of a page."""

    number: int
    digest: str
    status: ExperimentState
    cells: tuple[Any, ...]
    """By column; a metric that was not measured is `Missing`, and says why where that is known."""


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Experiments that did not succeed for the same cause."""

    status: ExperimentState
    cause: str
    count: int
    example: ExperimentRow


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What a column took."""

    column: StudyColumn
    values: tuple[Any, ...] | None = None
    """None where there are too many to be shown."""
    low: Any = None
    """Of many numbers, the least and the greatest."""
    high: Any = None
