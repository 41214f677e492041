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
import sys
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path

from zenturio.errors import InputError, PlaceError
from zenturio.safe_text import mask_secrets, one_line, secrets_of_environment

LEVELS = "ZENTURIO_LOG"
FILE = "ZENTURIO_LOG_FILE"
_ROOT = "zenturio"
_NAMES = ("debug", "info", "warning", "error")
work_progress: ContextVar[Callable[[str, int, int], None]] = ContextVar(
    "work_progress", default=lambda _words, _done, _total: None
)
"""Hears what long work is done, and how much of how much of it; the command line shows it."""
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
