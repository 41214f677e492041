"""
What the machine is that this process runs on: collected where experiments run.

Hosts get this file, too: only the standard library of Python 3.9 is used here.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from zenturio.execute.gpu_clock import NVML
from zenturio.execute.json_checks import any_text, integer, list_of, record, text
from zenturio.execute.run_facts import unmeasured_conditions

_CPUS = Path("/sys/devices/system/cpu")
_GPUS = Path("/proc/driver/nvidia/gpus")
_NAME = text(256)

check_machine_facts = record({
    "cpu": _NAME, "cores": integer(0, 2**20), "accelerators": list_of(_NAME, 1024), "name": _NAME,
    "kernel": _NAME, "memory": integer(0, 2**62), "unmeasured": any_text(4096),
})  # fmt: skip
"""MalformedError where something is not what ``machine_facts`` returns."""


@lru_cache(maxsize=2)
def machine_facts(nvml: str = NVML) -> dict[str, Any]:
    """CPU model, physical cores, accelerators; the host's name, kernel and memory in bytes.

    And which conditions of runs it does not tell, if they ask NVIDIA's driver by *nvml*.
    """
    return {
        "cpu": cpu_model()[:256],
        "cores": physical_cores(),
        "accelerators": _accelerators(),
        "name": platform.node()[:256],
        "kernel": f"{platform.system()} {platform.release()}"[:256],
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "unmeasured": unmeasured_conditions(nvml),
    }


def cpu_model() -> str:
    """Return the processor's model, as its maker names it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.processor()
    return platform.processor()


def physical_cores(folder: Path = _CPUS) -> int:
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
    if sys.platform == "darwin" and (cores := _sysctl("hw.physicalcpu")).isdigit():
        return int(cores)
    return 0


def _accelerators(folder: Path = _GPUS) -> list[str]:
    """The model of each accelerator that a driver tells of without a tool of its maker."""
    models = []
    with suppress(OSError):
        for path in sorted(folder.glob("*/information")):
            lines = path.read_text(errors="replace").splitlines()
            models += [
                line.partition(":")[2].strip()[:256] for line in lines if line.startswith("Model:")
            ]
    return models


def _sysctl(name: str) -> str:
    with suppress(OSError, subprocess.SubprocessError):
        process = subprocess.run(
            ["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False
        )
        return process.stdout.strip()
    return ""
