"""
A driver's folder in the project, ``places/dask-SESSION``: by it a worker sees that it has the disk.

It is held by a lock that ends with the driver; what a dead one left, keys among it, is taken away
by the next.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from zenturio.execute.filing import disk, remove

_PREFIX = "dask-"
_LOCK = "lock"


class Session:
    """One driver's."""

    def __init__(self, folder: Path) -> None:
        with disk(folder):
            _sweep(where(folder, "").parent)
            while not self._begins(folder, token_hex(8)):
                os.close(self._lock)  # somebody swept it in this very moment

    def _begins(self, folder: Path, name: str) -> bool:
        self.name, self.folder = name, where(folder, name)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700)
        lock = self.folder / _LOCK
        self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return lock.exists()

    def close(self) -> None:
        """Takes it away."""
        remove(str(self.folder))
        os.close(self._lock)


def where(folder: Path, name: str) -> Path:
    """The folder of the session *name* below the project's."""
    return folder / "places" / f"{_PREFIX}{name}"


def _sweep(places: Path) -> None:
    """Takes away the folders whose drivers are dead."""
    for each in places.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it lives, or it begins, or it ends
            lock = os.open(each / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(str(each))
            finally:
                os.close(lock)
