"""The repository in SQL: SQLite or PostgreSQL, told apart only by their flavour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Engine

from zenturio.errors import Complaint
from zenturio.experiment.experiment import Artifact, Experiment, Outcome
from zenturio.record import (
    answers,
    events,
    leases,
    naming,
    queue,
    recording,
    removal,
    rows,
    studies,
    views,
)
from zenturio.record.artifact_store import ArtifactStore
from zenturio.record.database import Database, Transaction
from zenturio.record.driver import Driver
from zenturio.record.facts import (
    STATES,
    Attempt,
    Definition,
    Event,
    Key,
    Lease,
    Logs,
    Record,
    Removal,
    State,
    Study,
    Submission,
    Turn,
)
from zenturio.record.layout import Layout
from zenturio.record.portable import local, portable
from zenturio.record.rows import Desk

Result = TypeVar("Result")
_BATCH = 500
"""Outcomes that are measured again are written so many at a time, in one transaction."""


class Sql:
    """A repository in a database whose schema is current; safe to share among threads."""

    def __init__(self, database: Database, store: ArtifactStore) -> None:
        self._database = database
        self.store = store
        self._layouts: dict[str, Layout] = {}

    @property
    def place(self) -> str:
        return self._database.flavour.place

    @property
    def warnings(self) -> tuple[Complaint, ...]:
        return self._database.flavour.warnings()

    @property
    def engine(self) -> Engine:
        """Connections for those who read the views; begin transactions yourself."""
        return self._database.engine

    def keyed(self, study: str, keys: tuple[str, str, str], *, facts: bool) -> str:
        """What the larger view of *study* selects, with what orders it: see ``views.keyed``."""
        flavour = self._database.flavour
        return self._read(study, lambda d: views.keyed(flavour, d.layout, keys, facts=facts))

    def close(self) -> None:
        self._database.close()

    def _write(self, study: str, work: Callable[[Desk], Result]) -> Result:
        """One transaction at the desk of a study; what it learnt of the table is remembered."""
        return self._at_desk(self._database.write, study, work)

    def _write_briefly(self, study: str, work: Callable[[Desk], Result]) -> Result:
        return self._at_desk(self._database.write_briefly, study, work)

    def _read(self, study: str, work: Callable[[Desk], Result]) -> Result:
        return self._at_desk(self._database.read, study, work)

    def _at_desk(
        self,
        within: Callable[[Callable[[Transaction], Result]], Result],
        study: str,
        work: Callable[[Desk], Result],
    ) -> Result:
        seen: list[Layout] = []

        def whole(transaction: Transaction) -> Result:
            known = self._layouts.get(study)
            desk = Desk(transaction, studies.read_layout(transaction, study, known))
            result = work(desk)
            seen.append(desk.layout)
            return result

        result = within(whole)
        self._layouts[study] = seen[-1]
        return result

    # Studies

    def open(self, name: str, definition: Definition) -> Study:
        naming.check(name, definition)
        stored = self._portable(definition)
        return self._database.write(lambda t: studies.open_study(t, name, stored))

    def archive(self, study: Study) -> Study | None:
        archived = self._database.write(lambda t: leases.archive(t, study))
        self._layouts.pop(study.name, None)
        return archived

    def study(self, name: str) -> Study:
        return self._database.read(lambda t: studies.one(t, name)[0])

    def studies(self) -> tuple[Study, ...]:
        return self._database.read(studies.all_studies)

    def definition(self, study: str, at: float | None = None) -> Definition:
        found = self._database.read(lambda t: studies.definition(t, study, at))
        folder = self.store.project
        return replace(found, notes=local(found.notes, folder)) if folder else found

    def _portable(self, definition: Definition) -> Definition:
        """With paths that stay right when the project is moved."""
        folder = self.store.project
        notes = dict(definition.notes)
        return replace(definition, notes=portable(notes, folder)) if folder else definition

    def counts(self, study: str) -> dict[State, int]:
        return self._database.read(lambda t: studies.counts(t, study))

    def burden(self, study: str) -> Removal:
        return self._database.read(lambda t: removal.burden(t, study, self.store.located))

    def delete(self, study: str) -> Removal:
        locate = self.store.located
        return self._database.write(lambda t: removal.delete_study(t, study, locate))

    # Drivers

    def lease(
        self, study: str, driver: Driver, *, join: bool = False, seconds: float = 60.0
    ) -> Lease:
        return self._database.write(lambda t: leases.take(t, study, driver, join, seconds))

    def beat(self, lease: Lease) -> Lease:
        return self._database.write_briefly(lambda t: leases.lengthen(t, lease))

    def leave(self, lease: Lease) -> None:
        self._database.write(lambda t: leases.give_back(t, lease))

    def drivers(self, study: str) -> tuple[Lease, ...]:
        return self._database.read(lambda t: leases.unended(t, study))

    # What a service is to run

    def submit(self, token: str, user: str, study: str, request: Mapping[str, Any]) -> Submission:
        return self._database.write(lambda t: queue.submit(t, token, user, study, request))

    def submissions(self, turns: Iterable[Turn] | None = None) -> tuple[Submission, ...]:
        wanted = None if turns is None else list(turns)
        return self._database.read(lambda t: queue.all_of(t, wanted))

    def settle(self, number: int, turn: Turn, cause: str = "") -> Submission:
        return self._database.write(lambda t: queue.settle(t, number, turn, cause))

    def report(self, number: int, progress: Mapping[str, Any]) -> None:
        self._database.write_briefly(lambda t: queue.report(t, number, progress))

    # Experiments and outcomes

    def add(self, study: str, experiments: Iterable[Experiment]) -> frozenset[str]:
        given = list(experiments)
        return self._write_briefly(study, lambda desk: rows.add(desk, given))

    def claim(self, study: str, driver: int, digests: Sequence[str]) -> dict[str, int]:
        return self._write_briefly(study, lambda desk: rows.claim(desk, driver, digests))

    def record(
        self, study: str, driver: int, outcomes: Iterable[Outcome], *, final: bool = True
    ) -> frozenset[str]:
        with self.store.publishing(list(outcomes)) as given:
            return self._write(study, lambda desk: recording.record(desk, driver, given, final))

    def enter(
        self, study: str, driver: int, results: Iterable[tuple[Experiment, Outcome]]
    ) -> frozenset[str]:
        pairs = list(results)
        with self.store.publishing([outcome for _, outcome in pairs]) as published:
            given = [(e, outcome) for (e, _), outcome in zip(pairs, published, strict=True)]
            return self._write(study, lambda desk: recording.enter(desk, driver, given))

    def remeasure(
        self, study: str, outcomes: Iterable[Outcome], definition: Definition | None = None
    ) -> int:
        stored = self._portable(definition) if definition is not None else None
        again = list(outcomes) if isinstance(outcomes, Iterator) else outcomes

        def work(desk: Desk) -> int:
            if stored is not None:
                studies.open_study(desk.transaction, study, stored)
                desk.layout = studies.read_layout(desk.transaction, study)
            given = iter(again)
            batches = iter(lambda: list(islice(given, _BATCH)), [])
            return sum(recording.remeasure(desk, batch) for batch in batches)

        return self._write(study, work)

    def reopen(self, study: str, digests: Sequence[str]) -> int:
        return self._write(study, lambda desk: recording.reopen(desk, digests))

    # Answers

    def find(self, digests: Sequence[str], study: str | None = None) -> dict[str, Outcome]:
        return self._database.read(lambda t: answers.find(t, digests, study))

    def records(
        self, study: str, *, after: Key | None = None, states: Iterable[State] | None = None
    ) -> Iterator[Record]:
        wanted = list(STATES if states is None else states)
        while batch := self._read(study, lambda desk: answers.records(desk, after, wanted)):  # noqa: B023
            yield from batch
            after = batch[-1].key

    def row(self, study: str, digest: str) -> Record:
        return self._read(study, lambda desk: answers.row(desk, digest))

    def matching(self, prefix: str, limit: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return self._database.read(lambda t: answers.matching(t, prefix, limit))

    def attempts(self, digest: str) -> tuple[Attempt, ...]:
        return self._database.read(lambda t: answers.all_attempts(t, digest))

    def note(self, study: str, kind: str, text: str, digest: str | None = None) -> None:
        self._write(study, lambda desk: answers.note(desk, kind, text, digest))

    def events(self, study: str, digest: str | None = None) -> tuple[Event, ...]:
        return self._database.read(lambda t: events.of_study(t, study, digest))

    def logs(self, digest: str, attempt: int | None = None) -> Logs:
        return self._database.read(lambda t: answers.logs_of(t, digest, attempt))

    def artifacts(self, digest: str, attempt: int | None = None) -> tuple[Artifact, ...]:
        rows = self._database.read(lambda t: answers.artifacts_of(t, digest, attempt))
        return tuple(self.store.located(artifact, digest) for artifact in rows)

    def contents(self, sha256: Iterable[str]) -> frozenset[str]:
        wanted = list(sha256)
        return self._database.read(lambda t: removal.contents_in_use(t, wanted))
