"""Whether this machine is quiet enough to measure on: what ``zen run --quiet-machine`` waits for.

A machine is too busy if processes had to wait for a processor in more than 5% of the last ten
seconds, as the kernel counts it (pressure stall information): of all that a machine tells, this
agrees best with how much slower runs are (decisions/machine-load.md). Experiments that have their
own processors do not make others wait, so it can be asked while some run.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic

from zenturio.errors import InputError, PlaceError
from zenturio.system.load import CPU_PRESSURE

BUSY_SHARE = 0.05
PATIENCE_SECONDS = 600.0
"""For so long a busy machine is waited for while nothing runs on it."""


class QuietMachine:
    """Tells when the next experiment may start."""

    def __init__(self, path: str = "") -> None:
        """InputError where the system does not count what is asked for."""
        self._path = Path(path or CPU_PRESSURE)
        self._busy_since: float | None = None
        if self._pressure() is None:
            raise InputError(
                f"--quiet-machine: this system does not count how long processes wait"
                f" ({self._path})",
                hint="on Linux from 4.20 on; some containers hide it",
            )

    def wait_reason(self, *, has_running: bool) -> str:
        """Return why nothing should start now; empty if the machine is quiet.

        PlaceError where it has been busy for long, and it is not *has_running*, experiments of
        this run, that will end.
        """
        share = self._pressure() or 0.0
        if share <= BUSY_SHARE:
            self._busy_since = None
            return ""
        now = monotonic()
        if self._busy_since is None or has_running:
            self._busy_since = now
        if now - self._busy_since >= PATIENCE_SECONDS:
            raise PlaceError(
                f"the machine is busy: processes waited for a processor in {share:.0%} of the last"
                " 10 s",
                hint="run it later, or without --quiet-machine",
            )
        return (
            "the machine is busy (processes waited for a processor in more than"
            f" {BUSY_SHARE:.0%} of the last 10 s): waiting until it is quiet"
        )

    def _pressure(self) -> float | None:
        """Return the share of the last ten seconds in which some process waited."""
        try:
            words = self._path.read_text("ascii").split()
            return float(words[1].removeprefix("avg10=")) / 100
        except (OSError, ValueError, IndexError):
            return None
