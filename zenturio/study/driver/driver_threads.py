"""Threads beside a driver's: one renews its lease, one commits outcomes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Self

from zenturio.errors import RecordError
from zenturio.experiment import Experiment, Outcome
from zenturio.failpoints import Failpoint
from zenturio.record import Lease, Repository
from zenturio.record.entities import DriverProcess

LEASED = Failpoint("study.leased")
LEFT = Failpoint("study.left")
logger = logging.getLogger(__name__)

LEAVE_SECONDS = 1.0
"""How long leaving waits for a renewal that is under way; a hanging server must not hang us."""


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


class LeaseKeeper:
    """Renews a lease while its driver is busy: three times within the lease, until it is left.

    A thread of its own, for the driver's may be in a user's function, or in a point that is hard
    to find, for longer than the lease lasts.
    """

    def __init__(self, repository: Repository, lease: Lease) -> None:
        self._repository = repository
        self._lease = lease
        self._is_over = Event()
        self._error: Exception | None = None
        self._thread = Thread(target=self._renew, name="zenturio-lease", daemon=True)

    def check(self) -> None:
        """Raise ConflictError once another driver has superseded this one."""
        if self._error is not None:
            raise self._error

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
        self._thread.join(LEAVE_SECONDS)

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


WAIT = 0.1
"""Seconds between two commits: an outcome waits for others at most twice as long."""
QUIET = 5.0
"""Seconds for which the thread leaves a repository that failed alone."""
"""How long leaving waits for a commit that is under way; a hanging server must not hang us."""

ExperimentOutcome = tuple[Experiment, Outcome]


class GroupCommit:
    """Outcomes that wait for others, so that many share the cost of one commit.

    The driver's thread adds outcomes and commits them when that is due. A thread of its own commits
    them where the driver's does not come to it, because it is in a user's function. It reports
    nothing: the next `commit` of the driver's thread returns what was accepted meanwhile, or
    raises what the thread could not commit.
    """

    def __init__(self, write: Callable[[Sequence[ExperimentOutcome]], AbstractSet[str]]) -> None:
        """*write* commits outcomes, and returns the digests of those that were accepted.

        It may be called again with the same ones if it failed.
        """
        self._write = write
        self._waiting: list[ExperimentOutcome] = []
        self._accepted: set[str] = set()
        self._last_commit = monotonic()
        self._lock = Lock()
        self._has_waiting = Event()
        self._is_over = Event()
        self._thread = Thread(target=self._commit_in_time, name="zenturio-commit", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the thread; what it has not committed still waits for `commit`."""
        self._is_over.set()
        self._has_waiting.set()
        self._thread.join(LEAVE_SECONDS)

    @property
    def is_due(self) -> bool:
        """Whether the last commit was long enough ago."""
        return monotonic() - self._last_commit > WAIT

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

    def _commit_in_time(self) -> None:
        while self._has_waiting.wait() and not self._is_over.wait(WAIT):
            if not self.is_due:
                continue
            try:
                self._commit_waiting()
            except Exception as error:  # noqa: BLE001 - the driver's thread meets and raises it
                logger.warning("outcomes were not committed, they still wait: %s", error)
                self._has_waiting.set()
                self._is_over.wait(QUIET)
