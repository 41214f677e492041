"""Names that are held as long as a process lives, so that others can tell."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

from zenturio.execute.file_staging import disk_errors


class NameLock:
    """A name in a folder: a file that is locked, and gone when it is released."""

    def __init__(self, folder: Path, name: str = "", *, hold: bool = True) -> None:
        """*name*, or one that nobody has; not *hold*: only to ask for others."""
        self.name = name or f"{os.getpid()}-{secrets.token_hex(4)}"
        self._folder = folder
        self._lock = -1
        if hold:
            with disk_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._lock = os.open(folder / self.name, flags, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX)

    def is_held(self, name: str) -> bool:
        """Return whether somebody holds *name*; what a process left that died is taken away."""
        if name == self.name and self._lock >= 0:
            return True
        path = self._folder / name
        try:
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def release(self) -> None:
        """Nobody holds it any more."""
        if self._lock >= 0:
            (self._folder / self.name).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1
