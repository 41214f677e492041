"""The repository in SQL; SQLite and PostgreSQL differ only in their dialects."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial, wraps
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from zenturio import trust
from zenturio.errors import ConflictError, Diagnostic
from zenturio.experiment.experiment import (
    Artifact,
    Experiment,
    Kinds,
    Outcome,
    ProgramIdentity,
)
from zenturio.record import (
    codec,
    leases,
    outcome_recording,
    record_queries,
    result_rows,
    reused_results,
    sql_names,
    studies,
    study_standings,
    study_views,
    submission_queue,
)
from zenturio.record.artifact_store import ArtifactStore
from zenturio.record.codec import to_local, to_portable
from zenturio.record.database import Connections, Database, Transaction
from zenturio.record.entities import (
    EXPERIMENT_STATES,
    AttemptLogs,
    AttemptRecord,
    CachedResults,
    ColumnPage,
    ColumnRequest,
    DriverProcess,
    EquatedResult,
    ExperimentRecord,
    ExperimentState,
    KeyedResults,
    Lease,
    MeasurementRound,
    RecordPosition,
    RepositoryEvent,
    ResultCount,
    ResultRunPosition,
    RowFilter,
    StudyDefinition,
    StudyDeletion,
    StudyInfo,
    StudyStanding,
    StudySubmission,
    SubmissionState,
)
from zenturio.record.field_layout import FieldLayout
from zenturio.record.leases import LeaseRow
from zenturio.record.sql_names import DialectName, Project
from zenturio.record.sqlite import SQLite
from zenturio.record.studies import StudyVersion
from zenturio.record.study_transaction import RepositoryCache, StudyTransaction
from zenturio.record.study_views import DatabaseView

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from zenturio.record.columnar_copy import ColumnarCopy

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_BATCH = 500
"""Outcomes that are measured anew at a time."""


def reads(
    method: Callable[Concatenate[SQLRepository, Transaction, Arguments], Result],
) -> Callable[Concatenate[SQLRepository, Arguments], Result]:
    """Call the method with a transaction that sees one moment of the database."""

    @wraps(method)
    def call(self: SQLRepository, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        database = self._database
        begin, work = database.dialect.begin_read, partial(method, self)
        result: Result = database.repeat(database.transact, begin, work, *args, **options)
        return result

    return call


def writes(
    method: Callable[Concatenate[SQLRepository, Transaction, Arguments], Result],
) -> Callable[Concatenate[SQLRepository, Arguments], Result]:
    """Call the method with a transaction whose commit is on the disk when the call returns.

    The method runs once more where the connection broke, even if it had been committed: a second
    run must change nothing.
    """

    @wraps(method)
    def call(self: SQLRepository, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        database = self._database
        begin, work = database.dialect.begin_write, partial(method, self)
        result: Result = database.repeat(database.transact, begin, work, *args, **options)
        return result

    return call


def writes_briefly(
    method: Callable[Concatenate[SQLRepository, Transaction, Arguments], Result],
) -> Callable[Concatenate[SQLRepository, Arguments], Result]:
    """Do as ``writes``, but do not wait for the disk: a power failure may undo the call.

    For what living drivers alone need (claims, heartbeats): it fails together with them.
    """

    @wraps(method)
    def call(self: SQLRepository, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        database = self._database
        begin, work = database.dialect.begin_brief, partial(method, self)
        result: Result = database.repeat(database.transact, begin, work, *args, **options)
        return result

    return call


class SQLRepository:
    """A repository in a database whose schema is current; safe to share among threads."""

    def __init__(self, database: Database, store: ArtifactStore) -> None:
        self._database = database
        self.store = store
        self._cache = RepositoryCache()
        self.copy_wanted: Callable[[str], None] | None = None
        """Called with the name of a large study that has no columnar copy yet, by who must not wait
        until it is made; without it, the question itself makes the copy."""

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
        """Return a connection to PostgreSQL for SQL of users: see ``database_roles``."""
        from zenturio.record import database_roles  # noqa: PLC0415 - it loads SQLAlchemy

        return database_roles.connect(database_roles.reader(self._database))

    @reads
    def ordered_rows_sql(
        self,
        transaction: Transaction,
        study: str,
        keys: tuple[str, str, str],
        *,
        facts: bool,
        names: Collection[str] | None = None,
        rows: RowFilter | None = None,
    ) -> str:
        """Return a query for the rows of *study* with their sort keys: ``study_views.rows_sql``."""
        layout = self._context(transaction, study).layout
        return study_views.rows_sql(
            transaction.dialect, layout, keys=keys, facts=facts, names=names, rows=rows
        )

    @reads
    def version_and_layout(
        self, transaction: Transaction, study: str
    ) -> tuple[StudyVersion, FieldLayout]:
        """Return the version that the name of a study means, and its fields."""
        context = self._context(transaction, study)
        return context.version, context.layout

    @reads
    def rows_sql(
        self,
        transaction: Transaction,
        study: str,
        *,
        all_rows: bool,
        names: Collection[str] | None = None,
        rows: RowFilter | None = None,
    ) -> str:
        """Return the query of a view of *study*: see ``study_views.rows_sql``."""
        layout = self._context(transaction, study).layout
        return study_views.rows_sql(
            transaction.dialect, layout, all_rows=all_rows, names=names, rows=rows
        )

    @reads
    def expand_views(self, transaction: Transaction, text: str) -> str:
        """Return a user's query with the views that it names: see ``study_views.expand_views``."""
        return study_views.expand_views(transaction, self._cache, text)

    def refresh_views(self, study: str, *, is_stale: bool | None = None) -> bool:
        """Bring the views of *study* that the database keeps up to date; false if a reader is
        in the way. *is_stale*: whether they need it, where that is known.
        """
        return study_views.refresh_views(self._database, self._cache, study, is_stale=is_stale)

    @reads
    def stored_views(self, transaction: Transaction) -> tuple[DatabaseView, ...]:
        """Return the views that the database keeps for other programs."""
        return study_views.stored_views(transaction)

    def pin_views(self, study: str, *, is_pinned: bool) -> None:
        """Keep the views of *study* in the database, whichever studies are opened, or not."""
        study_views.pin_views(self._database, self._cache, study, is_pinned=is_pinned)

    def close(self) -> None:
        self._database.close()

    def _context(self, transaction: Transaction, study: str) -> StudyTransaction:
        version = studies.get_version(transaction, study)
        return self._remembered(StudyTransaction.at(transaction, version, self._cache))

    def _driver_context(
        self, transaction: Transaction, study: str, driver: int, *, ended: bool = False
    ) -> tuple[StudyTransaction, LeaseRow]:
        """Return the context of the driver with that lease, which stays locked.

        The lock is what makes a claim or a record safe from a take-over: whoever ends the lease
        waits for this transaction, and whoever comes later sees that the lease has ended.
        """
        lease, version = leases.lock_lease(transaction, study, driver, ended=ended)
        return self._remembered(StudyTransaction.at(transaction, version, self._cache)), lease

    @staticmethod
    def _remembered(context: StudyTransaction) -> StudyTransaction:
        # Not before the commit: a transaction that is undone has numbers that nobody has.
        context.transaction.after_commit.append(context.committed)
        return context

    # Studies

    def open(self, name: str, definition: StudyDefinition) -> StudyInfo:
        sql_names.check_names(name, definition)
        self._database.project.begin()
        version = self._open(name, self._portable(definition))
        if version.has_stale_view:
            self.refresh_views(name, is_stale=True)
        return version.study_facts

    @writes
    def _open(
        self, transaction: Transaction, name: str, definition: StudyDefinition
    ) -> StudyVersion:
        version, layout = studies.open_study(transaction, name, definition)
        self._remembered(StudyTransaction(transaction, version, layout, self._cache))
        return study_views.refresh_at_once(transaction, version, layout)

    @writes
    def archive(self, transaction: Transaction, study: StudyInfo) -> StudyInfo | None:
        return leases.archive(transaction, study)

    @reads
    def study(self, transaction: Transaction, name: str) -> StudyInfo:
        return studies.get_version(transaction, name).study_facts

    @reads
    def studies(self, transaction: Transaction) -> tuple[StudyInfo, ...]:
        return studies.all_studies(transaction)

    @reads
    def standings(
        self, transaction: Transaction, names: Collection[str] | None = None
    ) -> list[StudyStanding]:
        """Return where studies stand: see ``study_standings.standings``."""
        folder = self.store.project
        standings = study_standings.standings(transaction, names)
        if folder is None:
            return standings
        return [replace(item, notes=to_local(item.notes, folder)) for item in standings]

    @reads
    def definition(
        self, transaction: Transaction, study: str, at: float | None = None
    ) -> StudyDefinition:
        definition = studies.definition(transaction, study, at)
        folder = self.store.project
        if folder is None:
            return definition
        return replace(definition, notes=to_local(definition.notes, folder))

    @reads
    def notes(self, transaction: Transaction, study: str) -> dict[str, Any]:
        notes = studies.notes(transaction, study)
        folder = self.store.project
        return notes if folder is None else dict(to_local(notes, folder))

    def _portable(self, definition: StudyDefinition) -> StudyDefinition:
        """Return *definition* with paths that stay right when the project is moved."""
        folder = self.store.project
        notes = dict(definition.notes)
        return replace(definition, notes=to_portable(notes, folder)) if folder else definition

    @reads
    def count_states(self, transaction: Transaction, study: str) -> dict[ExperimentState, int]:
        return result_rows.count_states(transaction, study)

    @reads
    def count_results(self, transaction: Transaction, study: str) -> tuple[ResultCount, ...]:
        return result_rows.count_results(transaction, study)

    @reads
    def preview_deletion(self, transaction: Transaction, study: str) -> StudyDeletion:
        from zenturio.record import study_deletion  # noqa: PLC0415 - seldom needed

        return study_deletion.preview_deletion(transaction, study, self.store.path_of)

    def delete(self, study: str) -> StudyDeletion:
        name = self._sql_name(study)
        deletion = self._delete(study)
        study_views.drop_views_of(self._database, name)
        return deletion

    @reads
    def _sql_name(self, transaction: Transaction, study: str) -> str:
        return studies.get_version(transaction, study).sql_name

    @writes
    def _delete(self, transaction: Transaction, study: str) -> StudyDeletion:
        from zenturio.record import study_deletion  # noqa: PLC0415 - seldom needed

        return study_deletion.delete_study(transaction, study, self.store.path_of)

    # Drivers

    def acquire_lease(
        self,
        study: str,
        driver: DriverProcess,
        *,
        join: bool = False,
        seconds: float = 60.0,
        draws_seed: bool = False,
    ) -> Lease:
        try:
            return self._acquire_lease(study, driver, join, seconds, draws_seed)
        except ConflictError:
            # With the refusal it was undone that leases which reach too far were shortened.
            self._shorten_leases(study)
            raise

    @writes
    def _acquire_lease(
        self,
        transaction: Transaction,
        study: str,
        driver: DriverProcess,
        join: bool,
        seconds: float,
        draws_seed: bool,
    ) -> Lease:
        lease, version = leases.acquire(transaction, study, driver, join, seconds)
        if not draws_seed:
            return lease
        # In the commit that is needed anyway.
        return replace(lease, order_seed=studies.draw_order_seed(transaction, version))

    @writes
    def _shorten_leases(self, transaction: Transaction, study: str) -> None:
        leases.shorten_leases(transaction, study)

    @writes_briefly
    def renew_lease(self, transaction: Transaction, lease: Lease) -> Lease:
        return leases.renew(transaction, lease)

    def release_lease(self, lease: Lease) -> None:
        is_stale = self._release_lease(lease)
        self.refresh_views(lease.study, is_stale=is_stale)

    @writes
    def _release_lease(self, transaction: Transaction, lease: Lease) -> bool:
        """Return whether the views of the study are still to be refreshed."""
        # Of a release whose answer was lost the lease has ended, and not all views are refreshed.
        version = leases.release(transaction, lease) or studies.find_version(
            transaction, lease.study
        )
        if version is None or not version.has_stale_view:
            return False
        layout = self._remembered(StudyTransaction.at(transaction, version, self._cache)).layout
        return study_views.refresh_at_once(transaction, version, layout).has_stale_view

    @reads
    def leases(self, transaction: Transaction, study: str) -> tuple[Lease, ...]:
        return leases.open_leases(transaction, study)

    # What a service is to run

    def is_queue_admin(self) -> bool:
        if isinstance(self._database.dialect, SQLite):
            return os.getuid() in (0, self._database.dialect.path.stat().st_uid)
        return self._owns_queue()

    @reads
    def _owns_queue(self, transaction: Transaction) -> bool:
        ((owns,),) = transaction.sql(
            "SELECT pg_has_role(session_user, relowner, 'MEMBER') FROM pg_class"
            " WHERE oid = 'submissions'::regclass"
        )
        return bool(owns)

    def begin_project(self) -> str:
        self._database.project.begin()
        if self._database.project.uuid:
            self._enter_project()
        return self._database.project.uuid

    @writes
    def _enter_project(self, transaction: Transaction) -> None:
        studies.enter_project(transaction)

    def in_project(self, uuid: str) -> SQLRepository:
        if uuid in ("", self._database.project.uuid):
            return self
        database = copy(self._database)  # with the same connections
        database.project = Project.of(uuid)
        return SQLRepository(database, self.store)

    @reads
    def current_user(self, transaction: Transaction) -> str:
        expression = transaction.dialect.session_user
        if not expression:
            return trust.user_name(os.getuid())
        ((name,),) = transaction.sql(f"SELECT {expression}")
        return str(name)

    @writes
    def submit(
        self,
        transaction: Transaction,
        token: str,
        user: str,
        study: str,
        request: Mapping[str, Any],
        files: Mapping[str, bytes] = MappingProxyType({}),
        *,
        verified: bool = False,
    ) -> StudySubmission:
        return submission_queue.submit(
            transaction, token, user, study, request, files, verified=verified
        )

    @reads
    def submitted_content(self, transaction: Transaction, sha256: str) -> bytes:
        return submission_queue.submitted_content(transaction, sha256)

    @writes
    def set_verified(self, transaction: Transaction, number: int, *, verified: bool) -> None:
        submission_queue.set_verified(transaction, number, verified=verified)

    def may_others_write(self) -> bool:
        if isinstance(self._database.dialect, SQLite):
            return trust.is_writable_by_others(self._database.dialect.path)
        return self._is_queue_open()

    @reads
    def _is_queue_open(self, transaction: Transaction) -> bool:
        """Return whether roles may write the queue without the row security of `database_roles`."""
        ((is_open,),) = transaction.sql(
            "SELECT NOT relrowsecurity AND EXISTS (SELECT 1 FROM aclexplode(relacl) a"
            " WHERE a.privilege_type IN ('INSERT', 'UPDATE') AND a.grantee <> relowner)"
            " FROM pg_class WHERE oid = 'submissions'::regclass"
        )
        return bool(is_open)

    def submissions(
        self, turns: Iterable[SubmissionState] | None = None
    ) -> tuple[StudySubmission, ...]:
        return self._submissions(None if turns is None else list(turns))

    @reads
    def _submissions(
        self, transaction: Transaction, turns: Sequence[SubmissionState] | None
    ) -> tuple[StudySubmission, ...]:
        return submission_queue.list_submissions(transaction, turns)

    @writes
    def update_submission(
        self, transaction: Transaction, number: int, turn: SubmissionState, cause: str = ""
    ) -> StudySubmission:
        return submission_queue.set_state(transaction, number, turn, cause)

    @writes_briefly
    def report_progress(
        self, transaction: Transaction, number: int, progress: Mapping[str, Any]
    ) -> None:
        submission_queue.report_progress(transaction, number, progress)

    # Experiments and outcomes

    def has_former_digests(self) -> bool:
        return self._database.has_former_digests

    @reads
    def result_identities(
        self, transaction: Transaction, study: str, most: int
    ) -> tuple[list[result_rows.ResultIdentity], int]:
        """Return how some results of *study* are named, and how many have a digest alone."""
        return result_rows.result_identities(self._context(transaction, study), most)

    @writes
    def begin_round(self, transaction: Transaction, study: str, reason: str = "") -> int:
        version = studies.get_version(transaction, study, locked=True)
        return studies.begin_round(transaction, version, leases.person(), reason)

    @writes
    def end_round(self, transaction: Transaction, study: str, number: int) -> None:
        version = studies.get_version(transaction, study)
        studies.end_round(transaction, version, number)

    @reads
    def rounds(self, transaction: Transaction, study: str) -> tuple[MeasurementRound, ...]:
        return studies.rounds_of(transaction, studies.get_version(transaction, study))

    def order_seed(self, study: str) -> str:
        return self._recorded_seed(study) or self._draw_seed(study)

    @reads
    def _recorded_seed(self, transaction: Transaction, study: str) -> str:
        return studies.order_seed(transaction, studies.get_version(transaction, study))

    @reads
    def placed_runs(
        self, transaction: Transaction, study: str, order: str
    ) -> tuple[ResultRunPosition, ...]:
        return result_rows.placed_runs(transaction, study, order)

    @writes
    def _draw_seed(self, transaction: Transaction, study: str) -> str:
        version = studies.get_version(transaction, study, locked=True)
        return studies.draw_order_seed(transaction, version)

    def cached(
        self,
        study: str,
        experiments: Iterable[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> frozenset[str]:
        return self.look_up(study, experiments, kinds, round_).digests

    def look_up(
        self,
        study: str,
        experiments: Iterable[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> CachedResults:
        batch = list(experiments)
        if not batch:
            self.study(study)  # NotFoundError if there is none
            return CachedResults(frozenset(), {})
        return self._look_up(study, batch, kinds, round_)

    @writes
    def _look_up(
        self,
        transaction: Transaction,
        study: str,
        experiments: Sequence[Experiment],
        kinds: Kinds,
        round_: int | None,
    ) -> CachedResults:
        context = self._context(transaction, study)
        return reused_results.cached_digests(context, experiments, kinds, round_)

    @writes_briefly
    def claim(
        self,
        transaction: Transaction,
        study: str,
        driver: int,
        experiments: Sequence[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> dict[str, int]:
        context, lease = self._driver_context(transaction, study, driver)
        return leases.claim(context, lease, experiments, kinds, round_)

    def record(
        self, study: str, driver: int, outcomes: Iterable[Outcome], *, final: bool = True
    ) -> frozenset[str]:
        # Files first: a crash in between leaves files that no row names, never the reverse.
        with self.store.publishing(list(outcomes)) as published:
            return self._record(study, driver, published, final=final)

    @writes
    def _record(
        self,
        transaction: Transaction,
        study: str,
        driver: int,
        outcomes: Sequence[Outcome],
        *,
        final: bool,
    ) -> frozenset[str]:
        # Of a driver whose lease has ended, too: its outcomes are kept as superseded attempts.
        context, lease = self._driver_context(transaction, study, driver, ended=True)
        return outcome_recording.record(context, lease, outcomes, final=final)

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
            return self._add_results(study, driver, stored, kinds, round_)

    @writes
    def _add_results(
        self,
        transaction: Transaction,
        study: str,
        driver: int,
        results: Sequence[tuple[Experiment, Outcome]],
        kinds: Kinds,
        round_: int | None,
    ) -> frozenset[str]:
        context, lease = self._driver_context(transaction, study, driver)
        return outcome_recording.add_results(context, lease, results, kinds, round_)

    def remeasure(
        self, study: str, outcomes: Iterable[Outcome], definition: StudyDefinition | None = None
    ) -> int:
        if definition is not None:
            sql_names.check_names(study, definition)
            definition = self._portable(definition)
        # The transaction may run again, and an iterator could not.
        repeatable = list(outcomes) if isinstance(outcomes, Iterator) else outcomes
        return self._remeasure(study, repeatable, definition)

    @writes
    def _remeasure(
        self,
        transaction: Transaction,
        study: str,
        outcomes: Iterable[Outcome],
        definition: StudyDefinition | None,
    ) -> int:
        if definition is not None:
            studies.open_study(transaction, study, definition)
        studies.get_version(transaction, study)  # NotFoundError, even if there is nothing to do
        batches, count = iter(outcomes), 0

        def context() -> StudyTransaction:
            # With a cache of its own: each batch may add fields, and all of it may be undone.
            version = studies.get_version(transaction, study)
            return StudyTransaction.at(transaction, version, RepositoryCache())

        forms = outcome_recording.forget_forms(context())
        while batch := list(islice(batches, _BATCH)):
            count += outcome_recording.remeasure(context(), batch)
        outcome_recording.settle_forms(context(), forms, count)
        return count

    @writes
    def reopen(
        self, transaction: Transaction, study: str, digests: Sequence[str], kinds: Kinds = None
    ) -> int:
        return outcome_recording.reopen(self._context(transaction, study), digests, kinds)

    def equate(
        self, study: str, source: str, experiments: Mapping[str, Experiment], person: str
    ) -> int:
        count = self._equate(study, source, experiments, person)
        self.refresh_views(study)
        return count

    @writes
    def _equate(
        self,
        transaction: Transaction,
        study: str,
        source: str,
        experiments: Mapping[str, Experiment],
        person: str,
    ) -> int:
        context = self._context(transaction, study)
        return reused_results.equate(
            context, studies.get_version(transaction, source), experiments, person
        )

    @writes
    def undo_equate(self, transaction: Transaction, study: str, source: str) -> int:
        context = self._context(transaction, study)
        return reused_results.undo_equate(context, studies.get_version(transaction, source))

    @reads
    def equated_result(
        self, transaction: Transaction, study: str, digest: str
    ) -> EquatedResult | None:
        return reused_results.equated_result(self._context(transaction, study), digest)

    # Queries

    @reads
    def find_outcomes(
        self,
        transaction: Transaction,
        digests: Sequence[str],
        study: str | None = None,
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> dict[str, Outcome]:
        if study is None:
            return record_queries.find_outcomes_anywhere(transaction, self._cache, digests, kinds)
        context = self._context(transaction, study)
        return record_queries.find_outcomes(context, digests, kinds, round_)

    def records(
        self,
        study: str,
        *,
        after: RecordPosition | None = None,
        states: Iterable[ExperimentState] | None = None,
    ) -> Iterator[ExperimentRecord]:
        selected = list(EXPERIMENT_STATES if states is None else states)
        unfinished = self._unfinished(study, selected)
        if after is not None:
            unfinished = [record for record in unfinished if record.key > after]
        return record_queries.merge_records(self._results(study, after, selected), unfinished)

    @reads
    def _unfinished(
        self, transaction: Transaction, study: str, states: Sequence[ExperimentState]
    ) -> list[ExperimentRecord]:
        return record_queries.unfinished_records(self._context(transaction, study), states)

    def _results(
        self, study: str, after: RecordPosition | None, states: Sequence[ExperimentState]
    ) -> Iterator[ExperimentRecord]:
        while batch := self._next_results(study, after, states):
            yield from batch
            after = batch[-1].key

    @reads
    def _next_results(
        self,
        transaction: Transaction,
        study: str,
        after: RecordPosition | None,
        states: Sequence[ExperimentState],
    ) -> list[ExperimentRecord]:
        return record_queries.next_results(self._context(transaction, study), after, states)

    def column_pages(self, study: str, request: ColumnRequest) -> Iterator[ColumnPage]:
        after = None
        while following := self._next_page(study, request, after):
            page, after = following
            yield page

    @reads
    def columnar_copy(self, transaction: Transaction, study: str) -> ColumnarCopy | None:
        """Return the columnar copy of a large study, up to date; None for a small one."""
        context = self._context(transaction, study)
        from zenturio.record import columnar_copy  # noqa: PLC0415 - loads NumPy

        version, fields = context.version.id, context.layout.own_fields
        query = f"SELECT coalesce(sum(count), 0) FROM counters WHERE version = {version}"
        ((results,),) = transaction.sql(query)
        if results < columnar_copy.COPY_ROWS:
            return None
        dialect = transaction.dialect.name
        return columnar_copy.open_copy(transaction.sql, dialect, self.location, version, fields)

    @reads
    def _next_page(
        self,
        transaction: Transaction,
        study: str,
        request: ColumnRequest,
        after: RecordPosition | None,
    ) -> tuple[ColumnPage, RecordPosition] | None:
        return record_queries.next_page(self._context(transaction, study), request, after)

    @reads
    def keyed_results(
        self,
        transaction: Transaction,
        study: str,
        program: ProgramIdentity,
        kinds: Kinds = None,
        round_: int | None = None,
        names: Collection[str] = (),
    ) -> KeyedResults | None:
        context = self._context(transaction, study)
        return result_rows.keyed_results(context, program, kinds, round_, names)

    @reads
    def experiment_record(
        self, transaction: Transaction, study: str, digest: str
    ) -> ExperimentRecord:
        return record_queries.get_record(self._context(transaction, study), digest)

    @reads
    def find_digests(
        self, transaction: Transaction, prefix: str, limit: int
    ) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return record_queries.find_digests(transaction, prefix, limit)

    @reads
    def attempts(self, transaction: Transaction, digest: str) -> tuple[AttemptRecord, ...]:
        return record_queries.all_attempts(transaction, digest)

    @writes
    def add_event(
        self,
        transaction: Transaction,
        study: str,
        kind: str,
        text: str,
        digest: str | None = None,
    ) -> None:
        key = None if digest is None else codec.digest_key(digest)
        version = studies.get_version(transaction, study)
        studies.add_event(transaction, version.id, kind, text, key)

    @reads
    def events(
        self, transaction: Transaction, study: str, digest: str | None = None
    ) -> tuple[RepositoryEvent, ...]:
        return studies.study_events(transaction, study, digest)

    @reads
    def redactions(
        self, transaction: Transaction, study: str, digest: str
    ) -> tuple[RepositoryEvent, ...]:
        return studies.redactions(transaction, study, digest)

    @reads
    def logs(
        self, transaction: Transaction, digest: str, attempt: int | None = None
    ) -> AttemptLogs:
        return record_queries.logs_of(transaction, digest, attempt)

    @reads
    def artifacts(
        self,
        transaction: Transaction,
        digest: str,
        attempt: int | None = None,
        *,
        first: int = 0,
        most: int | None = None,
    ) -> tuple[Artifact, ...]:
        rows = record_queries.artifacts_of(transaction, digest, attempt, first, most)
        return tuple(self.store.located(artifact, digest) for artifact in rows)

    @reads
    def artifact_count(
        self, transaction: Transaction, digest: str, attempt: int | None = None
    ) -> int:
        return record_queries.artifact_count(transaction, digest, attempt)

    def contents(self, sha256: Iterable[str]) -> frozenset[str]:
        return self._contents(sorted(set(sha256)))

    @reads
    def _contents(self, transaction: Transaction, digests: Sequence[str]) -> frozenset[str]:
        return record_queries.contents_in_use(transaction, digests)
