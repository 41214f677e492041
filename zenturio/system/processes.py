"""The processes that an experiment started: found below a process or by a mark, and ended.

Where the kernel tells no children (no /proc: macOS), only process groups are known.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> bool:
    """From now on, orphans among the descendants become children of this process (Linux)."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        return int(libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0
    return False


def descendants(pid: int) -> list[int]:
    """Return all descendants of *pid*, parents before their children.

    Those that end meanwhile too.
    """
    pids: list[int] = []
    waiting = [pid]
    while waiting:
        under = children(waiting.pop())
        pids += under
        waiting += under
    return pids


def children(pid: int) -> list[int]:
    """Return the children of *pid*."""
    pids: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - called often: no Path
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                pids += map(int, file.read().split())
    return pids


def start_ticks(pid: int) -> int:
    """Return when *pid* was started, in ticks of the system's clock.

    0 where it is not there.
    """
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[19])
    return 0


def is_stopped(pid: int) -> bool:
    """Return whether *pid* was stopped, by SIGSTOP or from a terminal."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return file.read().rpartition(b")")[2].split()[0] == b"T"
    return False


class StopDetector:
    """Since when a process is stopped, as it was seen in looks at it."""

    def __init__(self, patience: float) -> None:
        """*patience*: a whole job may be stopped and go on, its processes one after the other."""
        self._patience = patience
        self._since = 0.0

    def is_stuck(self, pid: int) -> bool:
        """Return whether *pid* has been stopped in every look for longer than the patience."""
        now = time.monotonic()
        if not is_stopped(pid):
            self._since = 0.0
            return False
        self._since = self._since or now
        return now - self._since >= self._patience


def own_peak_bytes() -> int:
    """The largest resident size of this process in bytes, which what it starts inherits."""
    with suppress(OSError), open("/proc/self/status", "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def resident_bytes(pids: Iterable[int]) -> int:
    """How many bytes *pids* hold in memory of their own (shared pages are not counted)."""
    pages = 0
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
            _, resident, shared, *_ = map(int, file.read().split())
            pages += resident - shared
    return pages * _PAGE


def marked_processes(mark: bytes) -> Iterator[int]:
    """All processes of this user in whose environment an entry begins with *mark*."""
    entry = b"\0" + mark
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():  # noqa: PTH112, PTH208
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123
                if entry in b"\0" + file.read():
                    yield int(name)


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Send the signal to those of *pids* that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_trees(roots: Callable[[], Iterable[int]], group: int = 0) -> None:
    """Kill all *roots* and what is below them; those of the process *group* in one stroke.

    Each process is stopped before its children are looked up, so that nothing forks away
    while others are killed.
    """
    stopped: set[int] = set()
    while new := [pid for pid in roots() if pid not in stopped]:
        # The group first: it takes a whole shell pipeline in one call, before any of it can fork.
        if any(_group_of(pid) == group for pid in new):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        while new:
            pid = new.pop()
            send_signal((pid,), signal.SIGSTOP)
            stopped.add(pid)
            new += [child for child in children(pid) if child not in stopped]
    send_signal(stopped, signal.SIGKILL)


def _group_of(pid: int) -> int:
    with suppress(ProcessLookupError, PermissionError):
        return os.getpgid(pid)
    return -1


def kill_marked(mark: bytes, patience: float = 5.0) -> None:
    """Kill every process that carries *mark*, and waits until none is there."""
    end = time.monotonic() + patience
    own_pid = os.getpid()

    def members() -> list[int]:
        return [pid for pid in marked_processes(mark) if pid != own_pid]

    # A process may fork between the scan of /proc and its signal: until none carries the mark.
    while members() and time.monotonic() < end:
        kill_trees(members)
        time.sleep(0.002)
