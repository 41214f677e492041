"""
Programs that are built once and shared: ``.zenturio/builds/USER/DIGEST``, for later drivers too.

A builder holds a lock on the digest, which its process releases even when it dies, so that others
wait, and one of them takes over from a dead builder. A build counts when its list of files is
written beside it. The list has the digest of each file and is authenticated with the user's key: a
binary that came with a project, or was replaced, is never run for the sources that it claims to be
built from. Failures are remembered by this driver, and the workers of its session, alone: another
may find what was missing.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from threading import Event

from zenturio import trust
from zenturio.annotate.source import FileDigests, stamp_of
from zenturio.errors import PlaceError
from zenturio.execute.experiment_codec import frame_message, unframe_message
from zenturio.execute.file_staging import InputCache, SharedFile, disk_errors, file_digest
from zenturio.execute.folder_files import COPY_LIMIT_BYTES, remove_tree
from zenturio.execute.wire import any_text, integer, nullable, record, tuple_of
from zenturio.execute.workspace import REPORT, StagedFolder, fill_folder
from zenturio.experiment import Build, ExperimentFile, Log, Status, Step
from zenturio.experiment.experiment import link_to
from zenturio.experiment.identity import checked_digest
from zenturio.files import FileLock, make_folder

_log = logging.getLogger(__name__)

_PAUSE = 0.02
_MAGIC = b"zen-failure 1\n"
_check_failure = record({
    "session": any_text(4096), "cause": any_text(2**16), "exit": nullable(integer(-(2**31))),
    "logs": tuple_of(integer(), integer()),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """Why there is no build."""

    status: Status
    cause: str
    exit: int | None
    stdout: Log
    stderr: Log


@dataclass(frozen=True)
class BuildResult:
    """What a build left: the files, small or shared, and the symbolic links."""

    digest: str
    folder: Path
    files: tuple[ExperimentFile, ...]
    """Each with the time when it was last written, by which ``make`` in an experiment goes."""
    shared: Mapping[str, SharedFile]
    """The large files by path."""
    idle: bool = False
    """Whether its commands left every file as it was."""

    @cached_property
    def paths(self) -> frozenset[str]:
        return frozenset([filed.path for filed in self.files])


RunSteps = Callable[[tuple[Step, ...], str], BuildFailure | None]
"""Runs commands in a folder; says what went wrong."""


class BuildCache:
    """Makes builds, each once."""

    def __init__(self, folder: Path, inputs: InputCache, closed: Event, session: str = "") -> None:
        # What others built is not used, nor removed: a project may have come from them.
        self._key = trust.user_key()
        owner = blake2b(b"folder", key=self._key, digest_size=4).hexdigest()
        self._folder = folder.absolute() / "builds" / owner
        self._inputs = inputs
        self._closed = closed
        self._session = session
        self._results: dict[str, BuildResult | BuildFailure] = {}

    def get(self, build: Build, run: RunSteps) -> BuildResult | BuildFailure:
        """Return the build: known, found on disk, waited for, or made now by *run*."""
        cached = self._results.get(build.digest)
        if cached is not None:
            return cached
        with disk_errors(self._folder):
            make_folder(self._folder.parents[1], *self._folder.parts[-2:])
            # Another process may have built it while this one waited: looked for under the lock.
            with self._lock_held(build.digest) as lock:
                if not lock:
                    return BuildFailure("cancelled", "cancelled", None, Log(), Log())
                result = self._results.get(build.digest) or self._find_valid(build.digest)
                result = result or self._failure_of_session(build.digest) or self._make(build, run)
        if not isinstance(result, BuildFailure) or result.status != "cancelled":
            self._results[build.digest] = result
        return result

    def is_known(self, digest: str) -> bool:
        """Return whether ``get`` answers at once."""
        return digest in self._results

    def is_idle(self, digest: str) -> bool:
        """Return whether the commands of this build left every file as it was."""
        result = self._results.get(digest)
        return isinstance(result, BuildResult) and result.idle

    def forget(self, digest: str) -> None:
        """Discard a build that was modified, so that the next experiment makes it again."""
        self._results.pop(digest, None)
        self._list_path(digest).unlink(missing_ok=True)

    def _make(self, build: Build, run: RunSteps) -> BuildResult | BuildFailure:
        path = self._folder / checked_digest(build.digest)
        remove_tree(str(path))
        path.mkdir()
        fill_folder(StagedFolder(str(path)), build.files, self._inputs)
        before = _file_stamps(path)
        shared_inputs = _links_to_inputs(build, path)
        failure = run(build.steps, str(path))
        _log.debug("build %.12s: %s", build.digest, failure.cause if failure else "made")
        if failure is not None:
            remove_tree(str(path))
            self._share_failure(build.digest, failure)
            return failure
        (path / REPORT).unlink(missing_ok=True)
        files, links = _scan_build(path)
        links = [link for link in links if link not in shared_inputs]
        idle = _file_stamps(path) == before
        text = json.dumps({"files": files, "links": links, "idle": idle})
        draft = self._list_path(build.digest).with_suffix(f".{os.getpid()}")
        draft.write_text(f"{self._mac(build.digest, text)}\n{text}", encoding="utf-8")
        # The rename makes the build valid: a builder that is killed before leaves none.
        draft.replace(self._list_path(build.digest))
        return _result(build.digest, path, files, links, idle=idle)

    def _mac(self, digest: str, text: str) -> str:
        content = f"{digest}\n{text}".encode()
        return blake2b(content, key=self._key, digest_size=16).hexdigest()

    def _find_valid(self, digest: str) -> BuildResult | None:
        """Return a build that is on disk, made by this user, and whose files are what they were."""
        path = self._folder / checked_digest(digest)
        try:
            mac, _, text = self._list_path(digest).read_text("utf-8").partition("\n")
            if not compare_digest(mac, self._mac(digest, text)):
                return None
            facts = json.loads(text)
            digests = FileDigests(path)
            for name, mode, mtime, content in facts["files"]:
                location = path / name
                status = location.lstat()
                if (stat.S_IMODE(status.st_mode), status.st_mtime_ns) != (mode, mtime):
                    return None
                if digests.facts(name, str(location), stamp_of(status)).digest.hex() != content:
                    return None
            digests.save()
        except (OSError, ValueError):
            return None
        return _result(digest, path, facts["files"], facts["links"], idle=facts["idle"])

    def _list_path(self, digest: str) -> Path:
        return self._folder / f"{checked_digest(digest)}.json"

    def _share_failure(self, digest: str, failure: BuildFailure) -> None:
        """Notify the other workers of this session, which wait for the lock."""
        if not self._session or failure.status == "cancelled":
            return
        out, err = failure.stdout, failure.stderr
        facts = {
            "session": self._session,
            "cause": failure.cause,
            "exit": failure.exit,
            "logs": [out.size, err.size],
        }
        content = frame_message(_MAGIC, facts, (out.head, out.tail, err.head, err.tail))
        self._failure_path(digest).write_bytes(content)

    def _failure_of_session(self, digest: str) -> BuildFailure | None:
        """Return how another worker of this session failed with it."""
        if not self._session:
            return None
        try:
            facts, blobs = unframe_message(
                _MAGIC, self._failure_path(digest).read_bytes(), _check_failure
            )
            out_head, out_tail, err_head, err_tail = blobs
        except (OSError, ValueError, PlaceError):
            return None
        if facts["session"] != self._session:
            return None
        out_size, err_size = facts["logs"]
        out, err = Log(out_head, out_tail, out_size), Log(err_head, err_tail, err_size)
        return BuildFailure("failed", facts["cause"], facts["exit"], out, err)

    def _failure_path(self, digest: str) -> Path:
        return self._folder / f"{checked_digest(digest)}.failed"

    @contextmanager
    def _lock_held(self, digest: str) -> Iterator[bool]:
        """Hold the lock on *digest*; false if this place is closed before it is free."""
        path = self._folder / f"{checked_digest(digest)}.lock"
        lock = None
        # Tried again and again: a wait for the lock could not be ended when this place is closed.
        while not self._closed.is_set() and (lock := FileLock.try_acquire(path)) is None:
            time.sleep(_PAUSE)
        with lock or nullcontext():
            yield lock is not None and not self._closed.is_set()


_ListedFile = tuple[str, int, int, str]
"""Path, mode, when it was last written, and the digest of the content."""


def _scan_build(path: Path) -> tuple[list[_ListedFile], list[tuple[str, str]]]:
    """Return the files and the links that stand in a folder behind a build.

    Large files are made read-only, to be shared.
    """
    files: list[_ListedFile] = []
    links: list[tuple[str, str]] = []
    for folder, names, file_names in os.walk(path):
        for name in sorted([*names, *file_names]):
            entry = Path(folder, name)
            relative = entry.relative_to(path).as_posix()
            if entry.is_symlink():
                links.append((relative, os.readlink(entry)))  # noqa: PTH115 - the text itself
            elif entry.is_file():
                status = entry.stat()
                mode = status.st_mode & 0o777
                if status.st_size > COPY_LIMIT_BYTES:
                    # Shared by links where the file system cannot clone: nothing may write to it.
                    mode &= 0o555
                    entry.chmod(mode)
                files.append((relative, mode, status.st_mtime_ns, file_digest(entry)))
    return files, links


def _links_to_inputs(build: Build, path: Path) -> list[tuple[str, str]]:
    """Return the links that replace large inputs: each experiment gets these files by itself."""
    entries = [(f.path, path / f.path) for f in build.files if not stat.S_ISLNK(f.mode)]
    return [(name, os.readlink(entry)) for name, entry in entries if entry.is_symlink()]  # noqa: PTH115 - the text itself


def _result(
    digest: str,
    path: Path,
    files: Iterable[_ListedFile],
    links: Iterable[tuple[str, str]],
    *,
    idle: bool,
) -> BuildResult:
    entries, shared = [], {}
    for name, mode, mtime, content in files:
        location = path / name
        status = location.lstat()
        size, stamp = status.st_size, stamp_of(status)
        entries.append(ExperimentFile(name, mode, None, location, content, mtime, size, stamp))
        if size > COPY_LIMIT_BYTES:
            shared[name] = SharedFile(location, stamp, content)
    entries += [link_to(name, text) for name, text in links]
    return BuildResult(digest, path, tuple(entries), shared, idle)


def _file_stamps(path: Path) -> dict[str, tuple[int, int, int]]:
    """Return what tells that a file was made or written to, for all files below *path*."""
    stamps = {}
    for folder, _, names in os.walk(path):
        for name in names:
            status = os.lstat(f"{folder}/{name}")
            stamps[f"{folder}/{name}"] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return stamps
