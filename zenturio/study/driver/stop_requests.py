"""What asks a run to stop or to cancel an experiment: signals, files, other processes."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from zenturio import trust
from zenturio.errors import PlaceError
from zenturio.execute.file_staging import disk_errors
from zenturio.files import make_folder, refuse_link
from zenturio.record import Lease, Repository
from zenturio.record.open import FOLDER, project_folder
from zenturio.study.last_options import orphans_at

GENTLE = (signal.SIGINT,)
AT_ONCE = (signal.SIGTERM, signal.SIGHUP)
_Handler = Callable[[int, object], None]


@contextmanager
def stop_on_signals(
    stop: Callable[[], None], signals: Collection[signal.Signals] = GENTLE + AT_ONCE
) -> Iterator[None]:
    """Call *stop* once at Ctrl-C, and twice at SIGTERM and SIGHUP, which kills what runs.

    Signals that are ignored stay ignored: ``nohup zen run`` outlives its terminal, and a run in
    the background of a script its Ctrl-C.
    """
    # Python delivers signals to the main thread alone; the threads of a service are stopped by it.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    # *stop* may only put a message into a queue, or interrupt a user's function: a handler
    # interrupts any line of the driver, also one within a transaction.
    def gently(_number: int, _frame: object) -> None:
        stop()

    def at_once(_number: int, _frame: object) -> None:
        stop()
        stop()

    handlers = dict.fromkeys(GENTLE, gently) | dict.fromkeys(AT_ONCE, at_once)
    asking = (number for number in handlers if number in signals)
    with _handled({n: handlers[n] for n in asking if signal.getsignal(n) != signal.SIG_IGN}):
        yield


@contextmanager
def interrupt_at_end_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt the block as Ctrl-C does, where they would kill.

    ``zen cancel`` sends SIGTERM to the process that holds the lease of a study, also while its
    driver does not listen yet or no longer: the lease is given back then, too, and the place
    closed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with _handled({n: interrupt for n in AT_ONCE if signal.getsignal(n) == signal.SIG_DFL}):
        yield


@contextmanager
def _handled(handlers: Mapping[signal.Signals, _Handler]) -> Iterator[None]:
    """Let *handlers* handle their signals, and those before them afterwards.

    Where a handler that was set by something other than Python was there, none takes its place.
    """
    before = {n: h for n in handlers if (h := signal.getsignal(n)) is not None}
    try:  # a signal may interrupt this, too
        for number in before:
            signal.signal(number, handlers[number])
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


UNWANTED = "unwanted"


class CancelRequests:
    """Experiments that users want cancelled: empty files ``unwanted/DIGEST`` below *folder*.

    Requests are files, because the command and the driver are different processes, which may start
    in any order.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / UNWANTED

    def ask(self, digest: str) -> None:
        """Ask the driver that runs the experiment to cancel it."""
        with disk_errors(self._folder):
            trust.begin(self._folder.parent)
            make_folder(self._folder.parent, self._folder.name)
            refuse_link(self._folder / digest)
            (self._folder / digest).touch()

    def take_back(self, digest: str) -> None:
        """Remove a request: it was answered, or is not wanted any more."""
        (self._folder / digest).unlink(missing_ok=True)

    def asked(self, digest: str) -> bool:
        """Return whether a request is not answered yet."""
        return (self._folder / digest).exists()

    def unwanted(self) -> list[str]:
        """Return the digests of all requests."""
        with suppress(OSError):
            return os.listdir(self._folder)  # noqa: PTH208 - looked at often
        return []


# Stop of a study from outside: its drivers, wherever they are, and jobs that dead ones left

PATIENCE = 120.0
"""Seconds that a driver may take to end what it has, at the most."""
_LOOK = 0.1


@dataclass(frozen=True)
class StopResult:
    """What came of it."""

    study: str
    stopped: tuple[Lease, ...] = ()
    """Drivers that were signalled, and have exited."""
    told: tuple[Lease, ...] = ()
    """Drivers on other machines, which see the request at their next heartbeat."""
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
                f"the driver of {study} did not cancel {digest[:12]} within {PATIENCE:g} s",
                hint="does it run in this project? zen status shows where",
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
            f"process {lease.pid}, which drives {lease.study}, belongs to another user",
            hint="ask that user, or run this command as that user",
        ) from error
    end = time.monotonic() + PATIENCE
    while not lease.driver_has_exited() and any(
        d.number == lease.number for d in repository.leases(lease.study)
    ):
        if time.monotonic() > end:
            raise PlaceError(f"process {lease.pid} did not exit after SIGTERM")
        time.sleep(_LOOK)
