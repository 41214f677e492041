"""
Files of experiments on disk: written, copied, cloned or, where they are large, shared.

A folder gets files of its own, so that what an experiment writes harms no other one: small files
are copied; large ones are cloned where the file system can (FICLONE), which costs neither time nor
room. Where it cannot, the folder gets a symbolic link to one copy that may only be read; root may
write all the same, so the copy is looked at after each run (``Shared.changed``).

Files that are copied keep their times, and those that are filled in are newer than all of them: a
``make`` in the folder builds what depends on a value, and nothing else.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import time_ns

from zenturio.errors import PlaceError, SafetyError
from zenturio.experiment import ExperimentFile
from zenturio.experiment.identity import checked_digest, content_digest, content_hash
from zenturio.files import make_folder

COPY_LIMIT_BYTES = 2**20
"""Files up to so many bytes are copied."""
MTIME_STEP_NANOSECONDS = 10_000_000
"""Nanoseconds by which a filled file is newer than a copied one that was written just now: more
than a tick of any file system's clock, less than a program takes to look."""
_REMEMBERED_BYTES = 2**26
"""Bytes of originals that are held in memory at the most."""
_FICLONE = 0x40049409
_USER = os.geteuid()
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def disk_errors(folder: str | Path) -> Iterator[None]:
    """Failures of the disk as what they are to the user: a place that is not as it is needed."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "make room, or name another folder" if error.errno == 28 else ""
        raise PlaceError(f"{error.filename or folder}: {reason}", hint=hint) from error


def write_new(path: str, content: bytes, mode: int, mtime: int | None = None) -> None:
    """A new file, of this *mtime* if one is given; nothing that is there is written through."""
    descriptor = os.open(path, _NEW, mode & 0o777)
    try:
        if mode & 0o022:  # bits that the umask commonly takes away
            os.fchmod(descriptor, mode & 0o777)
        _write_all(descriptor, content)
        if mtime is not None:
            os.utime(descriptor, ns=(mtime, mtime))
    finally:
        os.close(descriptor)


def overwrite(path: str, content: bytes, mode: int, mtime: int) -> bool:
    """Write into a file that is there, which costs much less; false where that is not safe.

    It must be a plain file of ours that has no other name.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_uid != _USER:
            return False
        if stat.S_IMODE(status.st_mode) != mode & 0o777:
            os.fchmod(descriptor, mode & 0o777)
        if status.st_size > len(content):
            os.ftruncate(descriptor, len(content))
        _write_all(descriptor, content)
        os.utime(descriptor, ns=(mtime, mtime))
    finally:
        os.close(descriptor)
    return True


def _write_all(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def checked_path(path: str) -> str:
    """*path* if it stays inside the folder that it is for."""
    if not path or path.startswith("/") or (".." in path and ".." in path.split("/")):
        raise SafetyError(f"{path!r} leads out of the experiment's folder")
    return path


def checked_link(filed: ExperimentFile) -> str:
    """Return where a link leads, if that is inside the folder that it is for."""
    text = os.fsdecode(filed.content or b"")
    depth = checked_path(filed.path).count("/")
    for part in text.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if text.startswith("/") or depth < 0:
            raise SafetyError(f"{filed.path!r} leads out of the experiment's folder, to {text!r}")
    return text


class _Contents:
    """The contents of small originals that were read lately, for all experiments have the same."""

    def __init__(self) -> None:
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._turn = Lock()

    def read(self, filed: ExperimentFile) -> bytes:
        """Return the content of *filed*, which is checked: it may have changed since the scan."""
        if filed.content is not None:
            return filed.content
        with self._turn:
            content = self._contents.get(filed.digest) if filed.digest else None
            if content is not None:
                self._contents.move_to_end(filed.digest)
                return content
        content = read_original(filed)
        if filed.digest and len(content) <= COPY_LIMIT_BYTES:
            with self._turn:
                self._size += len(content) - len(self._contents.pop(filed.digest, b""))
                self._contents[filed.digest] = content
                while self._size > _REMEMBERED_BYTES:
                    self._size -= len(self._contents.popitem(last=False)[1])
        return content


_contents = _Contents()


def content_of(filed: ExperimentFile) -> bytes:
    """Return the bytes of *filed*: its own, or those of its original.

    PlaceError if the original is not what it was when the application was read.
    """
    return _contents.read(filed)


def read_original(filed: ExperimentFile) -> bytes:
    """Return the bytes of the file's original; PlaceError if they are others than were hashed."""
    assert filed.original is not None, "who has the content needs no original"
    try:
        content = filed.original.read_bytes()
    except FileNotFoundError:
        raise changed_original(filed) from None
    if filed.digest and content_digest(content).hex() != filed.digest:
        raise changed_original(filed)
    return content


def changed_original(filed: ExperimentFile) -> PlaceError:
    """Return the error that an original is not what was hashed."""
    return PlaceError(
        f"{filed.original} has changed since the study began",
        hint="run the study again: it is another experiment now",
    )


def is_small(filed: ExperimentFile) -> bool:
    """Return whether *filed* is copied into each folder, and travels with its experiment."""
    return filed.content is not None or 0 <= filed.size <= COPY_LIMIT_BYTES


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A copy that several experiments read, as it looked when it was made."""

    path: Path
    stamp: tuple[int, int, int]

    @staticmethod
    def of(path: Path) -> SharedFile:
        return SharedFile(path, _stamp(path))

    @property
    def mtime(self) -> int:
        return self.stamp[2]

    def changed(self) -> bool:
        """Return whether somebody wrote to it, or took it away."""
        try:
            return _stamp(self.path) != self.stamp
        except OSError:
            return True


def file_digest(path: Path) -> str:
    """Return the digest of what the regular file *path* holds, as ``content_digest`` has it.

    OSError where it cannot be read, and where it is a link or no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        return hashlib.file_digest(file, content_hash).hexdigest()


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


class InputCache:
    """Read-only copies of large files, by their content: ``inputs/DIGEST``.

    Where an original of the same content has another time, that is a copy of its own: others use
    the first one, and what is built goes by times.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies: dict[tuple[str, int | None], SharedFile] = {}
        self._turn = Lock()

    def shared(self, filed: ExperimentFile) -> SharedFile:
        """Return the copy of the file's original, made where there is none."""
        assert filed.original is not None, "who has the content needs no copy"
        name = checked_digest(filed.digest) + ("x" if filed.mode & 0o111 else "")
        time = filed.mtime if filed.mtime is not None and filed.mtime < time_ns() else None
        with self._turn:
            copy = self._copies.get((name, time))
            if copy is None:
                path = make_folder(self._folder.parent, self._folder.name) / name
                if path.exists() and time is not None and path.stat().st_mtime_ns != time:
                    path = self._folder / f"{name}-{time:x}"
                if not _has_content(path, filed.digest):
                    path.unlink(missing_ok=True)
                    self._copy(filed, path, time)
                copy = self._copies[name, time] = SharedFile.of(path)
            return copy

    def forget(self, shared: SharedFile) -> None:
        """Take away a copy that was changed; the next experiment makes it again."""
        with self._turn:
            shared.path.unlink(missing_ok=True)
            self._copies = {k: copy for k, copy in self._copies.items() if copy != shared}

    def _copy(self, filed: ExperimentFile, path: Path, time: int | None) -> None:
        content = read_original(filed)
        descriptor, draft = tempfile.mkstemp(dir=self._folder, prefix=".")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(draft, 0o555 if filed.mode & 0o111 else 0o444)  # noqa: PTH101
        if time is not None:
            os.utime(draft, ns=(time, time))
        _keep_first(draft, path)


def _has_content(path: Path, digest: str) -> bool:
    """Whether the copy *path*, which an earlier driver or anybody else made, has this content."""
    try:
        return file_digest(path) == digest
    except OSError:
        return False


def _keep_first(draft: str, path: Path) -> None:
    """Let *draft* be *path*, unless another process had one there first: that may be in use."""
    try:
        # Concurrent drivers copy the same input: the first copy wins, for others may link to it.
        os.link(draft, path)  # a rename would replace what is there
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        os.replace(draft, path)  # noqa: PTH105
        return
    os.unlink(draft)  # noqa: PTH108


class StagedFolder:
    """A folder that is being filled for one experiment; plain files *left* in it are used again."""

    def __init__(self, path: str, reusable: Iterable[str] = ()) -> None:
        self.path = path
        self.shared: list[SharedFile] = []
        self.written: set[str] = set()
        """What may be left for the next one: the names of files that were written here."""
        self._reusable = set(reusable)
        self._folders: set[str] = set()

    def put(self, files: Sequence[ExperimentFile], inputs: InputCache) -> None:
        """Write *files*, or copy, clones or links their originals; makes links and folders."""
        now = time_ns()
        for filed in files:
            if filed.kind == "folder":
                os.makedirs(f"{self.path}/{checked_path(filed.path)}", exist_ok=True)  # noqa: PTH103
        links = [filed for filed in files if filed.kind == "link"]
        files = [filed for filed in files if filed.kind == "file"]
        times = [min(filed.mtime, now) for filed in files if filed.mtime is not None]
        filled = max(now, max(times, default=0) + MTIME_STEP_NANOSECONDS)
        for filed in files:
            name = checked_path(filed.path)
            if is_small(filed):
                mtime = filled if filed.mtime is None else min(filed.mtime, now)
                self._write(name, content_of(filed), filed.mode, mtime)
            elif filed.original is not None and not filed.digest:
                shutil.copy(filed.original, self._target(name))
            elif filed.original is not None:
                self.share(inputs.shared(filed), name, filed.mode)
        # A link in the application could lead a later file out of the folder.
        for filed in links:  # last, so that nothing is written through one
            self.link(checked_link(filed), filed.path)

    def share(self, shared: SharedFile, name: str, mode: int) -> None:
        """A large file: a clone if the file system makes one, else a link to what is shared."""
        target = self._target(name)
        if _clone(shared.path, target, mode):
            os.utime(target, ns=(shared.mtime, shared.mtime))
        else:
            Path(target).symlink_to(shared.path)
            self.shared.append(shared)

    def copy(self, source: Path, name: str, mode: int, mtime: int) -> None:
        """A small file of a build."""
        self._write(name, source.read_bytes(), mode, mtime)

    def link(self, text: str, name: str) -> None:
        """A symbolic link, as it stood in the application or in a build."""
        Path(self._target(name)).symlink_to(text)

    def finish(self) -> None:
        """Take away what is left of the one before."""
        for name in self._reusable:
            os.unlink(f"{self.path}/{name}")  # noqa: PTH108

    def _write(self, name: str, content: bytes, mode: int, mtime: int) -> None:
        self.written.add(name)
        if name in self._reusable and overwrite(f"{self.path}/{name}", content, mode, mtime):
            self._reusable.discard(name)
        else:
            write_new(self._target(name), content, mode, mtime)

    def _target(self, name: str) -> str:
        """Return where *name* goes, which is free; the folders above it are there."""
        target = f"{self.path}/{name}"
        if name in self._reusable:
            os.unlink(target)  # noqa: PTH108
            self._reusable.discard(name)
        elif "/" in name:
            parent = os.path.dirname(target)  # noqa: PTH120 - called often
            if parent not in self._folders:
                os.makedirs(parent, exist_ok=True)  # noqa: PTH103
                self._folders.add(parent)
        return target


def _clone(source: Path, target: str, mode: int) -> bool:
    """A copy on write (btrfs, XFS, bcachefs); false where there is no such thing."""
    with suppress(OSError), source.open("rb") as file:
        descriptor = os.open(target, _NEW, mode & 0o777)
        try:
            fcntl.ioctl(descriptor, _FICLONE, file.fileno())
        except OSError:
            os.unlink(target)  # noqa: PTH108
            return False
        finally:
            os.close(descriptor)
        return True
    return False


def empty_folder(folder: str, written: set[str]) -> set[str] | None:
    """Take away all but the plain files named in *written*; tells which of them there are.

    None, and the folder is gone too, where it cannot be made as good as new.
    """
    kept_names = set()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name in written and entry.is_file(follow_symlinks=False):
                    kept_names.add(entry.name)
                else:
                    os.unlink(entry.path)  # noqa: PTH108
        if os.lstat(folder).st_mode & 0o700 == 0o700:
            return kept_names
    except OSError:  # a folder within, or a mode that forbids it
        pass
    remove_tree(folder)
    return None


def remove_tree(folder: str) -> None:
    """Take a folder away with all that is in it, whatever its mode; links are not followed."""
    if os.path.islink(folder):  # noqa: PTH114 - called often
        with suppress(OSError):
            os.unlink(folder)  # noqa: PTH108
        return
    for path, folders, _ in os.walk(folder, followlinks=False):
        for name in folders:
            with suppress(OSError):
                inside = f"{path}/{name}"
                if not stat.S_ISLNK(os.lstat(inside).st_mode):
                    os.chmod(inside, 0o700)  # noqa: PTH101 - an experiment took it away
    with suppress(OSError):
        os.chmod(folder, 0o700)  # noqa: PTH101
    shutil.rmtree(folder, ignore_errors=True)
