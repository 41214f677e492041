"""Copies of a repository under names with their time, of which the newest are kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from zenturio.errors import InputError, PlaceError
from zenturio.record import maintenance
from zenturio.record.open import FOLDER, begin_project, dialect_at, locate, project_folder

BACKUPS = "backups"
"""The folder of the copies, beside the database or in the project's folder."""
_NAME = re.compile(r"zenturio-\d{8}T\d{6}\.\d{6}Z\.(db|dump)")
"""What is named so was made here, and may be removed."""

_UPGRADED = r"\.(\d{4}(-\d+)?|new)(-wal|-shm|-journal)?"
"""Ends the names of the copies that upgrades make."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """A new copy, and the oldest ones that gave way to it."""

    copy: Path
    removed: tuple[Path, ...]


def rotate(url: str | Path | None, keep: int | None) -> Rotation:
    """Copy the repository into the folder of backups; the newest *keep* copies stay there, or all.

    Old copies are removed only after the new one is whole.
    """
    if keep is not None and keep < 1:
        raise InputError(f"cannot keep {keep} copies", hint="keep at least one")
    folder, ending = _folder(url)
    if ending == "dump":
        begin_project()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlaceError(f"no folder for copies: {folder}: {error.strerror}") from error
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    copy = maintenance.backup(url, folder / f"zenturio-{now}.{ending}")
    old = sorted(p for p in folder.iterdir() if _NAME.fullmatch(p.name) and p != copy)
    removed = tuple(old[: max(len(old) + 1 - keep, 0)] if keep is not None else ())
    for path in removed:
        path.unlink(missing_ok=True)
    return Rotation(copy, removed)


def backup_files(url: str | Path | None) -> tuple[Path, ...]:
    """Return all copies of the repository that were made here: by hand, and by upgrades."""
    from zenturio.record.sqlite import SQLite  # noqa: PLC0415 - imported with the database only

    folder, _ = _folder(url)
    copies = [*folder.glob("*")] if folder.is_dir() else []
    place = locate(url)
    kind = dialect_at(place) if place != "memory:" else None
    if isinstance(kind, SQLite):
        upgrades = re.compile(re.escape(kind.path.name) + _UPGRADED)
        copies += [p for p in kind.path.parent.iterdir() if upgrades.fullmatch(p.name)]
    return tuple(sorted(path for path in copies if path.is_file()))


def _folder(url: str | Path | None) -> tuple[Path, str]:
    """Return where copies lie, and how their names end."""
    from zenturio.record.sqlite import SQLite  # noqa: PLC0415 - imported with the database only

    place = locate(url)
    kind = dialect_at(place) if place != "memory:" else None
    if isinstance(kind, SQLite):
        return kind.path.parent / BACKUPS, "db"
    return project_folder() / FOLDER / BACKUPS, "dump"
