"""Named places where the program can be made to die, so that tests can show what survives."""

from __future__ import annotations

import os
import signal

_declared: dict[str, Failpoint] = {}


class Failpoint:
    """A place with a name; passing it ends the process if ``ZENTURIO_FAILPOINT=name:n`` says so.

    The n-th passing is the last thing that the process does: SIGKILL, so that nothing is
    flushed, closed or rolled back on the way. Without the variable a passing costs one test.
    """

    __slots__ = ("_left", "name")

    def __init__(self, name: str) -> None:
        if name in _declared:
            raise ValueError(f"failpoint {name!r} is declared twice")
        _declared[name] = self
        self.name = name
        self._left = _asked(name)

    def __call__(self) -> None:
        if self._left:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


def names() -> list[str]:
    """Return all failpoints of the modules that were imported, sorted."""
    return sorted(_declared)


def _asked(name: str) -> int:
    """At which passing *name* is to end the process; 0 for never."""
    wanted, _, count = os.environ.get("ZENTURIO_FAILPOINT", "").rpartition(":")
    return int(count) if wanted == name and count.isdecimal() else 0
