"""What a driver asks of the repository, and when it commits: look-ups, claims, outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Literal

from zenturio.annotate.model import Goal
from zenturio.errors import NotFoundError, RecordError
from zenturio.experiment import Experiment, MachineKind, Outcome
from zenturio.experiment.experiment import SUCCEEDED, Kinds, ProgramIdentity
from zenturio.failpoints import Failpoint
from zenturio.record import Lease, Repository
from zenturio.study.driver.cached_results import ProgramHistory, machines_with_results
from zenturio.study.driver.driver_threads import GroupCommit
from zenturio.study.driver.experiment_states import (
    LOOK_UPS,
    Batch,
    LookedUp,
    Pair,
    TrackedExperiment,
)

if TYPE_CHECKING:
    from zenturio.study.driver.cached_points import CachedPoints

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
        cached = self.repository.cached(self.study, experiments, *scope)
        ADDED()
        outcomes = (
            self.repository.find_outcomes(sorted(cached), self.study, *scope) if cached else {}
        )
        self._doubt(cached - outcomes.keys())
        missing = set(digests) - outcomes.keys()
        return LookedUp(batch, outcomes, missing if again else self._to_run(missing, outcomes))

    def cached_points(
        self, program: ProgramIdentity, goals: Sequence[Goal], programs: ProgramHistory
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
        """Return the other kinds of machine that have results of *batch*, which is to be run."""
        if self.kinds() is None or self.round is not None:
            return Counter()
        return machines_with_results(self.repository, [t.experiment.digest for t in batch])

    def other_drivers(self) -> list[Lease]:
        """Return the leases of all drivers besides this one, of any study, those of this first."""
        names = {study.name for study in self.repository.studies()} - {self.study}
        leases = (
            lease for n in (self.study, *sorted(names)) for lease in self.repository.leases(n)
        )
        return [lease for lease in leases if lease.number != self.driver]

    def _doubt(self, digests: Iterable[str]) -> None:
        """Raise RecordError for cached outcomes that are never given: no claim is granted on them.

        Once it is no contradiction: somebody may set an outcome aside between the two questions.
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
        if "failed" not in self.only:
            return missing
        if self.round is not None:
            return missing if "missing" in self.only else self._failed_before(missing)
        failed = {digest for digest, outcome in outcomes.items() if outcome.status not in SUCCEEDED}
        if "missing" not in self.only:
            # A run that was to repeat the failed ones and was stopped had set them aside.
            missing = {digest for digest in missing if self._has_failed(digest)}
        if failed:
            self.repository.reopen(self.study, sorted(failed), self.kinds())
            newest = self.repository.rounds(self.study)[-1].number
            self._reopened = newest if newest > 1 else None
        return missing | failed

    def _failed_before(self, digests: set[str]) -> set[str]:
        """Return those whose newest result, of an earlier round, is not ok."""
        outcomes = self.repository.find_outcomes(sorted(digests), self.study, self.kinds())
        return {digest for digest, outcome in outcomes.items() if outcome.status not in SUCCEEDED}

    def _has_failed(self, digest: str) -> bool:
        try:
            attempts = self.repository.attempts(digest)
        except NotFoundError:  # it was never tried
            return False
        return any(attempt.state in ("failed", "wrong", "timeout") for attempt in attempts)


@dataclass
class UnclaimedRecords(StudyRecords):
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
    placed = []
    for tracked, outcome in outcomes:
        position, conditions = tracked.experiment.position, outcome.conditions
        if position is not None and conditions is not None:
            order, block, turn = position
            changed = replace(conditions, run_order=order, run_block=block, run_turn=turn)
            placed.append(replace(outcome, conditions=changed))
        else:
            placed.append(outcome)
    return placed
