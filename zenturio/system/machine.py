"""What the machine is, how much of it this process may use, and what it does meanwhile.

It is shipped to hosts, so it knows the standard library of Python 3.9 alone.
"""

from __future__ import annotations

import glob
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from zenturio.system.platform_detection import PROC, SYS, sysctl, sysctl_number
from zenturio.system.processes import usable_cpus

# The clock of the GPUs, read in some microseconds: from sysfs, or by NVIDIA's library

NVML = "libnvidia-ml.so.1"
_DRIVER = "driver/nvidia"
"""The folder below /proc that NVIDIA's driver makes."""
_SM_CLOCK = 1
_HERTZ = ("drm/card[0-9]*/device/hwmon/hwmon*/freq1_input",)
"""Of amdgpu."""
_MEGAHERTZ = (
    "drm/card[0-9]*/gt/gt0/rps_act_freq_mhz",  # i915
    "drm/card[0-9]*/device/tile0/gt0/freq0/act_freq",  # xe
)
SHARE = 0.01
"""The share of the time that readings may take."""


class GpuClock:
    """Reads the frequency of the fastest GPU, where one tells it."""

    def __init__(self, proc: str = PROC, sys: str = SYS, library: str = NVML) -> None:
        """*library*: what asks NVIDIA's driver; it takes a while to load. None if it is empty."""
        folder = f"{sys}/class"
        self._files = [
            (path, scale)
            for patterns, scale in ((_HERTZ, 1e-6), (_MEGAHERTZ, 1.0))
            for pattern in patterns
            for path in glob.glob(f"{folder}/{pattern}")  # noqa: PTH207 - pathlib is slower to load
        ]
        self.missing = "" if self._files else f"no GPU in {folder}/drm tells it"
        self._next = 0.0
        self._nvml: Callable[[], list[float]] | None = None
        if os.path.isdir(f"{proc}/{_DRIVER}"):  # noqa: PTH112 - as above
            self.missing = f"{NVML} takes too long to load for each run"
            if library:
                self._ask_nvidia(library)

    def _ask_nvidia(self, library: str) -> None:
        try:
            self._nvml = _nvml_reader(library)
            self.missing = ""
        except (OSError, AttributeError) as error:
            self.missing = f"{NVML}: {error}"

    def read(self) -> float | None:
        """Return MHz; None where no GPU tells it, or where asking would take too long now."""
        if self.missing:
            return None
        begun = time.monotonic()
        if begun < self._next:
            return None
        clocks = self._nvml() if self._nvml is not None else []
        for path, scale in self._files:
            with suppress(OSError, ValueError), open(path, "rb") as file:  # noqa: PTH123
                clocks.append(int(file.read(64)) * scale)
        ended = time.monotonic()
        self._next = ended + (ended - begun) / SHARE
        return max(clocks, default=None)


def _nvml_reader(library: str) -> Callable[[], list[float]]:
    """Return what reads the clocks of all GPUs; OSError where the library cannot."""
    import ctypes  # noqa: PLC0415 - few machines have such a GPU

    nvml = ctypes.CDLL(library)
    status = nvml.nvmlInit_v2()
    if status:
        raise OSError(f"nvmlInit_v2 answers {status}")
    count = ctypes.c_uint()
    status = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    if status or not count.value:
        raise OSError(f"nvmlDeviceGetCount_v2 answers {status}, and {count.value} GPUs")
    devices = []
    for number in range(count.value):
        device = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device)) == 0:
            devices.append(device)

    def read() -> list[float]:
        clock = ctypes.c_uint()
        return [
            float(clock.value)
            for device in devices
            if nvml.nvmlDeviceGetClockInfo(device, _SM_CLOCK, ctypes.byref(clock)) == 0
        ]

    return read


# Load: what the machine does while experiments run, and what the kernel counts for a process

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
    """The same now, without the calling process."""
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

    The files stay open, so that a sample costs about ten microseconds.
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


# Facts: processors and memory that this process may use

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

    In a container, the path may be the host's, which does not exist there: then the root of the
    mount is the container's own group.
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

    0 if unknown.
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
