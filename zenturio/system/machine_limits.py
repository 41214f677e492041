"""Processors and memory that this process may use: the machine's, or less in a container.

It is shipped to hosts, so it knows the standard library of Python 3.9 alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def usable_cores(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Return how many CPUs this process may use at a time, at least one.

    A quota of half a CPU, or of 1.5, is one slot, or two: experiments run slower, but they run.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quotas = [ceil(quota) for quota in _cpu_quotas(cgroups, membership)]
    return max(1, min([cores, *quotas]))


def usable_memory(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Return how many bytes of memory this process may use."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for folder in _groups("memory", cgroups, membership):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # not there, or "max"
                sizes.append(int((folder / name).read_text()))
    return min(sizes)


def _cpu_quotas(cgroups: Path, membership: Path) -> Iterator[float]:
    for folder in _groups("cpu", cgroups, membership):
        with suppress(OSError, ValueError):  # version 2; "max 100000" is no limit
            quota, period = map(int, (folder / "cpu.max").read_text().split())
            yield quota / period
        with suppress(OSError, ValueError):  # version 1; -1 is no limit
            quota = int((folder / "cpu.cfs_quota_us").read_text())
            if quota > 0:
                yield quota / int((folder / "cpu.cfs_period_us").read_text())


def _groups(controller: str, cgroups: Path, membership: Path) -> Iterator[Path]:
    """Yield the folders of the process's own group and of those above it: each may have a limit.

    In a container, the path of /proc may be that on the host, which is not there: the root of what
    is mounted is the container's own group then.
    """
    for hierarchy, path in _memberships(controller, membership):
        mount = cgroups / hierarchy
        group = mount / path.lstrip("/")
        while group != mount and mount in group.parents:
            if group.is_dir():
                yield group
            group = group.parent
        yield mount


def _memberships(controller: str, membership: Path) -> Iterator[tuple[str, str]]:
    """Yield the mount below /sys/fs/cgroup, and the process's path in it, of each hierarchy."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        lines = []
    yield "", "/"
    for line in lines:
        number, _, tail = line.partition(":")
        names, _, path = tail.partition(":")
        if number == "0":
            yield "", path
        elif controller in names.split(","):
            yield controller, path
            yield names, path  # cpu and cpuacct are often mounted together
