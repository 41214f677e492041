"""What the machine does while experiments run, and what the kernel counts for a process.

Hosts get this file, too: only the standard library of Python 3.9 is used here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from zenturio.system.capabilities import PROC, SYS
from zenturio.system.gpu_clock import NVML, GpuClock
from zenturio.system.processes import usable_cpus

CPU_PRESSURE = f"{PROC}/pressure/cpu"
"""Where the kernel says how long processes waited for a processor, from Linux 4.20 on."""
PERF_PARANOID = f"{PROC}/sys/kernel/perf_event_paranoid"
"""Where the kernel says who may count events; there if it counts any."""
TICKS = os.sysconf("SC_CLK_TCK")
"""Units of a second in which `LoadSample.busy`, `steal` and `total` are counted."""
FRESH_SECONDS = 0.02
"""For so long a sample is not taken anew."""
_THERMOMETERS = ("x86_pkg_temp", "cpu-thermal", "cpu_thermal", "soc_thermal")
"""Those of processors that are read at once; others may ask a slow controller."""


class LoadSample(NamedTuple):
    """What the files of a machine say at one moment; None where it has no such file."""

    at: float
    load: float | None
    """Processes that ran or waited for a processor, on average over the last minute."""
    runnable: int | None
    """The same now, without whoever asks."""
    pressure: int | None
    """Microseconds in which some process waited for a processor, since the machine started."""
    memory_pressure: int | None
    """The same for memory."""
    busy: int | None
    """Ticks that the processors were busy; with *steal* and *total* from /proc/stat."""
    steal: int | None
    total: int | None
    mhz: float | None
    celsius: float | None
    throttled: int | None
    """How often the processor was slowed down to cool off."""
    governor: str | None
    gpu_mhz: float | None


class CpuFiles(NamedTuple):
    """Open files of one processor."""

    mhz: int | None
    governor: int | None
    throttled: int | None


class MachineLoad:
    """Reads what a machine does, before and after a run; a place has one for each slot.

    The files stay open, so that a sample costs some ten microseconds.
    """

    def __init__(self, proc: str = PROC, sys: str = SYS, *, nvml: str = NVML) -> None:
        """*nvml*: the library that asks NVIDIA's driver; empty where each run has its process."""
        self._sys = sys
        self._load = _opened(f"{proc}/loadavg")
        self._pressure = _opened(f"{proc}/pressure/cpu")
        self._memory_pressure = _opened(f"{proc}/pressure/memory")
        self._stat = _opened(f"{proc}/stat")
        self._celsius = _opened_thermometer(f"{sys}/class/thermal")
        self._gpu = GpuClock(proc, sys, nvml)
        self._cpus: dict[int, CpuFiles] = {}
        self._cpu = min(usable_cpus())
        self._last: LoadSample | None = None

    def sample(self, cpu: int | None = None) -> LoadSample:
        """Return what the machine does now, or did within the last milliseconds.

        The frequency is that of *cpu*; by default of the first one that this process may use.
        """
        now = time.monotonic()
        self._cpu, last = self._cpu if cpu is None else cpu, self._cpu
        # Of many short runs one sample stands for several: /proc/stat is long on large machines.
        if self._last is None or now - self._last.at >= FRESH_SECONDS or self._cpu != last:
            try:
                self._last = self._read(now)
            except (ValueError, IndexError):  # files that a container makes up
                self._last = LoadSample(now, *[None] * (len(LoadSample._fields) - 1))
        return self._last

    def unmeasured(self) -> str:
        """Return which columns of results this machine has no values for, and why."""
        cpu = self._files_of(self._cpu)
        folder = f"{self._sys}/devices/system/cpu/cpu{self._cpu}"
        sources = (
            ("host_mhz", cpu.mhz, f"no {folder}/cpufreq"),
            ("host_governor", cpu.governor, f"no {folder}/cpufreq"),
            ("host_throttled", cpu.throttled, f"no {folder}/thermal_throttle"),
            ("host_celsius", self._celsius, f"no sensor of it in {self._sys}/class/thermal"),
            ("host_pressure", self._pressure, "no /proc/pressure/cpu"),
            ("host_memory_pressure", self._memory_pressure, "no /proc/pressure/memory"),
            ("host_others, host_steal", self._stat, "no /proc/stat"),
            ("host_runnable", self._load, "no /proc/loadavg"),
            ("host_delay", processor_delay(os.getpid()), "no /proc/PID/schedstat"),
        )
        names: dict[str, list[str]] = {}
        for name, source, reason in sources:
            if source is None:
                names.setdefault(reason, []).append(name)
        if self._gpu.missing:
            names[self._gpu.missing] = ["host_gpu_mhz"]
        return "; ".join(f"{', '.join(columns)}: {reason}" for reason, columns in names.items())

    def close(self) -> None:
        """Close the files."""
        descriptors = [self._load, self._pressure, self._memory_pressure, self._stat, self._celsius]
        for descriptor in (*descriptors, *(fd for files in self._cpus.values() for fd in files)):
            if descriptor is not None:
                os.close(descriptor)

    def _files_of(self, cpu: int) -> CpuFiles:
        if cpu not in self._cpus:
            folder = f"{self._sys}/devices/system/cpu/cpu{cpu}"
            self._cpus[cpu] = CpuFiles(
                _opened(f"{folder}/cpufreq/scaling_cur_freq"),
                _opened(f"{folder}/cpufreq/scaling_governor"),
                _opened(f"{folder}/thermal_throttle/package_throttle_count"),
            )
        return self._cpus[cpu]

    def _read(self, now: float) -> LoadSample:
        load = _words(self._load)
        ticks = [int(word) for word in _words(self._stat)[1:9]]
        files = self._files_of(self._cpu)
        mhz, celsius = _words(files.mhz), _words(self._celsius)
        throttled, governor = _words(files.throttled), _words(files.governor)
        return LoadSample(
            now,
            float(load[0]) if load else _load_average(),
            max(int(load[3].partition(b"/")[0]) - 1, 0) if load else None,
            _stalled(self._pressure),
            _stalled(self._memory_pressure),
            sum(ticks) - ticks[3] - ticks[4] - ticks[7] if len(ticks) == 8 else None,
            ticks[7] if len(ticks) == 8 else None,
            sum(ticks) if len(ticks) == 8 else None,
            int(mhz[0]) / 1000 if mhz else None,
            int(celsius[0]) / 1000 if celsius else None,
            int(throttled[0]) if throttled else None,
            governor[0][:64].decode("ascii", "replace") if governor else None,
            self._gpu.read(),
        )


def unmeasured_conditions(nvml: str = NVML) -> str:
    """Return which columns of results this machine has no values for, and why."""
    machine = MachineLoad(nvml=nvml)
    try:
        return machine.unmeasured()[:_MOST_REASONS]
    finally:
        machine.close()


_MOST_REASONS = 2048
"""Characters."""


def bound_cpus(cpus: Sequence[int] | None) -> str | None:
    """Return the processors that a run is bound to, by us or whoever started us, as ``0-3,8``.

    None where it may use all of them.
    """
    if not cpus:
        cpus = sorted(usable_cpus())
        if len(cpus) >= (os.cpu_count() or 0):
            return None
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


def processor_delay(pid: int) -> float | None:
    """Return the seconds that the first thread of a process was ready and waited; also when over.

    None where the system does not tell.
    """
    words = _words_of(f"{PROC}/{pid}/schedstat")
    return int(words[1]) / 1e9 if len(words) == 3 else None


def _load_average() -> float | None:
    with suppress(OSError, AttributeError):
        return os.getloadavg()[0]
    return None


def _opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _opened_thermometer(folder: str) -> int | None:
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - pathlib is not loaded here
            words = _words_of(f"{folder}/{name}/type")
            if words and words[0].decode("ascii", "replace") in _THERMOMETERS:
                return _opened(f"{folder}/{name}/temp")
    return None


def _words_of(path: str) -> list[bytes]:
    descriptor = _opened(path)
    words = _words(descriptor)
    if descriptor is not None:
        os.close(descriptor)
    return words


def _words(descriptor: int | None) -> list[bytes]:
    """Return the words at the beginning of an open file; nothing where it cannot be read."""
    if descriptor is not None:
        with suppress(OSError):
            return os.pread(descriptor, 256, 0).split()
    return []


def _stalled(descriptor: int | None) -> int | None:
    """Return the total of the first line of a file of pressures, in microseconds."""
    words = _words(descriptor)
    return int(words[4].partition(b"=")[2]) if len(words) > 4 else None


def io_account(pid: int) -> dict[str, int]:
    """Return what a process, and those that it waited for, read and wrote; also when it is over.

    OSError where the system does not tell.
    """
    with open(f"{PROC}/{pid}/io", "rb") as file:  # noqa: PTH123 - pathlib is not loaded here
        words = [line.split() for line in file]
    return {word.decode().rstrip(":"): int(number) for word, number in words}


def proportional_bytes(pid: int) -> int | None:
    """Return the memory of a process, pages that several share divided among them (PSS)."""
    with suppress(OSError), open(f"{PROC}/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return None
