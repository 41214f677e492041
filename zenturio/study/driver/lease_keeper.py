"""A lease is kept alive by a thread of its own, whatever its driver is busy with."""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Self

from zenturio.errors import RecordError
from zenturio.record import Lease, Repository

PATIENCE = 1.0
"""Seconds that leaving waits at the most for a beat that is under way."""


class LeaseKeeper:
    """Beats three times within the lease, from entering to leaving.

    A repository that cannot be reached is asked again: whether that ends the study, its driver
    decides. A lease that was superseded is told by ``check``.
    """

    def __init__(self, repository: Repository, lease: Lease) -> None:
        self._repository = repository
        self._lease = lease
        self._over = Event()
        self._error: Exception | None = None
        self._thread = Thread(target=self._live, name="zenturio-heart", daemon=True)

    def check(self) -> None:
        """ConflictError once another driver has superseded this one."""
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
        self._over.set()
        self._thread.join(PATIENCE)

    def _live(self) -> None:
        try:
            while not self._over.wait(self._lease.seconds / 3):
                with suppress(RecordError):
                    self._lease = self._repository.renew_lease(self._lease)
        except Exception as error:  # noqa: BLE001 - the driver's thread raises it
            self._error = error
