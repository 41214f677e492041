"""Logging: which levels go to the terminal and to a file, in one format, without secrets.

Modules log with the standard library (``_log = logging.getLogger(__name__)``): DEBUG for each
transition of an experiment, a lease, a worker, a connection or a job; INFO for what happens a few
times in a command; WARNING for what the user should know of. Here is what becomes of it.

* ``ZENTURIO_LOG=info`` or ``debug`` shows lines of that level on stderr;
  ``ZENTURIO_LOG=info,zenturio.record=debug`` sets other levels for some loggers.
* ``ZENTURIO_LOG_FILE`` appends every line, also of DEBUG, to a file.
* Commands keep their last lines of INFO below ``.zenturio`` for a bug report (recent_lines).

The command line puts ``-v``, ``-vv`` and ``--log-file`` into these variables, so that child
processes inherit them; importing zenturio is enough to obey them. Experiments do not inherit them:
their output is what they print themselves.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from zenturio.errors import InputError, PlaceError
from zenturio.files import PROJECT, own_project
from zenturio.safe_text import mask_secrets, one_line, secrets_of_environment

LEVELS = "ZENTURIO_LOG"
FILE = "ZENTURIO_LOG_FILE"
_ROOT = "zenturio"
_NAMES = ("debug", "info", "warning", "error")
work_progress: ContextVar[Callable[[str, int, int], None]] = ContextVar(
    "work_progress", default=lambda _label, _done, _total: None
)
"""Called with a label, the steps done and their total, by long work; the command line shows it."""
_Item = TypeVar("_Item")


def reported(label: str, items: Sequence[_Item]) -> Iterator[_Item]:
    """Yield *items*, and report how many of them are done."""
    report = work_progress.get()
    for number, item in enumerate(items):
        report(label, number, len(items))
        yield item
    report(label, len(items), len(items))


_HINT = "for example ZENTURIO_LOG=info, or ZENTURIO_LOG=info,zenturio.record=debug"


class LineFormatter(logging.Formatter):
    """A line with time in UTC, level, logger, process and message, safe for a terminal.

    A message stays one line, whatever it quotes: it cannot pretend to be another one.
    """

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        head = f"{seconds}.{int(record.msecs):03d}Z {record.levelname} {record.name}"
        lines = [f"{head}[{record.process}]: {one_line(mask_secrets(record.getMessage()))}"]
        if record.exc_info:
            trace = mask_secrets(self.formatException(record.exc_info))
            lines += [f"    {one_line(line)}" for line in trace.splitlines()]
        return "\n".join(lines)


class TerminalHandler(logging.Handler):
    """Writes lines to stderr, whatever that is at the time, above a progress line."""

    def __init__(self, levels: Mapping[str, int]) -> None:
        super().__init__()
        self.erase_progress: Callable[[], None] | None = None
        """Takes a moving line off the terminal, if one is shown."""
        self._levels = dict(levels)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the level of the nearest of the named loggers lets *record* pass."""
        name = record.name
        while name not in self._levels and name:
            name = name.rpartition(".")[0]
        return record.levelno >= self._levels.get(name, logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
            if self.erase_progress is not None:
                self.erase_progress()
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - as logging does: a line must not end the program
            self.handleError(record)


def parse_levels(text: str) -> dict[str, int]:
    """Return the level of each logger that *text*, as ``info,zenturio.record=debug``, names.

    InputError for a level that does not exist.
    """
    levels: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, level = part.rpartition("=")
        if level.lower() not in _NAMES or (equals and not name.strip()):
            raise InputError(f"{LEVELS}={text}: {part!r} is not a level", hint=_HINT)
        levels[name.strip() or _ROOT] = logging.getLevelNamesMapping()[level.upper()]
    return levels


def with_verbosity(text: str, verbosity: int) -> str:
    """Return *text*, the value of ZENTURIO_LOG, with the level of ``-v`` or ``-vv``."""
    if not verbosity:
        return text
    named = [part for part in text.split(",") if "=" in part]
    return ",".join(["debug" if verbosity > 1 else "info", *named])


def configure(levels: str, file: str = "", recent: logging.Handler | None = None) -> None:
    """Send log lines to stderr as *levels* says, and all of them to *file*; earlier ways end.

    *recent* gets those of INFO, too, and finer ones where they are shown anyway; it stays open.

    InputError for a level that does not exist, PlaceError if *file* cannot be opened.
    """
    secrets_of_environment.cache_clear()
    parsed = {_ROOT: logging.WARNING, **parse_levels(levels)}
    handlers: list[logging.Handler] = [TerminalHandler(parsed)]
    if file:
        handlers.append(_file_handler(file))
    if recent is not None:
        handlers.append(recent)
    for handler in handlers:
        handler.setFormatter(LineFormatter())
    _remove_handlers(recent)
    for name, level in parsed.items():
        logger = logging.getLogger(name)
        finest = logging.DEBUG if file else logging.INFO if recent is not None else level
        logger.setLevel(min(level, finest) if _is_ours(name) else level)
        # What reaches the logger of zenturio passes its handlers; others need their own.
        if name == _ROOT or not _is_ours(name):
            for handler in handlers:
                if handler is not recent or name == _ROOT:
                    logger.addHandler(handler)
        _configured.append((logger, handlers))


def configure_from_environment() -> None:
    """Obey ZENTURIO_LOG and ZENTURIO_LOG_FILE; what is wrong with them is left to the command."""
    try:
        configure(os.environ.get(LEVELS, ""), os.environ.get(FILE, ""))
    except (InputError, PlaceError):
        return


def set_progress_eraser(erase: Callable[[], None] | None) -> None:
    """Have *erase* called before each line that is shown on the terminal."""
    for handler in logging.getLogger(_ROOT).handlers:
        if isinstance(handler, TerminalHandler):
            handler.erase_progress = erase


def _file_handler(file: str) -> logging.Handler:
    from logging.handlers import WatchedFileHandler  # noqa: PLC0415 - it loads sockets and pickle

    try:
        # Opened anew when logrotate has moved it away.
        return WatchedFileHandler(Path(file).expanduser(), encoding="utf-8", errors="replace")
    except OSError as error:
        raise PlaceError(
            f"cannot write the log file {file}: {error.strerror}", hint="name another --log-file"
        ) from error


def _is_ours(name: str) -> bool:
    return name == _ROOT or name.startswith(f"{_ROOT}.")


_configured: list[tuple[logging.Logger, list[logging.Handler]]] = []
"""What `configure` did, to be undone by the next call."""


def _remove_handlers(kept: logging.Handler | None) -> None:
    while _configured:
        logger, handlers = _configured.pop()
        logger.setLevel(logging.NOTSET)
        for handler in handlers:
            logger.removeHandler(handler)
            if handler is not kept:
                handler.close()


# Recent lines: the last ones of each command, kept in ``.zenturio/logs`` for a bug report
#
# Each process of a command that logs something writes a file of its own: no locks, and lines of two
# commands do not mix. A file is bounded (the older half goes), so are the files. Only a project of
# the user's own gets any, and nothing is followed on the way there that could lead out of it.

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
