"""What the reference repository remembers, in dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zenturio.experiment.experiment import Artifact, Log, Measure, Outcome
from zenturio.record.facts import (
    Attempt,
    AttemptState,
    Definition,
    Event,
    Key,
    Logs,
    Record,
    State,
    Study,
)
from zenturio.record.rules import Standing

if TYPE_CHECKING:
    from zenturio.expression import Value

Try = tuple[int, int]
"""An attempt's number and its driver's."""


@dataclass
class Row:
    """What a study knows of an experiment."""

    key: Key
    values: dict[str, Value]
    metrics: dict[str, Measure] = field(default_factory=dict)


@dataclass
class Shelf:
    """A study with its rows."""

    study: Study
    definition: Definition
    rows: dict[str, Row] = field(default_factory=dict)
    parameters: dict[str, None] = field(default_factory=dict)
    """Every one that was declared or given, in order."""
    ways: dict[str, str] = field(default_factory=dict)
    """Every metric that was declared, and what measures it."""
    events: list[Event] = field(default_factory=list)
    definitions: list[tuple[float, Definition]] = field(default_factory=list)
    """Every one that it had, and since when."""

    def defined(self, at: float) -> Definition:
        """The definition that held at the time *at*, or the oldest."""
        held = [each for since, each in self.definitions if since <= at]
        return held[-1] if held else self.definitions[0][1]

    def define(self, definition: Definition, now: float) -> None:
        self.definition = definition
        self.definitions.append((now, definition))
        self.parameters |= dict.fromkeys(parameter.name for parameter in definition.parameters)
        self.ways |= {metric.name: metric.how for metric in definition.metrics}


@dataclass(eq=False)
class Known:
    """An experiment: how it stands, and what came of its attempts."""

    digest: str
    row: int
    home: str
    """The study that added it first, or that has it since that one went."""
    standing: Standing = field(default_factory=lambda: Standing("waiting", 0, None))
    outcome: Outcome | None = None
    """Without metrics, logs and artifacts."""
    attempts: dict[Try, Attempt] = field(default_factory=dict)
    logs: dict[Try, Logs] = field(default_factory=dict)
    artifacts: dict[Try, tuple[Artifact, ...]] = field(default_factory=dict)

    @property
    def newest(self) -> Try:
        return (self.standing.attempt, self.standing.driver or 0)

    def chosen(self, attempt: int | None) -> Try | None:
        """The attempt of that number; the newest, if none is named."""
        if attempt in {None, self.newest[0]} and self.newest in self.attempts:
            return self.newest
        number = self.newest[0] if attempt is None else attempt
        return next((t for t in sorted(self.attempts) if t[0] == number), None)

    def kept(self) -> set[str]:
        """Where the files of its artifacts lie."""
        return {str(file.kept) for files in self.artifacts.values() for file in files}

    def log_bytes(self) -> int:
        streams = [s for logs in self.logs.values() for s in (logs.stdout, logs.stderr)]
        return sum(len(stream.head) + len(stream.tail) for stream in streams)

    def seen(self, shelf: Shelf) -> Record:
        """As its study on *shelf* knows it."""
        row = shelf.rows[self.digest]
        values = {name: row.values.get(name) for name in shelf.parameters}
        return Record(row.key, self.digest, self.standing.state, values, self.whole(row))

    def whole(self, row: Row) -> Outcome | None:
        """The outcome with the metrics of *row*."""
        return self.outcome and replace(self.outcome, metrics=dict(row.metrics))

    def begin(self, number: int, driver: int, host: str, at: float) -> None:
        """Its next attempt is running."""
        self.standing = Standing("running", number, driver)
        self.attempts[number, driver] = Attempt(number, "running", driver, host, at)

    def give_up(self, why: str, at: float) -> None:
        """Its running attempt is lost."""
        lost = self.attempts[self.newest]
        self.attempts[self.newest] = replace(lost, state="stale", ended=at, cause=why)
        self.standing = replace(self.standing, state="waiting")

    def keep(
        self,
        outcome: Outcome,
        driver: int,
        state: AttemptState,
        metrics: Mapping[str, Measure],
    ) -> None:
        """Remembers an attempt, whatever becomes of it."""
        at = (outcome.attempt, driver)
        self.attempts[at] = Attempt(
            outcome.attempt,
            state,
            driver,
            outcome.host,
            outcome.started,
            outcome.ended,
            outcome.cause,
            outcome.exit,
            metrics,
        )
        self.logs[at] = Logs(outcome.stdout, outcome.stderr)
        self.artifacts[at] = outcome.artifacts

    def end(self, outcome: Outcome, state: State) -> None:
        """Its running attempt is over; with an outcome, unless it waits again."""
        self.standing = replace(self.standing, state=state)
        if state != "waiting":
            self.outcome = replace(outcome, metrics={}, stdout=Log(), stderr=Log(), artifacts=())

    def judge_anew(self, outcome: Outcome) -> None:
        """Its outcome gets another status and cause."""
        status, cause = outcome.status, outcome.cause
        self.standing = replace(self.standing, state=status)
        self.outcome = self.outcome and replace(self.outcome, status=status, cause=cause)
        newest = self.attempts[self.newest]
        self.attempts[self.newest] = replace(newest, state=status, cause=cause)

    def reopen(self, metrics: Mapping[str, Measure]) -> None:
        """It waits again; the attempt that was accepted keeps its *metrics*."""
        newest = self.attempts[self.newest]
        self.attempts[self.newest] = replace(newest, metrics=dict(metrics))
        self.standing = replace(self.standing, state="waiting")
        self.outcome = None
