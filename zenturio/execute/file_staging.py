"""Files of experiments on disk: put into a folder before a run, and kept after it.

Before a run they are written, copied, cloned or, where they are large, shared. A folder
(``StagedFolder``) has files of its own, so that what an experiment writes harms no other one: small
files are copied; large ones are cloned where the file system can, which costs neither time nor
room. Where it cannot, the folder gets a symbolic link to one copy that may only be
read; root may write all the same, so the copy is checked after each run (``SharedFile.is_spoilt``).

Files that are copied keep their times, and those that are filled in are newer than all of them: a
``make`` in the folder builds what depends on a value, and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from threading import Lock
from time import time_ns
from typing import BinaryIO

from zenturio.annotate.source import PIECE_BYTES, FileDigests, mode_of, mtime_of, stamp_of
from zenturio.errors import PlaceError, SafetyError
from zenturio.execute.folder_files import (
    COPY_LIMIT_BYTES,
    leads_out,
    link_leads_out,
    matching_files,
    remove_tree,
    write_all,
)
from zenturio.experiment import Artifact, ExperimentFile
from zenturio.experiment.identity import checked_digest, content_digest, content_hash
from zenturio.failpoints import Failpoint
from zenturio.files import make_folder
from zenturio.system.file_systems import clone_into

_REMEMBERED_BYTES = 2**22
"""Bytes of originals that are held in memory at the most: those of a larger application are read
again for each folder, from the memory of the system."""
_USER = os.geteuid()


@contextmanager
def disk_errors(folder: str | Path) -> Iterator[None]:
    """Failures of the disk as what they are to the user: a place that is not as it is needed."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "make room, or name another folder" if error.errno == 28 else ""
        raise PlaceError(f"{error.filename or folder}: {reason}", hint=hint) from error


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
        write_all(descriptor, content)
        os.utime(descriptor, ns=(mtime, mtime))
    finally:
        os.close(descriptor)
    return True


def checked_path(path: str) -> str:
    """Return *path* if it stays inside the folder that it is for."""
    if leads_out(path):
        raise SafetyError(f"{path!r} leads out of the experiment's folder")
    return path


def checked_link(filed: ExperimentFile) -> str:
    """Return where a link leads, if that is inside the folder that it is for."""
    text = os.fsdecode(filed.content or b"")
    if link_leads_out(checked_path(filed.path), text):
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
    # Without a file object, which would cost six calls of the system more for each file.
    try:
        descriptor = os.open(filed.original, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _changed_original(filed) from None
    try:
        status = os.fstat(descriptor)
        content = b""
        while piece := os.read(descriptor, max(status.st_size + 1 - len(content), 2**16)):
            content += piece
            if len(content) == status.st_size:
                break
        # A file that looks as it did when it was hashed need not be hashed again.
        is_same = filed.stamp == stamp_of(status) == stamp_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    if not is_same and filed.digest and content_digest(content).hex() != filed.digest:
        raise _changed_original(filed)
    return content


def _open_original(filed: ExperimentFile) -> BinaryIO:
    assert filed.original is not None, "who has the content needs no original"
    try:
        return open(filed.original, "rb")  # noqa: PTH123 - called often
    except FileNotFoundError:
        raise _changed_original(filed) from None


def _has_stamp(file: BinaryIO, stamp: bytes) -> bool:
    return stamp_of(os.fstat(file.fileno())) == stamp


def _changed_original(filed: ExperimentFile) -> PlaceError:
    """Return the error that an original is not what was hashed."""
    return PlaceError(
        f"{filed.original} has changed since the study began",
        hint="run the study again: it is another experiment now; or, if something writes this file"
        " while the study runs, exclude it (.zenignore)",
    )


def is_small(filed: ExperimentFile) -> bool:
    """Return whether *filed* is copied into each folder, and travels with its experiment."""
    return filed.content is not None or 0 <= filed.size <= COPY_LIMIT_BYTES


@dataclass(slots=True, eq=False)
class SharedFile:
    """A copy that several experiments read."""

    path: Path
    stamp: bytes
    """As it was when it was made."""
    digest: str
    """Of its content."""

    @staticmethod
    def of(path: Path, digest: str) -> SharedFile:
        return SharedFile(path, stamp_of(path.stat()), digest)

    @property
    def mtime(self) -> int:
        return mtime_of(self.stamp)

    def is_spoilt(self) -> bool:
        """Return whether it was written to or removed.

        Where only times or mode are others than they were, these are put back.
        """
        try:
            if stamp_of(self.path.stat()) == self.stamp:
                return False
            if file_digest(self.path) != self.digest:
                return True
            self.path.chmod(mode_of(self.stamp))
            os.utime(self.path, ns=(self.mtime, self.mtime))
            self.stamp = stamp_of(self.path.stat())
        except OSError:
            return True
        return False


def file_digest(path: Path) -> str:
    """Return the digest of what the regular file *path* holds, as ``content_digest`` has it.

    OSError where it cannot be read, and where it is a link or no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        return hashlib.file_digest(file, content_hash).hexdigest()


class InputCache:
    """Read-only copies of large files, by their content: ``inputs/DIGEST``.

    Where an original of the same content has another time, that is a copy of its own: others use
    the first one, and what is built goes by times.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies: dict[tuple[str, int | None], SharedFile] = {}
        self._digests: FileDigests | None = None
        self._turn = Lock()

    def shared(self, filed: ExperimentFile) -> SharedFile:
        """Return the copy of the file's original, made where there is none."""
        assert filed.original is not None, "who has the content needs no copy"
        name = checked_digest(filed.digest) + ("x" if filed.mode & 0o111 else "")
        time = filed.mtime if filed.mtime is not None and filed.mtime < time_ns() else None
        with self._turn:
            copy = self._copies.get((name, time))
            if copy is None or copy.is_spoilt():
                path = make_folder(self._folder.parent, self._folder.name) / name
                if path.exists() and time is not None and path.stat().st_mtime_ns != time:
                    path = self._folder / f"{name}-{time:x}"
                if not self._has_content(path, filed.digest):
                    path.unlink(missing_ok=True)
                    self._copy(filed, path, time)
                copy = self._copies[name, time] = SharedFile.of(path, filed.digest)
            return copy

    def forget(self, shared: SharedFile) -> None:
        """Take away a copy that was changed; the next experiment makes it again."""
        with self._turn:
            shared.path.unlink(missing_ok=True)
            self._copies = {k: copy for k, copy in self._copies.items() if copy is not shared}

    def _has_content(self, path: Path, digest: str) -> bool:
        """Whether *path*, a copy that an earlier driver or another program made, is correct."""
        if self._digests is None:
            self._digests = FileDigests(self._folder)
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                return False
            facts = self._digests.facts(path.name, str(path), stamp_of(status))
        except OSError:
            return False
        self._digests.save()
        return facts.digest.hex() == digest

    def _copy(self, filed: ExperimentFile, path: Path, time: int | None) -> None:
        with _open_original(filed) as original:
            handle, draft = tempfile.mkstemp(dir=self._folder, prefix=".")
            try:
                with os.fdopen(handle, "wb") as file:
                    if not _is_cloned(original, file, filed):
                        _copy_hashed(original, file, filed)
                os.chmod(draft, 0o555 if filed.mode & 0o111 else 0o444)  # noqa: PTH101
                if time is not None:
                    os.utime(draft, ns=(time, time))
                _keep_first(draft, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft)  # noqa: PTH108
                raise


def _is_cloned(original: BinaryIO, file: BinaryIO, filed: ExperimentFile) -> bool:
    """Clone an original that looks as it did when it was hashed, before and after."""
    if not filed.stamp or not _has_stamp(original, filed.stamp):
        return False
    try:
        clone_into(original.fileno(), file.fileno())
    except OSError:
        return False
    if _has_stamp(original, filed.stamp):
        return True
    file.truncate(0)
    return False


def _copy_hashed(original: BinaryIO, file: BinaryIO, filed: ExperimentFile) -> None:
    """Copy piece by piece, so that memory does not grow with the file."""
    hashed = content_hash()
    while piece := original.read(PIECE_BYTES):
        hashed.update(piece)
        file.write(piece)
    if filed.digest and hashed.hexdigest() != filed.digest:
        raise _changed_original(filed)


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


# Outputs: files that OUTPUT's patterns find, set apart
#
# ``.zenturio/store/incoming/DIGEST-…`` holds them under the paths they had until their outcome is
# recorded: each attempt has a folder of its own, so none replaces the files of another one.
# Symbolic links are not followed and not kept; neither are devices, pipes and sockets.

COLLECTED = Failpoint("store.collected")
_NAME = re.compile("[0-9a-f]{32}-[0-9a-f]{16}")
"""The folder of an attempt: the experiment, and what tells attempts apart."""
STALE_SECONDS = 30 * 86400.0
"""Seconds after which the files of a dead driver's job are removed."""


def attempt_folder(incoming: Path, digest: str) -> Path:
    """Return a new folder for the files of one attempt."""
    make_folder(incoming.parents[1], *incoming.parts[-2:])
    folder = incoming / f"{checked_digest(digest)}-{secrets.token_hex(8)}"
    folder.mkdir()
    return folder


def belongs_to_attempt(stored: Path, path: str, incoming: Path, digest: str) -> bool:
    """Return whether *stored* is the file *path* of an attempt at the experiment *digest*."""
    with suppress(ValueError):
        folder, *inner = stored.relative_to(incoming).parts
        is_attempt = _NAME.fullmatch(folder) and folder.startswith(checked_digest(digest))
        return bool(is_attempt) and Path(*inner) == Path(path) and ".." not in inner
    return False


def collect_outputs(
    folder: str, patterns: Iterable[str], incoming: Path, digest: str, *, move: bool
) -> tuple[Artifact, ...]:
    """Set the files that match apart, moved or copied."""
    paths = matching_files(folder, patterns)
    artifacts = []
    with disk_errors(incoming):
        target = attempt_folder(incoming, digest) if paths else incoming
        for path in paths:
            stored = target / path
            stored.parent.mkdir(parents=True, exist_ok=True)
            source = Path(folder, path)
            # A file that has another name could be written to under that one.
            if move and source.stat(follow_symlinks=False).st_nlink == 1:
                source.replace(stored)
            else:
                shutil.copy2(source, stored, follow_symlinks=False)
            artifacts.append(artifact_of(path, stored))
    COLLECTED()
    return tuple(artifacts)


def artifact_of(path: str, stored: Path) -> Artifact:
    """Return the file *stored*, made read-only."""
    stat = stored.stat(follow_symlinks=False)
    stored.chmod(stat.st_mode & 0o444 | 0o400)
    with stored.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return Artifact(path, stat.st_size, checksum, stored, stat.st_mode & 0o777)


def remove_stale(incoming: Path, seconds: float = STALE_SECONDS) -> None:
    """Remove staged files that are too old to belong to a pending outcome."""
    oldest = time.time() - seconds
    if incoming.is_symlink() or incoming.parent.is_symlink():
        return  # what is there is not ours
    with suppress(OSError):
        for folder in list(incoming.iterdir()):
            stat = folder.lstat()
            if S_ISDIR(stat.st_mode) and _NAME.fullmatch(folder.name) and stat.st_mtime < oldest:
                remove_tree(str(folder))
