"""
Files that zenturio writes where its user says: charts, tables, reports, databases.

One that lies in the folder of a study is none of its inputs. So each is written down, in
``.zenturio/outputs.jsonl``: its path and a digest of its content. A file that was edited since is
the user's again, and what is left out of an application for its record is told by ``zen check``:
a record may have come with the project.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from zenturio.errors import SafetyError
from zenturio.files import PROJECT, own_project, write_whole

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
    """Write the file *path*, whole or not at all, and write down that it is an output."""
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
        if not hidden and path.is_file() and not OutputFiles.of(path.parent).includes(path):
            _note(path, _DATABASE)


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
class OutputFiles:
    """What is written down of outputs in some projects."""

    _records: Mapping[Path, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = [key for record in self._records.values() for key in record]
        self._names = {Path(key).name for key in keys}
        """Most files of a large folder are none of these, and need no further look."""

    @staticmethod
    def of(folder: Path) -> OutputFiles:
        """The records of the project that *folder* is in, and of the one that one stands in."""
        projects = {own_project(Path(os.path.realpath(folder))), own_project(Path.cwd())} - {None}
        records = {project: _read(project) for project in projects if project is not None}
        return OutputFiles({project: record for project, record in records.items() if record})

    def __bool__(self) -> bool:
        return bool(self._names)

    def includes(self, path: Path) -> bool:
        """Whether the file *path* is an output, and its content still the one that was written."""
        if not self._names & {path.name, *map(path.name.removesuffix, _BESIDE)}:
            return False
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


def recorded_outputs(project: Path) -> list[Path]:
    """The files of the project that are written down as outputs, changed since or not."""
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
