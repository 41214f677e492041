"""The last log lines of the last commands, kept in ``.zenturio/logs`` for a bug report.

Each process of a command that logs something writes a file of its own: no locks, and lines of two
commands do not mix. A file is bounded (the older half goes), so are the files. Only a project of
the user's own gets any, and nothing is followed on the way there that could lead out of it.
"""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from contextlib import suppress
from pathlib import Path

from zenturio.files import PROJECT, own_project

FOLDER = "logs"
_MOST_BYTES = 256 * 1024
"""Of the newer half of a file: some 2,000 lines."""
_MOST_FILES = 40
"""Of all commands together, halves counted: at most 10 MiB."""
_WAITING_LINES = 1000
"""Lines kept in memory until the project is created, if it is."""
_RETRY_LINES = 64
"""Lines between two checks whether the project is there now."""
_NAME = re.compile(r"\d{8}T\d{6}-[a-z]+-\d+(\.older)?\.log")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class RecentLines(logging.Handler):
    """Keeps the last lines of this process below the project's folder.

    A disk that is full or read-only costs the lines, not the command.
    """

    def __init__(self, name: str, title: str) -> None:
        """*name* is that of the files; *title* is their first line, written before any other."""
        super().__init__()
        self._name = name
        self._title = title
        self._waiting: deque[str] = deque(maxlen=_WAITING_LINES)
        self._until_retry = 0
        self._folder = -1
        self._file = -1
        self._size = 0

    @property
    def is_open(self) -> bool:
        """Whether lines of this process were written."""
        return self._file >= 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
            with suppress(OSError):
                self._put(line)
        except Exception:  # noqa: BLE001 - as logging does: a line must not end the program
            self.handleError(record)

    def close(self) -> None:
        with suppress(OSError):
            if self._file < 0 and self._waiting:
                self._open()
        for descriptor in (self._file, self._folder):
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        self._file = self._folder = -1
        super().close()

    def _put(self, line: str) -> None:
        if self._file < 0:
            self._waiting.append(line)
            self._until_retry -= 1
            if self._until_retry < 0:
                self._until_retry = _RETRY_LINES
                self._open()
            return
        if self._size > _MOST_BYTES:
            self._rotate()
        self._write(line)

    def _open(self) -> None:
        """Begin the file, with the lines that wait for it, if there is a project by now."""
        project = own_project(Path.cwd())
        if project is None:
            return
        outer = os.open(project / PROJECT, _DIRECTORY)
        try:
            with suppress(FileExistsError):
                os.mkdir(FOLDER, 0o700, dir_fd=outer)
            self._folder = os.open(FOLDER, _DIRECTORY, dir_fd=outer)
        finally:
            os.close(outer)
        if os.fstat(self._folder).st_uid != os.geteuid():
            return
        self._begin()
        self._remove_old()
        while self._waiting:
            self._write(self._waiting.popleft())

    def _begin(self) -> None:
        self._file = os.open(f"{self._name}.log", _NEW, 0o600, dir_fd=self._folder)
        self._size = 0
        self._write(self._title)

    def _write(self, line: str) -> None:
        content = (line + "\n").encode("utf-8", "replace")
        self._size += os.write(self._file, content)

    def _rotate(self) -> None:
        os.close(self._file)
        self._file = -1
        name = f"{self._name}.log"
        older = f"{self._name}.older.log"
        os.rename(name, older, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._begin()

    def _remove_old(self) -> None:
        with os.scandir(self._folder) as entries:
            names = sorted(entry.name for entry in entries if _NAME.fullmatch(entry.name))
        for name in names[:-_MOST_FILES]:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._folder)


def recent_files(project: Path) -> list[Path]:
    """Return the files with the last lines of the commands in *project*, oldest first."""
    folder = project / PROJECT / FOLDER
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(
        path for path in folder.iterdir() if _NAME.fullmatch(path.name) and not path.is_symlink()
    )
