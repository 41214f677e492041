"""Removal of a secret from a repository: tables, artifacts, and the bytes of its file.

1. Artifacts that have it get a second object, without it, beside the first.
2. One transaction takes it from all tables, points their rows to the new objects, and says so.
3. The objects that have it are removed, unless another database still needs them.
4. SQLite writes its file anew: what was overwritten would stand in free pages and in the log.

Killed at any moment, the same call goes on: what it finds is what is still there.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from zenturio.errors import ConflictError, PlaceError
from zenturio.failpoints import Failpoint
from zenturio.files import make_folder
from zenturio.record import maintenance, studies, study_views
from zenturio.record.artifact_store import ArtifactStore, make_object_folder, object_path
from zenturio.record.database import Database, Transaction
from zenturio.record.maintenance import backup_files
from zenturio.record.result_rows import artifact_of
from zenturio.record.row_redaction import NewContent, Places, redact_rows
from zenturio.record.secret import Secret
from zenturio.record.sql_repository import SQLRepository
from zenturio.record.sqlite import SQLite
from zenturio.record.study_context import RepositoryCache
from zenturio.system.file_systems import sync_files

WRITTEN = Failpoint("redact.written")
RECORDED = Failpoint("redact.recorded")
REMOVED = Failpoint("redact.removed")
COMPACTED = Failpoint("redact.compacted")

LARGEST_HOLES = 2**30
"""Bytes of holes in a file that are written anew; files with more of them are only named."""

_FILES = (
    "SELECT a.path, a.size, a.content, c.foreign_path, a.mode, coalesce(r.digest, t.digest)"
    " FROM artifacts a JOIN contents c ON c.digest = a.content"
    " LEFT JOIN results r ON r.id = a.attempt LEFT JOIN attempts t ON t.id = a.attempt"
    " WHERE c.foreign_path IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Where a secret was in a repository."""

    tables: Mapping[str, int]
    """By table: how many of its rows."""
    numbers: int
    """Recorded numbers that are equal to it, which stay."""
    artifacts: tuple[Path, ...]
    """Files of the project's store, which have given way to others."""
    foreign: tuple[Path, ...]
    """Files of artifacts that stay: outside of the project, with large holes, or needed by another
    database."""
    copies: tuple[Path, ...]
    """Copies of the database, which may have it."""
    server: bool
    """Whether a server keeps the files of the database, and removes old rows in its own time."""
    schemas: tuple[str, ...]
    """Schemas of the server that upgrades left as copies, which may have it."""


@dataclass
class _Files:
    """Artifacts that have the secret."""

    new: dict[str, NewContent] = field(default_factory=dict)
    paths: dict[str, list[Path]] = field(default_factory=dict)
    foreign: list[Path] = field(default_factory=list)


def redact(url: str | Path | None, secret: Secret, person: str | None) -> Redaction:
    """Remove *secret* from the repository at *url*; without a *person* only look for it.

    ConflictError while a study has a driver, or somebody reads the file of the database so that it
    cannot be written anew; the latter says that all else is done.
    """
    with maintenance.opened(url) as (database, store):
        with store.alone():
            files = _artifacts(database, store, secret, really=person is not None)
            WRITTEN()
            within = database.read if person is None else database.write
            places = within(lambda t: redact_rows(t, secret, files.new, person))
            RECORDED()
            if person is not None:
                files.foreign += _remove(SQLRepository(database, store), files)
                REMOVED()
        if person is not None:
            from zenturio.record.column_copy import remove_copies  # noqa: PLC0415 - loads NumPy

            remove_copies()
            _refresh_views(database, places)
            _compact(database)
            COMPACTED()
        dialect = database.dialect
        return Redaction(
            dict(places.tables),
            places.numbers,
            tuple(sorted(path for paths in files.paths.values() for path in paths)),
            tuple(sorted(set(files.foreign))),
            backup_files(url),
            not isinstance(dialect, SQLite),
            () if isinstance(dialect, SQLite) else database.read(_left_by_upgrades),
        )


def _left_by_upgrades(transaction: Transaction) -> tuple[str, ...]:
    """Return the schemas in which a server has the tables of before."""
    rows = transaction.sql(
        "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, current_schema() || '_')"
        " AND substr(nspname, length(current_schema()) + 2) ~ '^[0-9]{4}(_[0-9]+)?$' ORDER BY 1"
    )
    return tuple(name for (name,) in rows)


def contains_secret(path: Path, secret: Secret) -> bool:
    """Return whether the file has *secret*; one that cannot be read has not.

    Holes are not read: a sparse file may claim any size.
    """
    with suppress(OSError), path.open("rb") as file:
        for begin, end in _extents(file.fileno()):
            offset = begin - begin % mmap.ALLOCATIONGRANULARITY
            with mmap.mmap(
                file.fileno(), end - offset, access=mmap.ACCESS_READ, offset=offset
            ) as data:
                if secret.is_in(data):
                    return True
    return False


def has_large_holes(path: Path) -> bool:
    """Return whether a copy of the file would take far more of the disk than the file does."""
    status = path.stat()
    return status.st_size - status.st_blocks * 512 > LARGEST_HOLES


def _extents(descriptor: int) -> Iterator[tuple[int, int]]:
    """Yield where the bytes of a file begin and end that are not in holes."""
    end, size = 0, os.fstat(descriptor).st_size
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                return
            begin, end = end, size  # a file system that knows no holes
        yield begin, end


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _artifacts(database: Database, store: ArtifactStore, secret: Secret, *, really: bool) -> _Files:
    """Return the files that have the secret; *really* writes an object without it for each."""
    files = _Files()
    for sha, path in store.objects(young=-1):
        if contains_secret(path, secret):
            if has_large_holes(path):
                files.foreign.append(path)
            else:
                files.paths.setdefault(sha, []).append(path)
    for *facts, digest in database.read(lambda transaction: transaction.sql(_FILES)):
        artifact = store.located(artifact_of(*facts), bytes(digest or b"").hex())
        if contains_secret(artifact.kept, secret):
            if store.owns(artifact.kept) and not has_large_holes(artifact.kept):
                files.paths.setdefault(artifact.sha256, []).append(artifact.kept)
            else:
                files.foreign.append(artifact.kept)
    for sha, paths in files.paths.items():
        files.new[sha] = _without(store, paths[0], secret) if really else NewContent(sha, 0)
    if really and files.new:
        sync_files(store.root, [object_path(store.root, n.sha256) for n in files.new.values()])
    return files


def _without(store: ArtifactStore, path: Path, secret: Secret) -> NewContent:
    """Return an object with the content of *path* without the secret."""
    digest, size = hashlib.sha256(), 0
    draft = store.root / f".{secrets.token_hex(8)}"
    try:
        make_folder(store.root.parent, store.root.name)
        with _mapped(path) as data, draft.open("wb") as file:
            for piece in secret.pieces(data):
                digest.update(piece)
                size += file.write(piece)
        draft.chmod(path.stat().st_mode & 0o555)
        target = object_path(store.root, digest.hexdigest())
        make_object_folder(target)
        draft.replace(target)
    except OSError as error:
        raise PlaceError(
            f"cannot write artifacts anew: {error.filename or path}: {error.strerror}",
            hint="make room on the disk, and redact again",
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return NewContent(digest.hexdigest(), size)


def _remove(repository: SQLRepository, files: _Files) -> list[Path]:
    """Remove what has the secret; what another database needs stays, and is the answer."""
    needed = maintenance.needed_contents(repository, files.paths)
    gone: Iterable[Path] = [p for sha in files.paths.keys() - needed for p in files.paths[sha]]
    repository.store.remove(gone)
    return [path for sha in needed for path in files.paths.pop(sha)]


def _refresh_views(database: Database, places: Places) -> None:
    """Make the views again that had the secret in them."""
    if places.views:
        for version in database.read(studies.all_versions):
            if version.current == version.id:
                study_views.refresh_views(database, RepositoryCache(), version.name)


def _compact(database: Database) -> None:
    database.close()  # our own connections read, too
    dialect = database.dialect
    if isinstance(dialect, SQLite) and not dialect.compact():
        raise ConflictError(
            f"{dialect.location} is being read, so that its file still holds what was removed",
            hint="close what reads it (zen portal, sqlite3), and give the same command again",
        )
