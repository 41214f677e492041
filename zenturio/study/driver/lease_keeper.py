"""The lease on a study: taken, renewed in a background thread, and given back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from types import TracebackType
from typing import Self

from zenturio.errors import RecordError
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
    repository: Repository, study: str, seconds: float, *, join: bool = False
) -> Iterator[Lease]:
    """Yield the right to drive *study*, given back in the end."""
    lease = repository.acquire_lease(study, DriverProcess.current(), join=join, seconds=seconds)
    LEASED()
    try:
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
