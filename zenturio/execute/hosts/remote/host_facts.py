"""What a host is, how it is at the moment, and how fast it computes."""

from __future__ import annotations

import os
import platform
import time
from typing import Any

from zenturio.system.machine import (
    available_memory,
    cpu_mhz,
    cpu_model,
    system_name,
    usable_cores,
    usable_memory,
)

_STEPS = 100_000
_TIMING_ROUNDS = 3


def static_facts() -> dict[str, Any]:
    """Return what seldom changes: cores, memory, architecture, operating system, CPU."""
    return {
        "node": platform.node(),
        "arch": platform.machine(),
        "os": system_name(),
        "kernel": platform.release(),
        "cpu": cpu_model(),
        "mhz": cpu_mhz(),
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
        "free_memory": available_memory(),
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
