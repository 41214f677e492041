"""Maintenance of a project: pruning what nobody needs any more, and redacting secrets."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zenturio.errors import ConflictError
from zenturio.execute.workspace import live_driver_pids
from zenturio.failpoints import Failpoint
from zenturio.files import recorded_outputs
from zenturio.log_setup import reported
from zenturio.record import Repository, StudyDeletion, maintenance
from zenturio.record.open import FOLDER, open_repository, project_folder
from zenturio.record.redaction import Redaction, contains_secret, has_large_holes
from zenturio.record.redaction import redact as redact_repository
from zenturio.record.secret_masking import Secret
from zenturio.study.service.service_status import is_served
from zenturio.trust import user_name

# Pruning

KEPT = ("work", "builds", "inputs", "commits", "versions")
"""Folders of the project that a run makes anew when it needs them."""


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What is removed, or would be."""

    studies: tuple[StudyDeletion, ...]
    folders: tuple[tuple[Path, int, int], ...]
    """Each with its files and their bytes."""
    garbage: maintenance.Garbage

    def lines(self) -> list[str]:
        """Return a line for a person on each study and on what else is removed."""
        lines = [
            f"study {deletion.study}: {deletion.experiments:,} experiments,"
            f" {deletion.attempts:,} attempts, "
            f"{_bytes(deletion.log_bytes)} of logs, {len(deletion.artifacts):,} kept files"
            + (
                f" ({deletion.shared:,} experiments stay with other studies)"
                if deletion.shared
                else ""
            )
            + (f" ({len(deletion.foreign):,} outside the project stay)" if deletion.foreign else "")
            for deletion in self.studies
        ]
        lines += [
            f"{folder}: {files:,} files, {_bytes(size)}" for folder, files, size in self.folders
        ]
        count = len(self.garbage.objects) + len(self.garbage.folders)
        if count:
            lines.append(f"{count:,} files that no experiment has, {_bytes(self.garbage.size)}")
        return lines

    def facts(self) -> dict[str, Any]:
        """Return the same as JSON."""
        return {
            "studies": [asdict(deletion) for deletion in self.studies],
            "folders": [{"path": str(p), "files": n, "bytes": b} for p, n, b in self.folders],
            "garbage": {
                "files": len(self.garbage.objects) + len(self.garbage.folders),
                "bytes": self.garbage.size,
            },
        }


def prune(
    db: str | None, studies: Sequence[str], *, folders: bool = True, really: bool = False
) -> PruneResult:
    """Remove *studies*, and with *folders* what runs left; only say it unless *really*."""
    repository = open_repository(db, create=False)
    try:
        _refuse_while_driven(repository)
        if folders:
            _refuse_while_used(project_folder() / FOLDER)
        removals = tuple(
            maintenance.prune_study(repository, name)
            if really
            else maintenance.preview_pruning(repository, name)
            for name in reported("removing studies" if really else "counting results", studies)
        )
        sizes = tuple(_measured(folder) for folder in _folders()) if folders else ()
        if really:
            for folder, _, _ in sizes:
                _remove_folder(folder)
        garbage = maintenance.Garbage((), (), 0)
        if folders:
            garbage = maintenance.collect_garbage(repository, really=really)
        return PruneResult(removals, sizes, garbage)
    finally:
        repository.close()


def _refuse_while_driven(repository: Repository) -> None:
    """Raise ConflictError while a study has a driver, unless that was killed: it needs folders."""
    for study in repository.studies():
        for lease in repository.leases(study.name):
            if not lease.driver_has_exited():
                raise ConflictError(
                    f"study {study.name} is being run by process {lease.pid} on {lease.host}",
                    hint="prune after it has ended",
                )


def _refuse_while_used(project: Path) -> None:
    """Folders of runs are here even if their database is elsewhere (``--db``)."""
    for pid in live_driver_pids(project):
        raise ConflictError(
            f"process {pid} runs experiments in {project}", hint="prune after it has ended"
        )


def _folders() -> list[Path]:
    project = project_folder() / FOLDER
    return [project / name for name in KEPT if (project / name).is_dir()]


def _measured(folder: Path) -> tuple[Path, int, int]:
    files = size = 0
    for where, _, names in os.walk(folder):
        files += len(names)
        size += sum(os.lstat(f"{where}/{name}").st_size for name in names)
    return folder, files, size


def _remove_folder(folder: Path) -> None:
    """Remove *folder* entry by entry, of which there may be one for each experiment."""
    with suppress(OSError):
        if folder.is_symlink():
            return
        for entry in reported(f"removing {folder.name}", sorted(folder.iterdir())):
            shutil.rmtree(entry, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _bytes(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}"


# Redaction: how a recorded secret leaves the repository, and what runs left in the project
#
# Files of the user are never written to: who left a secret in a program has to take it out there.

CLEANED = Failpoint("redact.cleaned")

_CACHES = ("builds", "inputs", "cache")
"""Folders of the project that a run makes anew when it needs them."""
_OBJECTS = Path("store", "objects")
_BACKUPS = "backups"
_DATABASE = b"SQLite format 3\0"
_ALONGSIDE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class RedactResult:
    """Where a secret was, and what became of it."""

    repository: Redaction
    files: tuple[Path, ...]
    """Below ``.zenturio``: written anew without the secret; builds and caches are removed."""
    backups: tuple[Path, ...]
    """Copies of the database: removed, if that was asked for."""
    remaining: tuple[Path, ...]
    """Files that have it still, in their bytes or in their names."""

    @property
    def places(self) -> int:
        """In how many rows and files it was."""
        rows = sum(self.repository.tables.values())
        return rows + len(self.repository.artifacts) + len(self.files)

    def facts(self) -> dict[str, Any]:
        """Return the same as JSON."""
        counts = self.repository
        return {
            "rows": dict(counts.tables),
            "numbers": counts.numbers,
            "artifacts": [str(path) for path in counts.artifacts],
            "files": [str(path) for path in self.files],
            "backups": [str(path) for path in self.backups],
            "schemas": list(counts.schemas),
            "remaining": [str(path) for path in self.remaining],
        }


def redact(
    db: str | None, secret: str, *, backups: bool = False, really: bool = False
) -> RedactResult:
    """Replace *secret* by asterisks wherever it was recorded; only look for it unless *really*.

    With *backups* copies of the database are removed. ConflictError while a study is being run, a
    service works on the project, or somebody reads the file of the database.
    """
    sought, home = Secret(secret), project_folder() / FOLDER
    if really:
        for pid in live_driver_pids(home):
            raise ConflictError(
                f"process {pid} runs experiments in {home}", hint="redact after it has ended"
            )
        if is_served(home):
            raise ConflictError(
                "a service works on this project", hint="stop it (zen serve), then redact"
            )
    counts = redact_repository(db, sought, user_name(os.getuid()) if really else None)
    files, remaining = [], list(counts.foreign)
    for path in reported("looking for the secret in files", [*_files(home)]):
        if _is_database(path):
            if path not in counts.copies and contains_secret(path, sought):
                remaining.append(path)
        elif contains_secret(path, sought):
            files.append(path)
    if really:
        cleaned = {path: _clean(home, path, sought) for path in files}
        files = [path for path, done in cleaned.items() if done]
        remaining += [path for path, done in cleaned.items() if not done]
        CLEANED()
    remaining += [path for path in _names(home, sought) if path not in remaining and path.exists()]
    remaining += [path for path in recorded_outputs(home.parent) if contains_secret(path, sought)]
    copies = counts.copies
    if really and backups:
        for path in copies:
            path.unlink(missing_ok=True)
    return RedactResult(counts, tuple(files), copies, tuple(dict.fromkeys(remaining)))


def _files(home: Path) -> Iterator[Path]:
    """Yield all files of the project, without artifacts, and without copies of the database."""
    for folder, names, files in os.walk(home):
        directory = Path(folder)
        below = directory.relative_to(home)
        names[:] = sorted(n for n in names if below / n not in (_OBJECTS, Path(_BACKUPS)))
        for name in sorted(files):
            path = directory / name
            if path.is_file() and not path.is_symlink():
                yield path


def _names(home: Path, secret: Secret) -> Iterator[Path]:
    """Files and folders of the project whose names have the secret."""
    for folder, names, files in os.walk(home):
        for name in sorted((*names, *files)):
            if secret.is_in(os.fsencode(name)):
                yield Path(folder, name)


def _is_database(path: Path) -> bool:
    """Return whether nobody but SQLite may write to *path*."""
    for ending in ("", *_ALONGSIDE):
        with suppress(OSError), path.with_name(path.name.removesuffix(ending)).open("rb") as file:
            if path.name.endswith(ending) and file.read(len(_DATABASE)) == _DATABASE:
                return True
    return False


def _clean(home: Path, path: Path, secret: Secret) -> bool:
    """Take the secret out of a file of the project; false where that cannot be written.

    Nor is a sparse file written anew, which might fill the disk and the memory.
    """
    below = path.relative_to(home)
    try:
        if below.parts[0] in _CACHES:
            _remove(home / Path(*below.parts[:2]))
        elif path.exists():
            if has_large_holes(path):
                return False
            _write(path, _without(path, secret))
    except OSError:
        return False
    return True


def _without(path: Path, secret: Secret) -> bytes:
    data = path.read_bytes()
    if path.suffix != ".json":
        return secret.data(data)
    try:
        return secret.document(data.decode()).encode()
    except UnicodeDecodeError:
        return secret.data(data)


def _write(path: Path, content: bytes) -> None:
    """Replaces a file, which keeps its permissions; another name of the same file stays."""
    draft = path.with_name(f".{secrets.token_hex(8)}")
    folder, mode = path.parent.stat().st_mode, path.stat().st_mode
    path.parent.chmod(folder | 0o700)  # kept folders may be read-only
    try:
        draft.write_bytes(content)
        draft.chmod(mode & 0o7777)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
        path.parent.chmod(folder & 0o7777)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for folder, _, _ in os.walk(path):
            Path(folder).chmod(0o700)  # builds are read-only
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
