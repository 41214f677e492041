"""What a project can do without: kept folders, builds, and studies that nobody wants any more."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zenturio.errors import ConflictError
from zenturio.execute.workspace import live_driver_pids
from zenturio.record import Repository, StudyDeletion, maintenance
from zenturio.record.open import FOLDER, open_repository, project_folder

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
            for name in studies
        )
        kept = tuple(_measured(folder) for folder in _folders()) if folders else ()
        if really:
            for folder, _, _ in kept:
                shutil.rmtree(folder, ignore_errors=True)
        garbage = maintenance.Garbage((), (), 0)
        if folders:
            garbage = maintenance.collect_garbage(repository, really=really)
        return PruneResult(removals, kept, garbage)
    finally:
        repository.close()


def _refuse_while_driven(repository: Repository) -> None:
    """Raise ConflictError while a study has a driver, unless that was killed: it needs folders."""
    for study in repository.studies():
        for lease in repository.leases(study.name):
            if not lease.driver_has_exited():
                raise ConflictError(
                    f"study {study.name} is being run by process {lease.pid} on {lease.host}",
                    hint="prune when it has ended",
                )


def _refuse_while_used(project: Path) -> None:
    """What a run remembers elsewhere (``--db``) has its folders here all the same."""
    for pid in live_driver_pids(project):
        raise ConflictError(
            f"process {pid} runs experiments in {project}", hint="prune when it has ended"
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


def _bytes(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}"
