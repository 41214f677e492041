"""This machine: its kind and details as Linux tells them, and as JSON."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from zenturio.execute.json_checks import (
    Check,
    any_text,
    boolean,
    first_of,
    integer,
    list_of,
    nullable,
    number,
    object_of,
    record,
    text,
)
from zenturio.experiment import HostConditions, HostDetails, MachineKind, Outcome

_CPUS = Path("/sys/devices/system/cpu")
_GPUS = Path("/proc/driver/nvidia/gpus")
_NAME = text(256)

check_machine_facts = record({
    "cpu": _NAME, "cores": integer(0, 2**20), "accelerators": list_of(_NAME, 1024), "name": _NAME,
    "kernel": _NAME, "memory": integer(0, 2**62),
})  # fmt: skip
"""MalformedError where something is not what ``machine_facts`` returns."""


@lru_cache(maxsize=1)
def machine_facts() -> dict[str, Any]:
    """CPU model, physical cores, accelerators; the host's name, kernel and memory in bytes."""
    return {
        "cpu": cpu_model()[:256],
        "cores": physical_cores(),
        "accelerators": _accelerators(),
        "name": platform.node()[:256],
        "kernel": f"{platform.system()} {platform.release()}"[:256],
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
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


_TEXT = any_text(2**16)
_OTHER = nullable(first_of(boolean, integer(-(2**63)), number(), _TEXT))
_COUNTS = ("slots", "cpus", "run_block", "run_turn", "runnable", "throttled")
_CONDITION: Mapping[str, Check] = {
    "governor": _TEXT,
    "run_order": _TEXT,
    "other": object_of(text(256), _OTHER, 1000),
    **dict.fromkeys(_COUNTS, integer()),
}
_check_machine = record(
    {"cpu": _TEXT, "cores": integer(), "accelerators": list_of(_TEXT, 4096), "setup": _TEXT}
)
_check_host = record({"name": _TEXT, "kernel": _TEXT, "memory": integer()})
_check_conditions = record(
    {f.name: nullable(_CONDITION.get(f.name, number())) for f in fields(HostConditions)}
)
check_machine_parts: Mapping[str, Check] = {
    "machine": nullable(_check_machine),
    "host_details": nullable(_check_host),
    "conditions": nullable(_check_conditions),
}


def machine_parts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of an outcome from the facts of a machine."""
    return {
        "machine": MachineKind(facts["cpu"], facts["cores"], tuple(facts["accelerators"])),
        "host_details": HostDetails(facts["name"], facts["kernel"], facts["memory"]),
    }


@cache
def own_machine_parts() -> dict[str, Any]:
    """Return the same of the machine that this is."""
    return machine_parts(machine_facts())


def own_machine() -> MachineKind:
    """Return the kind of machine that this is."""
    machine: MachineKind = own_machine_parts()["machine"]
    return machine


def run_conditions(run: Mapping[str, Any], slots: int | None = None) -> HostConditions:
    """Return what varied, as the launcher of a run saw it, at a place of so many *slots*."""
    before, after = run["load"]
    machine, threads = run.get("machine", {}), run.get("threads", {})
    cpus = run.get("cpus")
    return HostConditions(
        load_start=before, load_end=after, slots=slots, cpus=cpus, other=threads, **machine
    )


def machine_parts_to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the same fields as JSON has them."""
    parts = (outcome.machine, outcome.host_details, outcome.conditions)
    return {
        name: None if part is None else asdict(part)
        for name, part in zip(check_machine_parts, parts, strict=True)
    }


def machine_parts_from_json(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of an outcome from what was written, and checked."""
    machine, host, varied = (manifest[name] for name in check_machine_parts)
    if machine is not None:
        machine = MachineKind(**{**machine, "accelerators": tuple(machine["accelerators"])})
    return {
        "machine": machine,
        "host_details": None if host is None else HostDetails(**host),
        "conditions": None if varied is None else HostConditions(**varied),
    }
