"""Workers of Dask as jobs of Slurm, by dask-jobqueue."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from shlex import quote
from threading import Event, Thread, get_ident
from time import monotonic
from typing import Any, Literal

from zenturio.errors import InputError, PlaceError, PluginError, ZenError
from zenturio.execute.batch.system import (
    SETUP_FAILED,
    BatchJob,
    UnansweredError,
    log_end,
    option_lines,
    setup_lines,
)
from zenturio.execute.dask.ticket_queue import DaskOptions
from zenturio.execute.dask.worker_runtime import QUEUED
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import write_new
from zenturio.execute.slurm_commands import SlurmCommands
from zenturio.files import make_folder
from zenturio.install_hint import extra_hint

_log = logging.getLogger(__name__)

# Renewal: jobs that end are replaced while there is work, and before their time is over

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
    """The jobs of one driver's workers, kept at the requested number.

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
        """*jobs*: how many, with that *name*; their *workers* form a Dask cluster."""
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
        """Replace lost jobs from now on, while *is_busy* returns true."""
        self._is_busy = is_busy
        self._last_worker_seen = monotonic()
        self._thread = Thread(target=self._loop, name="zenturio-dask-jobs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop submitting jobs."""
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
        # A job that waits for its turn in the queue is no reason to lose patience.
        if any(job.state == "PENDING" and not job.is_stuck for job in waits):
            self._last_worker_seen = monotonic()
        # A worker whose time is nearly over goes on working until a fresh one has come.
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
        """Return the names of the present workers, by address."""
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
        """Record why a job ended, and whether it rules out further jobs."""
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
        self.fault = PlaceError(f"the batch system started no worker: {self._reason}", hint=hint)

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


# Clusters of workers in jobs

SUBMIT_SECONDS = 60.0
"""Seconds that Slurm may take for the first jobs, at the least."""
_KEYS = ("ca.pem", "cert.pem", "key.pem")
_ROLES = ("client", "scheduler", "worker")


def worker_script(options: DaskOptions, folder: Path) -> str:
    """Return the script of a job, as it would be submitted; nothing is started."""
    if options.cluster is None:
        raise InputError("this place starts no jobs", hint='cluster = "slurm" in [places.NAME]')
    settings = _cluster_settings(options, folder, "zenturio")
    security = _security_of(_log_folder(folder))
    with _cluster_errors():
        job = _cluster_class().job_cls(
            "tls://SCHEDULER:PORT", name="WORKER", security=security, **settings
        )
    text: str = job.job_script()
    return text


class SlurmWorkers:
    """A cluster whose workers are jobs, and the keys by which they know each other."""

    def __init__(self, options: DaskOptions, session: Path) -> None:
        """Submits the jobs of the driver of that folder."""
        self.where = "the jobs of Slurm"
        self.slots = options.nodes * options.cores
        """How many experiments they take, when all have begun."""
        folder = session.parents[1]
        with disk_errors(session):
            make_folder(folder, *_log_folder(folder).parts[-2:])
            security = _create_keys(session)
            self._name = name = session.name.replace("dask-", "zen-")
            self._logs = _log_folder(folder)
            # Who comes after us can end them by their name.
            write_new(str(session / QUEUED), name.encode(), 0o600)
        self.workers = _start_cluster(options, folder, security, name)
        queue = SlurmCommands(options.patience)
        self.renewal = JobRenewal(
            self.workers, name, options.nodes, queue, self._logs, options.patience
        )

    def close(self) -> None:
        """End the jobs; what they wrote stays where none of them came, to tell why."""
        self.renewal.close()
        came = bool(self.workers.scheduler_info.get("workers"))
        with suppress(Exception):  # whatever the library raises: the jobs end by themselves too
            self.workers.close(timeout=10)
        for log in self._logs.glob(f"{self._name}-*") if came else ():
            log.unlink(missing_ok=True)


def _create_keys(keys: Path) -> Any:
    """Create keys, in files that only this user may read."""
    security = import_module("distributed").Security.temporary()
    parts = (security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
    for name, text in zip(_KEYS, parts, strict=True):
        write_new(str(keys / name), text.encode(), 0o600)
    return _security_of(keys)


def _security_of(keys: Path) -> Any:
    ca, cert, key = (str(keys / name) for name in _KEYS)
    arguments = {f"tls_{who}_cert": cert for who in _ROLES} | {
        f"tls_{who}_key": key for who in _ROLES
    }
    security: type[Any] = import_module("distributed").Security

    class Quoted(security):  # type: ignore[misc]
        """The library writes what workers need into a script as it stands."""

        def get_tls_config_for_role(self, role: str) -> dict[str, Any]:
            config = super().get_tls_config_for_role(role)
            plain = role != "worker"
            return {
                n: t if plain or not isinstance(t, str) else quote(t) for n, t in config.items()
            }

    return Quoted(require_encryption=True, tls_ca_file=ca, **arguments)


def _start_cluster(options: DaskOptions, folder: Path, security: Any, name: str) -> Any:
    settings = _cluster_settings(options, folder, name)
    # We see to lost workers; Dask would cancel their jobs.
    import_module("dask").config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    worker_script(
        options, folder
    )  # refuses what cannot be, before anything is there to be taken down
    with _cluster_errors():
        workers = _cluster_class()(
            **settings,
            security=security,
            scheduler_options={"dashboard_address": "127.0.0.1:0", "allowed_failures": 0},
            silence_logs=logging.CRITICAL,
        )
        try:
            with _quiet_loggers():
                wait = max(options.patience, SUBMIT_SECONDS)
                workers.sync(_submit_jobs, workers, options.nodes, callback_timeout=wait)
        except BaseException:
            with suppress(Exception):
                workers.close(timeout=1)
            raise
    return workers


async def _submit_jobs(workers: Any, jobs: int) -> None:
    """Return when the jobs are in the queue; raises what the batch system says to them."""
    workers.scale(jobs=jobs)
    try:
        await workers
    except BaseException:
        forget_unsubmitted(workers)
        raise


@contextmanager
def _cluster_errors() -> Iterator[None]:
    """What was said of the jobs, and is not possible, in the words of who refuses it."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        text = str(error) or "Slurm did not answer"
        lines = [line for line in text.strip().splitlines() if line.strip()]
        at = lines.index("stderr:") + 1 if "stderr:" in lines else 0
        raise PlaceError(
            f"the jobs of workers cannot be started: {'; '.join(lines[at:])}",
            hint="see the settings of the place: zen places show NAME --script",
        ) from error


@contextmanager
def _quiet_loggers() -> Iterator[None]:
    """Silence what the library logs about an error that it also raises."""
    loggers = [logging.getLogger(name) for name in ("asyncio", "tornado.application")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _log_folder(folder: Path) -> Path:
    """Return where the jobs write what they say: on a disk that they share with this machine."""
    return folder.absolute() / "places" / "jobs"


def _cluster_class() -> Any:
    try:
        with _signal_handlers_kept():
            jobqueue = import_module("dask_jobqueue")
    except ImportError as error:
        raise PluginError(
            f"jobs of workers need a package that is not installed: {error.name}",
            hint=extra_hint("dask"),
        ) from error
    return jobqueue.SLURMCluster


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """For a library that takes Ctrl-C when it is imported, which only the main thread can."""
    take, thread = signal.signal, get_ident()

    def ours(number: int, handler: Any) -> Any:
        return signal.getsignal(number) if get_ident() == thread else take(number, handler)

    signal.signal = ours  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = take


def _cluster_settings(options: DaskOptions, folder: Path, name: str) -> dict[str, Any]:
    """Return the options for the library."""
    logs = str(_log_folder(folder)).replace("%", "%%")
    # The library would not quote where jobs write.
    lines = [f"--output={quote(f'{logs}/{name}-%j')}", *option_lines(options.lines, "#SBATCH")]
    path = f'export PATH={quote(os.environ.get("PATH", ""))}:"$PATH"'  # a login shell set it anew
    return {
        "shebang": "#!/bin/bash -l",
        "cores": options.cores,
        "processes": 1,
        "memory": options.memory,
        "walltime": options.walltime,
        "queue": options.queue or None,
        "account": options.account or None,
        "protocol": "tls://",
        "job_name": name,
        "python": f"{quote(options.python or sys.executable)} -P",  # imports nothing from there
        "interface": options.interface or None,
        "job_extra_directives": lines,
        "job_script_prologue": [path, *setup_lines(options.prologue).splitlines()],
    }
