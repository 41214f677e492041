# ruff: noqa: F403, F405 - either part has all of the names
"""The processes that an experiment started: found, measured, and ended.

What the system itself says of processes comes from the part for Linux or from the generic one;
what is done with it stands here, once. A negative number stands for a whole process group, as in
kill(2): that is all that some systems let one ask for.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from zenturio.system.platform_detection import IS_LINUX

if IS_LINUX:
    from zenturio.system.linux import *
else:
    from zenturio.system.generic import *


def prepare_supervisor() -> None:
    """Prepare this process for running experiments: what it starts ends with it, whatever comes."""
    adopt_orphans()
    gc.disable()  # a run leaves no cycles
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    become_expendable()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def usable_cpus() -> frozenset[int]:
    """Return the numbers of the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def bind_to_cpus(cpus: Collection[int] | None) -> None:
    """Bind this process, and with it what it starts, to *cpus*, where the system can."""
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)


def exists(pid: int) -> bool:
    """Return whether there is a process *pid*, or a group -*pid*."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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

    # A process may fork between the scan and its signal: until none carries the mark.
    while members() and time.monotonic() < end:
        kill_trees(members)
        time.sleep(0.002)
