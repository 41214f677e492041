"""What a host is, how it is at the moment, and how fast it computes."""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from zenturio.execute.machine_facts import cpu_model
from zenturio.system.machine_limits import usable_cores, usable_memory

_STEPS = 100_000
_TIMING_ROUNDS = 3


def static_facts() -> dict[str, Any]:
    """Return what seldom changes: cores, memory, architecture, operating system, CPU."""
    return {
        "node": platform.node(),
        "arch": platform.machine(),
        "os": _system_name(),
        "kernel": platform.release(),
        "cpu": cpu_model(),
        "mhz": _mhz(),
        "cores": usable_cores(),
        "memory": usable_memory(),
        "python": platform.python_version(),
    }


def current_facts(folder: str) -> dict[str, Any]:
    """Return what changes all the time: load, free memory, free disk at *folder*."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    space = os.statvfs(folder)
    return {
        "load": load,
        "free_memory": _available_memory(),
        "disk": space.f_bavail * space.f_frsize,
    }


def measure_speed() -> float:
    """Millions of steps a second of a fixed computation: the best of a few rounds.

    Steps of an interpreter, which tell machines apart, not programs: 20 ms for each round.
    """
    best = float("inf")
    for _ in range(_TIMING_ROUNDS):
        begun = time.perf_counter()
        state = 1
        for step in range(_STEPS):
            state = (state * 1103515245 + step) & 0x7FFFFFFF
        best = min(best, time.perf_counter() - begun)
    return round(_STEPS / best / 1e6, 3)


def _available_memory() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _mhz() -> float | None:
    with suppress(OSError, ValueError):
        path = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"
        return int(Path(path).read_text()) / 1000
    with suppress(OSError, ValueError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("cpu MHz"):
                return float(line.partition(":")[2])
    return None


def _system_name() -> str:
    with suppress(OSError):
        for line in Path("/etc/os-release").read_text().splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.partition("=")[2].strip('"')
    return platform.system()
