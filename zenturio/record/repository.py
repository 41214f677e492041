"""The protocol of repositories, and the errors that they raise.

Everything is done in batches, and every call may be repeated: adding, claiming or recording the
same thing again changes nothing. So a caller that did not get the answer just calls again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from zenturio.errors import (
    ConflictError,
    Diagnostic,
    NotFoundError,
    RecordError,
    SafetyError,
    unknown_name,
)
from zenturio.experiment.experiment import (
    Artifact,
    Experiment,
    Kinds,
    Outcome,
    ProgramIdentity,
)
from zenturio.quantities import utc_time
from zenturio.record.entities import (
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
    StudyDefinition,
    StudyDeletion,
    StudyInfo,
    StudySubmission,
    SubmissionState,
)

if TYPE_CHECKING:
    from zenturio.record.columnar_copy import ColumnarCopy
    from zenturio.record.entities import StudyStanding


class Repository(Protocol):
    """What is remembered of studies, experiments and their outcomes.

    An experiment is known by its digest, whichever study brought it: what one study has run, no
    other one runs again. Each study has a row of its own for it, with the metrics as that study
    reads them. An experiment without an attempt has no row.

    A call that returned is committed. Each call is one transaction, so whoever wants group commit
    hands over groups: a call with fifty outcomes costs little more than a call with one.
    """

    @property
    def location(self) -> str:
        """Where it is, as it may be shown: without a password."""
        ...

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What its user should know about the place where it lies."""
        ...

    def open(self, name: str, definition: StudyDefinition) -> StudyInfo:
        """Return the study *name*; created if it is not there, else brought up to *definition*.

        Parameters and metrics that are new are added; what was recorded stays. Every definition
        that the study ever had is kept, with its provenance and its annotated files.
        """
        ...

    def archive(self, study: StudyInfo) -> StudyInfo | None:
        """Archive *study*: from now on its version is named NAME@NUMBER.

        None if the name has gone to another study since; ConflictError while it has a driver.
        """
        ...

    def study(self, name: str) -> StudyInfo:
        """Return the study *name*; NotFoundError with the nearest names if there is none."""
        ...

    def studies(self) -> tuple[StudyInfo, ...]:
        """Return all studies, in the order of their creation."""
        ...

    def definition(self, study: str, at: float | None = None) -> StudyDefinition:
        """Return the newest definition of *study*, or the one that held at the time *at*.

        The oldest, where that was before all of them.
        """
        ...

    def notes(self, study: str) -> Mapping[str, Any]:
        """Return the notes of the newest definition; empty if there is no such study."""
        ...

    def acquire_lease(
        self,
        study: str,
        driver: DriverProcess,
        *,
        join: bool = False,
        seconds: float = 60.0,
        draws_seed: bool = False,
    ) -> Lease:
        """Return the right to drive *study* for *seconds* by the database's clock.

        While another driver is alive: ConflictError that names its host, process and since when,
        or with *join* a lease beside it. A driver whose process on this host is gone is
        superseded at once, any other one when its lease runs out; what it had claimed is stale
        then, and may be claimed again. The same *driver* asking again gets its own lease.

        With *draws_seed* the lease may come with the ``order_seed`` of the newest round.
        """
        ...

    def renew_lease(self, lease: Lease) -> Lease:
        """Return the lease, longer; ConflictError if another driver has superseded this one."""
        ...

    def release_lease(self, lease: Lease) -> None:
        """Give the lease back; return what it still had claimed may be claimed again."""
        ...

    def leases(self, study: str) -> tuple[Lease, ...]:
        """Return the leases on *study* that have not ended, oldest first."""
        ...

    def has_former_digests(self) -> bool:
        """Return whether results may be there under digests of an earlier format.

        Experiments have to come with their former digests then: ``cached`` and ``equate`` give
        what they find by these the present ones.
        """
        ...

    def begin_round(self, study: str, reason: str = "") -> int:
        """Return the round in which experiments with results are measured again.

        It is the one that somebody began and that has not ended; else a new one begins. All that
        *study* measures from now on belongs to it.
        """
        ...

    def end_round(self, study: str, number: int) -> None:
        """Note that a round has been measured: ``begin_round`` begins another one.

        Nothing happens where that round is not open.
        """
        ...

    def rounds(self, study: str) -> tuple[MeasurementRound, ...]:
        """Return the rounds of *study*, the first one first; it has one at least."""
        ...

    def order_seed(self, study: str) -> str:
        """Return the seed of the order in which the newest round of *study* is run.

        The first call draws it at random and keeps it, so that all drivers run the same order.
        """
        ...

    def placed_runs(self, study: str, order: str) -> tuple[ResultRunPosition, ...]:
        """Return the results of *study* that a run in this *order* recorded, by their turns."""
        ...

    def cached(
        self,
        study: str,
        experiments: Iterable[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> frozenset[str]:
        """Return the digests of those that have an outcome already, and are not to be run again.

        With *kinds* only what these kinds of machine have measured counts, and what nobody knows
        the machine of; so it does where *kinds* are named below. With a round only what this study
        has measured in it counts.

        One that another study has run, or another version of this one, has a row here then: a
        copy with the metrics that are measured in the same way; the others are missing, and say
        so.
        """
        ...

    def look_up(
        self,
        study: str,
        experiments: Iterable[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> CachedResults:
        """Do as ``cached``; with *kinds* and no round, return also what other kinds have run."""
        ...

    def claim(
        self,
        study: str,
        driver: int,
        experiments: Sequence[Experiment],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> dict[str, int]:
        """Claim experiments for the driver with this lease; return each one's attempt number.

        Granted are those that nobody holds, and again those that this driver holds: a claim whose
        answer was lost is found by asking once more. Never granted is what another live driver
        holds or what has an outcome, in whichever study. Results of other kinds of machine stay
        beside the new one, each with an attempt's number of its own; so do those of other rounds,
        if a round is named: only its own results stand in the way then.
        """
        ...

    def record(
        self, study: str, driver: int, outcomes: Iterable[Outcome], *, final: bool = True
    ) -> frozenset[str]:
        """Store the outcomes of what *driver* claimed; return the digests of those accepted.

        An outcome is accepted once, from the driver and the attempt that hold the claim. A late
        or second one is kept as a superseded attempt. With ``final=False`` the attempt is kept
        under its own status and the experiment may be claimed for its next one.

        Of more metrics than `entities.MOST_METRICS` the rest is counted, and not kept.
        """
        ...

    def add_results(
        self,
        study: str,
        driver: int,
        results: Iterable[tuple[Experiment, Outcome]],
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> frozenset[str]:
        """Claim and records in one go what was evaluated already; return the digests accepted.

        For experiments that cost less than asking for them: the driver may find that another had
        the same outcome first; its own is kept as superseded then. Results of other kinds of
        machine than *kinds* stay beside the new ones.
        """
        ...

    def remeasure(
        self, study: str, outcomes: Iterable[Outcome], definition: StudyDefinition | None = None
    ) -> int:
        """Replace status, cause and metrics of recorded experiments; return how many there were.

        For metrics that were added or changed afterwards: the study has the new *definition*
        together with them, or not at all. Attempt, times, logs and artifacts stay as they are;
        metrics that an outcome does not name are taken away. Of results of several kinds of
        machine the attempt says which one is meant. *outcomes* may be too many to be held
        at once: they are iterated over as they are needed, and once more where the transaction is
        done again.
        """
        ...

    def reopen(self, study: str, digests: Sequence[str], kinds: Kinds = None) -> int:
        """Set outcomes of *study* aside that are not ``ok``; return how many there were.

        Their experiments may be claimed then. The outcomes stay among the attempts, and in other
        studies and versions that have them. *study* does not get these back from there by
        ``cached``; what others have measured since, or without a failure, it does.
        """
        ...

    def equate(
        self, study: str, source: str, experiments: Mapping[str, Experiment], person: str
    ) -> int:
        """Copy results of *source*, which *person* accepts as equal, into *study*; return how many.

        *experiments*: by the digest of the result in *source*, the experiment of *study* whose
        outcome it becomes. What has an outcome already keeps it. ConflictError while one of the
        two has a driver.
        """
        ...

    def undo_equate(self, study: str, source: str) -> int:
        """Remove the copies of *source* that ``equate`` made; return how many there were.

        Studies that copied these from *study* lose them, too.
        """
        ...

    def equated_result(self, study: str, digest: str) -> EquatedResult | None:
        """Return who accepted the result of this experiment of *study*, and of which version it is.

        None if it was measured.
        """
        ...

    def find_outcomes(
        self,
        digests: Sequence[str],
        study: str | None = None,
        kinds: Kinds = None,
        round_: int | None = None,
    ) -> dict[str, Outcome]:
        """Return the accepted outcomes of those that have one, without logs and artifacts.

        Metrics are those of *study*, or of the study that has run the experiment. Of several
        kinds of machine *study* answers the newest, unless *kinds* have one; of several rounds the
        newest, or that of the round which is named beside the study.
        """
        ...

    def standings(self, names: Collection[str] | None = None) -> list[StudyStanding]:
        """Return where all studies stand, or those of these names, in the order of `studies`.

        All of one moment; a name that no study has is passed over.
        """
        ...

    def count_states(self, study: str) -> dict[ExperimentState, int]:
        """Return how many experiments of *study* are in each of STATES.

        Of several results of an experiment, the one that was recorded last tells.
        """
        ...

    def count_results(self, study: str) -> tuple[ResultCount, ...]:
        """Return the numbers of results by kind of machine, round and status, without zeros."""
        ...

    def records(
        self,
        study: str,
        *,
        after: RecordPosition | None = None,
        states: Iterable[ExperimentState] | None = None,
    ) -> Iterator[ExperimentRecord]:
        """Yield the rows of *study* by index, repeat, and number of their attempt.

        Of all STATES, if none are named. *after* goes on behind a record's ``key``. Rows are
        fetched in batches, each as of its own moment, so a long iteration holds no lock and no
        transaction.
        """
        ...

    def columnar_copy(self, study: str) -> ColumnarCopy | None:
        """Return the columnar copy of a large study, up to date.

        None for a small one, and where no copy can be kept: all of it is in `entities`.
        """
        ...

    def column_pages(self, study: str, request: ColumnRequest) -> Iterator[ColumnPage]:
        """Yield the results of *study* that *request* selects, in the order of ``records``.

        Each page is as of its own moment.
        """
        ...

    def keyed_results(
        self,
        study: str,
        program: ProgramIdentity,
        kinds: Kinds = None,
        round_: int | None = None,
        names: Collection[str] = (),
    ) -> KeyedResults | None:
        """Return the results of *study* that *program* has, by the keys of their points.

        Those that `find_outcomes` would find, with the fields of these *names*. None for a small
        study, and where its results have no keys: then each is looked up by its digest.
        """
        ...

    def experiment_record(self, study: str, digest: str) -> ExperimentRecord:
        """Return one row of *study*; NotFoundError if it has none."""
        ...

    def find_digests(self, prefix: str, limit: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the digests that begin with *prefix*, sorted, and the studies that have each.

        At the most *limit* of them.
        """
        ...

    def attempts(self, digest: str) -> tuple[AttemptRecord, ...]:
        """Return every attempt at an experiment, by number; the accepted one under its status."""
        ...

    def add_event(self, study: str, kind: str, text: str, digest: str | None = None) -> None:
        """Add an event."""
        ...

    def events(self, study: str, digest: str | None = None) -> tuple[RepositoryEvent, ...]:
        """Return what happened in *study*, or to one experiment of it, in its order."""
        ...

    def redactions(self, study: str, digest: str) -> tuple[RepositoryEvent, ...]:
        """Return when the record of an experiment, or that of its study, was redacted."""
        ...

    def logs(self, digest: str, attempt: int | None = None) -> AttemptLogs:
        """Return the logs of an attempt, to the byte; the accepted or newest one by default."""
        ...

    def artifacts(
        self, digest: str, attempt: int | None = None, *, first: int = 0, most: int | None = None
    ) -> tuple[Artifact, ...]:
        """Return the artifacts of an attempt; the accepted or newest one by default.

        From number *first* on, at most *most*.
        """
        ...

    def artifact_count(self, digest: str, attempt: int | None = None) -> int:
        """Return how many artifacts ``artifacts`` has."""
        ...

    def contents(self, sha256: Iterable[str]) -> frozenset[str]:
        """Return those of these contents that an artifact in a project's store has."""
        ...

    def is_queue_admin(self) -> bool:
        """Return whether this user may cancel submissions of others.

        So may who owns the database: its file, or its tables; and the system's administrator.
        """
        ...

    def begin_project(self) -> str:
        """Return the id of this project on a shared database; enter it there if it is new.

        Empty where a database has one project.
        """
        ...

    def in_project(self, uuid: str) -> Repository:
        """Return the same repository for the project with that id; itself if it is empty."""
        ...

    def current_user(self) -> str:
        """Return who uses it: as the server says, which checked their login, else as the
        operating system does. Never as the environment says, where anybody may write.
        """
        ...

    def submit(
        self,
        token: str,
        user: str,
        study: str,
        request: Mapping[str, Any],
        files: Mapping[str, bytes] = ...,
        *,
        verified: bool = ...,
    ) -> StudySubmission:
        """Put *study* into the queue of a service; the same *token* again changes nothing.

        *files* are what ``contents`` of the request lists, by SHA-256; they stay until the
        submission is over. *verified* says that *user* was checked.
        """
        ...

    def submitted_content(self, sha256: str) -> bytes:
        """Return a file that was submitted; NotFoundError if it is not there."""
        ...

    def set_verified(self, number: int, *, verified: bool) -> None:
        """Record whether the user of a submission was checked."""
        ...

    def may_others_write(self) -> bool:
        """Return whether another user could write a row past this program's checks of users.

        In a file that others may write they can; a server checks who logs in.
        """
        ...

    def submissions(
        self, turns: Iterable[SubmissionState] | None = None
    ) -> tuple[StudySubmission, ...]:
        """Return all submissions, or those in one of *turns*, in their order."""
        ...

    def update_submission(
        self, number: int, turn: SubmissionState, cause: str = ""
    ) -> StudySubmission:
        """Change the state of a submission and return it; one that has ended stays as it is.

        NotFoundError if there is none of that *number*.
        """
        ...

    def report_progress(self, number: int, progress: Mapping[str, Any]) -> None:
        """Tell where a submission stands; of one that is not there, or over, too."""
        ...

    def preview_deletion(self, study: str) -> StudyDeletion:
        """Return what ``delete`` would take away."""
        ...

    def delete(self, study: str) -> StudyDeletion:
        """Take *study* away, and every experiment that no other study has.

        ConflictError while it has a driver. Files of artifacts are the caller's to remove: the
        answer names them.
        """
        ...

    def close(self) -> None:
        """Let go of connections; what was recorded stays."""
        ...


def no_study(name: str, names: Iterable[str]) -> NotFoundError:
    return unknown_name("study", name, names)


def no_experiment(digests: Iterable[str], study: str | None = None) -> NotFoundError:
    missing = sorted(set(digests))
    examples = ", ".join(missing[:3]) + (f", ... ({len(missing)} in all)" if missing[3:] else "")
    where = "the database" if study is None else f"study {study!r}"
    return NotFoundError(f"{where} has no experiment {examples}", hint="add it first")


def study_has_driver(lease: Lease) -> ConflictError:
    """Return the error of acquiring a lease on a study that another driver has."""
    return ConflictError(
        f"study {lease.study!r} is driven by process {lease.pid} on {lease.host}"
        f" since {utc_time(lease.since)}",
        hint="wait until it ends, stop it, or help it with --join",
    )


def lease_superseded(study: str, number: int) -> ConflictError:
    """Return the error of a driver whose lease has ended."""
    return ConflictError(
        f"lease {number} on study {study!r} has ended: another driver took the study over",
        hint="run the study again: what was recorded is kept",
    )


def driver_prevents_change(lease: Lease) -> ConflictError:
    """Return the error of changing or deleting a study while a driver runs it."""
    return ConflictError(
        f"study {lease.study!r} cannot be changed or deleted: process {lease.pid} on {lease.host}"
        f" has been running it since {utc_time(lease.since)}",
        hint="wait until it ends, or stop it",
    )


def no_submission(number: int) -> NotFoundError:
    return NotFoundError(
        f"the queue has no submission {number}", hint="`zen queue` lists the submissions"
    )


def not_your_submission(submission: StudySubmission) -> SafetyError:
    return SafetyError(
        f"submission {submission.number} is of {submission.user}, and you are neither that user nor"
        " an administrator",
        hint=f"ask {submission.user}, or an administrator of the service",
    )


def foreign_rows(what: str) -> RecordError:
    """Return the error of rows that contradict each other: zenturio did not write them."""
    return RecordError(
        f"the database is damaged: {what}",
        hint="`zen db check` lists the damage; `zen db salvage` saves all readable data",
    )
