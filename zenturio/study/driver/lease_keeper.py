"""Lease renewal in a background thread."""

from __future__ import annotations

import logging
from threading import Event, Thread
from types import TracebackType
from typing import Self

from zenturio.errors import RecordError
from zenturio.record import Lease, Repository

logger = logging.getLogger(__name__)

LEAVE_SECONDS = 1.0
"""How long leaving waits for a renewal that is under way; a hanging server must not hang us."""


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
