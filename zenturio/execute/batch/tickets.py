"""Experiments on their way through a cluster: the session folder, tickets, their submission."""

from __future__ import annotations

import logging
import os
import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from time import monotonic, time
from typing import Generic, Literal

from zenturio.errors import PlaceError
from zenturio.execute.batch.system import (
    ArrayTask,
    ArrayTooLongError,
    BatchJob,
    BatchSystem,
    JobDemand,
    JobPaths,
    JobTask,
    Options,
    QueueFullError,
    UnansweredError,
    array_script,
    log_end,
)
from zenturio.execute.executor import CancellableFuture
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import remove_tree
from zenturio.execute.wire import is_digest
from zenturio.execute.worker import write_whole
from zenturio.experiment import Experiment, Outcome, Status
from zenturio.experiment.identity import checked_digest
from zenturio.failpoints import Failpoint
from zenturio.files import LockedFolder, make_folder, refuse_link

_log = logging.getLogger(__name__)

# The session folder: what a driver has at a cluster, in a folder that nodes see,
# ``places/NAME/session-PID-HEX``
#
#     parcels/DIGEST      what is to be run; without it a job does nothing
#     outcomes/DIGEST     what came out, written by the job once and for all
#     starts/X-N.K        the start K of task N of the job array X, for a task may be requeued:
#                         empty when the experiment has begun, then the outcome if that may have
#                         come of signals to the job; it counts for nothing if the task was
#                         started again
#     starts/X-N.K.setup  the setup of that start failed
#     starts/X-N.K.job    that start was counted by its job, where the batch system does not count
#     batches/X.sh        the script of the job array X, X.list the digests of its tasks in order
#     batches/X.job       a link to the number of the job that X is; made by the first task that
#                         starts, or by the driver that gives X up: then no task of it does anything
#     logs/X-N            what the job of task N said, if it had to say something
#
# A driver holds its session by a lock, which the kernel releases when it dies. Then another
# driver that needs an experiment of the session takes the whole session over.

_PREFIX = "session-"
_FOLDERS = ("parcels", "outcomes", "starts", "batches", "logs")
_GIVEN_UP = "given-up"
LARGEST_OUTCOME_BYTES = 2**32
"""The most bytes of one outcome with its artifacts, which is read as a whole."""


class BatchSession:
    """The session folder of one driver, living or dead, at one place."""

    def __init__(self, path: Path, locked: LockedFolder | None = None) -> None:
        self.path = path
        self._locked = locked

    @staticmethod
    def begin(place: Path) -> BatchSession:
        """Create a session, held by this process."""
        with disk_errors(place):
            make_folder(place.parents[1], *place.parts[-2:])
            locked = LockedFolder.begin(place, _PREFIX)
            for folder in _FOLDERS:
                (locked.path / folder).mkdir()
        return BatchSession(locked.path, locked)

    @staticmethod
    def all(place: Path) -> list[BatchSession]:
        """Return all sessions by name, without holding them."""
        with disk_errors(place):
            for folder in (place.parent, place):
                refuse_link(folder)
        paths = sorted(place.glob(f"{_PREFIX}*"))
        return [BatchSession(p) for p in paths if p.is_dir() and not p.is_symlink()]

    @staticmethod
    def sweep(place: Path) -> None:
        """Remove empty sessions of dead drivers."""
        for session in BatchSession.all(place):
            if not session.digests() and session.take():
                session.leave() if session.digests() else session.remove()

    def take(self) -> bool:
        """Try to hold the session; return False if its driver lives."""
        if self._locked is None:
            self._locked = LockedFolder.take(self.path)
        return self._locked is not None

    def leave(self) -> None:
        """Release the session, so that another driver may take it."""
        if self._locked is not None:
            self._locked.release()
            self._locked = None

    def remove(self) -> None:
        """Remove the session folder."""
        remove_tree(str(self.path))
        self.leave()

    # Experiments

    def put(self, digest: str, parcel: bytes) -> None:
        """Store the parcel of an experiment; remove an outcome of an earlier attempt."""
        with disk_errors(self.path):
            self.outcome(digest).unlink(missing_ok=True)
            self.parcel(digest).write_bytes(parcel)

    def drop(self, digest: str) -> None:
        """Remove an experiment that is settled, or must not begin."""
        self.parcel(digest).unlink(missing_ok=True)
        self.outcome(digest).unlink(missing_ok=True)

    def holds(self, digest: str) -> bool:
        """Return whether the experiment is in this session, and is not settled."""
        return self.parcel(digest).exists()

    def parcel(self, digest: str) -> Path:
        return self.path / "parcels" / checked_digest(digest)

    def outcome(self, digest: str) -> Path:
        return self.path / "outcomes" / checked_digest(digest)

    def ended(self) -> list[str]:
        """Return the digests that have an outcome."""
        with suppress(OSError):
            names = os.listdir(self.path / "outcomes")  # noqa: PTH208 - often, and many
            return [name for name in names if is_digest(name)]
        return []

    def digests(self) -> list[str]:
        """Return the digests of all experiments that are not settled."""
        with suppress(OSError):
            names = os.listdir(self.path / "parcels")  # noqa: PTH208
            return sorted(filter(is_digest, names))
        return []

    # Job arrays

    def write(self, name: str, script: str, digests: Iterable[str]) -> Path:
        """Write the files of the array *name*, before it is submitted."""
        with disk_errors(self.path):
            path = self.path / "batches" / f"{name}.sh"
            path.write_text(script, "utf-8")
            lines = "".join(f"{digest}\n" for digest in digests)
            write_whole(path.with_suffix(".list"), lines.encode())
            return path

    def batches(self) -> Iterator[tuple[str, list[str]]]:
        """Return each array that may have been submitted, with the digests of its tasks."""
        for path in sorted((self.path / "batches").glob("*.list")):
            with suppress(OSError):
                yield path.stem, list(filter(is_digest, path.read_text("utf-8").split()))

    def tasks(self) -> dict[str, ArrayTask]:
        """Return the task of each digest; the newest, if it was submitted again."""
        live = [(name, digests) for name, digests in self.batches() if self.job(name) != _GIVEN_UP]
        return {d: (name, i) for name, digests in live for i, d in enumerate(digests, 1)}

    def job(self, name: str) -> str:
        """Return the job of the array *name*, once its first task has started.

        Empty before that.
        """
        with suppress(OSError):
            return os.readlink(self.path / "batches" / f"{name}.job")  # noqa: PTH115 - the text
        return ""

    def give_up(self, name: str) -> bool:
        """Prevent all tasks of *name* from beginning; return False if one has begun already."""
        with suppress(FileExistsError):
            # symlink() fails where the name exists: a task was first, or this driver, never both.
            os.symlink(_GIVEN_UP, self.path / "batches" / f"{name}.job")  # noqa: PTH211
        return self.job(name) == _GIVEN_UP

    def forget(self, name: str) -> None:
        """Remove the files of an array whose tasks are all settled."""
        for suffix in (".list", ".sh", ".job"):
            (self.path / "batches" / f"{name}{suffix}").unlink(missing_ok=True)
        for folder in ("logs", "starts"):
            for path in (self.path / folder).glob(f"{name}-*"):
                path.unlink(missing_ok=True)

    @staticmethod
    def content(path: Path) -> bytes:
        """Return the content that a worker wrote; PlaceError if it is too large."""
        if path.stat().st_size > LARGEST_OUTCOME_BYTES:
            raise PlaceError(
                f"{path} has more than {LARGEST_OUTCOME_BYTES} B", hint="what wrote it?"
            )
        return path.read_bytes()

    def start(self, task: ArrayTask, restarts: int) -> bytes | None:
        """Return the file of a start of *task*; None if its experiment has not begun."""
        with suppress(OSError):
            return self.content(self._start(task, restarts))
        return None

    def last_start(self, task: ArrayTask) -> int:
        """Return the number of the last start of *task* that left a file; 0 if there is none."""
        first = self._start(task, 0)
        names = [path.name for path in first.parent.glob(f"{first.stem}.*")]
        numbers = [name.removeprefix(f"{first.stem}.").partition(".")[0] for name in names]
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    def setup_failed(self, task: ArrayTask, restarts: int) -> bool:
        """Return whether the setup failed in that start of *task*."""
        path = self._start(task, restarts)
        return path.with_name(f"{path.name}.setup").exists()

    def _start(self, task: ArrayTask, restarts: int) -> Path:
        name, number = task
        return self.path / "starts" / f"{name}-{number}.{restarts}"

    def has_begun(self, task: ArrayTask) -> bool:
        """Return whether the job of *task* was started: it creates its log first."""
        name, number = task
        return (self.path / "logs" / f"{name}-{number}").exists()

    def log_end(self, task: ArrayTask) -> str:
        """Return the end of the log of *task*."""
        name, number = task
        return log_end(self.path / "logs" / f"{name}-{number}")


# Outcomes of jobs, and the blame for lost jobs

SUBMITTING = Failpoint("batch.submitting")
SUBMITTED = Failpoint("batch.submitted")

UNSURE_SECONDS = 5.0
"""Seconds after which a job whose submission was not answered should be in the queue."""

LossBlame = Literal["nobody", "place", "experiment"]
"""What may be to blame for a lost job."""


def cancelled_outcome(digest: str, stored: Outcome | None) -> Outcome:
    """Return the outcome of a cancelled experiment, which may have finished before."""
    if stored is None:
        now = time()
        return Outcome(digest, "cancelled", "cancelled", started=now, ended=now)
    return (
        stored if stored.status == "ok" else replace(stored, status="cancelled", cause="cancelled")
    )


def job_outcome(
    digest: str, job: BatchJob | None, stored: Outcome | None, *, begun: bool
) -> Outcome | None:
    """Return the outcome of an experiment whose *job* has ended; *stored* is what it wrote.

    None means that the job was lost. *begun* says whether its last start began the experiment: else
    nothing that happened to the job is an outcome.
    """
    end = job.end if job else ""
    if end == "time_limit" and begun:
        return _outcome_with(digest, job, stored, "timeout", "time limit of its job")
    if end == "memory_limit" and begun:
        return _outcome_with(digest, job, stored, "failed", "out of memory in its job")
    if stored is not None and stored.status != "cancelled" and not (job and job.taken):
        return stored
    return None


def loss_blame(job: BatchJob | None, *, begun: bool) -> LossBlame:
    """Return what may be to blame for the loss of *job*.

    The experiment is suspected only if it had begun, and its worker died without a signal from
    outside.
    """
    if job is not None and job.end == "cluster_fault":
        return "nobody"
    if job is None or not begun or job.taken:
        return "place"
    return "experiment"


def worker_died_outcome(digest: str, job: BatchJob | None, times: int) -> Outcome:
    """Return the outcome of an experiment whose worker died each time that it began."""
    return _outcome_with(digest, job, None, "failed", f"its worker died {times} times")


def loss_message(job: BatchJob | None) -> str:
    """Return why there is no outcome, as a message."""
    if job is None:
        return "its job vanished"
    where = f" on {job.node}" if job.node else ""
    return f"its job ended{where} as {job.state}"


def _outcome_with(
    digest: str, job: BatchJob | None, stored: Outcome | None, status: Status, cause: str
) -> Outcome:
    if stored is not None:
        return replace(stored, status=status, cause=cause)
    now, host = time(), job.node if job else ""
    return Outcome(digest, status, cause, host=host, started=now, ended=now)


# Tickets and their submission


class BatchTicket(CancellableFuture):
    """The future of an experiment; cancelling it removes its job from the queue, or kills it."""

    def __init__(
        self, experiment: Experiment, session: BatchSession, wake: Callable[[], None]
    ) -> None:
        super().__init__()
        self.experiment = experiment
        self.digest = experiment.digest
        self.demand = JobDemand.of(experiment)
        self.session = session
        """The session with its parcel; another driver's, if its job was found again."""
        self.adopted = False
        """Whether the driver that submitted its job was another one."""
        self.task: ArrayTask | None = None
        """Its task, once its job may have been submitted."""
        self.began = False
        """Whether the queue has shown it running."""
        self.cancel_sent = False
        """Whether its cancellation was requested from the batch system."""
        self.losses: Counter[LossBlame] = Counter()
        """The number of its lost jobs, by blame."""
        self.fault: PlaceError | None = None
        """An error of the place in its job."""
        self.gone_since: float | None = None
        """When its job disappeared from the queue, by the monotonic clock."""
        self.recalled = False
        """Whether it is to be removed from the queue, unless it has begun, for a pilot job."""
        self.alone = False
        """Whether it needs a job of its own, because a pilot job could not finish it."""
        self._pilot: Future[Outcome] | None = None
        self._wake = wake
        self._is_started = False

    def restart(self) -> None:
        """Reset the ticket after the loss of its job, so that another job runs it."""
        self.task = self.gone_since = self.fault = None
        self.began = self.cancel_sent = self.recalled = False

    def start(self) -> bool:
        """Mark it as submitted, unless it was cancelled; return whether it may be submitted."""
        if not self._is_started:
            self._is_started = self.set_running_or_notify_cancel()
        return self._is_started

    def running(self) -> bool:
        """Return whether it ran at the last poll of the queue."""
        if self._pilot is not None:
            return self._pilot.running() and not self.done()
        return self.began and not self.done()

    def delegate(self, pilot: Future[Outcome] | None) -> None:
        """Let a pilot job run it; None returns it to the queue."""
        self._pilot = pilot
        self.recalled = self.began = False
        if self.cancel_requested:
            self.stop()

    def cancel(self) -> bool:
        """Remove it from the queue, or kill it; return False if it has finished."""
        is_cancelled = super().cancel()
        if self.cancelled():
            self._wake()
        return is_cancelled

    def stop(self) -> None:
        if self._pilot is not None:
            self._pilot.cancel()
        else:
            self._wake()


class TicketTable:
    """The tickets of a place. Thread-safe; each ticket is settled once; at most *slots* are in the
    queue.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._lock = Lock()
        self._waiting: deque[BatchTicket] = deque()
        self._queued: dict[str, BatchTicket] = {}
        self._settled: dict[str, BatchSession] = {}
        self._sharing: Counter[tuple[BatchSession, str]] = Counter()
        """How many tickets of a job array are in the queue."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._queued)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> int:
        return self._slots - len(self._queued)

    def queued(self) -> list[BatchTicket]:
        """Return the tickets whose jobs may have been submitted, and that are not settled."""
        with self._lock:
            return list(self._queued.values())

    def find(self, digest: str) -> BatchTicket | None:
        """Return the ticket of that experiment, if its job may have been submitted."""
        return self._queued.get(digest)

    def add(self, ticket: BatchTicket) -> None:
        """Add a waiting ticket."""
        with self._lock:
            self._waiting.append(ticket)

    def take(self, most: int) -> list[BatchTicket]:
        """Take the first waiting ticket, and others with the same demand, as slots allow."""
        with self._lock:
            room = min(most, self.room)
            accepted: list[BatchTicket] = []
            skipped: list[BatchTicket] = []
            while self._waiting and len(accepted) < room:
                ticket = self._waiting.popleft()
                if accepted and ticket.demand != accepted[0].demand:
                    skipped.append(ticket)
                elif ticket.start():
                    accepted.append(ticket)
                else:  # it was cancelled
                    ticket.session.drop(ticket.digest)
            self._waiting.extendleft(reversed(skipped))
            return accepted

    def take_matching(self, chosen: Callable[[BatchTicket], bool]) -> list[BatchTicket]:
        """Take all waiting tickets that are *chosen* and were not cancelled."""
        with self._lock:
            accepted: list[BatchTicket] = []
            skipped: deque[BatchTicket] = deque()
            for ticket in self._waiting:
                if not chosen(ticket):
                    skipped.append(ticket)
                elif ticket.start():
                    accepted.append(ticket)
                else:  # it was cancelled
                    ticket.session.drop(ticket.digest)
            self._waiting = skipped
            return accepted

    def withdraw(self, ticket: BatchTicket) -> bool:
        """Take back a ticket that its job will not run; return False if it is settled."""
        with self._lock:
            if self._queued.pop(ticket.digest, None) is not ticket:
                return False
            self._release(ticket)
            ticket.task = None
            return True

    def enter(self, tickets: Iterable[BatchTicket]) -> None:
        """Note that the jobs of *tickets* may be in the queue from now on."""
        with self._lock:
            for ticket in tickets:
                assert ticket.task is not None
                self._queued[ticket.digest] = ticket
                self._sharing[ticket.session, ticket.task[0]] += 1

    def put_back(self, tickets: Iterable[BatchTicket]) -> None:
        """Put tickets that were not submitted in front of all waiting ones."""
        with self._lock:
            for ticket in reversed(list(tickets)):
                if self._queued.pop(ticket.digest, None) is ticket:
                    self._release(ticket)
                    ticket.task = None
                    self._waiting.appendleft(ticket)

    def settle(self, ticket: BatchTicket, result: Outcome | Exception) -> None:
        """Settle *ticket* with an outcome or an error.

        An outcome stays on the disk until `forget`. So do the files of a ticket that failed because
        of the place, because its job may still finish.
        """
        with self._lock:
            if self._queued.pop(ticket.digest, None) is not ticket:
                return
            if isinstance(result, Outcome) and result.status != "cancelled":
                self._settled[ticket.digest] = ticket.session
            elif isinstance(result, Outcome):
                ticket.session.drop(ticket.digest)
            self._release(ticket)
        if isinstance(result, Outcome):
            ticket.set_result(result)
        else:
            ticket.set_exception(result)

    def keep(self, digest: str, session: BatchSession) -> None:
        """Keep an outcome that was there before its experiment was submitted."""
        self._settled[digest] = session

    def forget(self, digest: str) -> None:
        """Remove the files of a settled experiment."""
        session = self._settled.pop(digest, None)
        if session is not None:
            session.drop(digest)

    def drain(self) -> list[BatchTicket]:
        """Take all waiting tickets."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        return waiting

    def _release(self, ticket: BatchTicket) -> None:
        """Remove a ticket from its job array, and the files of an array without tickets."""
        assert ticket.task is not None
        key = (ticket.session, ticket.task[0])
        self._sharing[key] -= 1
        if not self._sharing[key]:
            del self._sharing[key]
            if not ticket.adopted:
                ticket.session.forget(ticket.task[0])


class ArraySubmission(Generic[Options]):
    """Submits the tickets of *table* as job arrays, and tracks the jobs of each ticket.

    Each array is submitted once, even if the reply to the submission is lost.
    """

    def __init__(
        self,
        table: TicketTable,
        session: BatchSession,
        system: BatchSystem[Options],
        paths: JobPaths,
    ) -> None:
        self._table = table
        self._session = session
        self._system = system
        self._paths = paths
        self._longest_allowed = self._longest = system.options.array
        self._count = 0
        self._prefix = f"zen-{secrets.token_hex(4)}"
        self._jobs: dict[str, set[str]] = {}
        """The job numbers of each array by name: usually one."""
        self._unconfirmed: dict[str, float] = {}
        """Names of arrays whose submission was not answered, with its time."""

    def submit(self) -> None:
        """Submit one array of the first waiting tickets.

        UnansweredError if it is unknown whether it was accepted, QueueFullError if the queue
        accepts no more for now.
        """
        tickets = self._table.take(self._longest)
        if not tickets:
            return
        name = f"{self._prefix}-{self._count:06}"
        self._count += 1
        for number, ticket in enumerate(tickets, 1):
            ticket.task = (name, number)
        self._table.enter(tickets)
        try:
            text = array_script(self._system, name, len(tickets), tickets[0].demand, self._paths)
            path = self._session.write(name, text, [ticket.digest for ticket in tickets])
            # The list of digests is on the disk before the array is submitted: after kill -9 the
            # next driver finds the array by its name, whether it was taken or not.
            SUBMITTING()
            self._jobs[name] = {self._system.submit(path)}
            SUBMITTED()
            _log.debug(
                "submitted %s: %d experiments, job %s", name, len(tickets), *self._jobs[name]
            )
            self._longest = min(max(self._longest, 2 * len(tickets)), self._longest_allowed)
        except ArrayTooLongError as error:
            if len(tickets) == 1:
                self._fail(tickets, PlaceError(str(error)))
            self._longest_allowed = self._longest = max(len(tickets) // 2, 1)
            self._table.put_back(tickets)
        except QueueFullError:
            self._longest = max(len(tickets) // 2, 1)
            self._table.put_back(tickets)
            raise
        except UnansweredError:
            self._unconfirmed[name] = monotonic()
            _log.info("submission of %s was not answered", name)
            raise
        except PlaceError as error:
            self._fail(tickets, error)

    def adopt(self, ticket: BatchTicket) -> None:
        """Take over a ticket of a dead driver.

        Its job may be in the queue, finished, or not submitted at all.
        """
        assert ticket.task is not None
        name = ticket.task[0]
        job = ticket.session.job(name)
        if job:
            self.record_job(name, job)
        elif name not in self._jobs:
            self._unconfirmed.setdefault(name, monotonic())
        self._table.enter([ticket])

    def cancel_targets(self, tickets: list[BatchTicket]) -> list[JobTask]:
        """Return the tasks of *tickets* to cancel; for a whole array only its number."""
        ending = Counter(ticket.task[0] for ticket in tickets if ticket.task)
        queued = Counter(ticket.task[0] for ticket in self._table.queued() if ticket.task)
        ending_arrays = {name for name, count in ending.items() if count == queued[name]}
        targets: dict[JobTask, None] = {}
        for ticket in tickets:
            assert ticket.task is not None
            is_whole = not ticket.adopted and ticket.task[0] in ending_arrays
            tasks = self.jobs(ticket)
            targets |= (
                dict.fromkeys((array, None) for array, _ in tasks)
                if is_whole
                else (dict.fromkeys(tasks))
            )
        return list(targets)

    def arrays(self, name: str) -> list[str]:
        """Return the known job numbers of the array of that name."""
        return sorted(self._jobs.get(name, ()))

    def jobs(self, ticket: BatchTicket) -> list[JobTask]:
        """Return the tasks of *ticket*; empty while unknown."""
        assert ticket.task is not None
        name, number = ticket.task
        return [(array, number) for array in self.arrays(name)]

    def record_job(self, name: str, job: str) -> None:
        """Note that the queue shows *job* under that name."""
        self._jobs.setdefault(name, set()).add(job)
        self._unconfirmed.pop(name, None)

    def is_known(self, name: str) -> bool:
        """Return whether there certainly was a job of that name."""
        return name in self._jobs

    def resolve(self) -> None:
        """Submit arrays again that are still missing from the queue long after an unanswered
        submission.

        Either a task of the array has begun, or none ever will: see `BatchSession.give_up`.
        """
        for name, since in list(self._unconfirmed.items()):
            if monotonic() - since < UNSURE_SECONDS:
                continue
            del self._unconfirmed[name]
            tickets = [t for t in self._table.queued() if t.task and t.task[0] == name]
            if not tickets:
                continue
            session = tickets[0].session
            # Never submit twice: first make sure that no task of the silent submission can begin.
            if session.give_up(name):
                self.resubmit(tickets)
            else:
                self.record_job(name, session.job(name))

    def resubmit(self, tickets: list[BatchTicket]) -> None:
        """Submit other jobs for *tickets*, whose jobs will not run them."""
        _log.info("%d experiments are submitted again", len(tickets))
        self._table.put_back(tickets)
        for ticket in tickets:
            ticket.restart()
            self._move_here(ticket)

    def _move_here(self, ticket: BatchTicket) -> None:
        """Move the files of *ticket* from a dead driver's session into ours."""
        if ticket.adopted:
            parcel = ticket.session.parcel(ticket.digest).read_bytes()
            self._session.put(ticket.digest, parcel)
            ticket.session.drop(ticket.digest)
            ticket.session, ticket.adopted = self._session, False

    def _fail(self, tickets: list[BatchTicket], error: PlaceError) -> None:
        for ticket in tickets:
            self._table.settle(ticket, error)
            ticket.session.drop(ticket.digest)
