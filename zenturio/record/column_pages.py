"""Chosen fields of many results, column by column: without an object for each of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from zenturio.experiment.experiment import MachineKind, MetricValue
from zenturio.expression import Value
from zenturio.record.entities import ExperimentState
from zenturio.record.row_filter import RoundChoice


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
