"""What the reference repository remembers, in dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zenturio.experiment.experiment import Experiment, Kinds, MachineKind, Outcome
from zenturio.record import entities, sql_names
from zenturio.record.entities import (
    AttemptRecord,
    EquatedResult,
    ExperimentRecord,
    ExperimentState,
    MeasurementRound,
    RecordPosition,
    RepositoryEvent,
    StudyDefinition,
    StudyInfo,
)

if TYPE_CHECKING:
    from zenturio.expression import Value


@dataclass
class ReferenceResult:
    """A result of a study."""

    key: RecordPosition
    values: Mapping[str, Value]
    outcome: Outcome
    """Without logs and artifacts."""
    lease: int
    source: int
    """The number of the attempt that it came of: another one's, where the row is a copy."""
    round: int = 1
    equality: EquatedResult | None = None
    """Who accepted it, where it is a copy of another version's experiment."""

    @property
    def rank(self) -> entities.Rank:
        return entities.result_rank(self.outcome.status, self.outcome.attempt, self.key.row)


@dataclass
class ReferenceStudy:
    """A version of a study with its results."""

    base: str
    """The study's name."""
    number: int
    sql_name: str
    created: float
    definition: StudyDefinition
    current: bool = True
    rows: dict[str, dict[tuple[MachineKind | None, int], ReferenceResult]] = field(
        default_factory=dict
    )
    """By digest, and by kind of machine and round."""
    rounds: list[MeasurementRound] = field(default_factory=list)
    parameters: dict[str, None] = field(default_factory=dict)
    """Every one that was declared or given, in order."""
    metric_sources: dict[str, str] = field(default_factory=dict)
    """Every metric, and what measures it."""
    events: list[RepositoryEvent] = field(default_factory=list)
    definitions: list[tuple[float, StudyDefinition]] = field(default_factory=list)
    """Every one that it had, and since when."""

    @property
    def name(self) -> str:
        return self.base if self.current else self.fixed_name

    @property
    def fixed_name(self) -> str:
        """What means this version whatever becomes of the study's name."""
        return f"{self.base}@{self.number}"

    @property
    def study(self) -> StudyInfo:
        view = self.sql_name
        if not self.current:
            view = sql_names.version_view(view, self.number)
        return StudyInfo(self.name, view, sql_names.all_view(view), self.created, self.number)

    def defined(self, at: float) -> StudyDefinition:
        """The definition that held at the time *at*, or the oldest."""
        held = [definition for since, definition in self.definitions if since <= at]
        return held[-1] if held else self.definitions[0][1]

    def define(self, definition: StudyDefinition, now: float) -> None:
        if not self.definitions or self.definitions[-1][1] != definition:
            self.definition = definition
            self.definitions.append((now, definition))
        self.parameters |= dict.fromkeys(parameter.name for parameter in definition.parameters)
        self.metric_sources |= {metric.name: metric.how for metric in definition.metrics}

    def put(self, row: ReferenceResult) -> None:
        """One more result."""
        self.rows.setdefault(row.outcome.digest, {})[row.outcome.machine, row.round] = row
        self.parameters |= dict.fromkeys(row.values)

    def results(self) -> Iterator[ReferenceResult]:
        """All of them."""
        for rows in self.rows.values():
            yield from rows.values()

    @property
    def round(self) -> int:
        """The newest one: what is measured now belongs to it."""
        return self.rounds[-1].number if self.rounds else 1

    def of(self, digest: str) -> list[ReferenceResult]:
        """All results of an experiment, oldest first."""
        return sorted(self.rows.get(digest, {}).values(), key=lambda row: row.key.row)

    def counting(
        self, digest: str, kinds: Kinds = None, round_: int | None = None
    ) -> list[ReferenceResult]:
        """The results of an experiment that count for *kinds*, oldest first.

        Of a round, if one is named; else the newest ones.
        """
        return [
            row
            for row in self.of(digest)
            if entities.machine_counts(row.outcome.machine, kinds)
            and (self.is_newest(row) if round_ is None else row.round == round_)
        ]

    def is_newest(self, row: ReferenceResult) -> bool:
        """Whether no later round measured it on the same machine; on any, if it says none."""
        machine = row.outcome.machine
        rows = self.rows.get(row.outcome.digest, {})
        return not any(number > row.round and machine in (None, kind) for kind, number in rows)

    def take(self, row: ReferenceResult) -> None:
        """One result less."""
        digest = row.outcome.digest
        del self.rows[digest][row.outcome.machine, row.round]
        if not self.rows[digest]:
            del self.rows[digest]

    def point(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Every parameter; None where *values* has it not."""
        return {name: values.get(name) for name in self.parameters} | dict(values)

    def record(self, row: ReferenceResult) -> ExperimentRecord:
        values = {name: row.values.get(name) for name in self.parameters}
        outcome, newest = row.outcome, self.is_newest(row)
        return ExperimentRecord(
            row.key, outcome.digest, outcome.status, values, outcome, row.round, newest
        )


@dataclass
class ReferenceClaim:
    """Who is at an experiment."""

    id: int
    stored: ReferenceStudy
    lease: int
    attempt: int
    host: str
    started: float
    experiment: Experiment
    round: int

    def record(self, state: ExperimentState) -> ExperimentRecord:
        return _of_point(self.stored, self.id, self.experiment, state)


@dataclass
class ReferenceAttempt:
    """An attempt that was not accepted, or was set aside."""

    id: int
    digest: str
    stored: ReferenceStudy
    attempt: AttemptRecord
    experiment: Experiment | None
    source: int
    """The number of the attempt that was made: another one's, where a copy was set aside."""

    def record(self) -> ExperimentRecord | None:
        if self.experiment is None:
            return None
        return _of_point(self.stored, self.id, self.experiment, "missing")


def _of_point(
    stored: ReferenceStudy, number: int, experiment: Experiment, state: ExperimentState
) -> ExperimentRecord:
    key = RecordPosition(experiment.index, experiment.repeat, number)
    return ExperimentRecord(key, experiment.digest, state, stored.point(experiment.values), None)
