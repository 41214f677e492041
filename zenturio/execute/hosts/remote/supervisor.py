"""
A supervisor: a process that runs one job, and outlives the connection through which it was started.

It is in a session of its own, adopts all orphans of its job, and leaves the reply in a file. It
holds a lock as long as it lives, so that anybody can tell. What it runs ends with the job.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any

from zenturio.execute import wire
from zenturio.execute.hosts.remote.job_store import StoredJob, slots_in_use
from zenturio.execute.launcher import Launcher, LauncherRun
from zenturio.system import processes
from zenturio.system.load import MachineLoad
from zenturio.system.locks import lock_descriptor

METRICS, PROFILE, REQUIREMENTS = "ZEN_METRICS", "ZEN_PROFILE", "ZEN_REQUIRE"
"""Variables that name files in the job's folder: what it measured, how far it is, what it needs."""
FILES = {METRICS: ".zen-metrics", PROFILE: ".zen-profile", REQUIREMENTS: ".zen-require"}
_RUN = 1


def environment_mark(job: StoredJob) -> bytes:
    """Return what the environment of each process of *job* holds."""
    return f"{METRICS}={job.folder}/".encode("utf-8", "surrogateescape")


def start_supervisor(job: StoredJob, request: dict[str, Any]) -> int:
    """Start a supervisor for *job*; its process, once it holds the job."""
    ready, ready_writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            # Two forks: the supervisor is no child of the agent, and cannot get a terminal.
            if os.fork() == 0:
                _supervise(job, request, ready_writer)
        finally:
            os._exit(0)
    os.close(ready_writer)
    os.waitpid(child, 0)
    with os.fdopen(ready, "rb") as file:
        answer = file.read()
    if not answer.isdigit():
        raise OSError(answer.decode() or "the supervisor did not start")
    return int(answer)


def cancel_job(job: StoredJob) -> None:
    """End what runs, if anything does."""
    with suppress(OSError):
        control = os.open(job.control, os.O_WRONLY | os.O_NONBLOCK)
        try:
            wire.send(control, {"cancel": _RUN})
        finally:
            os.close(control)


def kill_stopped(job: StoredJob) -> None:
    """Kills the supervisor of *job* if it is stopped, and so does not hear that it is cancelled."""
    with suppress(OSError, ValueError):
        pid = int(job.lock.read_text())
        if processes.is_stopped(pid) and job.is_running():
            os.kill(pid, signal.SIGKILL)


def kill_leftovers(job: StoredJob) -> None:
    """End what a supervisor that was killed has left behind."""
    processes.kill_marked(environment_mark(job))


def _supervise(job: StoredJob, request: dict[str, Any], ready: int) -> None:
    """All that a supervisor does."""
    answer = b""
    try:
        _detach(job, ready)
        _lock_job(job)
        control = _open_control(job)
        answer = str(os.getpid()).encode()
    except OSError as error:
        answer = str(error).encode()
        return
    finally:
        os.write(ready, answer)
        os.close(ready)
    try:
        _run_job(job, request, control)
    except BaseException:  # noqa: BLE001 - there is nobody else to tell
        traceback.print_exc()


def _detach(job: StoredJob, ready: int) -> None:
    """Let go of the connection: it could not be closed as long as we hold an end of it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(job.path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(log, 2)
    top = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, ready)
    os.closerange(ready + 1, min(top, 65536))
    sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115


def _lock_job(job: StoredJob) -> None:
    lock = os.open(job.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    lock_descriptor(lock, wait=False)
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())


def _open_control(job: StoredJob) -> int:
    with suppress(FileExistsError):
        os.mkfifo(job.control, 0o600)
    return os.open(job.control, os.O_RDWR | os.O_CLOEXEC)  # its own writer: it never ends


def _run_job(job: StoredJob, request: dict[str, Any], control: int) -> None:
    processes.prepare_supervisor()
    environment = {name: f"{job.folder}/{file}" for name, file in FILES.items()}
    request = {
        **request,
        "run": _RUN,
        "folder": str(job.folder),
        "cpus": None,
        "environment": {**request["environment"], **environment},
    }
    # Other drivers of the project may use this host: only here is it known what runs.
    total, held = request.pop("slots", (0, 0))
    job.slots.write_text(str(held))
    at_start = slots_in_use(job)
    facts, blobs = LauncherRun(Launcher(control, 1, MachineLoad(nvml="")), request).execute()
    if total:
        facts["slots"] = total, at_start, slots_in_use(job)
    draft = job.path / "reply.draft"
    with draft.open("wb") as reply:
        wire.send(reply.fileno(), facts, *blobs)
    # The reply exists only as a whole: its presence means that the job has ended.
    draft.replace(job.reply)
