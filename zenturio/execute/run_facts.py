"""What is noted of a run: the machine's state, and limits of threads."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from zenturio.execute.gpu_clock import NVML, GpuClock
from zenturio.execute.json_checks import (
    MalformedError,
    any_text,
    boolean,
    first_of,
    integer,
    list_of,
    nullable,
    number,
    object_of,
    one_of,
    record,
    tuple_of,
)

OPENMP = "OMP_NUM_THREADS"
_FOLLOWERS = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
"""Libraries fall back to OMP_NUM_THREADS where these variables are not set."""
_OTHERS = ("VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS")
NAMES = (OPENMP, *_FOLLOWERS, *_OTHERS)
_MOST = {"NUMEXPR_NUM_THREADS": 64}
"""NumExpr refuses to be imported with more than 64."""
_LAUNCHER = re.compile(
    r"(?:^|[\s;&|(/])(?:mpirun|mpiexec|orterun|prterun|srun)(?:\.\w+)?\s([^;&|\n]*)"
)
_RANKS = re.compile(r"(?:^|\s)(?:-n|-np|--n|--np|--ntasks)[\s=]*([0-9]{1,9})(?![0-9])")


def thread_limits(
    threads: int, environment: Mapping[bytes, bytes], commands: Sequence[str]
) -> dict[bytes, bytes]:
    """Return the variables to add so that *commands* start *threads* threads in all.

    A variable that the environment or a command sets is left alone. Setting OMP_NUM_THREADS
    also covers the libraries that fall back to it. Ranks of MPI share the threads.
    """
    text = "\n".join(commands)
    assigned = {
        name for name in NAMES if os.fsencode(name) in environment or _is_assigned(name, text)
    }
    names = _OTHERS if OPENMP in assigned else NAMES
    count = max(threads // max(_ranks(command, threads) for command in commands or ("",)), 1)
    return {
        os.fsencode(name): b"%d" % min(count, _MOST.get(name, count))
        for name in names
        if name not in assigned
    }


_BINDING = {
    b"OMPI_MCA_hwloc_base_binding_policy": b"none",  # Open MPI up to 4
    b"PRTE_MCA_hwloc_default_binding_policy": b"none",  # from 5 on
}
"""What keeps an mpirun from binding its ranks: each one would begin with core 0, whichever cores
its slot has, so that several at a time share that one. MPICH binds nothing unless it is asked."""


def unbound(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the variables to add so that ranks of MPI stay on the cores of their slot.

    Where the user says how Open MPI is to bind, nothing is added.
    """
    return {} if environment.keys() & _BINDING.keys() else dict(_BINDING)


def recorded_limits(environment: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return OMP_NUM_THREADS of an experiment, and the other variables that differ from it."""
    openmp = environment.get(os.fsencode(OPENMP))
    values = {name: environment.get(os.fsencode(name)) for name in NAMES}
    return {
        name: value[:256].decode("utf-8", "replace")
        for name, value in values.items()
        if value is not None and (name == OPENMP or value != openmp)
    }


def _is_assigned(name: str, text: str) -> bool:
    """Return whether a command in *text* sets the variable *name*.

    As ``NAME=4 ./a``, ``mpirun -x NAME=4`` or ``mpiexec -genv NAME 4``.
    """
    return name in text and re.search(rf"\b{name}=|env\s+{name}\s", text) is not None


def _ranks(command: str, threads: int) -> int:
    """Return how many processes MPI starts: *threads* if the command gives no number."""
    launcher = _LAUNCHER.search(command)
    if launcher is None:
        return 1
    ranks = _RANKS.search(launcher.group(1))
    return max(int(ranks.group(1)), 1) if ranks else max(threads, 1)


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

    def __init__(self, proc: str = "/proc", sys: str = "/sys", *, nvml: str = NVML) -> None:
        """*nvml*: the library that asks NVIDIA's driver; empty where each run has its process."""
        self._sys = sys
        self._load = _opened(f"{proc}/loadavg")
        self._pressure = _opened(f"{proc}/pressure/cpu")
        self._memory_pressure = _opened(f"{proc}/pressure/memory")
        self._stat = _opened(f"{proc}/stat")
        self._celsius = _opened_thermometer(f"{sys}/class/thermal")
        self._gpu = GpuClock(proc, sys, nvml)
        self._cpus: dict[int, CpuFiles] = {}
        self._cpu = _own_cpu()
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
        if not hasattr(os, "sched_getaffinity"):
            return None
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) >= (os.cpu_count() or 0):
            return None
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


FRESH_SECONDS = 0.02
"""For so long a sample is not taken anew."""
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_THERMOMETERS = ("x86_pkg_temp", "cpu-thermal", "cpu_thermal", "soc_thermal")
"""Those of processors that are read at once; others may ask a slow controller."""


def run_load(
    before: LoadSample, after: LoadSample, ctime: float, delay: float | None
) -> dict[str, Any]:
    """Return what varied between two samples, while a run used *ctime* and waited for *delay*."""
    seconds = after.at - before.at

    def share(first: int | None, last: int | None, whole: float) -> float | None:
        if first is None or last is None or whole <= 0:
            return None
        return min(max((last - first) / whole, 0.0), 1.0)

    def difference(first: int | None, last: int | None) -> int | None:
        return None if first is None or last is None or seconds <= 0 else max(last - first, 0)

    busy, total = difference(before.busy, after.busy), difference(before.total, after.total)
    return {
        "mhz_start": before.mhz,
        "mhz_end": after.mhz,
        "celsius_start": before.celsius,
        "celsius_end": after.celsius,
        "steal": share(before.steal, after.steal, total or 0),
        "pressure": share(before.pressure, after.pressure, seconds * 1e6),
        "memory_pressure": share(before.memory_pressure, after.memory_pressure, seconds * 1e6),
        "others_ctime": None if busy is None else max(busy / _TICKS - ctime, 0.0),
        "runnable": before.runnable,
        "run_delay": delay,
        "throttled": difference(before.throttled, after.throttled),
        "governor": after.governor,
        "gpu_mhz_start": before.gpu_mhz,
        "gpu_mhz_end": after.gpu_mhz,
    }


def processor_delay(pid: int) -> float | None:
    """Return the seconds that the first thread of a process was ready and waited; also when over.

    None where the system does not tell.
    """
    words = _words_of(f"/proc/{pid}/schedstat")
    return int(words[1]) / 1e9 if len(words) == 3 else None


def _load_average() -> float | None:
    with suppress(OSError, AttributeError):
        return os.getloadavg()[0]
    return None


def _own_cpu() -> int:
    return min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


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


STOPS = ("", "timeout", "cancelled", "memory", "processes", "unstartable")
_MOMENT = number(0, 1e12)
"""Seconds since 1970."""
_SECONDS = number(-1e9, 1e12)
_SIZE = integer(0, 2**62)
_LOAD = nullable(number(0, 1e9))
"""When the run began, and when it ended."""

_THREADS = object_of(one_of(*NAMES), any_text(1024), len(NAMES))

_OBSERVED = object_of(any_text(256), first_of(number(0, 1e30), any_text(1024)), 1024)
"""Values of what OBSERVE asks for, or why there is none."""

_NUMBER = nullable(number(-1e6, 1e15))
_LOADS = record({
    **dict.fromkeys(
        ("mhz_start", "mhz_end", "celsius_start", "celsius_end", "steal", "pressure",
         "memory_pressure", "others_ctime", "run_delay", "gpu_mhz_start", "gpu_mhz_end"), _NUMBER,
    ),
    "runnable": nullable(_SIZE), "throttled": nullable(_SIZE), "governor": nullable(any_text(256)),
})  # fmt: skip
_check_reply = record({
    "stop": one_of(*STOPS), "why": any_text(4096), "step": integer(0, 2**16),
    "status": integer(-255, 255), "wtime": _SECONDS, "ctime": _SECONDS,
    "maxrss": nullable(_SIZE), "hidden": _SIZE, "started": _MOMENT, "ended": _MOMENT,
    "load": tuple_of(_LOAD, _LOAD), "sizes": tuple_of(_SIZE, _SIZE),
    "lengths": list_of(_SIZE, 4, 4),
}, {
    "threads": _THREADS, "machine": _LOADS, "cpus": integer(1, 2**16), "observed": _OBSERVED,
    "pinned": any_text(2**16), "user_mode": boolean,
})  # fmt: skip


def check_run_facts(reply: Any, steps: int) -> None:
    """MalformedError where *reply* is no account of a run of so many *steps*."""
    _check_reply(reply, "reply")
    if reply["step"] >= max(steps, 1):
        raise MalformedError(f"reply.step is {reply['step']} of {steps}")
