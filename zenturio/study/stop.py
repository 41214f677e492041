"""Ends what runs of a study: its drivers, wherever they are, and what dead ones left in queues."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass

from zenturio.errors import PlaceError
from zenturio.record import Lease, Repository
from zenturio.record.open import FOLDER, project_folder
from zenturio.study.driver.stop_requests import CancelRequests
from zenturio.study.last_options import orphans_at

PATIENCE = 120.0
"""Seconds that a driver may take to end what it has, at the most."""
_LOOK = 0.1


@dataclass(frozen=True)
class StopResult:
    """What came of it."""

    study: str
    stopped: tuple[Lease, ...] = ()
    """Drivers that were told, and have ended."""
    told: tuple[Lease, ...] = ()
    """Drivers elsewhere that will hear of it at their next heartbeat."""
    jobs: int = 0
    """Experiments that dead drivers had in a queue."""


def stop_study(repository: Repository, study: str) -> StopResult:
    """Has every driver of *study* end at once, and takes its jobs off the queue of its place."""
    stopped, told = [], []
    for lease in repository.leases(study):
        if _is_here(lease):
            _end(repository, lease)
            stopped.append(lease)
        elif lease.host != socket.gethostname():
            repository.release_lease(lease)
            told.append(lease)
    notes = repository.definition(study).notes
    orphans = orphans_at(notes, project_folder() / FOLDER)
    unsettled = repository.records(study, states=("missing", "running")) if orphans else ()
    jobs = orphans.cancel([record.digest for record in unsettled]) if orphans else 0
    return StopResult(study, tuple(stopped), tuple(told), jobs)


def stop_experiment(repository: Repository, study: str, digest: str) -> str:
    """Cancels one experiment; its state then, ``missing`` where no driver had it."""
    if repository.experiment_record(study, digest).state != "running":
        return repository.experiment_record(study, digest).state
    if all(lease.driver_has_exited() for lease in repository.leases(study)):
        orphans = orphans_at(repository.definition(study).notes, project_folder() / FOLDER)
        if orphans is not None:
            orphans.cancel([digest])
        return "missing"
    cancel_requests = CancelRequests(project_folder() / FOLDER)
    cancel_requests.ask(digest)
    end = time.monotonic() + PATIENCE
    while (state := repository.experiment_record(study, digest).state) in ("running", "missing"):
        if time.monotonic() > end:
            cancel_requests.take_back(digest)
            raise PlaceError(
                f"the driver of {study} did not cancel {digest[:12]} for {PATIENCE:g} s",
                hint="does it run in this project? zen status tells where",
            )
        time.sleep(_LOOK)
    cancel_requests.take_back(digest)
    return state


def _is_here(lease: Lease) -> bool:
    return lease.host == socket.gethostname() and not lease.driver_has_exited()


def _end(repository: Repository, lease: Lease) -> None:
    """Has a driver of this host kill what it runs, give back its claims, and end."""
    try:
        os.kill(lease.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise PlaceError(
            f"process {lease.pid}, which drives {lease.study}, is somebody else's",
            hint="ask them, or be them",
        ) from error
    end = time.monotonic() + PATIENCE
    while not lease.driver_has_exited() and any(
        d.number == lease.number for d in repository.leases(lease.study)
    ):
        if time.monotonic() > end:
            raise PlaceError(f"process {lease.pid} does not end: it was told to by SIGTERM")
        time.sleep(_LOOK)
