"""Processes on macOS and other Unix systems, as libproc or ps tell of them.

There orphans go to the first process and not to us. So a run is found by what it cannot easily
leave: the process groups of its commands, being below one of these processes, and the mark in its
environment. Where neither libproc nor ps is there, only the groups are known.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from zenturio.system.platform_detection import sysctl

IS_MACOS = sys.platform == "darwin"
MAXRSS_UNIT = 1 if IS_MACOS else 1024
"""Bytes in which getrusage counts the largest resident size."""
LOOK_SECONDS = 0.1 if IS_MACOS else 0.25
"""Seconds between two readings of memory and number of processes of a run: ps costs 10 ms."""
OWN_SESSION: dict[str, Any] = {"setsid": True} if IS_MACOS else {"setpgroup": 0}
"""What has os.posix_spawn start a command apart from its parent's terminal and group."""
EXACT_STARTER = ""
"""None: what a small program starts as its orphan does not come to us."""
_FIRST_PROCESS = 1
"""The parent of all orphans on macOS; elsewhere another process may have asked for them."""
_PARENT_SECONDS = 0.25
"""Seconds between two checks whether the parent lives."""


class ProcessRow(NamedTuple):
    """What is known of one process."""

    pid: int
    parent: int
    group: int
    is_stopped: bool
    resident: int
    start: str
    """When it was started; only equality means something."""


def begin_session() -> None:
    """Leave the group of the parent, and its session where there is such a thing."""
    if IS_MACOS:
        os.setsid()
    else:
        os.setpgid(0, 0)


def adopt_orphans() -> bool:
    """Return False: orphans cannot be adopted here."""
    return False


def die_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """From now on, the end of the process that started this one sends *number*."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        os.kill(os.getpid(), number)

    threading.Thread(target=watch, name="zenturio-parent", daemon=True).start()


def become_expendable() -> None:
    """Do nothing: no process can say that it is to be ended first."""


def strays(leaders: Sequence[int], mark: bytes) -> list[int]:
    """Return processes of a run that are no children of this process, its commands too."""
    return members(leaders, mark)


def members(leaders: Sequence[int], mark: bytes) -> list[int]:
    """Return all processes of the run whose commands are *leaders*, with *mark* in its environment.

    Where there is no table of processes: the groups of the commands, as negative numbers.
    """
    rows = process_table()
    if rows is None:
        return [-leader for leader in leaders if leader > 1 and _has_group(leader)]
    run = {row.pid for row in rows.values() if row.pid in leaders or row.group in leaders}
    # Whoever left its group and its parent still has its environment.
    others = [
        pid for pid, row in rows.items()
        if pid not in run and (row.parent == _FIRST_PROCESS or not IS_MACOS)
    ]  # fmt: skip
    run.update(_marked(others, mark))
    waiting = list(run)
    while waiting:
        under = [pid for pid in _below(rows, waiting.pop()) if pid not in run]
        run.update(under)
        waiting += under
    return sorted(run - {os.getpid()})


def _has_group(group: int) -> bool:
    # A group in which nothing may be signalled is not ours, or holds zombies alone.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, 0)
        return True
    return False


def descendants(pid: int) -> list[int]:
    """Return all descendants of *pid*, parents before their children, but for orphans."""
    rows = process_table() or {}
    pids: list[int] = []
    waiting = [pid]
    while waiting:
        under = _below(rows, waiting.pop())
        pids += under
        waiting += under
    return pids


def children(pid: int) -> list[int]:
    """Return the children of *pid*."""
    return _below(process_table() or {}, pid)


def _below(rows: dict[int, ProcessRow], pid: int) -> list[int]:
    return [row.pid for row in rows.values() if row.parent == pid]


def start_ticks(pid: int) -> int:
    """Return 0: nothing here is started as an orphan, which is what this is for."""
    del pid
    return 0


def process_birth(pid: int) -> str | None:
    """Return boot and start time of a process; None if there is no such process."""
    rows = process_table()
    if rows is None:
        with suppress(ProcessLookupError):
            with suppress(PermissionError):
                os.kill(pid, 0)
            return realm()
        return None
    return realm() + rows[pid].start if pid in rows else None


@lru_cache(maxsize=1)
def realm() -> str:
    """Return what a pid is unique in, with a slash: one boot, where the system names it."""
    return (sysctl("kern.bootsessionuuid") or "?") + "/"


def is_stopped(pid: int) -> bool:
    """Return whether *pid* was stopped, by SIGSTOP or from a terminal."""
    row = (process_table() or {}).get(pid)
    return row is not None and row.is_stopped


def running_with(word: str) -> list[int]:
    """Return the processes that have *word* as an argument, but for this one."""
    lines = _ps("axww", "pid=,args=")
    rows = [line.split() for line in lines or ()]
    own = os.getpid()
    return [int(row[0]) for row in rows if word.encode() in row[1:] and int(row[0]) != own]


def command_line(pid: int) -> str:
    """Return the program of a process with its arguments; empty where it cannot be read."""
    for line in _ps("axww", "pid=,args=") or ():
        number, _, words = line.strip().partition(b" ")
        if int(number) == pid:
            return words.decode(errors="replace").strip()
    return ""


@lru_cache(maxsize=1)
def can_measure_memory() -> bool:
    """Return whether `resident_bytes` can tell."""
    return process_table() is not None


def own_peak_bytes() -> int:
    """Return the largest resident size of this process, which what it starts may inherit."""
    import resource  # noqa: PLC0415 - asked once in 256 runs

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT


def resident_bytes(pids: Iterable[int]) -> int:
    """Return how many bytes *pids* hold in memory; pages that they share count for each."""
    rows = process_table() or {}
    return sum(rows[pid].resident for pid in pids if pid in rows)


def marked_processes(mark: bytes) -> Iterator[int]:
    """Yield all processes of this user in whose environment an entry begins with *mark*."""
    yield from _marked(process_table() or {}, mark)


def _marked(pids: Collection[int], mark: bytes) -> list[int]:
    """Return those of *pids* that carry *mark*."""
    if not pids or not mark:
        return []
    if _libproc() is not None:
        return [pid for pid in pids if b"\0" + mark in _macos_arguments(pid)]
    marked = []
    for line in _ps("axeww", "pid=,args=") or ():
        number, _, words = line.strip().partition(b" ")
        if b" " + mark in words and int(number) in pids:
            marked.append(int(number))
    return marked


def process_table() -> dict[int, ProcessRow] | None:
    """Return all processes that this user may see, without zombies; None if nothing tells."""
    library = _libproc()
    return _ps_table() if library is None else _macos_table(library)


def _ps_table() -> dict[int, ProcessRow] | None:
    lines = _ps("axww", "pid=,ppid=,pgid=,stat=,rss=,lstart=")
    if lines is None:
        return None
    rows = {}
    for line in lines:
        with suppress(ValueError):  # a line that is cut, or of another form
            pid, parent, group, state, resident, start = line.split(None, 5)
            if not state.startswith(b"Z"):
                rows[int(pid)] = ProcessRow(
                    int(pid), int(parent), int(group), state.startswith(b"T"),
                    int(resident) * 1024, start.decode("ascii", "replace").strip(),
                )  # fmt: skip
    return rows or None


def _ps(options: str, columns: str) -> list[bytes] | None:
    """Return the lines of ps, without its own; None where there is no ps."""
    import subprocess  # noqa: PLC0415 - each launcher would load it, and macOS needs none

    with suppress(OSError, subprocess.SubprocessError):
        with subprocess.Popen(
            ["ps", options, "-o", columns], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"},
        ) as process:  # fmt: skip
            output, _ = process.communicate(timeout=30)
        own = str(process.pid).encode()
        return [line for line in output.splitlines() if line.split(None, 1)[:1] != [own]]
    return None


_ALL_PROCESSES, _BSD_INFO, _TASK_INFO = 1, 3, 4
"""Of libproc: all processes; what a BSD tells of one; what its memory is."""
_STOPPED = 4
_KERNEL, _ARGUMENTS = 1, 49
"""The path in sysctl at which the arguments and the environment of a process are."""
_MOST_ARGUMENT_BYTES = 2**20


class _BsdInfo(ctypes.Structure):
    """struct proc_bsdinfo of libproc."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("flags", "status", "xstatus", "pid", "parent")),
        ("users", ctypes.c_uint32 * 7),
        ("names", ctypes.c_char * 48),
        ("files", ctypes.c_uint32),
        ("group", ctypes.c_uint32),
        ("terminal", ctypes.c_uint32 * 3),
        ("nice", ctypes.c_int32),
        ("seconds", ctypes.c_uint64),
        ("microseconds", ctypes.c_uint64),
    )


class _TaskInfo(ctypes.Structure):
    """struct proc_taskinfo of libproc."""

    _fields_ = (
        ("virtual", ctypes.c_uint64),
        ("resident", ctypes.c_uint64),
        ("times", ctypes.c_uint64 * 4),
        ("counts", ctypes.c_int32 * 12),
    )


@lru_cache(maxsize=1)
def _libproc() -> Any:
    """Return macOS's library, if it tells the truth about this process."""
    if not IS_MACOS:
        return None
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL("/usr/lib/libproc.dylib", use_errno=True)
        library.proc_pidinfo.argtypes = (
            ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int,
        )  # fmt: skip
        row = _macos_row(library, os.getpid())
        if row is not None and row.parent == os.getppid():
            return library
    return None


def _macos_table(library: Any) -> dict[int, ProcessRow]:
    size = library.proc_listpids(_ALL_PROCESSES, 0, None, 0)
    pids = (ctypes.c_int * (size // ctypes.sizeof(ctypes.c_int) + 64))()
    library.proc_listpids(_ALL_PROCESSES, 0, pids, ctypes.sizeof(pids))
    rows = (_macos_row(library, pid) for pid in pids if pid > 0)
    return {row.pid: row for row in rows if row is not None}


def _macos_row(library: Any, pid: int) -> ProcessRow | None:
    info, task = _BsdInfo(), _TaskInfo()
    size = ctypes.sizeof(info)
    if library.proc_pidinfo(pid, _BSD_INFO, 0, ctypes.byref(info), size) != size:
        return None  # it has ended, or is a zombie
    # Of processes of others there is no such thing; theirs are never asked for.
    library.proc_pidinfo(pid, _TASK_INFO, 0, ctypes.byref(task), ctypes.sizeof(task))
    return ProcessRow(
        pid, info.parent, info.group, info.status == _STOPPED, task.resident,
        f"{info.seconds}.{info.microseconds:06}",
    )  # fmt: skip


def _macos_arguments(pid: int) -> bytes:
    """Return the arguments and the environment of a process of this user."""
    path = (ctypes.c_int * 3)(_KERNEL, _ARGUMENTS, pid)
    text = ctypes.create_string_buffer(_MOST_ARGUMENT_BYTES)
    size = ctypes.c_size_t(_MOST_ARGUMENT_BYTES)
    answer = ctypes.CDLL(None).sysctl(path, 3, text, ctypes.byref(size), None, ctypes.c_size_t(0))
    return text.raw[: size.value] if answer == 0 else b""
