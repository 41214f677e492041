"""Jobs of workers that end are replaced while there is work, and before their time is over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any, Literal

from zenturio.errors import PlaceError, ZenError
from zenturio.execute.batch.system import SETUP_FAILED, BatchJob, UnansweredError, log_end
from zenturio.execute.slurm_commands import SlurmCommands

_log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""Seconds between two checks of the queue."""
POLL_SHARE = 10
"""A look that took long is followed by so many times as long without one."""
LEAD_FRACTION = 0.2
"""The part of its time before whose end the successor of a job is submitted."""
LEAD_SECONDS = (15.0, 600.0)
"""Seconds that this is at the least and at the most."""
MOST_FRUITLESS = 3
"""So many jobs in a row that end before their worker has come are no bad luck."""
ABSENT_SECONDS = 60.0
"""Seconds that the worker of a job that runs may be away: its nanny needs a while to begin it."""
_CLOSING_SECONDS = 5.0
"""Seconds that closing waits for a command of Slurm; then that ends by its own patience."""

LossReason = Literal["taken", "over", "died", ""]
"""Why a worker was lost: its job was taken away, its time was over, or it died; not known yet."""


class JobRenewal:
    """The jobs of one driver's workers, as many as there are to be.

    *fault* says why no worker can be had, as soon as that is so for *patience* seconds, in which
    none was there and none waited in the queue for its turn.
    """

    def __init__(
        self,
        workers: Any,
        name: str,
        jobs: int,
        queue: SlurmCommands,
        logs: Path,
        patience: float,
    ) -> None:
        """*jobs* of that *name*, whose *workers* are a cluster of Dask."""
        self._workers = workers
        self._name = name
        self._wanted_jobs = jobs
        self._queue = queue
        self._logs = logs
        self._patience = patience
        self._is_busy: Callable[[], bool] = lambda: False
        self._ids: dict[str, str] = {}
        """The job of each worker that there ever was, by the worker's name."""
        self._jobs_by_id: dict[str, BatchJob] = {}
        self._last_poll = float("-inf")
        self._arrived: set[str] = set()
        """The names of workers that have come."""
        self._absent_since: dict[str, float] = {}
        """Since when workers are away whose jobs run, by the monotonic clock."""
        self._fruitless = 0
        self._last_worker_seen = monotonic()
        self._reason = "no job has begun"
        self.fault: PlaceError | None = None
        self.retiring: frozenset[str] = frozenset()
        """The addresses of workers whose successors are there: they are given nothing more."""
        self._wake = Event()
        self._closed = Event()
        self._thread: Thread | None = None

    def begin(self, is_busy: Callable[[], bool]) -> None:
        """From now on jobs are replaced while *is_busy* says that there is work."""
        self._is_busy = is_busy
        self._last_worker_seen = monotonic()
        self._thread = Thread(target=self._loop, name="zenturio-dask-jobs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No job is submitted any more."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_CLOSING_SECONDS)

    def ending(self, worker: str, address: str, since: float) -> LossReason:
        """Return why the *worker* of that name was lost, at *since* by the monotonic clock."""
        if self._last_poll <= since:
            self._wake.set()
            return ""
        job = self._jobs_by_id.get(self._ids.get(worker, ""))
        if job is None or job.taken or job.state == "PENDING":  # it vanished, or was requeued
            return "taken"
        if job.state in ("TIMEOUT", "DEADLINE"):
            return "over"
        restarted = {
            name
            for worker_address, name in self._connected_names().items()
            if worker_address != address
        }
        if job.ended or worker in restarted:  # its nanny has begun it anew
            return "died"
        return ""

    def _loop(self) -> None:
        pause = POLL_SECONDS
        while self.fault is None:
            self._wake.wait(pause)
            self._wake.clear()
            began = monotonic()
            if self._closed.is_set():
                return
            if not self._is_busy():
                self._last_worker_seen = began
                continue
            try:
                self._step()
            except (UnansweredError, ZenError) as error:
                self._reason = str(error)
            except Exception as error:  # noqa: BLE001 - whatever Dask raises; it is tried again
                self._reason = repr(error)
            self._give_up_when_late()
            pause = max(POLL_SECONDS, POLL_SHARE * (monotonic() - began))

    def _step(self) -> None:
        connected = self._connected_names()
        if connected:
            self._last_worker_seen = monotonic()
            self._fruitless = 0
        self._arrived.update(connected.values())
        jobs = self._poll()
        entries = {str(name): job.job_id for name, job in list(self._workers.workers.items())}
        self._ids.update({name: number for name, number in entries.items() if number})
        ended = [name for name, number in entries.items() if self._has_ended(number, jobs)]
        running = [n for n, number in entries.items() if number in jobs and jobs[number].begun]
        absent = self._absentees({*running} - {*connected.values()} - {*ended})
        ended += absent
        alive = entries.keys() - ended
        fresh = {name for name in alive if not self._retires(jobs.get(entries[name] or ""))}
        for name in ended:
            self._record_ended(name, jobs.get(entries[name] or ""))
        waits = [jobs[entries[name]] for name in alive if entries[name] in jobs]
        stuck = [job for job in waits if job.is_stuck]
        if stuck:
            self._reason = f"job {stuck[0].array} waits: {stuck[0].reason}"
        if any(job.state == "PENDING" and not job.is_stuck for job in waits):
            self._last_worker_seen = monotonic()
        connected_names = set(connected.values())
        self.retiring = frozenset(
            address
            for address, name in connected.items()
            if name not in fresh and fresh & connected_names
        )
        self._give_up_when_late()
        missing = self._wanted_jobs - len(fresh)
        if (ended or missing > 0) and self.fault is None:
            wait = max(self._patience, 1.0)
            changes = (set(ended), set(absent), max(missing, 0))
            _log.debug("%d jobs of workers ended, %d missing", len(ended), missing)
            self._workers.sync(self._replace, *changes, callback_timeout=wait)

    def _absentees(self, absent: set[str]) -> list[str]:
        """Those of the workers that are *absent* while their jobs run that were so for too long."""
        now = monotonic()
        self._absent_since = {name: self._absent_since.get(name, now) for name in absent}
        return [name for name, since in self._absent_since.items() if now - since > ABSENT_SECONDS]

    def _poll(self) -> dict[str, BatchJob]:
        """Return the jobs by their numbers, as the queue shows them."""
        looked = monotonic()
        self._jobs_by_id = self._queue.jobs(self._name)
        self._last_poll = looked
        return self._jobs_by_id

    def _connected_names(self) -> dict[str, str]:
        """Return the names of the workers that are there, by their addresses."""
        workers = dict(self._workers.scheduler_info.get("workers", {}))
        return {address: str(worker["name"]) for address, worker in workers.items()}

    def _has_ended(self, number: str | None, jobs: dict[str, BatchJob]) -> bool:
        """Return whether the job of that number is no more.

        One without a number begins just now.
        """
        return number is not None and (number not in jobs or jobs[number].ended)

    @staticmethod
    def _retires(job: BatchJob | None) -> bool:
        """Return whether it is time for its successor."""
        if job is None or job.seconds_left is None or job.seconds is None:
            return False
        return job.begun and job.seconds_left <= min(
            max(LEAD_FRACTION * job.seconds, LEAD_SECONDS[0]), LEAD_SECONDS[1]
        )

    def _record_ended(self, name: str, job: BatchJob | None) -> None:
        """What is to be learnt from a job that has ended."""
        number = self._ids.get(name, "")
        log = log_end(self._logs / f"{self._name}-{number}")
        ended = f"ended as {job.state}" if job is not None else "vanished"
        self._reason = f"job {number} of workers {ended}" + (f": {log}" if log else "")
        if name in self._arrived:
            return
        self._fruitless += 1
        _log.info("%s, before a worker came", self._reason)
        if SETUP_FAILED in log and not (job is not None and job.taken):
            hint = "see setup, or prologue, in [places.NAME] of zenturio.toml"
            self.fault = PlaceError(f"the setup of the workers failed: {log}", hint=hint)

    def _give_up_when_late(self) -> None:
        late = monotonic() - self._last_worker_seen > self._patience
        if self.fault is not None or not (
            late or self._fruitless >= max(MOST_FRUITLESS, self._wanted_jobs)
        ):
            return
        hint = "see the settings of the place: zen places show NAME --script"
        self.fault = PlaceError(
            f"no worker can be had from the batch system: {self._reason}", hint=hint
        )

    async def _replace(self, ended: set[str], absent: set[str], missing: int) -> None:
        """In the thread of Dask: forgets those that have *ended*, and submits what is *missing*.

        Of those the *absent* have jobs that run: Dask cancels what it is to forget. New ones are
        named while the others are still known, so that no name is there twice.
        """
        cluster = self._workers
        obsolete = [n for n in cluster.worker_spec if str(n) in ended or n not in cluster.workers]
        if missing:
            cluster.scale(jobs=len(cluster.worker_spec) + missing)
        for name in obsolete:
            cluster.worker_spec.pop(name)
            if str(name) not in absent:
                cluster.workers.pop(name, None)
        try:
            await cluster
        except BaseException:
            forget_unsubmitted(cluster)
            raise


def forget_unsubmitted(cluster: Any) -> None:
    """Take those off *cluster* that the batch system has refused."""
    for name, job in list(cluster.workers.items()):
        if job.status.name == "created":  # else the cluster could not be closed
            job.status = type(job.status).failed
            cluster.workers.pop(name)
            cluster.worker_spec.pop(name, None)
