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
from pathlib import Path

_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> bool:
    """From now on, orphans among the descendants become children of this process (Linux)."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        return int(libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0
    return False


def below(pid: int) -> list[int]:
    """All descendants of *pid*, parents before their children; those that end meanwhile too."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - called often: no Path
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                children += map(int, file.read().split())
    return children


def resident(pids: Iterable[int]) -> int:
    """How many bytes *pids* hold in memory of their own (shared pages are not counted)."""
    pages = 0
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
            _, whole, shared, *_ = map(int, file.read().split())
            pages += whole - shared
    return pages * _PAGE


def marked(mark: bytes) -> Iterator[int]:
    """All processes of this user in whose environment an entry begins with *mark*."""
    entry = b"\0" + mark
    for name in os.listdir(_PROC) if _PROC.is_dir() else ():  # noqa: PTH208
        if name.isdigit():
            with suppress(OSError):
                if entry in b"\0" + (_PROC / name / "environ").read_bytes():
                    yield int(name)


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Sends the signal to those of *pids* that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill(members: Callable[[], Iterable[int]], group: int = 0) -> None:
    """Kills all *members*; they are stopped first, so that none forks while others are killed.

    Those of the process *group* are killed in one stroke, which no fork escapes.
    """
    stopped: set[int] = set()
    while new := set(members()) - stopped:
        if any(_group_of(pid) == group for pid in new):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        send(new, signal.SIGSTOP)
        stopped |= new
    send(stopped, signal.SIGKILL)


def _group_of(pid: int) -> int:
    with suppress(ProcessLookupError, PermissionError):
        return os.getpgid(pid)
    return -1


def kill_marked(mark: bytes, patience: float = 5.0) -> None:
    """Kills every process that carries *mark*, and waits until none is there."""
    end = time.monotonic() + patience
    own = os.getpid()

    def members() -> set[int]:
        return {pid for pid in marked(mark) if pid != own}

    while members() and time.monotonic() < end:
        kill(members)
        time.sleep(0.002)
