"""
A driver's folder in the project, ``places/dask-SESSION``: by it a worker sees that it has the disk.

It is held by a lock that ends with the driver; what a dead one left, keys among it, is taken away
by the next.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import remove_tree
from zenturio.files import LockedFolder, make_folder

_PREFIX = "dask-"
QUEUED = "queued"
"""The file in it that names jobs of Slurm which end with the driver."""
_CANCEL_SECONDS = 5.0
"""Seconds that who comes next waits for Slurm to end them; they end by themselves too, later."""


class DaskSession:
    """One driver's."""

    def __init__(self, folder: Path) -> None:
        with disk_errors(folder):
            parent = make_folder(folder, session_path(folder, "").parent.name)
            remove_dead_sessions(folder)
            self._locked = LockedFolder.begin(parent, _PREFIX, mode=0o700)
        self.folder = self._locked.path
        self.name = self.folder.name.removeprefix(_PREFIX)

    def close(self) -> None:
        """Take it away."""
        remove_tree(str(self.folder))
        self._locked.release()


def session_path(folder: Path, name: str) -> Path:
    """Return the folder of the session *name* below the project's."""
    return folder / "places" / f"{_PREFIX}{name}"


def remove_dead_sessions(folder: Path) -> None:
    """Takes away what drivers left that are dead: their folders, and jobs in the queue of Slurm."""
    for session in LockedFolder.take_abandoned(session_path(folder, "").parent, _PREFIX):
        _cancel_jobs(session.path)
        remove_tree(str(session.path))


def _cancel_jobs(session: Path) -> None:
    with suppress(OSError, subprocess.SubprocessError):
        command = ["scancel", "--quiet", f"--name={(session / QUEUED).read_text()}"]
        subprocess.run(command, capture_output=True, check=False, timeout=_CANCEL_SECONDS)
