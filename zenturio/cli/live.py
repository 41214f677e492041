"""Where a run stands: a line that moves on a terminal, plain lines now and then on a pipe."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from zenturio import log_setup
from zenturio.cli import output, terminal
from zenturio.show import quantities

if TYPE_CHECKING:
    from zenturio.study.driver.progress import RunProgress

BAR = 24
OFTEN = 0.1
SELDOM = 10.0


class Live:
    """Hears of every step and shows as much of it as can be read."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._moves = self._stream.isatty()
        self._next = monotonic() + (0.0 if self._moves else SELDOM)
        self._shown = False
        log_setup.set_progress_eraser(self._erase if self._moves else None)

    def __call__(self, progress: RunProgress) -> None:
        for remark in progress.remarks:
            self._remark(remark)
        if monotonic() < self._next:
            return
        self._next = monotonic() + (OFTEN if self._moves else SELDOM)
        words = line(progress)
        if self._moves:
            width = shutil.get_terminal_size().columns - 1
            bar = _bar(progress.done, progress.total)
            self._clear_line()
            self._stream.write(f"{bar} {words}"[:width])
        else:
            self._stream.write(words + "\n")
        self._stream.flush()
        self._shown = True

    def _remark(self, words: str) -> None:
        """A line that stays, whatever moves."""
        self._erase()
        self._stream.write(words + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Take the moving line away; what comes next begins on a clean one."""
        self._erase()
        log_setup.set_progress_eraser(None)

    def _erase(self) -> None:
        if self._moves and self._shown:
            self._clear_line()
            self._stream.flush()

    def _clear_line(self) -> None:
        terminal.unguarded(self._stream).write("\r\x1b[K")


def line(progress: RunProgress) -> str:
    """All in one line, the most important first."""
    parts = [f"{progress.done:,}/{progress.total:,}"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    parts.append(f"{progress.running} running")
    if progress.rate > 0:
        parts.append(f"{quantities.rate(progress.rate)}")
    if progress.left is not None and progress.done < progress.total:
        parts.append(f"{quantities.duration(progress.left)} left")
    if progress.last is not None:
        parts.append(f"{progress.goal} {output.number(progress.last)}{_best(progress)}")
    return "  ".join(parts)


def _best(progress: RunProgress) -> str:
    """The best so far and where, last of all: on a narrow terminal it is cut."""
    found = progress.best
    return f", best {output.number(found.value)} at {settings(found.at)}" if found else ""


def settings(values: Mapping[str, object]) -> str:
    """``n=512, threads=2``: inactive parameters are left out."""
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)


def _bar(done: int, total: int) -> str:
    full = BAR * done // total if total else BAR
    return "█" * full + "░" * (BAR - full)
