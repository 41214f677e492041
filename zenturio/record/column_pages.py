"""Chosen fields of many results, column by column: without an object for each of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zenturio.experiment.experiment import MachineKind, MetricValue
from zenturio.expression import Value
from zenturio.record.entities import ExperimentState
from zenturio.record.row_filter import RoundChoice

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class ColumnPage:
    """Some results of a study, in the order of the space."""

    states: Sequence[ExperimentState]
    machines: Sequence[int]
    """The numbers of their kinds of machine."""
    rounds: Sequence[int]
    parameters: Mapping[str, Sequence[Value]]
    """Of the fields that were asked for those that the study has."""
    metrics: Mapping[str, Sequence[MetricValue | None]]
    """Likewise; None where a metric was not measured."""
    kinds: Mapping[int, MachineKind]
    """The kinds of machine by their numbers; unknown ones are not among them."""


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """What is asked of the results of a study."""

    parameters: Collection[str]
    metrics: Collection[str]
    states: Collection[ExperimentState]
    round: RoundChoice = "newest"
    without: Collection[str] = ()
    """Digests of experiments to leave out."""


@dataclass(frozen=True, slots=True)
class KeyedResults:
    """Results of one program, which the keys of their points name: see `experiment.identity`."""

    keys: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
    """The halves of the keys, as unsigned integers."""
    ranks: np.ndarray[Any, Any]
    """Of several results with one key the one with the highest rank counts."""
    started: np.ndarray[Any, Any]
    causes: np.ndarray[Any, Any]
    """Numbers of `cause_texts`; 0 where it succeeded."""
    cause_texts: Sequence[str]
    parameters: Mapping[str, Sequence[Value]]
    """Of the fields that were asked for those that the study has."""
    metrics: Mapping[str, Sequence[MetricValue | None]]

    def __len__(self) -> int:
        return len(self.ranks)
