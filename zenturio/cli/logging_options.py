"""Logging of a command: -v, -vv and --log-file, and the lines that are kept for a bug report."""

from __future__ import annotations

import logging
import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.core import TyperOption

from zenturio import log_setup
from zenturio.log_setup import RecentLines
from zenturio.safe_text import mask_secrets, one_line

VERBOSE_HELP = "Log to stderr; -vv logs each transition too."
FILE_HELP = "Append all log lines, of every level, to FILE."
_SECRET_ARGUMENTS = {"redact"}
"""Verbs whose arguments are secrets: only their options' names are kept."""
_log = logging.getLogger(__name__)


class LoggingOptions:
    """What the command line says of logging, obeyed at once."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """Begin to log as the environment says, and to keep lines; InputError if that is wrong."""
        verb = next((word for word in arguments if not word.startswith("-")), "")
        name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{_letters(verb)}-{os.getpid()}"
        words = [w for w in arguments if w.startswith("-") or w == verb]
        shown = [w.partition("=")[0] for w in words] if verb in _SECRET_ARGUMENTS else arguments
        command = one_line(mask_secrets(shlex.join(["zen", *shown])))
        self._recent = RecentLines(name, f"# {command}   (in {one_line(str(Path.cwd()))})")
        self._started = time.monotonic()
        self._unlogged = command
        self.configure()

    def configure(self) -> None:
        """Obey the environment as it is now."""
        levels, file = os.environ.get(log_setup.LEVELS, ""), os.environ.get(log_setup.FILE, "")
        log_setup.configure(levels, file, self._recent)
        if self._unlogged and _log.isEnabledFor(logging.DEBUG):
            _log.debug("command: %s", self._unlogged)
            self._unlogged = ""

    def end(self, code: int) -> None:
        """Log how the command ended; a file is begun for a failure alone."""
        level = logging.INFO if code or self._recent.is_open else logging.DEBUG
        seconds = time.monotonic() - self._started
        _log.log(level, "exit code %d after %.3f s", code, seconds)


def _letters(verb: str) -> str:
    return verb if verb.isascii() and verb.isalpha() and verb.islower() else "zen"


_current: LoggingOptions | None = None


def begin(arguments: Sequence[str]) -> None:
    """Log the command with *arguments* as the environment says; InputError if that is wrong."""
    global _current  # noqa: PLW0603 - a process has one command line
    _current = LoggingOptions(arguments)


def end(code: int) -> None:
    """Log that the command ends with the exit *code*."""
    if _current is not None:
        _current.end(code)


def set_verbosity(count: int) -> None:
    """Obey ``-v`` given *count* times, here and in child processes."""
    # A verb without -v must not undo what stood before it.
    if count:
        text = os.environ.get(log_setup.LEVELS, "")
        os.environ[log_setup.LEVELS] = log_setup.with_verbosity(text, count)
        _configure()


def set_file(path: Path | None) -> None:
    """Obey ``--log-file``, here and in child processes, which may have other folders."""
    if path is not None:
        os.environ[log_setup.FILE] = str(path.expanduser().absolute())
        _configure()


def _configure() -> None:
    if _current is not None:
        _current.configure()


def options_behind_a_verb() -> list[TyperOption]:
    """Return -v and --log-file as options that any verb takes, shown by ``zen --help`` alone."""

    def verbosity(_context: Any, _option: Any, count: int) -> None:
        set_verbosity(count)

    def file(_context: Any, _option: Any, path: str | None) -> None:
        set_file(Path(path) if path else None)

    return [
        TyperOption(
            param_decls=["-v", "--verbose"], count=True, expose_value=False, is_eager=True,
            hidden=True, callback=verbosity, help=VERBOSE_HELP,
        ),
        TyperOption(
            param_decls=["--log-file"], type=str, expose_value=False, is_eager=True,
            hidden=True, callback=file, metavar="FILE", help=FILE_HELP,
        ),
    ]  # fmt: skip
