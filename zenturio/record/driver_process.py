"""The process that drives a study, told apart from a later process with the same pid."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DriverProcess:
    """A process that drives a study."""

    host: str
    pid: int
    born: str
    """Boot, process namespace and start time: with the pid, one process only."""
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    """Tells two drivers in one process apart; a driver that asks again is recognised by it."""

    @staticmethod
    def current() -> DriverProcess:
        """This process."""
        pid = os.getpid()
        return DriverProcess(socket.gethostname(), pid, process_birth(pid) or "")

    def has_exited(self) -> bool:
        """Return whether the process has certainly exited; false where this host cannot tell.

        A boot or a process namespace that is not ours may be another machine of the same name,
        so its drivers are believed until their lease runs out.
        """
        if self.host != socket.gethostname() or not self.born.startswith(_realm()):
            return False
        return process_birth(self.pid) != self.born


def process_birth(pid: int) -> str | None:
    """Return boot, pid namespace and start time of a process; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return _without_proc(pid)
    # The name in parentheses may hold blanks and parentheses: fields count from the last one.
    state, *fields = stat[stat.rindex(b")") + 2 :].split()
    return None if state in {b"Z", b"X"} else _realm() + fields[18].decode()


def _realm() -> str:
    """Return what a pid is unique in, with a slash: one boot and one namespace of processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}/"  # noqa: PTH115 - no file is meant
    except OSError:
        return "?/"


def _without_proc(pid: int) -> str | None:
    if Path("/proc/self").exists():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return _realm()
