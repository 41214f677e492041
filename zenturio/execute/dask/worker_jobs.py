"""Workers of Dask as jobs of Slurm, by dask-jobqueue."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from shlex import quote
from threading import get_ident
from typing import Any

from zenturio.errors import InputError, PlaceError, PluginError
from zenturio.execute.batch.system import option_lines, setup_lines
from zenturio.execute.dask.job_renewal import JobRenewal, forget_unsubmitted
from zenturio.execute.dask.options import DaskOptions
from zenturio.execute.dask.session_folder import QUEUED
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import write_new
from zenturio.execute.slurm_commands import SlurmCommands
from zenturio.files import make_folder
from zenturio.install_hint import extra_hint

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


class WorkerJobs:
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
    """New keys, in files that nobody else may read."""
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
    """What the library logs of an error, besides raising it, is not for users."""
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
    """Where the jobs write what they say: on a disk that they share with this machine."""
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
    """Return what the library is told."""
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
