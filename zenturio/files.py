"""Atomic writes, locks on files, and the folder of the project."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shlex
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from zenturio.errors import SafetyError
from zenturio.system.file_systems import descriptor_path, listed_holder, lock_descriptor
from zenturio.system.platform_detection import MEMORY_FOLDER

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

PROJECT = ".zenturio"
"""The folder in which a project keeps what is its own."""


def own_project(folder: Path) -> Path | None:
    """Return the nearest folder from *folder* upwards that is a project of this user, if any."""
    here = folder.absolute()
    for parent in (here, *here.parents):
        try:
            if (parent / PROJECT).stat().st_uid == os.geteuid():
                return parent
        except OSError:
            continue
    return None


def read_regular(path: Path, most: int) -> bytes:
    """Return the bytes of a file that may have been created by another user.

    OSError where it is no regular file, or larger than *most* bytes.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return content


def open_regular(path: Path) -> BufferedReader:
    """Open for reading a file that may have been created by another user.

    OSError where it is a link, a pipe or a device: they are neither followed nor waited for.
    """
    return os.fdopen(_open_descriptor(path, os.O_RDONLY), "rb")


def _open_descriptor(path: Path, flags: int, mode: int = 0o600) -> int:
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return descriptor


def write_whole(path: Path, pieces: Iterable[bytes]) -> None:
    """Replace the file *path* by *pieces* atomically.

    For files that the user names: a link stays a link, and its file is written. What is no file, as
    a pipe or /dev/stdout, gets the pieces as they come.
    """
    if _passes_on(path):
        with path.open("wb") as stream:
            stream.writelines(pieces)
    else:
        _replace(path.resolve(), pieces)


def replace_whole(path: Path, pieces: Iterable[bytes]) -> None:
    """The same for files of ours, as in ``.zenturio`` and in caches: a link there is replaced.

    Whoever made the project may have put it there, to have another file overwritten.
    """
    _replace(path, pieces)


def _replace(target: Path, pieces: Iterable[bytes]) -> None:
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
        mask = os.umask(0)
        os.umask(mask)
        Path(draft).chmod(0o666 & ~mask)
        Path(draft).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        raise


def make_folder(base: Path, *names: str, mode: int = 0o777) -> Path:
    """Create the nested folders *names* below *base* where they are missing; return the innermost.

    Links below *base* are not followed: a project that came from others could have zenturio write
    elsewhere by them. They are refused with a SafetyError.
    """
    base.mkdir(parents=True, exist_ok=True)
    path, parent = base, os.open(base, _DIRECTORY)
    try:
        for name in names:
            path /= name
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, mode, dir_fd=parent)
            try:
                folder = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            except OSError as error:
                refuse_link(path)
                raise OSError(error.errno, error.strerror, str(path)) from error
            os.close(parent)
            parent = folder
    finally:
        os.close(parent)
    return path


def refuse_link(path: Path) -> None:
    """Raise SafetyError if *path* is a symbolic link."""
    if path.is_symlink():
        raise SafetyError(
            f"{path} is a link, by which files outside of the project would be written or removed",
            hint=f"remove it (rm {shlex.quote(str(path))}); to keep the data elsewhere, move the"
            " whole project there",
        )


def _passes_on(path: Path) -> bool:
    """Return whether what is written to *path* goes elsewhere, so that it must not be replaced."""
    whole = path.absolute()
    is_of_kernel = whole.parts[1:2] in {("dev",), ("proc",)}
    is_of_kernel &= not str(whole).startswith(MEMORY_FOLDER)
    return is_of_kernel or (path.exists() and not path.is_file())


class FileLock:
    """A lock on a file, which the kernel releases when this process ends, however it ends.

    Each call opens the file anew, so two locks of one process exclude each other, too. A file
    that is a link, a pipe or a device is refused with an OSError. Whoever may read the file may
    hold its lock: *mode* says who else than the owner, also of a file of ours that is there.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @staticmethod
    def acquire(path: Path, *, shared: bool = False, mode: int = 0o600) -> FileLock:
        """Create the file if it is missing, and wait until its lock is free."""
        return _lock_file(path, os.O_CREAT, mode, shared=shared, wait=True)

    @staticmethod
    def try_acquire(path: Path, *, create: bool = True, mode: int = 0o600) -> FileLock | None:
        """Return the exclusive lock, or None while another one holds it.

        FileNotFoundError if the file is missing and not to be created.
        """
        try:
            return _lock_file(path, os.O_CREAT * create, mode, shared=False, wait=False)
        except BlockingIOError:
            return None

    def write_pid(self) -> None:
        """Write the holder into the file, for `lock_holder`."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others have the lock; the file stays."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def remove(self) -> None:
        """Release the lock, and remove its file."""
        if self._descriptor >= 0:
            # Only who holds the lock may remove the file: else two could hold one path.
            try:
                self.path.unlink(missing_ok=True)
            finally:
                self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def _lock_file(path: Path, flags: int, mode: int, *, shared: bool, wait: bool) -> FileLock:
    while True:
        descriptor = _open_descriptor(path, os.O_RDWR | flags, mode)
        try:
            lock_descriptor(descriptor, shared=shared, wait=wait)
            status = os.fstat(descriptor)
            if status.st_mode & 0o777 & ~mode and status.st_uid == os.geteuid():
                os.fchmod(descriptor, status.st_mode & mode)
            # Whoever held the lock before may have removed the file: its lock is worth nothing.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(status, os.lstat(path)):
                    lock, descriptor = FileLock(path, descriptor), -1
                    return lock
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return whether a process that lives holds the exclusive lock on *path*.

    A file that we may not read is supposed to be locked where the system does not list its locks.
    """
    try:
        descriptor = _open_descriptor(path, os.O_RDONLY)
    except PermissionError:
        return listed_holder(path) != ""
    except OSError:
        return False
    try:
        # A shared lock suffices to ask, and needs no right to write.
        lock_descriptor(descriptor, shared=True, wait=False)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock_holder(path: Path) -> str:
    """Return the process that has written its number into the lock file, or ``unknown``."""
    try:
        return read_regular(path, 32).decode("ascii", "replace").strip() or "unknown"
    except PermissionError:
        return listed_holder(path) or "unknown"
    except OSError:
        return "unknown"


_LOCK_NAME = "lock"


class LockedFolder:
    """A folder ``PREFIX<pid>-<random>`` of one process, which holds the lock on a file in it.

    When the process has died, another one may take the folder over, or clear it away.
    """

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock

    @staticmethod
    def begin(parent: Path, prefix: str, mode: int = 0o777) -> LockedFolder:
        """Create a folder below *parent*, held by this process."""
        while True:
            path = parent / f"{prefix}{os.getpid()}-{secrets.token_hex(4)}"
            path.mkdir(mode)
            # The file is created once: a folder that another process clears away in this very
            # moment must not get a new one, which would be removed in its turn.
            (path / _LOCK_NAME).touch(0o600, exist_ok=False)
            with contextlib.suppress(FileNotFoundError):
                lock = FileLock.try_acquire(path / _LOCK_NAME, create=False)
                if lock is not None:
                    return LockedFolder(path, lock)

    @staticmethod
    def take(path: Path) -> LockedFolder | None:
        """Hold the folder of a process that has died; None if it lives, or there is no lock."""
        with contextlib.suppress(OSError):
            if not path.is_symlink():
                lock = FileLock.try_acquire(path / _LOCK_NAME, create=False)
                return None if lock is None else LockedFolder(path, lock)
        return None

    @staticmethod
    def take_abandoned(parent: Path, prefix: str) -> Iterator[LockedFolder]:
        """Yield each folder whose process has died; it is held until the next one is asked for."""
        for path in sorted(parent.glob(f"{prefix}*")):
            folder = LockedFolder.take(path)
            if folder is not None:
                try:
                    yield folder
                finally:
                    folder.release()

    @staticmethod
    def live_pids(parent: Path, prefix: str) -> list[int]:
        """Return the processes that hold folders below *parent*."""
        return [
            int(path.name.removeprefix(prefix).partition("-")[0])
            for path in sorted(parent.glob(f"{prefix}*"))
            if is_locked(path / _LOCK_NAME)
        ]

    def release(self) -> None:
        """Let others take the folder."""
        self._lock.release()


# Outputs: files that zenturio writes where its user says (charts, tables, reports, databases)
#
# One that lies in the folder of a study is none of its inputs. So each is written down, in
# ``.zenturio/outputs.jsonl``: its path and a digest of its content. A file that was edited since is
# the user's again, and what is left out of an application for its record is told by ``zen check``:
# a record may have come with the project.

_NAME = "outputs.jsonl"
_LARGEST = 2**24
"""Bytes of the record that are read at the most: a hundred thousand files."""
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DATABASE = "database"
"""In place of a digest: the content of a database changes all the time."""
_SQLITE = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal")
"""Behind the name of a database: what SQLite keeps beside it."""


def write_output(path: Path, pieces: Iterable[bytes]) -> None:
    """Write the file *path* atomically, and record that it is an output."""
    parts = list(pieces)
    write_whole(path, parts)
    if path.is_file():
        digest = blake2b(digest_size=16)
        for part in parts:
            digest.update(part)
        _note(path, digest.hexdigest())


def note_database(path: Path) -> None:
    """Write down that *path* is a repository, unless it is in a hidden folder, or known as one."""
    hidden = any(part.startswith(".") for part in path.absolute().parts)
    # On a full disk the run has an error of its own, and the next one notes it.
    with suppress(OSError):
        if not hidden and path.is_file() and not OutputFileRecords.of(path.parent).includes(path):
            _note(path, _DATABASE)


def note_redirected(descriptor: int) -> None:
    """Write down that the file *descriptor*, where the output of this command went, is an output.

    Only in the project that one stands in: elsewhere no application takes it for one of its files.
    """
    project, name = own_project(Path.cwd()), redirected_to(descriptor)
    with suppress(OSError, SafetyError):  # the command itself has succeeded
        if project and os.path.isfile(name):  # noqa: PTH113 - may be deleted, or have a long name
            path = Path(name)
            if not Path(_key(path, project)).is_absolute():
                _note(path, _digest(path))


def _note(path: Path, digest: str) -> None:
    """Append to the record of the project that one stands in, if there is one."""
    project = own_project(Path.cwd())
    if project is None:
        return
    line = json.dumps({"path": _key(path, project), "digest": digest}) + "\n"
    record = project / PROJECT / _NAME
    try:  # a link that came with a project must not be written through
        descriptor = os.open(record, _APPEND, 0o644)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
        message = f"{record} cannot be written to: {error.strerror}"
        raise SafetyError(message, hint="it is to be a plain file: remove it") from error
    with os.fdopen(descriptor, "ab") as file:
        file.write(line.encode())


def _key(path: Path, project: Path) -> str:
    """*path* as it is written down: from the project, so that a copy of that knows its own."""
    real, root = Path(os.path.realpath(path)), Path(os.path.realpath(project))
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else str(real)


@dataclass
class OutputFileRecords:
    """What is written down of outputs in some projects."""

    _records: Mapping[Path, Mapping[str, Any]] = field(default_factory=dict)
    _redirected: frozenset[str] = frozenset()
    """Real paths of the files that stdout and stderr of this process are: they change with each
    line that it prints."""

    def __post_init__(self) -> None:
        keys = [key for record in self._records.values() for key in record]
        keys += self._redirected
        self._names = {Path(key).name for key in keys}
        """Most files of a large folder are none of these, and need no further look."""

    @staticmethod
    def of(folder: Path) -> OutputFileRecords:
        """The records of the project that *folder* is in, and of the one that one stands in."""
        projects = {own_project(Path(os.path.realpath(folder))), own_project(Path.cwd())} - {None}
        records = {project: _read(project) for project in projects if project is not None}
        kept = {project: record for project, record in records.items() if record}
        return OutputFileRecords(kept, frozenset(filter(None, map(redirected_to, (1, 2)))))

    def __bool__(self) -> bool:
        return bool(self._names)

    def includes(self, path: Path) -> bool:
        """Whether the file *path* is an output, and its content still the one that was written."""
        if not self._names & {path.name, *map(path.name.removesuffix, _BESIDE)}:
            return False
        if os.path.realpath(path) in self._redirected:
            return True
        for project, record in self._records.items():
            key = _key(path, project)
            digest = record.get(key)
            if digest == _DATABASE:
                return _begins(path, _SQLITE)
            if isinstance(digest, str) and digest == _digest(path):
                return True
            if any(record.get(key.removesuffix(end)) == _DATABASE for end in _BESIDE):
                return True
        return False


def redirected_to(descriptor: int) -> str:
    """Return the real path of the plain file that *descriptor* is; empty if it is none."""
    path = descriptor_path(descriptor)
    try:
        is_file = bool(path) and stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:  # closed
        return ""
    return os.path.realpath(path) if is_file else ""


def recorded_outputs(project: Path) -> list[Path]:
    """Return the files of the project that are written down as outputs, changed since or not."""
    # Not Path.is_file, which raises an error for a name that is too long.
    return [path for key in _read(project) if os.path.isfile(path := project / key)]  # noqa: PTH113


def _read(project: Path) -> dict[str, Any]:
    path = project / PROJECT / _NAME
    try:
        if not path.is_file():  # a pipe would be waited for
            return {}
        with path.open(encoding="utf-8") as record:
            lines = record.read(_LARGEST).splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    digests = {}
    for line in lines:
        try:
            facts = json.loads(line)
            digests[str(facts["path"])] = facts["digest"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # cut short by a full disk, or by hand
    return digests


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while piece := file.read(2**20):
                digest.update(piece)
    except OSError:
        return ""
    return digest.hexdigest()


def _begins(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False
