"""What the machine is, and how much of it this process may use: all, or less in a container.

It is shipped to hosts, so it knows the standard library of Python 3.9 alone.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

from zenturio.system.capabilities import PROC, SYS, sysctl, sysctl_number
from zenturio.system.gpu_clock import NVML
from zenturio.system.load import unmeasured_conditions
from zenturio.system.processes import usable_cpus

CGROUPS = Path(SYS, "fs/cgroup")
MEMBERSHIP = Path(PROC, "self/cgroup")
CPUS = Path(SYS, "devices/system/cpu")


@lru_cache(maxsize=2)
def machine_facts(nvml: str = NVML) -> dict[str, Any]:
    """Return CPU model, physical cores, accelerators; the host's name, kernel, memory in bytes.

    And which conditions of runs it does not tell, if they ask NVIDIA's driver by *nvml*.
    """
    return {
        "cpu": cpu_model()[:256],
        "cores": physical_cores(),
        "accelerators": _accelerators(),
        "name": platform.node()[:256],
        "kernel": f"{platform.system()} {platform.release()}"[:256],
        "memory": _memory(),
        "unmeasured": unmeasured_conditions(nvml),
    }


def usable_cores(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Return how many CPUs this process may use at a time, at least one.

    A quota of half a CPU, or of 1.5, is one slot, or two: experiments run slower, but they run.
    """
    quotas = [ceil(quota) for quota in _cpu_quotas(cgroups, membership)]
    return max(1, min([len(usable_cpus()), *quotas]))


def usable_memory(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Return how many bytes of memory this process may use."""
    sizes = [_memory()]
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

    In a container, the path may be that on the host, which is not there: the root of what
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


def _memory() -> int:
    """Return the bytes of memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_memory() -> int | None:
    """Return how many bytes new programs could have; None where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path(PROC, "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def cpu_model(proc: str = PROC) -> str:
    """Return the processor's model, as its maker names it."""
    with suppress(OSError):
        for line in Path(proc, "cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip() or platform.processor()
    return sysctl("machdep.cpu.brand_string") or platform.processor()


@lru_cache
def cpu_mhz(proc: str = PROC, cpus: Path = CPUS) -> float | None:
    """Return the highest clock rate of the first CPU; None where the system does not say."""
    with suppress(OSError, ValueError):
        return int((cpus / "cpu0/cpufreq/cpuinfo_max_freq").read_text()) / 1000
    with suppress(OSError, ValueError):
        for line in Path(proc, "cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("cpu MHz"):
                return float(line.partition(":")[2])
    hertz = sysctl_number("hw.cpufrequency_max")
    return hertz / 1e6 if hertz else None


def physical_cores(folder: Path = CPUS) -> int:
    """Return the cores of the machine, hardware threads of one core counted once.

    0 if nobody knows.
    """
    threads = set()
    for name in ("core_cpus_list", "thread_siblings_list"):
        for path in folder.glob(f"cpu[0-9]*/topology/{name}"):
            with suppress(OSError):
                threads.add(path.read_text().strip())
        if threads:
            return len(threads)
    return sysctl_number("hw.physicalcpu")


def cpu_order(cpus: Iterable[int], folder: Path = CPUS) -> dict[int, tuple[bool, int, int]]:
    """Return by CPU what it is sorted by to be used: isolated ones first, then one of each core.

    The second number counts the threads of its core that come before it.
    """
    usable = frozenset(cpus)
    isolated = _listed_cpus(folder / "isolated") & usable
    order = {}
    for cpu in usable:
        siblings = _listed_cpus(folder / f"cpu{cpu}/topology/thread_siblings_list") & usable
        order[cpu] = cpu not in isolated, sum(other < cpu for other in siblings), cpu
    return order


def _listed_cpus(path: Path) -> frozenset[int]:
    """Return the numbers of a list such as ``0,4-6``; none where the system has no such file."""
    cpus: set[int] = set()
    with suppress(OSError, ValueError):
        for part in path.read_text("ascii").strip().split(","):
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def _accelerators() -> list[str]:
    """Return the model of each accelerator that a driver tells of without a tool of its maker."""
    models = []
    with suppress(OSError):
        for path in sorted(Path(PROC, "driver/nvidia/gpus").glob("*/information")):
            lines = path.read_text(errors="replace").splitlines()
            models += [
                line.partition(":")[2].strip()[:256] for line in lines if line.startswith("Model:")
            ]
    return models


def system_name(release: Path = Path("/etc/os-release")) -> str:
    """Return the operating system with its version."""
    with suppress(OSError):
        for line in release.read_text().splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.partition("=")[2].strip("\"'")
    return platform.platform(terse=True)
