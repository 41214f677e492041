"""Records of a study as its driver reads and writes them: look-ups, claims, lease, outcomes."""

from __future__ import annotations

import hashlib
import logging
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from zenturio.annotate.model import Goal
from zenturio.errors import NotFoundError, RecordError, ZenError
from zenturio.execute.experiment_codec import pack_outcome, unpack_outcome
from zenturio.experiment import Experiment, MachineKind, Outcome
from zenturio.experiment.experiment import (
    INCOMING,
    SUCCEEDED,
    HostConditions,
    Kinds,
    ProgramIdentity,
    RunPosition,
)
from zenturio.failpoints import Failpoint
from zenturio.files import make_folder, replace_whole
from zenturio.record import Lease, Repository
from zenturio.record.entities import DriverProcess
from zenturio.record.open import FOLDER as PROJECT_FOLDER
from zenturio.record.open import project_folder
from zenturio.study.driver.experiment_states import (
    LOOK_UPS,
    Batch,
    LookedUp,
    Pair,
    TrackedExperiment,
)
from zenturio.study.driver.progress import ExecutableChanges

if TYPE_CHECKING:
    from zenturio.study.driver.cached_points import CachedPoints


# Threads beside the driver's: one renews its lease, one commits outcomes

LEASED = Failpoint("study.leased")
LEFT = Failpoint("study.left")
logger = logging.getLogger(__name__)

LEAVE_SECONDS = 1.0
"""How long leaving waits for a renewal or a commit under way; a hanging server must not hang us."""


@contextmanager
def leased(
    repository: Repository,
    study: str,
    seconds: float,
    *,
    join: bool = False,
    draws_seed: bool = False,
) -> Iterator[Lease]:
    """Yield the right to drive *study*, given back in the end."""
    lease = repository.acquire_lease(
        study, DriverProcess.current(), join=join, seconds=seconds, draws_seed=draws_seed
    )
    try:
        LEASED()
        yield lease
    except RecordError:
        raise  # it would fail again, after as long a wait; the lease ends with this process
    except BaseException:
        with suppress(RecordError):
            repository.release_lease(lease)
        raise
    repository.release_lease(lease)
    LEFT()


class _DriverThread:
    """A thread beside the driver's, from entry until exit."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        self._is_over = Event()
        self._thread = Thread(target=target, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._wake()
        self._thread.join(LEAVE_SECONDS)

    def _wake(self) -> None:
        """Wake a thread that waits for something else than its end."""


class LeaseKeeper(_DriverThread):
    """Renews a lease while its driver is busy: three times within the lease, until it is left.

    A thread of its own, for the driver's may be in a user's function, or in a point that is hard
    to find, for longer than the lease lasts.
    """

    def __init__(self, repository: Repository, lease: Lease) -> None:
        self._repository = repository
        super().__init__(self._renew, "zenturio-lease")
        self._lease = lease
        self._error: Exception | None = None

    def check(self) -> None:
        """Raise ConflictError once another driver has superseded this one."""
        if self._error is not None:
            raise self._error

    def _renew(self) -> None:
        number = self._lease.number
        try:
            while not self._is_over.wait(self._lease.seconds / 3):
                try:
                    self._lease = self._repository.renew_lease(self._lease)
                except RecordError as error:
                    # Asked again: the driver decides whether a repository that is away ends the
                    # run, and a lease that nobody else wanted can still be renewed when it is late.
                    logger.warning("lease %s was not renewed: %s", number, error)
                else:
                    logger.debug("lease %s was renewed", number)
        except Exception as error:  # noqa: BLE001 - the driver's thread raises it
            logger.warning("lease %s is lost: %s", number, error)
            self._error = error


COMMIT_WAIT = 0.1
"""Seconds between two commits: an outcome waits for others at most twice as long."""
QUIET = 5.0
"""Seconds for which the thread leaves a repository that failed alone."""

ExperimentOutcome = tuple[Experiment, Outcome]


class GroupCommit(_DriverThread):
    """Outcomes that wait for others, so that many share the cost of one commit.

    The driver's thread adds outcomes and commits them when that is due. A thread of its own commits
    them where the driver's does not come to it, because it is in a user's function. It reports
    nothing: the next `commit` of the driver's thread returns what was accepted meanwhile, or
    raises what the thread could not commit. What is not committed at exit still waits for `commit`.
    """

    def __init__(self, write: Callable[[Sequence[ExperimentOutcome]], AbstractSet[str]]) -> None:
        """*write* commits outcomes, and returns the digests of those that were accepted.

        It may be called again with the same ones if it failed.
        """
        super().__init__(self._commit_in_time, "zenturio-commit")
        self._write = write
        self._waiting: list[ExperimentOutcome] = []
        self._accepted: set[str] = set()
        self._last_commit = monotonic()
        self._lock = Lock()
        self._has_waiting = Event()

    @property
    def is_due(self) -> bool:
        """Whether the last commit was long enough ago."""
        return monotonic() - self._last_commit > COMMIT_WAIT

    def add(self, experiment: Experiment, outcome: Outcome) -> None:
        """Add an outcome to the next group."""
        self._waiting.append((experiment, outcome))
        if not self._has_waiting.is_set():  # which costs less than to set it again
            self._has_waiting.set()

    def commit(self) -> set[str]:
        """Commit what waits; return the digests that were accepted of either thread since."""
        self._commit_waiting()
        with self._lock:
            accepted, self._accepted = self._accepted, set()
        return accepted

    def _commit_waiting(self) -> None:
        with self._lock:
            # Cleared before the copy: what is added meanwhile comes behind it and sets it again.
            self._has_waiting.clear()
            group = self._waiting[:]
            if group:
                accepted = self._write(group)
                # Not reached if that failed or was interrupted: the group still waits then.
                del self._waiting[: len(group)]
                self._accepted |= accepted
            self._last_commit = monotonic()

    def _wake(self) -> None:
        self._has_waiting.set()

    def _commit_in_time(self) -> None:
        while self._has_waiting.wait() and not self._is_over.wait(COMMIT_WAIT):
            if not self.is_due:
                continue
            try:
                self._commit_waiting()
            except Exception as error:  # noqa: BLE001 - the driver's thread meets and raises it
                logger.warning("outcomes were not committed, they still wait: %s", error)
                self._has_waiting.set()
                self._is_over.wait(QUIET)


GROUP = 256
"""Outcomes that are committed together, at most."""
WAIT = 0.05
"""Seconds that an outcome waits for others at most: a commit costs a few milliseconds."""
WEIGHT = 16 * 2**20
"""Bytes of logs that wait for others, at most."""


@dataclass
class CommitPace:
    """How many outcomes wait for a commit, how large they are, and since when."""

    most: int = GROUP
    patience: float = WAIT
    """Seconds that an outcome may wait."""
    count: int = 0
    _weight: int = 0
    _oldest: float = 0.0
    _is_urgent: bool = False

    def add(self, outcomes: Sequence[Pair], *, urgent: bool = False) -> None:
        """Count more outcomes; if they are *urgent* they wait for no others."""
        if not self.count:
            self._oldest = monotonic()
        self.count += len(outcomes)
        for _, outcome in outcomes:
            for log in (outcome.stdout, outcome.stderr):
                self._weight += len(log.head) + len(log.tail)
        self._is_urgent |= urgent

    def reset(self) -> None:
        """Begin again after a commit."""
        self.count = self._weight = 0
        self._is_urgent = False

    @property
    def is_full(self) -> bool:
        """Whether no more outcomes should be added before a commit."""
        return self.count >= self.most or self._weight >= WEIGHT

    @property
    def is_due(self) -> bool:
        """Whether nothing is gained by waiting for more outcomes."""
        if not self.count:
            return False
        return self._is_urgent or self.is_full or monotonic() - self._oldest >= self.patience


# Records

OnlyState = Literal["failed", "missing"]

ADDED = Failpoint("study.added")
CLAIMING = Failpoint("study.claiming")
CLAIMED = Failpoint("study.claimed")
COMMITTING = Failpoint("study.committing")
COMMITTED = Failpoint("study.committed")
SET_ASIDE = Failpoint("study.set_aside")

CONTRADICTIONS = 5
"""How often an outcome may be set aside between two questions before the repository is doubted."""


@dataclass
class StudyRecords:
    """The records of a study, as the driver with the lease *driver* reads and writes them.

    Each method is one or two calls of the repository; it raises RecordError where that fails, and
    may be called again then with the same arguments.
    """

    study: str
    driver: int
    repository: Repository
    only: frozenset[OnlyState] = frozenset({"missing"})
    kinds: Callable[[], Kinds] = lambda: None
    """The kinds of machine whose results count as cached; a place may get others meanwhile."""
    round: int | None = None
    """The round in which all is measured again; None where what has results is not."""
    _reopened: int | None = None
    """The round in which results are measured that were set aside, if earlier rounds have some."""
    _contradictions: Counter[str] = field(default_factory=Counter)
    """How often the repository had an outcome of an experiment and did not give it."""
    _elsewhere: Mapping[str, MachineKind] = field(default_factory=dict)
    """By the digests of what was looked up last: other kinds of machine that have results of it."""

    def pace(self) -> CommitPace:
        """Return when the driver is to commit."""
        return CommitPace()

    def committing(self) -> AbstractContextManager[object]:
        """Return a context in which outcomes are committed that no call of the driver reaches."""
        return nullcontext()

    def look_up(self, batch: Batch, *, again: bool = False) -> LookedUp:
        """Add *batch* to the study; return the outcomes that are there, and what is to be run.

        With *again* everything without an outcome is to be run, whatever *only* says: it was asked
        when they were looked up first.
        """
        experiments = [tracked.experiment for tracked in batch]
        digests = [experiment.digest for experiment in experiments]
        scope = self.kinds(), self.round
        # The same call copies results that other studies have into this one.
        cached, self._elsewhere = self.repository.look_up(self.study, experiments, *scope)
        ADDED()
        outcomes = (
            self.repository.find_outcomes(sorted(cached), self.study, *scope) if cached else {}
        )
        self._doubt(cached - outcomes.keys())
        missing = set(digests) - outcomes.keys()
        if self.round is not None and "missing" not in self.only:
            # What did not fail before is not measured again: its result is that of before.
            before = self.repository.find_outcomes(sorted(missing), self.study, scope[0])
            failed = {d for d, outcome in before.items() if outcome.status not in SUCCEEDED}
            outcomes = {**outcomes, **{d: before[d] for d in before.keys() - failed}}
            return LookedUp(batch, outcomes, missing - outcomes.keys() if again else failed)
        return LookedUp(batch, outcomes, missing if again else self._to_run(missing, outcomes))

    def cached_points(
        self, program: ProgramIdentity, goals: Sequence[Goal], programs: ExecutableChanges
    ) -> CachedPoints | None:
        """Return which points have outcomes in a large study; None for a small one."""
        names = frozenset[str]().union(*(goal.expression.names for goal in goals))
        results = self.repository.keyed_results(
            self.study, program, self.kinds(), self.round, names
        )
        if results is None or not names <= {*results.parameters, *results.metrics}:
            return None
        # Small studies do not load it.
        from zenturio.study.driver.cached_points import CachedPoints  # noqa: PLC0415 - see above

        allow_failed = "failed" not in self.only  # each of them is set aside, and run again
        return CachedPoints(results, goals, programs, allow_failed=allow_failed)

    def claim(self, batch: Batch) -> dict[str, int]:
        """Claim *batch*; return the attempt numbers of those that this driver may run."""
        # Killed behind this call, the driver leaves claims that end with its lease; the next driver
        # counts them as stale attempts and runs the experiments itself.
        CLAIMING()
        round_ = self.round or self._reopened
        experiments = [tracked.experiment for tracked in batch]
        granted = self.repository.claim(self.study, self.driver, experiments, self.kinds(), round_)
        CLAIMED()
        return granted

    def record(self, outcomes: Sequence[Pair]) -> Collection[str]:
        """Record *outcomes*; return the digests of those that were accepted."""
        # An outcome is accepted once, under a living lease: after a commit whose answer was lost,
        # the same call changes nothing.
        COMMITTING()
        accepted = self.repository.record(self.study, self.driver, _with_positions(outcomes))
        COMMITTED()
        return accepted

    def record_attempts(self, outcomes: Sequence[Pair]) -> None:
        """Record *outcomes* of attempts that others will follow."""
        self.repository.record(self.study, self.driver, _with_positions(outcomes), final=False)
        SET_ASIDE()

    def other_machines(self, batch: Iterable[TrackedExperiment]) -> Counter[MachineKind]:
        """Return the other kinds of machine that have results of *batch*, looked up just now."""
        digests = (tracked.experiment.digest for tracked in batch)
        return Counter(self._elsewhere[digest] for digest in digests if digest in self._elsewhere)

    def other_drivers(self) -> list[Lease]:
        """Return the leases of all drivers besides this one, of any study, those of this first."""
        names = {study.name for study in self.repository.studies()} - {self.study}
        leases = (
            lease for n in (self.study, *sorted(names)) for lease in self.repository.leases(n)
        )
        return [lease for lease in leases if lease.number != self.driver]

    def _doubt(self, digests: Iterable[str]) -> None:
        """Raise RecordError for cached outcomes that are never given: no claim is granted on them.

        Once it is no contradiction: an outcome may be set aside between the two queries.
        """
        for digest in digests:
            self._contradictions[digest] += 1
            if self._contradictions[digest] >= CONTRADICTIONS:
                raise RecordError(
                    f"the database has an outcome of experiment {digest[:12]} but"
                    " does not return it",
                    hint="see what `zen db check` says",
                )

    def _to_run(self, missing: set[str], outcomes: Mapping[str, Outcome]) -> set[str]:
        """Return the digests that *only* names; failed outcomes among them are set aside."""
        if "failed" not in self.only or self.round is not None:
            return missing
        failed = {digest for digest, outcome in outcomes.items() if outcome.status not in SUCCEEDED}
        if "missing" not in self.only:
            # A run that was to repeat the failed ones and was stopped had set them aside.
            missing = {digest for digest in missing if self._has_failed(digest)}
        if failed:
            self.repository.reopen(self.study, sorted(failed), self.kinds())
            newest = self.repository.rounds(self.study)[-1].number
            self._reopened = newest if newest > 1 else None
        return missing | failed

    def _has_failed(self, digest: str) -> bool:
        try:
            attempts = self.repository.attempts(digest)
        except NotFoundError:  # it was never tried
            return False
        return any(attempt.state in ("failed", "wrong", "timeout") for attempt in attempts)


@dataclass
class OptimisticRecords(StudyRecords):
    """Records of experiments that run in the driver's thread, where a claim costs more than a run.

    They are claimed together with their outcomes. Whatever another driver recorded or claimed
    first is claimed before it runs a second time.
    """

    _accepted: set[str] = field(default_factory=set)
    """Digests that the repository accepted, and of which the driver was not told yet."""
    _superseded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._commits = GroupCommit(self._write)

    def pace(self) -> CommitPace:
        # What is told to the driver has waited in the group: the executor returns when it is due.
        return CommitPace(most=LOOK_UPS, patience=0.0)

    def committing(self) -> AbstractContextManager[object]:
        return self._commits

    @property
    def is_due(self) -> bool:
        """Whether the last commit was long enough ago."""
        return self._commits.is_due

    def add(self, experiment: Experiment, outcome: Outcome) -> None:
        """Let an outcome wait for `record`, or for the thread that commits where that is late."""
        self._commits.add(experiment, outcome)

    def claim(self, batch: Batch) -> dict[str, int]:
        attempts = {tracked.experiment.digest: 1 for tracked in batch}
        if not self._superseded or self._superseded.isdisjoint(attempts):
            return attempts
        again = [t for t in batch if t.experiment.digest in self._superseded]
        for tracked in again:
            del attempts[tracked.experiment.digest]
        return attempts | super().claim(again)

    def record(self, outcomes: Sequence[Pair]) -> Collection[str]:
        COMMITTING()
        self._accepted |= self._commits.commit()
        COMMITTED()
        digests = {tracked.experiment.digest for tracked, _ in outcomes}
        self._superseded |= digests - self._accepted
        accepted = digests & self._accepted
        self._accepted -= accepted
        return accepted

    def _write(self, outcomes: Sequence[tuple[Experiment, Outcome]]) -> AbstractSet[str]:
        return self.repository.add_results(
            self.study, self.driver, outcomes, self.kinds(), self.round
        )


def _with_positions(outcomes: Sequence[Pair]) -> list[Outcome]:
    """Return *outcomes* with the places of their experiments in the order of the run.

    A call in this process has no conditions, which would cost more than the call: the seed of the
    round says where it stood.
    """
    return [
        with_position(outcome, tracked.experiment.position) if outcome.conditions else outcome
        for tracked, outcome in outcomes
    ]


def with_position(outcome: Outcome, position: RunPosition | None) -> Outcome:
    """Return *outcome* with its place in the order of the run."""
    if position is None:
        return outcome
    order, block, turn = position
    conditions = outcome.conditions or HostConditions()
    conditions = replace(conditions, run_order=order, run_block=block, run_turn=turn)
    return replace(outcome, conditions=conditions)


# Outcomes that could not be committed: kept below the project until the next run records them
#
# A run whose repository fails ends, and its claims become stale. What was measured is not lost: the
# next driver that is granted such an experiment finds the outcome here and does not run it again.

FOLDER = "unrecorded"
"""Below ``.zenturio``, with a folder for each study of each database."""
LARGEST = 2**30
"""Bytes of an outcome with its artifacts, at the most."""
_ENDING = ".outcome"


class UnrecordedOutcomes:
    """The outcomes of one study and round that wait for a commit."""

    def __init__(self, home: Path, location: str, study: str, round_: int | None = None) -> None:
        """*home* is the project's ``.zenturio``; *location* names the database."""
        self._home = home
        about = f"{location}\n{study}\n{round_ or 0}"
        self._name = hashlib.sha256(about.encode(errors="surrogateescape")).hexdigest()[:16]
        folder = home / FOLDER / self._name
        self._files: dict[str, Path] = {}
        try:
            if not (home / FOLDER).is_symlink() and not folder.is_symlink() and folder.is_dir():
                self._files = {path.stem: path for path in folder.glob(f"*{_ENDING}")}
        except PermissionError as error:  # of another user who shares the project
            logger.warning("outcomes of before are not read: %s", error)

    @classmethod
    def of(
        cls, repository: Repository, study: str, round_: int | None = None
    ) -> UnrecordedOutcomes:
        """Return those of a study of *repository* that lie below the project."""
        return cls(project_folder() / PROJECT_FOLDER, repository.location, study, round_)

    def __len__(self) -> int:
        return len(self._files)

    def keep(self, outcomes: Iterable[Outcome]) -> int:
        """Keep *outcomes* until they are recorded; return how many could be kept.

        A full disk keeps none of them: their experiments run again.
        """
        count = 0
        for outcome in outcomes:
            if outcome.status == "cancelled":
                continue
            try:
                folder = make_folder(self._home, FOLDER, self._name, mode=0o700)
                path = folder / f"{outcome.digest}{_ENDING}"
                replace_whole(path, [pack_outcome(outcome)])
            except (OSError, ZenError) as error:
                logger.warning("the outcome of %s is not kept: %s", outcome.digest[:12], error)
                continue
            self._files[outcome.digest] = path
            count += 1
        return count

    def find(self, digest: str, kinds: Kinds) -> Outcome | None:
        """Return the outcome of an experiment if it is here, and of one of the kinds of machine."""
        path = self._files.get(digest)
        if path is None:
            return None
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
                return None
            outcome = unpack_outcome(path.read_bytes(), digest, self._home.absolute() / INCOMING)
        except (OSError, ZenError) as error:
            logger.warning("%s is not understood, and is left alone: %s", path, error)
            return None
        return outcome if kinds is None or outcome.machine in kinds else None

    def discard(self, digests: Iterable[str]) -> None:
        """Remove what is recorded by now."""
        for digest in self._files.keys() & set(digests):
            path = self._files.pop(digest)
            with suppress(OSError):
                path.unlink()
                path.parent.rmdir()  # with the last of them
