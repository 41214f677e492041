"""Processes on Linux: what /proc shows, and the prctl calls of a parent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from zenturio.system.platform_detection import libc_function

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36

MAXRSS_UNIT = 1024
"""Bytes in which getrusage counts the largest resident size."""
LOOK_SECONDS = 0.1
"""Seconds between two readings of the memory and the number of processes of a run."""
OWN_SESSION: dict[str, Any] = {"setsid": True}
"""What has os.posix_spawn start a command apart from its parent's terminal and group."""
EXACT_STARTER = next((p for p in ("/usr/bin/setsid", "/bin/setsid") if os.access(p, os.X_OK)), "")
"""A small program that starts another one as its orphan, which then comes to us; see `spawn`."""


def begin_session() -> None:
    """Leave the session and the group of the parent."""
    os.setsid()


def adopt_orphans() -> bool:
    """From now on, orphans among the descendants become children of this process."""
    return _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """From now on, the end of the process that started this one sends *number*."""
    parent = os.getppid()
    _prctl(_SET_PARENT_DEATH_SIGNAL, int(number))
    if os.getppid() != parent:  # it died before prctl: no signal will come
        os.kill(os.getpid(), number)


def _prctl(option: int, value: int) -> bool:
    call = libc_function("prctl")
    return call is not None and call(option, value, 0, 0, 0) == 0


def become_expendable() -> None:
    """Short of memory, let the system take this process and what it starts, not the driver."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("500")


def strays(leaders: Sequence[int], mark: bytes) -> list[int]:  # noqa: ARG001 - as elsewhere
    """Return processes of a run that are no children of this process: all orphans come to us."""
    return []


def members(leaders: Sequence[int], mark: bytes) -> list[int]:  # noqa: ARG001 - as elsewhere
    """Return all processes below this one, which runs one experiment at a time."""
    return descendants(os.getpid())


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
    """Return when *pid* was started, in ticks of the system's clock; 0 where it is not there."""
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def process_birth(pid: int) -> str | None:
    """Return boot, pid namespace and start time of a process; None if there is no such process."""
    fields = _stat(pid)
    return None if not fields or fields[0] in {b"Z", b"X"} else realm() + fields[19].decode()


def realm() -> str:
    """Return what a pid is unique in, with a slash: one boot and one namespace of processes."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
            boot = file.read().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}/"  # noqa: PTH115 - no file is meant
    except OSError:
        return "?/"


def is_stopped(pid: int) -> bool:
    """Return whether *pid* was stopped, by SIGSTOP or from a terminal."""
    return _stat(pid)[:1] == [b"T"]


def _stat(pid: int) -> list[bytes]:
    """Return what the kernel says of a process, from its state on; nothing if it is not there."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        # The name in parentheses may hold blanks and parentheses: fields count from the last one.
        return file.read().rpartition(b")")[2].split()
    return []


def running_with(word: str) -> list[int]:
    """Return the processes that have *word* as an argument, but for this one."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    return [
        pid
        for pid in pids
        if word.encode() in _arguments(pid)
        # A zombie has ended already: its parent has only not waited for it yet.
        and _stat(pid)[:1] not in ([], [b"Z"])
        and pid != os.getpid()
    ]


def command_line(pid: int) -> str:
    """Return the program of a process with its arguments; empty where it cannot be read."""
    return b" ".join(_arguments(pid)).decode(errors="replace").strip()


def _arguments(pid: int) -> list[bytes]:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
        return file.read().split(b"\0")
    return []


def can_measure_memory() -> bool:
    """Return whether `resident_bytes` can tell."""
    return True


def own_peak_bytes() -> int:
    """Return the largest resident size of this process, which what it starts inherits."""
    with suppress(OSError), open("/proc/self/status", "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def resident_bytes(pids: Iterable[int]) -> int:
    """Return how many bytes *pids* hold in memory of their own (shared pages are not counted)."""
    pages = 0
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
            _, resident, shared, *_ = map(int, file.read().split())
            pages += resident - shared
    return pages * _PAGE


def marked_processes(mark: bytes) -> Iterator[int]:
    """Yield all processes of this user in whose environment an entry begins with *mark*."""
    entry = b"\0" + mark
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123
                if entry in b"\0" + file.read():
                    yield int(name)
