"""
A driver's folder in the project, ``places/dask-SESSION``: by it a worker sees that it has the disk.

It is held by a lock that ends with the driver; what a dead one left, keys among it, is taken away
by the next.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from zenturio.execute.file_staging import disk_errors, remove_tree

_PREFIX = "dask-"
_LOCK = "lock"
QUEUED = "queued"
"""The file in it that names jobs of Slurm which end with the driver."""
_CANCEL_SECONDS = 5.0
"""Seconds that who comes next waits for Slurm to end them; they end by themselves too, later."""


class DaskSession:
    """One driver's."""

    def __init__(self, folder: Path) -> None:
        with disk_errors(folder):
            remove_dead_sessions(folder)
            while not self._begins(folder, token_hex(8)):
                os.close(self._lock)  # somebody swept it in this very moment

    def _begins(self, folder: Path, name: str) -> bool:
        self.name, self.folder = name, session_path(folder, name)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700)
        lock = self.folder / _LOCK
        self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return lock.exists()

    def close(self) -> None:
        """Take it away."""
        remove_tree(str(self.folder))
        os.close(self._lock)


def session_path(folder: Path, name: str) -> Path:
    """Return the folder of the session *name* below the project's."""
    return folder / "places" / f"{_PREFIX}{name}"


def remove_dead_sessions(folder: Path) -> None:
    """Takes away what drivers left that are dead: their folders, and jobs in the queue of Slurm."""
    for session in session_path(folder, "").parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it lives, or it begins, or it ends
            lock = os.open(session / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                # Fails while its driver lives; the kernel releases it however that ends.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _cancel_jobs(session)
                remove_tree(str(session))
            finally:
                os.close(lock)


def _cancel_jobs(session: Path) -> None:
    with suppress(OSError, subprocess.SubprocessError):
        command = ["scancel", "--quiet", f"--name={(session / QUEUED).read_text()}"]
        subprocess.run(command, capture_output=True, check=False, timeout=_CANCEL_SECONDS)
