"""The repository in SQL: SQLite or PostgreSQL, told apart only by their dialect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from zenturio.errors import Diagnostic
from zenturio.experiment.experiment import Artifact, Experiment, Kinds, Outcome
from zenturio.record import (
    claims,
    codec,
    event_log,
    former_digests,
    leases,
    measurement_rounds,
    outcome_recording,
    record_queries,
    result_copies,
    result_counts,
    sql_names,
    stored_recipes,
    stored_views,
    studies,
    study_deletion,
    study_views,
    submission_queue,
)
from zenturio.record.artifact_store import ArtifactStore
from zenturio.record.connection_pool import Connections
from zenturio.record.database import Database, Transaction
from zenturio.record.driver_process import DriverProcess
from zenturio.record.entities import (
    EXPERIMENT_STATES,
    AttemptLogs,
    AttemptRecord,
    EquatedResult,
    ExperimentRecord,
    ExperimentState,
    Lease,
    MeasurementRound,
    RecordKey,
    RepositoryEvent,
    ResultCount,
    StudyDefinition,
    StudyDeletion,
    StudyInfo,
    StudySubmission,
    SubmissionState,
)
from zenturio.record.field_layout import FieldLayout
from zenturio.record.leases import LeaseRow
from zenturio.record.portable_paths import to_local, to_portable
from zenturio.record.row_filter import RowFilter
from zenturio.record.schema_names import DialectName
from zenturio.record.stored_views import StoredView
from zenturio.record.studies import StudyVersion
from zenturio.record.study_context import RepositoryCache, StudyContext

if TYPE_CHECKING:
    from sqlalchemy import Engine

Result = TypeVar("Result")
_BATCH = 500
"""Outcomes that are measured anew at a time."""


class SQLRepository:
    """A repository in a database whose schema is current; safe to share among threads."""

    def __init__(self, database: Database, store: ArtifactStore) -> None:
        self._database = database
        self.store = store
        self._cache = RepositoryCache()

    @property
    def location(self) -> str:
        return self._database.dialect.location

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return self._database.dialect.warnings()

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
        self._database.dialect.limit_cache(kib)
        self._database.connections.dispose()  # open ones have the cache of before

    @property
    def dialect(self) -> DialectName:
        return self._database.dialect.name

    def connect_reader(self) -> Any:
        """A connection to PostgreSQL for SQL that somebody writes: see ``sql_reader``."""
        from zenturio.record import reader_role  # noqa: PLC0415 - it loads SQLAlchemy

        return reader_role.connect(reader_role.reader(self._database))

    def ordered_rows_sql(
        self,
        study: str,
        keys: tuple[str, str, str],
        *,
        facts: bool,
        names: Collection[str] | None = None,
        rows: RowFilter | None = None,
    ) -> str:
        """What selects the rows of *study*, with what orders it: see ``study_views.rows_sql``."""
        dialect = self._database.dialect
        return self._read(
            study,
            lambda d: study_views.rows_sql(
                dialect, d.layout, keys=keys, facts=facts, names=names, rows=rows
            ),
        )

    def version_and_layout(self, study: str) -> tuple[StudyVersion, FieldLayout]:
        """What the name of a study means, and the fields that this has."""
        return self._read(study, lambda context: (context.version, context.layout))

    def rows_sql(
        self,
        study: str,
        *,
        whole: bool,
        names: Collection[str] | None = None,
        rows: RowFilter | None = None,
    ) -> str:
        """What a view of *study* selects: see ``study_views.rows_sql``."""
        dialect = self._database.dialect
        return self._read(
            study,
            lambda d: study_views.rows_sql(dialect, d.layout, whole=whole, names=names, rows=rows),
        )

    def expand_views(self, text: str) -> str:
        """Return a user's query with the views that it names: see ``study_views.expand_views``."""
        return self._database.read(lambda t: study_views.expand_views(t, self._cache, text))

    def refresh_views(self, study: str) -> bool:
        """Brings the views of *study* that the database keeps up to date; false if a reader is
        in the way.
        """
        return stored_views.refresh_views(self._database, self._cache, study)

    def stored_views(self) -> tuple[StoredView, ...]:
        """The views that the database keeps for other programs, and of which studies it may."""
        return self._database.read(stored_views.stored_views)

    def pin_views(self, study: str, *, is_pinned: bool) -> None:
        """Keeps the views of *study* in the database, whichever studies are opened, or not."""
        stored_views.pin_views(self._database, self._cache, study, is_pinned=is_pinned)

    def close(self) -> None:
        self._database.close()

    def _read(self, study: str, work: Callable[[StudyContext], Result]) -> Result:
        return self._in_context(self._database.read, study, work)

    def _in_context(
        self,
        within: Callable[[Callable[[Transaction], Result]], Result],
        study: str,
        work: Callable[[StudyContext], Result],
    ) -> Result:
        """Run *work* in one transaction; what it learnt is cached once this is committed."""

        def opened(transaction: Transaction) -> StudyContext:
            return StudyContext.at(
                transaction, studies.get_version(transaction, study), self._cache
            )

        return self._remembering(within, opened, work)

    def _driving(
        self,
        within: Callable[[Callable[[Transaction], Result]], Result],
        study: str,
        driver: int,
        work: Callable[[StudyContext, LeaseRow], Result],
        *,
        ended: bool = False,
    ) -> Result:
        """The same for the driver with that lease, which nobody ends meanwhile."""
        rows: list[LeaseRow] = []

        def opened(transaction: Transaction) -> StudyContext:
            row, version = leases.lock_lease(transaction, study, driver, ended=ended)
            rows.append(row)
            return StudyContext.at(transaction, version, self._cache)

        return self._remembering(within, opened, lambda context: work(context, rows[-1]))

    def _remembering(
        self,
        within: Callable[[Callable[[Transaction], Result]], Result],
        opened: Callable[[Transaction], StudyContext],
        work: Callable[[StudyContext], Result],
    ) -> Result:
        contexts: list[StudyContext] = []

        def whole(transaction: Transaction) -> Result:
            context = opened(transaction)
            contexts.append(context)
            return work(context)

        result = within(whole)
        contexts[-1].committed()
        return result

    # Studies

    def open(self, name: str, definition: StudyDefinition) -> StudyInfo:
        sql_names.check_names(name, definition)
        stored = self._portable(definition)
        version = self._database.write(lambda t: studies.open_study(t, name, stored))
        if version.has_stale_view:
            self.refresh_views(name)
        return version.study_facts

    def archive(self, study: StudyInfo) -> StudyInfo | None:
        return self._database.write(lambda t: leases.archive(t, study))

    def study(self, name: str) -> StudyInfo:
        return self._database.read(lambda t: studies.get_version(t, name).study_facts)

    def studies(self) -> tuple[StudyInfo, ...]:
        return self._database.read(studies.all_studies)

    def definition(self, study: str, at: float | None = None) -> StudyDefinition:
        definition = self._database.read(lambda t: studies.definition(t, study, at))
        folder = self.store.project
        return (
            replace(definition, notes=to_local(definition.notes, folder)) if folder else definition
        )

    def _portable(self, definition: StudyDefinition) -> StudyDefinition:
        """With paths that stay right when the project is moved."""
        folder = self.store.project
        notes = dict(definition.notes)
        return replace(definition, notes=to_portable(notes, folder)) if folder else definition

    def count_states(self, study: str) -> dict[ExperimentState, int]:
        return self._database.read(lambda t: result_counts.count_states(t, study))

    def count_results(self, study: str) -> tuple[ResultCount, ...]:
        return self._database.read(lambda t: result_counts.count_results(t, study))

    def preview_deletion(self, study: str) -> StudyDeletion:
        return self._database.read(
            lambda t: study_deletion.preview_deletion(t, study, self.store.located)
        )

    def delete(self, study: str) -> StudyDeletion:
        name = self._database.read(lambda t: studies.get_version(t, study).sql_name)
        deletion = self._database.write(
            lambda t: study_deletion.delete_study(t, study, self.store.located)
        )
        stored_views.drop_views_of(self._database, name)
        return deletion

    # Drivers

    def acquire_lease(
        self, study: str, driver: DriverProcess, *, join: bool = False, seconds: float = 60.0
    ) -> Lease:
        return self._database.write(lambda t: leases.acquire(t, study, driver, join, seconds))

    def renew_lease(self, lease: Lease) -> Lease:
        return self._database.write_briefly(lambda t: leases.renew(t, lease))

    def release_lease(self, lease: Lease) -> None:
        self._database.write(lambda t: leases.release(t, lease))
        self.refresh_views(lease.study)

    def leases(self, study: str) -> tuple[Lease, ...]:
        return self._database.read(lambda t: leases.open_leases(t, study))

    # What a service is to run

    def submit(
        self, token: str, user: str, study: str, request: Mapping[str, Any]
    ) -> StudySubmission:
        return self._database.write(
            lambda t: submission_queue.submit(t, token, user, study, request)
        )

    def submissions(
        self, turns: Iterable[SubmissionState] | None = None
    ) -> tuple[StudySubmission, ...]:
        states = None if turns is None else list(turns)
        return self._database.read(lambda t: submission_queue.list_submissions(t, states))

    def update_submission(
        self, number: int, turn: SubmissionState, cause: str = ""
    ) -> StudySubmission:
        return self._database.write(lambda t: submission_queue.set_state(t, number, turn, cause))

    def report_progress(self, number: int, progress: Mapping[str, Any]) -> None:
        self._database.write_briefly(
            lambda t: submission_queue.report_progress(t, number, progress)
        )

    # Experiments and outcomes

    def has_former_digests(self) -> bool:
        return self._database.read(former_digests.has_former_digests)

    def result_identities(
        self, study: str, most: int
    ) -> tuple[list[stored_recipes.ResultIdentity], int]:
        """How some results of *study* are named, and how many have nothing but a digest."""
        return self._read(study, lambda context: stored_recipes.result_identities(context, most))

    def begin_round(self, study: str, reason: str = "") -> int:
        return self._database.write(
            lambda t: measurement_rounds.begin_round(
                t, studies.get_version(t, study, locked=True), leases.person(), reason
            )
        )

    def end_round(self, study: str, number: int) -> None:
        self._database.write(
            lambda t: measurement_rounds.end_round(t, studies.get_version(t, study), number)
        )

    def rounds(self, study: str) -> tuple[MeasurementRound, ...]:
        return self._database.read(
            lambda t: measurement_rounds.rounds_of(t, studies.get_version(t, study))
        )

    def cached(
        self,
        study: str,
        experiments: Iterable[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> frozenset[str]:
        batch = list(experiments)
        if not batch:
            self.study(study)  # which has to be there
            return frozenset()
        return self._in_context(
            self._database.write,
            study,
            lambda d: result_copies.cached_digests(d, batch, kinds, round_),
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
            lambda context, lease: claims.claim(context, lease, experiments, kinds, round_),
        )

    def record(
        self, study: str, driver: int, outcomes: Iterable[Outcome], *, final: bool = True
    ) -> frozenset[str]:
        with self.store.publishing(list(outcomes)) as published:
            return self._driving(
                self._database.write,
                study,
                driver,
                lambda context, lease: outcome_recording.record(
                    context, lease, published, final=final
                ),
                ended=True,
            )

    def add_results(
        self,
        study: str,
        driver: int,
        results: Iterable[tuple[Experiment, Outcome]],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> frozenset[str]:
        pairs = list(results)
        with self.store.publishing([outcome for _, outcome in pairs]) as published:
            stored = [(e, outcome) for (e, _), outcome in zip(pairs, published, strict=True)]
            return self._driving(
                self._database.write,
                study,
                driver,
                lambda context, lease: outcome_recording.add_results(
                    context, lease, stored, kinds, round_
                ),
            )

    def remeasure(
        self, study: str, outcomes: Iterable[Outcome], definition: StudyDefinition | None = None
    ) -> int:
        if definition is not None:
            sql_names.check_names(study, definition)
        stored = None if definition is None else self._portable(definition)
        again = list(outcomes) if isinstance(outcomes, Iterator) else outcomes

        def work(transaction: Transaction) -> int:
            batches = iter(again)
            if stored is not None:
                studies.open_study(transaction, study, stored)
            studies.get_version(
                transaction, study
            )  # which has to be there, if there is nothing to do, too
            done = 0
            while batch := list(islice(batches, _BATCH)):
                # Not remembered before all is committed: each batch may add fields.
                context = StudyContext.at(
                    transaction, studies.get_version(transaction, study), RepositoryCache()
                )
                done += outcome_recording.remeasure(context, batch)
            return done

        return self._database.write(work)

    def reopen(self, study: str, digests: Sequence[str], kinds: Kinds = None) -> int:
        return self._in_context(
            self._database.write,
            study,
            lambda context: outcome_recording.reopen(context, digests, kinds),
        )

    def equate(
        self, study: str, source: str, experiments: Mapping[str, Experiment], person: str
    ) -> int:
        def work(context: StudyContext) -> int:
            return result_copies.equate(
                context, studies.get_version(context.transaction, source), experiments, person
            )

        count = self._in_context(self._database.write, study, work)
        self.refresh_views(study)
        return count

    def undo_equate(self, study: str, source: str) -> int:
        return self._in_context(
            self._database.write,
            study,
            lambda context: result_copies.undo_equate(
                context, studies.get_version(context.transaction, source)
            ),
        )

    def equated_result(self, study: str, digest: str) -> EquatedResult | None:
        return self._read(study, lambda context: result_copies.equated_result(context, digest))

    # Answers

    def find_outcomes(
        self,
        digests: Sequence[str],
        study: str | None = None,
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> dict[str, Outcome]:
        if study is None:
            cache = self._cache
            return self._database.read(
                lambda t: record_queries.find_outcomes_anywhere(t, cache, digests, kinds)
            )
        return self._read(
            study, lambda context: record_queries.find_outcomes(context, digests, kinds, round_)
        )

    def records(
        self,
        study: str,
        *,
        after: RecordKey | None = None,
        states: Iterable[ExperimentState] | None = None,
    ) -> Iterator[ExperimentRecord]:
        selected = list(EXPERIMENT_STATES if states is None else states)
        others = self._read(
            study, lambda context: record_queries.unfinished_records(context, selected)
        )
        if after is not None:
            others = [record for record in others if record.key > after]
        return record_queries.merge_records(self._results(study, after, selected), others)

    def _results(
        self, study: str, after: RecordKey | None, states: list[ExperimentState]
    ) -> Iterator[ExperimentRecord]:
        while batch := self._read(study, lambda d: record_queries.next_results(d, after, states)):  # noqa: B023
            yield from batch
            after = batch[-1].key

    def experiment_record(self, study: str, digest: str) -> ExperimentRecord:
        return self._read(study, lambda context: record_queries.get_record(context, digest))

    def find_digests(self, prefix: str, limit: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return self._database.read(lambda t: record_queries.find_digests(t, prefix, limit))

    def attempts(self, digest: str) -> tuple[AttemptRecord, ...]:
        return self._database.read(lambda t: record_queries.all_attempts(t, digest))

    def add_event(self, study: str, kind: str, text: str, digest: str | None = None) -> None:
        key = None if digest is None else codec.digest_key(digest)
        self._database.write(
            lambda t: event_log.add_event(t, studies.get_version(t, study).id, kind, text, key)
        )

    def events(self, study: str, digest: str | None = None) -> tuple[RepositoryEvent, ...]:
        return self._database.read(lambda t: event_log.study_events(t, study, digest))

    def redactions(self, study: str, digest: str) -> tuple[RepositoryEvent, ...]:
        return self._database.read(lambda t: event_log.redactions(t, study, digest))

    def logs(self, digest: str, attempt: int | None = None) -> AttemptLogs:
        return self._database.read(lambda t: record_queries.logs_of(t, digest, attempt))

    def artifacts(self, digest: str, attempt: int | None = None) -> tuple[Artifact, ...]:
        rows = self._database.read(lambda t: record_queries.artifacts_of(t, digest, attempt))
        return tuple(self.store.located(artifact, digest) for artifact in rows)

    def contents(self, sha256: Iterable[str]) -> frozenset[str]:
        digests = sorted(set(sha256))
        return self._database.read(lambda t: study_deletion.contents_in_use(t, digests))
