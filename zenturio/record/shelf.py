"""What the reference repository remembers, in dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zenturio.experiment.experiment import Experiment, Outcome
from zenturio.experiment.machine import Kinds, MachineKind
from zenturio.record import naming, rules
from zenturio.record.facts import (
    Attempt,
    Definition,
    Equality,
    Event,
    Key,
    Record,
    Round,
    State,
    Study,
)

if TYPE_CHECKING:
    from zenturio.expression import Value


@dataclass
class Row:
    """A result of a study."""

    key: Key
    values: Mapping[str, Value]
    outcome: Outcome
    """Without logs and artifacts."""
    lease: int
    source: int
    """The number of the attempt that it came of: another one's, where the row is a copy."""
    round: int = 1
    equality: Equality | None = None
    """Who accepted it, where it is a copy of another version's experiment."""

    @property
    def rank(self) -> rules.Rank:
        return rules.rank(self.outcome.status, self.outcome.attempt, self.key.row)


@dataclass
class Shelf:
    """A version of a study with its results."""

    base: str
    """The study's name."""
    number: int
    sql_name: str
    created: float
    definition: Definition
    current: bool = True
    rows: dict[str, dict[tuple[MachineKind | None, int], Row]] = field(default_factory=dict)
    """By digest, and by kind of machine and round."""
    rounds: list[Round] = field(default_factory=list)
    parameters: dict[str, None] = field(default_factory=dict)
    """Every one that was declared or given, in order."""
    ways: dict[str, str] = field(default_factory=dict)
    """Every metric, and what measures it."""
    events: list[Event] = field(default_factory=list)
    definitions: list[tuple[float, Definition]] = field(default_factory=list)
    """Every one that it had, and since when."""

    @property
    def name(self) -> str:
        return self.base if self.current else self.fixed_name

    @property
    def fixed_name(self) -> str:
        """What means this version whatever becomes of the study's name."""
        return f"{self.base}@{self.number}"

    @property
    def study(self) -> Study:
        view = self.sql_name
        if not self.current:
            view = naming.version_view(view, self.number)
        return Study(self.name, view, naming.whole(view), self.created, self.number)

    def defined(self, at: float) -> Definition:
        """The definition that held at the time *at*, or the oldest."""
        held = [each for since, each in self.definitions if since <= at]
        return held[-1] if held else self.definitions[0][1]

    def define(self, definition: Definition, now: float) -> None:
        if not self.definitions or self.definitions[-1][1] != definition:
            self.definition = definition
            self.definitions.append((now, definition))
        self.parameters |= dict.fromkeys(parameter.name for parameter in definition.parameters)
        self.ways |= {metric.name: metric.how for metric in definition.metrics}

    def put(self, row: Row) -> None:
        """One more result."""
        self.rows.setdefault(row.outcome.digest, {})[row.outcome.machine, row.round] = row
        self.parameters |= dict.fromkeys(row.values)

    def results(self) -> Iterator[Row]:
        """All of them."""
        for rows in self.rows.values():
            yield from rows.values()

    @property
    def round(self) -> int:
        """The newest one: what is measured now belongs to it."""
        return self.rounds[-1].number if self.rounds else 1

    def of(self, digest: str) -> list[Row]:
        """All results of an experiment, oldest first."""
        return sorted(self.rows.get(digest, {}).values(), key=lambda row: row.key.row)

    def counting(self, digest: str, kinds: Kinds = None, round_: int | None = None) -> list[Row]:
        """The results of an experiment that count for *kinds*, oldest first.

        Of a round, if one is named; else the newest ones.
        """
        return [
            row
            for row in self.of(digest)
            if rules.counts(row.outcome.machine, kinds)
            and (self.is_newest(row) if round_ is None else row.round == round_)
        ]

    def is_newest(self, row: Row) -> bool:
        """Whether no later round measured it on the same machine; on any, if it says none."""
        machine = row.outcome.machine
        rows = self.rows.get(row.outcome.digest, {})
        return not any(number > row.round and machine in (None, kind) for kind, number in rows)

    def take(self, row: Row) -> None:
        """One result less."""
        digest = row.outcome.digest
        del self.rows[digest][row.outcome.machine, row.round]
        if not self.rows[digest]:
            del self.rows[digest]

    def point(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Every parameter; None where *values* has it not."""
        return {name: values.get(name) for name in self.parameters} | dict(values)

    def record(self, row: Row) -> Record:
        values = {name: row.values.get(name) for name in self.parameters}
        outcome, newest = row.outcome, self.is_newest(row)
        return Record(row.key, outcome.digest, outcome.status, values, outcome, row.round, newest)


@dataclass
class Claim:
    """Who is at an experiment."""

    id: int
    shelf: Shelf
    lease: int
    attempt: int
    host: str
    started: float
    experiment: Experiment
    round: int

    def record(self, state: State) -> Record:
        return _of_point(self.shelf, self.id, self.experiment, state)


@dataclass
class Tried:
    """An attempt that was not accepted, or was set aside."""

    id: int
    digest: str
    shelf: Shelf
    attempt: Attempt
    experiment: Experiment | None
    source: int
    """The number of the attempt that was made: another one's, where a copy was set aside."""

    def record(self) -> Record | None:
        if self.experiment is None:
            return None
        return _of_point(self.shelf, self.id, self.experiment, "missing")


def _of_point(shelf: Shelf, number: int, experiment: Experiment, state: State) -> Record:
    key = Key(experiment.index, experiment.repeat, number)
    return Record(key, experiment.digest, state, shelf.point(experiment.values), None)
