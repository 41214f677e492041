"""The files of jobs on a host::

    FOLDER/files/DIGEST               a shared file, staged once, read-only
    FOLDER/builds/NODE/DIGEST/        what a build left, for this machine
    FOLDER/jobs/OWNER/TOKEN/folder/   where a job runs
                            lock      held by its supervisor while it lives
                            control   a pipe through which it is cancelled
                            slots     how many it holds while its supervisor lives
                            reply     how it ended: there when it has

A file is copied into a folder, or cloned where the file system can; a large one that cannot be
cloned is linked, and looked at behind the run, for root may write to what is read-only. Machines
may share the folder (a home on a file server): jobs and builds are those of one. Times of files
matter to ``make``: copied files keep theirs, filled-in files are newer, and a build's files have
the times of the build.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import signal
import stat
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from glob import escape
from pathlib import Path
from time import time_ns
from typing import Any

from zenturio.execute import wire
from zenturio.execute.folder_files import (
    COPY_LIMIT_BYTES,
    MTIME_STEP_NANOSECONDS,
    clone_file,
    leads_out,
    link_leads_out,
    remove_tree,
    write_new,
)
from zenturio.execute.launcher import Launcher, LauncherRun
from zenturio.system import processes
from zenturio.system.file_systems import lock_descriptor
from zenturio.system.machine import MachineLoad

FileStamp = tuple[str, int, int, int]
"""A path that is shared, and the inode, size and time of change that it had."""


class StoredJob:
    """The folder of one attempt, which its token names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / "folder"
        self.lock = path / "lock"
        self.control = path / "control"
        self.reply = path / "reply"
        self.shared = path / "shared.json"
        self.filled = path / "filled.json"
        """How the files of a build looked before its commands ran."""
        self.idle = path / "idle"
        """There if the job's build left every file as it was."""
        self.slots = path / "slots"
        """How many it holds while it runs."""

    def state(self) -> str:
        """``ended``, ``running``, ``lost`` (its supervisor died), ``prepared``, or ``unknown``."""
        if self.reply.exists():
            return "ended"
        if self.is_running():
            return "running"
        if self.lock.exists():
            return "ended" if self.reply.exists() else "lost"  # it may have ended meanwhile
        return "prepared" if self.folder.is_dir() else "unknown"

    def is_running(self) -> bool:
        """Return whether a supervisor lives."""
        try:
            lock = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            lock_descriptor(lock, wait=False)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def spoilt(self) -> list[str]:
        """Shared files that this job wrote to; they are taken away."""
        try:
            stamps: list[FileStamp] = [
                tuple(stamp) for stamp in json.loads(self.shared.read_bytes())
            ]
        except (OSError, ValueError):
            return []
        changed = [path for path, *stamp in stamps if _stamp(path) != tuple(stamp)]
        for path in changed:
            _remove_shared(Path(path))
        return changed


def slots_in_use(job: StoredJob) -> int:
    """Return how many slots the running jobs of the owner of *job* hold on this machine."""
    count = 0
    for path in job.path.parent.iterdir():
        other = StoredJob(path)
        with suppress(OSError, ValueError):  # it was taken away meanwhile, or asks for none
            slots = int(other.slots.read_bytes())
            count += slots if other.state() == "running" else 0
    return count


class JobStore:
    """The folder of all of this on a host."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.folder = folder
        self._files = folder / "files"
        node = platform.node() or "here"
        self._draft = f"{node}.{os.getpid()}"
        self._builds = folder / "builds" / node.replace("/", "_")
        self._jobs = folder / "jobs" / owner
        folder.mkdir(0o700, parents=True, exist_ok=True)
        for path in (self._files, self._builds.parent, self._builds, self._jobs.parent, self._jobs):
            path.mkdir(0o700, exist_ok=True)
        self._sweep(node)

    def _sweep(self, node: str) -> None:
        """Take away the halves of files whose way here was cut."""
        for draft in self._files.glob(f".*.{escape(node)}.*"):
            pid = draft.name.rpartition(".")[2]
            if pid.isdigit() and not processes.exists(int(pid)):
                draft.unlink(missing_ok=True)

    def job(self, token: str) -> StoredJob:
        return StoredJob(self._jobs / _checked_name(token))

    def tokens(self) -> list[str]:
        return sorted(path.name for path in self._jobs.iterdir())

    def staged(self, digest: str) -> Path:
        return self._files / _checked_name(digest)

    def put(
        self,
        digest: str,
        offset: int,
        content: bytes,
        mode: int,
        *,
        mtime: int | None,
        last: bool,
    ) -> None:
        """Write a piece of a shared file, which becomes visible with its *last* piece."""
        draft = self._files / f".{_checked_name(digest)}.{self._draft}"
        try:
            with draft.open("r+b" if offset else "wb") as file:
                file.seek(offset)
                file.write(content)
        except OSError:  # the disk is full: half a file is of use to nobody
            draft.unlink(missing_ok=True)
            raise
        if last:
            draft.chmod(0o555 if mode & 0o111 else 0o444)
            if mtime is not None:
                os.utime(draft, ns=(mtime, mtime))
            draft.replace(self.staged(digest))

    def is_built(self, digest: str) -> bool:
        return (self._builds / _checked_name(digest)).is_dir()

    def keep_build(self, job: StoredJob, digest: str) -> None:
        """Keep the files of *job* as the build, unless another job was faster."""
        for name in job.folder.glob(".zen-*"):
            name.unlink()
        if json.loads(job.filled.read_bytes()) == _file_stamps(job.folder):
            self._idle(digest).touch()
        for path in _plain_files(job.folder):
            path.chmod(path.stat().st_mode & 0o555)
        with suppress(OSError):  # it is there already
            job.folder.rename(self._builds / _checked_name(digest))

    def _idle(self, digest: str) -> Path:
        """There if that build left every file as it was."""
        return self._builds / f"{_checked_name(digest)}.idle"

    def prepare(self, job: StoredJob, message: dict[str, Any], blobs: list[bytes]) -> None:
        """Create the folder with all files of the job, replacing an existing one."""
        remove_tree(job.path)
        job.folder.mkdir(parents=True)
        stamps: list[FileStamp] = []
        placed = (*message["files"], *message["shared"])
        placed_paths = {path for path, *_ in placed}
        now = time_ns()
        times = [min(mtime, now) for _, _, mtime, *_ in placed if mtime is not None]
        filled = max(now, max(times, default=0) + MTIME_STEP_NANOSECONDS)
        if message["build"]:
            build = self._builds / _checked_name(message["build"])
            placed_paths -= set(self._put_build(build, job.folder, stamps)) - set(message["over"])
            if self._idle(message["build"]).exists():
                job.idle.touch()
        links = []
        for (path, mode, mtime), content in zip(message["files"], blobs):  # noqa: B905 - Python 3.9
            if stat.S_ISDIR(mode):
                _target(job.folder, path).mkdir(exist_ok=True)
            elif stat.S_ISLNK(mode) and path in placed_paths:
                links.append((path, content))
            elif path in placed_paths:
                own_mtime = filled if mtime is None else min(mtime, now)
                _write(_target(job.folder, path), content, mode, own_mtime)
        for path, mode, mtime, digest in message["shared"]:
            if path in placed_paths:
                own_mtime = filled if mtime is None else min(mtime, now)
                self._put_shared(digest, _target(job.folder, path), mode, own_mtime, stamps)
        for path, content in links:  # last, so that nothing is written through one
            _target(job.folder, path).symlink_to(_checked_link(path, os.fsdecode(content)))
        if stamps:
            job.shared.write_text(json.dumps(stamps))
        if message["builds"]:
            job.filled.write_text(json.dumps(_file_stamps(job.folder)))

    def _put_shared(
        self, digest: str, target: Path, mode: int, mtime: int, stamps: list[FileStamp]
    ) -> None:
        """Place a staged file; if it can only be linked, its target has the time stamp."""
        staged = dated = self.staged(digest)
        if _place_own_copy(staged, target, mode, mtime):
            return
        if staged.stat().st_mtime_ns != mtime:
            dated = self.staged(f"{digest}-{mtime:x}")
        if not dated.exists():
            draft = self._files / f".{dated.name}.{self._draft}"
            shutil.copy(staged, draft)
            os.utime(draft, ns=(mtime, mtime))
            draft.replace(dated)
        _place_link(dated, target, stamps)

    def _put_build(self, build: Path, folder: Path, stamps: list[FileStamp]) -> Iterator[str]:
        """Yield the files of a build; their names, which are the build's from now on."""
        for root, folders, names in os.walk(build):
            for name in [*names, *(name for name in folders if Path(root, name).is_symlink())]:
                source = Path(root, name)
                path = source.relative_to(build).as_posix()
                target = _target(folder, path)
                if source.is_symlink():
                    target.symlink_to(os.readlink(source))  # noqa: PTH115 - the text itself
                else:
                    status = source.stat()
                    if not _place_own_copy(
                        source, target, status.st_mode | 0o200, status.st_mtime_ns
                    ):
                        _place_link(source, target, stamps)
                yield path


def _checked_name(text: str) -> str:
    """Return *text* if it can be the name of a file, and of nothing else."""
    if not text or text.startswith(".") or not text.replace("-", "").isalnum():
        raise ValueError(f"{text!r} is not a name")
    return text


def _target(folder: Path, path: str) -> Path:
    """Return where *path* goes, inside *folder*; the folders above it are there."""
    if leads_out(path):
        raise ValueError(f"{path!r} leads out of the experiment's folder")
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _checked_link(path: str, text: str) -> str:
    """Return where the link *path* leads, if that is inside the experiment's folder."""
    if link_leads_out(path, text):
        raise ValueError(f"{path!r} leads out of the experiment's folder")
    return text


def _write(target: Path, content: bytes, mode: int, mtime: int) -> None:
    with suppress(FileNotFoundError):
        target.unlink()
    write_new(str(target), content, mode, mtime)


def _place_own_copy(source: Path, target: Path, mode: int, mtime: int) -> bool:
    """Place a writable copy of a file, cloned if large; return False if impossible."""
    if source.stat().st_size <= COPY_LIMIT_BYTES:
        _write(target, source.read_bytes(), mode, mtime)
        return True
    return clone_file(source, str(target), mode, mtime)


def _place_link(source: Path, target: Path, stamps: list[FileStamp]) -> None:
    target.symlink_to(source)
    stamps.append((str(source), *_stamp(source)))


def _stamp(path: str | Path) -> tuple[int, int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116 - a text as often as a path
    except OSError:
        return (0, 0, 0)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _file_stamps(folder: Path) -> dict[str, list[int]]:
    """Return what tells that a file was made or written to, for all files below *folder*."""
    return {
        str(Path(root, name).relative_to(folder)): list(_stamp(Path(root, name)))
        for root, _, names in os.walk(folder)
        for name in names
    }


def _remove_shared(path: Path) -> None:
    """Remove a shared file, or the build that contains it."""
    for above in path.parents:
        if above.parent.parent.name == "builds":
            remove_tree(above)
            return
    path.unlink(missing_ok=True)


def _plain_files(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            if path.is_file() and not path.is_symlink():
                yield path


# A supervisor: a process that runs one job, and outlives the connection through which it was
# started.
#
# It is in a session of its own, adopts all orphans of its job, and leaves the reply in a file. It
# holds a lock as long as it lives, so that anybody can tell. What it runs ends with the job.

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
    """Supervise a job from start to end."""
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
    total, own = request.pop("slots", (0, 0))
    job.slots.write_text(str(own))
    at_start = slots_in_use(job)
    facts, blobs = LauncherRun(Launcher(control, 1, MachineLoad(nvml="")), request).execute()
    if total:
        facts["slots"] = total, at_start, slots_in_use(job)
    draft = job.path / "reply.draft"
    with draft.open("wb") as reply:
        wire.send(reply.fileno(), facts, *blobs)
    # The reply exists only as a whole: its presence means that the job has ended.
    draft.replace(job.reply)
