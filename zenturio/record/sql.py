"""The repository in SQL: SQLite or PostgreSQL, told apart only by their flavour."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from zenturio.errors import Diagnostic
from zenturio.experiment.experiment import Artifact, Experiment, Outcome
from zenturio.experiment.machine import Kinds
from zenturio.record import (
    answers,
    claims,
    codec,
    copying,
    counts,
    events,
    former_digests,
    leases,
    naming,
    queue,
    recipes,
    recording,
    removal,
    rounds,
    stored_views,
    studies,
    views,
)
from zenturio.record.artifact_store import ArtifactStore
from zenturio.record.connection_pool import Connections
from zenturio.record.database import Database, Transaction
from zenturio.record.desk import Desk, Memory
from zenturio.record.driver import Driver
from zenturio.record.facts import (
    STATES,
    Attempt,
    Definition,
    Equality,
    Event,
    Key,
    Lease,
    Logs,
    Record,
    Removal,
    ResultCount,
    Round,
    State,
    Study,
    Submission,
    Turn,
)
from zenturio.record.layout import Layout
from zenturio.record.leases import Row as LeaseRow
from zenturio.record.portable import local, portable
from zenturio.record.row_filter import RowFilter
from zenturio.record.schema_names import DialectName
from zenturio.record.stored_views import StoredView
from zenturio.record.studies import Version

if TYPE_CHECKING:
    from sqlalchemy import Engine

Result = TypeVar("Result")
_BATCH = 500
"""Outcomes that are measured anew at a time."""


class Sql:
    """A repository in a database whose schema is current; safe to share among threads."""

    def __init__(self, database: Database, store: ArtifactStore) -> None:
        self._database = database
        self.store = store
        self._memory = Memory()

    @property
    def place(self) -> str:
        return self._database.flavour.place

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return self._database.flavour.warnings()

    @property
    def connections(self) -> Connections:
        """Connections for those who read; begin transactions yourself."""
        return self._database.connections

    @property
    def engine(self) -> Engine:
        """The same for those who use SQLAlchemy."""
        return self._database.engine

    def limit_cache(self, kib: int) -> None:
        """Let each connection keep so much of the database in memory, where that is ours."""
        self._database.flavour.limit_cache(kib)
        self._database.connections.dispose()  # open ones have the cache of before

    @property
    def dialect(self) -> DialectName:
        return self._database.flavour.name

    def connect_reader(self) -> Any:
        """A connection to PostgreSQL for SQL that somebody writes: see ``sql_reader``."""
        from zenturio.record import sql_reader  # noqa: PLC0415 - it loads SQLAlchemy

        return sql_reader.connect(sql_reader.reader(self._database))

    def keyed(
        self,
        study: str,
        keys: tuple[str, str, str],
        *,
        facts: bool,
        names: Collection[str] | None = None,
        rows: RowFilter | None = None,
    ) -> str:
        """What selects the rows of *study*, with what orders it: see ``views.rows_sql``."""
        flavour = self._database.flavour
        return self._read(
            study,
            lambda d: views.rows_sql(
                flavour, d.layout, keys=keys, facts=facts, names=names, rows=rows
            ),
        )

    def described(self, study: str) -> tuple[Version, Layout]:
        """What the name of a study means, and the fields that this has."""
        return self._read(study, lambda desk: (desk.version, desk.layout))

    def rows_sql(
        self,
        study: str,
        *,
        whole: bool,
        names: Collection[str] | None = None,
        rows: RowFilter | None = None,
    ) -> str:
        """What a view of *study* selects: see ``views.rows_sql``."""
        flavour = self._database.flavour
        return self._read(
            study,
            lambda d: views.rows_sql(flavour, d.layout, whole=whole, names=names, rows=rows),
        )

    def expanded(self, text: str) -> str:
        """Somebody's own query with what the views are that it names: see ``views.expanded``."""
        return self._database.read(lambda t: views.expanded(t, self._memory, text))

    def refresh_views(self, study: str) -> bool:
        """Brings the views of *study* that the database keeps up to date; false if a reader is
        in the way.
        """
        return stored_views.refresh(self._database, self._memory, study)

    def stored_views(self) -> tuple[StoredView, ...]:
        """The views that the database keeps for other programs, and of which studies it may."""
        return self._database.read(stored_views.stored_views)

    def pin_views(self, study: str, *, is_pinned: bool) -> None:
        """Keeps the views of *study* in the database, whichever studies are opened, or not."""
        stored_views.pin(self._database, self._memory, study, is_pinned=is_pinned)

    def close(self) -> None:
        self._database.close()

    def _read(self, study: str, work: Callable[[Desk], Result]) -> Result:
        return self._at_desk(self._database.read, study, work)

    def _at_desk(
        self,
        within: Callable[[Callable[[Transaction], Result]], Result],
        study: str,
        work: Callable[[Desk], Result],
    ) -> Result:
        """One transaction at the desk of a study; what it learnt is remembered once it is over."""

        def opened(transaction: Transaction) -> Desk:
            return Desk.at(transaction, studies.one(transaction, study), self._memory)

        return self._remembering(within, opened, work)

    def _driving(
        self,
        within: Callable[[Callable[[Transaction], Result]], Result],
        study: str,
        driver: int,
        work: Callable[[Desk, LeaseRow], Result],
        *,
        ended: bool = False,
    ) -> Result:
        """The same for the driver with that lease, which nobody ends meanwhile."""
        rows: list[LeaseRow] = []

        def opened(transaction: Transaction) -> Desk:
            row, version = leases.held(transaction, study, driver, ended=ended)
            rows.append(row)
            return Desk.at(transaction, version, self._memory)

        return self._remembering(within, opened, lambda desk: work(desk, rows[-1]))

    def _remembering(
        self,
        within: Callable[[Callable[[Transaction], Result]], Result],
        opened: Callable[[Transaction], Desk],
        work: Callable[[Desk], Result],
    ) -> Result:
        desks: list[Desk] = []

        def whole(transaction: Transaction) -> Result:
            desk = opened(transaction)
            desks.append(desk)
            return work(desk)

        result = within(whole)
        desks[-1].committed()
        return result

    # Studies

    def open(self, name: str, definition: Definition) -> Study:
        naming.check(name, definition)
        stored = self._portable(definition)
        version = self._database.write(lambda t: studies.open_study(t, name, stored))
        if version.has_stale_view:
            self.refresh_views(name)
        return version.study_facts

    def archive(self, study: Study) -> Study | None:
        return self._database.write(lambda t: leases.archive(t, study))

    def study(self, name: str) -> Study:
        return self._database.read(lambda t: studies.one(t, name).study_facts)

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
        return self._database.read(lambda t: counts.counts(t, study))

    def result_counts(self, study: str) -> tuple[ResultCount, ...]:
        return self._database.read(lambda t: counts.result_counts(t, study))

    def burden(self, study: str) -> Removal:
        return self._database.read(lambda t: removal.burden(t, study, self.store.located))

    def delete(self, study: str) -> Removal:
        name = self._database.read(lambda t: studies.one(t, study).sql_name)
        found = self._database.write(lambda t: removal.delete_study(t, study, self.store.located))
        stored_views.forget(self._database, name)
        return found

    # Drivers

    def lease(
        self, study: str, driver: Driver, *, join: bool = False, seconds: float = 60.0
    ) -> Lease:
        return self._database.write(lambda t: leases.take(t, study, driver, join, seconds))

    def beat(self, lease: Lease) -> Lease:
        return self._database.write_briefly(lambda t: leases.lengthen(t, lease))

    def leave(self, lease: Lease) -> None:
        self._database.write(lambda t: leases.give_back(t, lease))
        self.refresh_views(lease.study)

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

    def has_former_digests(self) -> bool:
        return self._database.read(former_digests.are_there)

    def identities(self, study: str, most: int) -> tuple[list[recipes.Named], int]:
        """How some results of *study* are named, and how many have nothing but a digest."""
        return self._read(study, lambda desk: recipes.names(desk, most))

    def begin_round(self, study: str, reason: str = "") -> int:
        return self._database.write(
            lambda t: rounds.begin(t, studies.one(t, study, locked=True), leases.person(), reason)
        )

    def end_round(self, study: str, number: int) -> None:
        self._database.write(lambda t: rounds.end(t, studies.one(t, study), number))

    def rounds(self, study: str) -> tuple[Round, ...]:
        return self._database.read(lambda t: rounds.all_of(t, studies.one(t, study)))

    def cached(
        self,
        study: str,
        experiments: Iterable[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> frozenset[str]:
        wanted = list(experiments)
        if not wanted:
            self.study(study)  # which has to be there
            return frozenset()
        return self._at_desk(
            self._database.write, study, lambda d: copying.cached(d, wanted, kinds, round_)
        )

    def claim(
        self,
        study: str,
        driver: int,
        experiments: Sequence[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> dict[str, int]:
        return self._driving(
            self._database.write_briefly,
            study,
            driver,
            lambda desk, lease: claims.claim(desk, lease, experiments, kinds, round_),
        )

    def record(
        self, study: str, driver: int, outcomes: Iterable[Outcome], *, final: bool = True
    ) -> frozenset[str]:
        with self.store.publishing(list(outcomes)) as given:
            return self._driving(
                self._database.write,
                study,
                driver,
                lambda desk, lease: recording.record(desk, lease, given, final=final),
                ended=True,
            )

    def enter(
        self,
        study: str,
        driver: int,
        results: Iterable[tuple[Experiment, Outcome]],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> frozenset[str]:
        pairs = list(results)
        with self.store.publishing([outcome for _, outcome in pairs]) as published:
            given = [(e, outcome) for (e, _), outcome in zip(pairs, published, strict=True)]
            return self._driving(
                self._database.write,
                study,
                driver,
                lambda desk, lease: recording.enter(desk, lease, given, kinds, round_),
            )

    def remeasure(
        self, study: str, outcomes: Iterable[Outcome], definition: Definition | None = None
    ) -> int:
        if definition is not None:
            naming.check(study, definition)
        stored = None if definition is None else self._portable(definition)
        again = list(outcomes) if isinstance(outcomes, Iterator) else outcomes

        def work(transaction: Transaction) -> int:
            batches = iter(again)
            if stored is not None:
                studies.open_study(transaction, study, stored)
            studies.one(transaction, study)  # which has to be there, if there is nothing to do, too
            done = 0
            while batch := list(islice(batches, _BATCH)):
                # Not remembered before all is committed: each batch may add fields.
                desk = Desk.at(transaction, studies.one(transaction, study), Memory())
                done += recording.remeasure(desk, batch)
            return done

        return self._database.write(work)

    def reopen(self, study: str, digests: Sequence[str], kinds: Kinds = None) -> int:
        return self._at_desk(
            self._database.write, study, lambda desk: recording.reopen(desk, digests, kinds)
        )

    def equate(
        self, study: str, source: str, experiments: Mapping[str, Experiment], person: str
    ) -> int:
        def work(desk: Desk) -> int:
            return copying.equate(desk, studies.one(desk.transaction, source), experiments, person)

        count = self._at_desk(self._database.write, study, work)
        self.refresh_views(study)
        return count

    def undo_equate(self, study: str, source: str) -> int:
        return self._at_desk(
            self._database.write,
            study,
            lambda desk: copying.undo_equate(desk, studies.one(desk.transaction, source)),
        )

    def equality(self, study: str, digest: str) -> Equality | None:
        return self._read(study, lambda desk: copying.equality(desk, digest))

    # Answers

    def find(
        self,
        digests: Sequence[str],
        study: str | None = None,
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> dict[str, Outcome]:
        if study is None:
            memory = self._memory
            return self._database.read(lambda t: answers.find_anywhere(t, memory, digests, kinds))
        return self._read(study, lambda desk: answers.find(desk, digests, kinds, round_))

    def records(
        self, study: str, *, after: Key | None = None, states: Iterable[State] | None = None
    ) -> Iterator[Record]:
        wanted = list(STATES if states is None else states)
        others = self._read(study, lambda desk: answers.unfinished(desk, wanted))
        if after is not None:
            others = [record for record in others if record.key > after]
        return answers.merged(self._results(study, after, wanted), others)

    def _results(self, study: str, after: Key | None, states: list[State]) -> Iterator[Record]:
        while batch := self._read(study, lambda d: answers.results(d, after, states)):  # noqa: B023
            yield from batch
            after = batch[-1].key

    def row(self, study: str, digest: str) -> Record:
        return self._read(study, lambda desk: answers.row(desk, digest))

    def matching(self, prefix: str, limit: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return self._database.read(lambda t: answers.matching(t, prefix, limit))

    def attempts(self, digest: str) -> tuple[Attempt, ...]:
        return self._database.read(lambda t: answers.all_attempts(t, digest))

    def note(self, study: str, kind: str, text: str, digest: str | None = None) -> None:
        key = None if digest is None else codec.key(digest)
        self._database.write(lambda t: events.note(t, studies.one(t, study).id, kind, text, key))

    def events(self, study: str, digest: str | None = None) -> tuple[Event, ...]:
        return self._database.read(lambda t: events.of_study(t, study, digest))

    def redactions(self, study: str, digest: str) -> tuple[Event, ...]:
        return self._database.read(lambda t: events.redactions(t, study, digest))

    def logs(self, digest: str, attempt: int | None = None) -> Logs:
        return self._database.read(lambda t: answers.logs_of(t, digest, attempt))

    def artifacts(self, digest: str, attempt: int | None = None) -> tuple[Artifact, ...]:
        rows = self._database.read(lambda t: answers.artifacts_of(t, digest, attempt))
        return tuple(self.store.located(artifact, digest) for artifact in rows)

    def contents(self, sha256: Iterable[str]) -> frozenset[str]:
        wanted = sorted(set(sha256))
        return self._database.read(lambda t: removal.contents_in_use(t, wanted))
