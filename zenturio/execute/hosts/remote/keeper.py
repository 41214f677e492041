"""
A keeper: a process that runs one job, and outlives the connection through which it was started.

It is in a session of its own, adopts all orphans of its job, and leaves the reply in a file. It
holds a lock as long as it lives, so that anybody can tell. What it runs ends with the job.
"""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any

from zenturio.execute import tree, wire
from zenturio.execute.hosts.remote.store import Job
from zenturio.execute.launcher import Launcher, Run

METRICS, PROFILE, DEMANDS = "ZEN_METRICS", "ZEN_PROFILE", "ZEN_REQUIRE"
"""Variables that name files in the job's folder: what it measured, how far it is, what it needs."""
FILES = {METRICS: ".zen-metrics", PROFILE: ".zen-profile", DEMANDS: ".zen-require"}
_RUN = 1


def mark(job: Job) -> bytes:
    """What the environment of each process of *job* holds."""
    return f"{METRICS}={job.folder}/".encode("utf-8", "surrogateescape")


def start(job: Job, request: dict[str, Any]) -> int:
    """Starts a keeper for *job*; its process, once it holds the job."""
    ready, far = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                _live(job, request, far)
        finally:
            os._exit(0)
    os.close(far)
    os.waitpid(child, 0)
    with os.fdopen(ready, "rb") as file:
        said = file.read()
    if not said.isdigit():
        raise OSError(said.decode() or "the keeper did not start")
    return int(said)


def cancel(job: Job) -> None:
    """Ends what runs, if anything does."""
    with suppress(OSError):
        control = os.open(job.control, os.O_WRONLY | os.O_NONBLOCK)
        try:
            wire.send(control, {"cancel": _RUN})
        finally:
            os.close(control)


def kill_stopped(job: Job) -> None:
    """Kills the keeper of *job* if it is stopped, and so does not hear that it is cancelled."""
    with suppress(OSError, ValueError):
        pid = int(job.lock.read_text())
        if tree.is_stopped(pid) and job.held():
            os.kill(pid, signal.SIGKILL)


def clear(job: Job) -> None:
    """Ends what a keeper that was killed has left behind."""
    tree.kill_marked(mark(job))


def _live(job: Job, request: dict[str, Any], ready: int) -> None:
    """All that a keeper does."""
    said = b""
    try:
        _detach(job, ready)
        _hold(job)
        control = _control(job)
        said = str(os.getpid()).encode()
    except OSError as error:
        said = str(error).encode()
        return
    finally:
        os.write(ready, said)
        os.close(ready)
    try:
        _run(job, request, control)
    except BaseException:  # noqa: BLE001 - there is nobody else to tell
        traceback.print_exc()


def _detach(job: Job, ready: int) -> None:
    """Lets go of the connection: it could not be closed as long as we hold an end of it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(job.path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(log, 2)
    top = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, ready)
    os.closerange(ready + 1, min(top, 65536))
    sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115


def _hold(job: Job) -> None:
    lock = os.open(job.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())


def _control(job: Job) -> int:
    with suppress(FileExistsError):
        os.mkfifo(job.control, 0o600)
    return os.open(job.control, os.O_RDWR | os.O_CLOEXEC)  # its own writer: it never ends


def _run(job: Job, request: dict[str, Any], control: int) -> None:
    tree.adopt_orphans()
    gc.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("500")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    environment = {name: f"{job.folder}/{file}" for name, file in FILES.items()}
    request = {
        **request,
        "run": _RUN,
        "folder": str(job.folder),
        "cpus": None,
        "environment": {**request["environment"], **environment},
    }
    facts, blobs = Run(Launcher(control, 1), request).go()
    draft = job.path / "reply.draft"
    with draft.open("wb") as reply:
        wire.send(reply.fileno(), facts, *blobs)
    draft.replace(job.reply)
