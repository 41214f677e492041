"""
Observers of a run, for the metrics of OBSERVE: counters, energy, accelerators, input and output,
memory.

An observer answers each of its metrics with a number, or with the reason why it has none. Hosts get
this file, too: only the standard library of Python 3.9 is used here.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Union

from zenturio.annotate.counter_events import (
    HARDWARE,
    SOFTWARE,
    SYSCALLS,
    CounterEvent,
    counter_event,
)
from zenturio.system import processes
from zenturio.system.machine import PERF_PARANOID, io_account, proportional_bytes
from zenturio.system.platform_detection import IS_LINUX, PROC, SYS

if TYPE_CHECKING:
    import subprocess

Reading = Union[int, float, str]  # noqa: UP007 - Python 3.9 evaluates it
"""A value, or the reason why there is none."""
NOT_OBSERVED = "nothing was observed: no command was started"
_NEVER = float("inf")


class RunObserver:
    """One kind of measurement of one run: begun before its first command, ended behind its last."""

    next_sample = _NEVER
    """The monotonic time of the next call of `sample`."""
    own_process = 0
    """A process that measures, and is no part of the run."""
    user_mode = False
    """Whether events were counted in user mode alone."""

    def begin(self) -> None:
        """Begin; nothing of the run exists yet."""

    def sample(self) -> None:
        """Look at the run while it lasts."""

    def before_reaping(self, pid: int) -> None:
        """Read the counters of an exited process of the run before it is reaped."""

    def end(self) -> dict[str, Reading]:
        """End; return what each metric is. All that was opened is closed."""
        raise NotImplementedError


class RunObservers:
    """The observers of one run."""

    def __init__(
        self, metrics: Mapping[str, str], *, shared: bool, environment: Mapping[bytes, bytes]
    ) -> None:
        """*metrics* by name: ``perf cycles``, ``energy``, ...

        *shared*: others of our runs may use the machine meanwhile. *environment*: the run's.
        """
        events: dict[str, dict[str, str]] = {}
        for name, observed in metrics.items():
            observer, _, event = observed.partition(" ")
            events.setdefault(observer, {})[name] = event
        observers: dict[str, Callable[[], RunObserver]] = {
            # Counters begin last, so that they do not count the process that watches a GPU.
            "gpu": lambda: GpuObserver(shared=shared, environment=environment),
            "energy": lambda: EnergyObserver(shared=shared),
            "io": IoObserver,
            "memory": lambda: MemoryObserver(self.owns),
            "region": lambda: MissingRegionCounts(events["region"]),
            "perf": lambda: PerfObserver(events["perf"]),
        }
        self._observers = [make() for name, make in observers.items() if name in events]
        self._names = tuple(metrics)
        self.readings: dict[str, Reading] = {}
        self.user_mode = False
        """Whether counters saw user mode alone."""

    def begin(self) -> None:
        for observer in self._observers:
            observer.begin()

    @property
    def next_sample(self) -> float:
        return min((observer.next_sample for observer in self._observers), default=_NEVER)

    def sample(self) -> None:
        """Let those look whose time has come."""
        now = time.monotonic()
        for observer in self._observers:
            if now >= observer.next_sample:
                observer.sample()

    def reap(self) -> None:
        """Look at what has ended, before it is waited for."""
        if IS_LINUX and any(isinstance(observer, IoObserver) for observer in self._observers):
            with suppress(ChildProcessError):
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is not None:
                    for observer in self._observers:
                        observer.before_reaping(ended.si_pid)

    def owns(self, pid: int) -> bool:
        """Return whether *pid* is a process of an observer."""
        return pid > 0 and any(observer.own_process == pid for observer in self._observers)

    def end(self) -> None:
        """End all, once: *readings* has a value or a reason for each metric."""
        observers, self._observers = self._observers, []
        for observer in observers:
            self.readings.update(observer.end())
            self.user_mode |= observer.user_mode
        for name in self._names:
            self.readings.setdefault(name, NOT_OBSERVED)


_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
"""struct perf_event_attr in its first version, of 64 bytes."""
_DISABLED, _INHERIT, _ENABLE_ON_EXEC = 1 << 0, 1 << 1, 1 << 12
_NOT_KERNEL = 1 << 5 | 1 << 6
"""Neither the kernel nor a hypervisor."""
_TIMES = 1 << 0 | 1 << 1
_CLOSE_ON_EXEC = 1 << 3
_PMU = f"{SYS}/bus/event_source/devices"


class PerfObserver(RunObserver):
    """Counts events of all processes and threads of the run, as ``perf stat`` does.

    The events are opened for this process, disabled, and inherited by its children: each begins to
    count with the program that the child executes. So no process stands between us and the run:
    its exit status, its times and its size are its own (perf answers 0 for a program that a signal
    killed). Where more events are asked for than the processor has counters, the kernel takes turns
    and each count is scaled by its share of the time, as perf does.
    """

    def __init__(self, events: Mapping[str, str]) -> None:
        self._events = events
        self._open: dict[str, int] = {}
        self._reasons: dict[str, Reading] = {}

    def begin(self) -> None:
        for name, text in self._events.items():
            event = counter_event(text)
            if event is None:
                self._reasons[name] = f"no event is named {text}"
                continue
            try:
                self._open[name] = self._opened(event)
            except OSError as error:
                self._reasons[name] = counter_fault(text, error.errno or 0)

    def _opened(self, event: CounterEvent) -> int:
        try:
            return open_counter(event)
        except PermissionError:
            descriptor = open_counter(event, _NOT_KERNEL)  # which perf_event_paranoid 2 allows
            self.user_mode = True
            return descriptor

    def end(self) -> dict[str, Reading]:
        readings = dict(self._reasons)
        for name, descriptor in self._open.items():
            event = counter_event(self._events[name])
            assert event is not None, "it was opened"
            count, enabled, running = struct.unpack("=QQQ", os.read(descriptor, 24))
            os.close(descriptor)
            if not enabled:
                readings[name] = NOT_OBSERVED
            elif not running:
                readings[name] = f"{self._events[name]} never got one of the processor's counters"
            else:
                scaled = count if running == enabled else round(count * enabled / running)
                readings[name] = scaled if event.scale == 1 else scaled * event.scale
        self._open = {}
        return readings


class MissingRegionCounts(PerfObserver):
    """Says why the program cannot count events in its regions, which it does itself."""

    def end(self) -> dict[str, Reading]:
        for descriptor in self._open.values():
            os.close(descriptor)
        return {**dict.fromkeys(self._events, NOT_COUNTED), **self._reasons}


NOT_COUNTED = "the program did not go through the region, or was ended before it wrote its counts"


def open_counter(event: CounterEvent, flags: int = 0) -> int:
    """Return a descriptor that counts *event* for what this process executes; or OSError."""
    number = SYSCALLS.get(os.uname().machine)
    if number is None or not os.path.exists(PERF_PARANOID):  # noqa: PTH110 - pathlib is not loaded here
        raise OSError(errno.ENOSYS, "no perf_event_open")
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = ctypes.create_string_buffer(
        _ATTRIBUTES.pack(
            event.type, _ATTRIBUTES.size, event.config, 0, 0, _TIMES,
            _DISABLED | _INHERIT | _ENABLE_ON_EXEC | flags, 0, 0, 0,
        ), _ATTRIBUTES.size,
    )  # fmt: skip
    anywhere, no_group = ctypes.c_int(-1), ctypes.c_int(-1)
    descriptor: int = libc.syscall(
        ctypes.c_long(number), attributes, ctypes.c_int(0), anywhere, no_group,
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )  # fmt: skip
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


def counter_fault(event: str, number: int, pmu: str = _PMU, paranoid: str = PERF_PARANOID) -> str:
    """Return why *event* cannot be counted, from the errno of perf_event_open and the machine."""
    if number in (errno.EACCES, errno.EPERM):
        level = _first_word(paranoid)
        if level.lstrip("-").isdigit() and int(level) > 2:
            return (
                f"perf_event_paranoid is {level}: sysctl kernel.perf_event_paranoid=2 lets users"
                " count"
            )
        return f"{event} may not be counted though perf_event_paranoid is {level}: by a container?"
    if number == errno.ENOSYS:
        return "this system has no perf_event_open"
    if number == errno.EMFILE:
        return "too many files are open to count events"
    counted = counter_event(event)
    if counted is not None and counted.type != SOFTWARE and not _has_pmu(pmu):
        return "this machine gives no access to counters of its processor: it is virtual"
    if counted is not None and counted.type == HARDWARE:
        return f"this processor does not count {event}"
    return f"this processor has no event {event}: perf list names those that it has"


def _has_pmu(folder: str) -> bool:
    """Return whether the kernel knows the counters of a processor (of its cores, if several)."""
    with suppress(OSError):
        return any(name.startswith(("cpu", "armv", "apple")) for name in os.listdir(folder))  # noqa: PTH208
    return False


_POWERCAP = f"{SYS}/class/powercap"
_ENERGY_SECONDS = 20.0
"""A counter of 65 kJ, as older processors have, wraps after a minute of a kilowatt."""
_DOMAINS = {"energy": ("package", "processors"), "energy_dram": ("dram", "memory")}
"""How the names of the zones begin that each metric is the sum of, and what they are."""


class EnergyObserver(RunObserver):
    """Energy of the processors and their memory (RAPL), as the kernel's powercap tells it."""

    def __init__(self, folder: str = _POWERCAP, *, shared: bool = False) -> None:
        self._folder = folder
        self._shared = shared
        self._zones: dict[str, tuple[str, int]] = {}
        """By folder: the metric that it belongs to, and microjoules at the last look."""
        self._joules: dict[str, float] = {}
        self._reasons: dict[str, Reading] = {}

    def begin(self) -> None:
        zones: list[str] = []
        with suppress(OSError):
            zones = sorted(os.listdir(self._folder))  # noqa: PTH208 - pathlib is not loaded here
        # On some machines /sys has a second path to the same counters, by memory-mapped I/O.
        zones = [zone for zone in zones if not zone.startswith("intel-rapl-mmio")]
        for metric, (prefix, domain) in _DOMAINS.items():
            self._reasons[metric] = f"this machine does not report the energy of its {domain}"
            for zone in zones:
                folder = f"{self._folder}/{zone}"
                if _first_word(f"{folder}/name").startswith(prefix):
                    self._begin_zone(metric, folder)
        self.next_sample = time.monotonic() + _ENERGY_SECONDS if self._zones else _NEVER

    def _begin_zone(self, metric: str, folder: str) -> None:
        try:
            self._zones[folder] = metric, _whole_number(f"{folder}/energy_uj")
            self._joules.setdefault(metric, 0.0)
        except OSError as error:
            self._fail(metric, folder, error)

    def _fail(self, metric: str, folder: str, error: OSError) -> None:
        """Fail as a whole: a sum without one of its zones would be too small."""
        self._joules[metric] = math.nan
        self._reasons[metric] = (
            f"{folder}/energy_uj cannot be read ({error.strerror}): root may allow it, by chmod a+r"
        )

    def sample(self) -> None:
        self.next_sample = time.monotonic() + _ENERGY_SECONDS
        for folder, (metric, before) in self._zones.items():
            try:
                now = _whole_number(f"{folder}/energy_uj")
                # A counter that has come to its end begins again at 0.
                span = _whole_number(f"{folder}/max_energy_range_uj") if now < before else 0
            except OSError as error:
                self._fail(metric, folder, error)
                continue
            self._zones[folder] = metric, now
            self._joules[metric] += (now - before + span) * 1e-6

    def end(self) -> dict[str, Reading]:
        self.sample()
        measured: dict[str, Reading] = {
            metric: SHARED if self._shared else joules
            for metric, joules in self._joules.items()
            if not math.isnan(joules)
        }
        return {**self._reasons, **measured}


SHARED = "several experiments may run at a time, and the machine counts for all: use -j 1"
_IO = {
    "io_read": "rchar", "io_write": "wchar",
    "io_disk_read": "read_bytes", "io_disk_write": "write_bytes",
}  # fmt: skip


def _unreadable(name: str) -> str:
    if not IS_LINUX:
        return "only Linux reports it"
    return f"{PROC}/PID/{name} cannot be read"


class IoObserver(RunObserver):
    """Bytes read and written by the run: all that its processes did, and those they waited for.

    The kernel adds the account of a process to that of its parent when it is waited for. So the
    accounts of our own children, read when they have ended, are those of the whole run.
    """

    def __init__(self) -> None:
        self._sums: dict[str, int] = {}
        self._reason = NOT_OBSERVED if IS_LINUX else _unreadable("io")

    def before_reaping(self, pid: int) -> None:
        try:
            account = io_account(pid)
        except OSError as error:
            self._reason = f"{_unreadable('io')}: {error.strerror}"
            return
        # What was written and deleted before it came to a disk was never written there.
        account["write_bytes"] -= account.get("cancelled_write_bytes", 0)
        for metric, key in _IO.items():
            self._sums[metric] = self._sums.get(metric, 0) + max(account[key], 0)

    def end(self) -> dict[str, Reading]:
        return {name: self._sums.get(name, self._reason) for name in _IO}


_FIRST_LOOK_SECONDS = 0.005
_LEAST_PAUSE_SECONDS = 0.02
_COST = 0.01
"""Looks take this share of the time at most."""


class MemoryObserver(RunObserver):
    """The memory of all processes together, shared pages counted once (PSS), sampled."""

    def __init__(self, is_own: Callable[[int], bool] = lambda _pid: False) -> None:
        """*is_own*: returns whether a child process does not belong to the run."""
        self._is_own = is_own
        self._peak = 0
        self._sum = self._seconds = 0.0
        self._last = (0.0, 0)
        self._reason = (
            f"the run ended before its memory was first read, after "
            f"{_FIRST_LOOK_SECONDS * 1000:g} ms"
        )

    def begin(self) -> None:
        self.next_sample = time.monotonic() + _FIRST_LOOK_SECONDS

    def sample(self) -> None:
        begun = time.monotonic()
        members = processes.descendants(os.getpid())
        sizes = [proportional_bytes(pid) for pid in members if not self._is_own(pid)]
        ended = time.monotonic()
        self.next_sample = ended + max(_LEAST_PAUSE_SECONDS, (ended - begun) / _COST)
        readable = [size for size in sizes if size is not None]
        if not readable:
            if sizes:
                self._reason = _unreadable("smaps_rollup")
            return
        self._add(begun)
        self._last = (begun, sum(readable))
        self._peak = max(self._peak, sum(readable))

    def _add(self, now: float) -> None:
        """Count the last size for the time since it was seen."""
        since, size = self._last
        if since:
            self._sum += size * (now - since)
            self._seconds += now - since

    def end(self) -> dict[str, Reading]:
        self._add(time.monotonic())
        if not self._peak:
            return dict.fromkeys(("memory_peak", "memory_mean"), self._reason)
        mean = self._sum / self._seconds if self._seconds > 0 else self._peak
        return {"memory_peak": self._peak, "memory_mean": mean}


_GPU_MILLISECONDS = 100
_GPU_READ_SECONDS = 5.0
"""A pipe holds what it prints in half a minute, of eight GPUs."""
_GPU_FIELDS = ("index", "uuid", "power.draw", "utilization.gpu", "memory.used", "clocks.sm")
_GPU_METRICS = ("gpu_energy", "gpu_utilization", "gpu_memory", "gpu_mhz")


class GpuObserver(RunObserver):
    """What nvidia-smi tells of the GPUs that the run may use, ten times a second."""

    def __init__(
        self, tool: str = "", *, shared: bool = False, environment: Mapping[bytes, bytes] = {}
    ) -> None:
        self._tool = tool
        self._shared = shared
        visible = environment.get(b"CUDA_VISIBLE_DEVICES")
        self._visible = None if visible is None else visible.decode("ascii", "replace").split(",")
        self._process: subprocess.Popen[bytes] | None = None
        self._is_installed = False
        self._output = b""
        self._since = 0.0

    def begin(self) -> None:
        import shutil  # noqa: PLC0415 - each launcher would load it, and few have a GPU
        import subprocess  # noqa: PLC0415

        tool = self._tool or shutil.which("nvidia-smi")
        self._since = time.monotonic()
        self._is_installed = bool(tool)
        if not tool or self._shared:
            return
        words = [
            tool, f"--query-gpu={','.join(_GPU_FIELDS)}", "--format=csv,noheader,nounits",
            f"--loop-ms={_GPU_MILLISECONDS}",
        ]  # fmt: skip
        with suppress(OSError):
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            assert self._process.stdout is not None, "it is a pipe"
            os.set_blocking(self._process.stdout.fileno(), False)
            self.own_process = self._process.pid
            self.next_sample = self._since + _GPU_READ_SECONDS

    def sample(self) -> None:
        """Take what it printed out of the pipe, which would stop it when full."""
        self.next_sample = time.monotonic() + _GPU_READ_SECONDS
        if self._process is not None and self._process.stdout is not None:
            self._output += self._process.stdout.read() or b""

    def end(self) -> dict[str, Reading]:
        if self._process is None:
            reason = SHARED if self._is_installed else "nvidia-smi is not installed"
            return dict.fromkeys(_GPU_METRICS, reason)
        seconds = time.monotonic() - self._since
        self._process.kill()
        self._process.wait()
        self.sample()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self.own_process = 0
        return gpu_readings(self._output.decode("utf-8", "replace"), seconds, self._visible)


def gpu_readings(
    output: str, seconds: float, visible: Sequence[str] | None = None
) -> dict[str, Reading]:
    """Return the metrics of a run of so many *seconds* from what nvidia-smi printed meanwhile.

    Energies and sizes of several GPUs are added; utilization and frequency are means.
    """
    samples: dict[str, list[list[str]]] = {}
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(_GPU_FIELDS) and (
            visible is None or cells[0] in visible or cells[1] in visible
        ):
            samples.setdefault(cells[0], []).append(cells[2:])
    if not samples:
        message = next((line.strip() for line in output.splitlines() if "," not in line), "")
        reason = f"nvidia-smi: {message[:200] or 'it reported no GPU of the run'}"
        return dict.fromkeys(_GPU_METRICS, reason)
    values: dict[str, Reading] = {}
    for at, name in enumerate(_GPU_METRICS):
        column = [_numbers(rows, at) for rows in samples.values()]
        if not all(column):
            values[name] = "nvidia-smi says [N/A]"
        elif name == "gpu_energy":
            values[name] = sum(sum(watts) / len(watts) for watts in column) * seconds
        elif name == "gpu_memory":
            values[name] = int(sum(max(sizes) for sizes in column) * 2**20)
        else:
            mean = sum(sum(numbers) / len(numbers) for numbers in column) / len(column)
            values[name] = mean / 100 if name == "gpu_utilization" else mean
    return values


def _numbers(rows: Sequence[Sequence[str]], at: int) -> list[float]:
    numbers = []
    for row in rows:
        with suppress(ValueError):  # [N/A], where a GPU does not tell
            numbers.append(float(row[at]))
    return numbers


def _first_word(path: str) -> str:
    with suppress(OSError, IndexError), open(path, "rb") as file:  # noqa: PTH123
        return file.read(256).split()[0].decode("ascii", "replace")
    return ""


def _whole_number(path: str) -> int:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib is not loaded here
        digits = file.read(64).strip()
    if not digits.isdigit():
        raise OSError(errno.EINVAL, "it holds no number")
    return int(digits)
