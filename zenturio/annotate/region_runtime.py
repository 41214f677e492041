"""What regions of Python take: written into the file itself, which need not import anything."""

from __future__ import annotations

import atexit
import json
import os
import resource
import struct
import sys
import threading
import time


class Own(threading.local):
    """What a thread has of each region: how deep it is in it, and when it came in."""

    def __init__(self) -> None:
        self.rounds: dict[Region, list[float]] = {}
        self.counters: dict[Region, Counters] = {}


class Counters:
    """The events of a region, as they are counted for one thread; -1 for one that is not.

    An event is a metric's name, its type and number, and what one count is in the metric's unit.
    """

    def __init__(
        self, events: tuple[tuple[str, int, int, float], ...], calls: dict[str, int]
    ) -> None:
        import ctypes  # noqa: PLC0415 - most regions count nothing

        libc = ctypes.CDLL(None)
        call = ctypes.c_long(calls.get(os.uname().machine, -1))
        none, close = ctypes.c_long(-1), ctypes.c_long(8)
        self.files: list[int] = []
        for _, kind, config, _ in events:
            file = -1
            for flags in (0, 0x60):  # in user mode alone where the kernel's is not allowed
                if file < 0:
                    asked = struct.pack("=IIQQQQQIIQ", kind, 64, config, 0, 0, 3, flags, 0, 0, 0)
                    file = libc.syscall(call, asked, ctypes.c_long(0), none, none, close)
            self.files.append(file)
        self.begun: list[float] = []

    def read(self) -> list[float]:
        values = []
        for file in self.files:
            count, enabled, running = (0, 0, 0)
            if file >= 0:
                count, enabled, running = struct.unpack("=QQQ", os.read(file, 24))
            values.append(count * enabled / running if running < enabled and running else count)
        return values

    def __del__(self) -> None:
        for file in self.files:
            if file >= 0:
                os.close(file)


lock = threading.RLock()
own = Own()
regions: dict[tuple[str, tuple[str, ...]], Region] = {}


class Region:
    """What all rounds of a region took, in all threads."""

    def __init__(self, name: str, probes: tuple[str, ...]) -> None:
        self.name, self.probes = name, probes
        self.active = self.count = self.spans = self.unfinished = self.size = 0
        self.since = self.span = self.wall = self.cpu = 0.0
        self.events: tuple[tuple[str, int, int, float], ...] = ()
        self.calls: dict[str, int] = {}
        self.counted: list[float] = []
        self.uncounted: set[int] = set()


class Round:
    """One round; it ends with its variable, however that goes away."""

    __slots__ = ("region", "running")

    def __init__(self, region: Region) -> None:
        self.region, self.running = region, True

    def leave(self) -> None:
        if self.running:
            self.running = False
            leave(self.region)

    __del__ = leave


def enter(
    name: str,
    probes: tuple[str, ...],
    events: tuple[tuple[str, int, int, float], ...] = (),
    calls: dict[str, int] | None = None,
) -> Round:
    region = regions.get((name, probes))
    if region is None:
        with lock:
            region = regions.setdefault((name, probes), Region(name, probes))
            region.events, region.calls = events, calls or {}
            region.counted = [0.0] * len(events)
            children = sys.modules.get("multiprocessing.util")
            if children is not None:  # its processes end without atexit
                children.Finalize(None, report, exitpriority=10)
    return begin(region)


def begin(region: Region) -> Round:
    mine = own.rounds.setdefault(region, [0, 0.0, 0.0])
    mine[0] += 1
    begun = Round(region)
    if mine[0] == 1:
        with lock:
            region.active += 1
            if region.active == 1:
                region.since = time.perf_counter()
        if region.events:
            counters = own.counters.get(region)
            if counters is None:
                counters = own.counters[region] = Counters(region.events, region.calls)
                region.uncounted.update(at for at, file in enumerate(counters.files) if file < 0)
            counters.begun = counters.read()
        mine[2] = time.thread_time()
        mine[1] = time.perf_counter()
    return begun


def leave(region: Region) -> None:
    wall, cpu = time.perf_counter(), time.thread_time()
    mine = own.rounds.setdefault(region, [0, 0.0, 0.0])
    mine[0] -= 1
    if mine[0] != 0:
        return
    counters = own.counters.get(region)
    now = counters.read() if counters else []
    with lock:
        for at, value in enumerate(now):
            region.counted[at] += value - (counters.begun[at] if counters else 0)
        region.count += 1
        region.wall += wall - mine[1]
        region.cpu += cpu - mine[2]
        region.active -= 1
        if region.active == 0:
            region.spans += 1
            region.span += wall - region.since
    if "MAXRSS" in region.probes:
        unit = 1 if sys.platform == "darwin" else 1024
        region.size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def overhead(events: tuple[tuple[str, int, int, float], ...], calls: dict[str, int]) -> list[float]:
    """What an empty round seems to take, and to count: the least of some."""
    least = [1.0, 1.0, 1.0] + [1e18] * len(events)
    for _ in range(10):
        empty = Region("", ())
        empty.events, empty.calls, empty.counted = events, calls, [0.0] * len(events)
        for _ in range(20):
            begin(empty).leave()
        told = (empty.span, empty.wall, empty.cpu, *empty.counted)
        least = [min(least[i], told[i] / 20) for i in range(len(least))]
        own.counters.pop(empty, None)
        own.rounds.pop(empty, None)
    return least


def report() -> None:
    path = os.environ.get("ZEN_METRICS")
    ended = list(regions.values())
    regions.clear()
    for region in ended:
        mine = own.rounds.get(region, [0])
        if mine[0] > 0:
            mine[0] = 1
            region.unfinished += 1
            leave(region)
        if region.active:
            region.unfinished += region.active
            region.span += time.perf_counter() - region.since
        if path and (region.count or region.active):
            write(path, region)


def write(path: str, region: Region) -> None:
    span, wall, cpu, *counted = overhead(region.events, region.calls)
    span = max(region.span - region.spans * span, 0.0)
    values: dict[str, float] = {}
    for probe in region.probes:
        if probe == "WTIME":
            values["wtime"] = span
            values["wtime_sum"] = max(region.wall - region.count * wall, span)
        elif probe == "CTIME":
            values["ctime"] = max(region.cpu - region.count * cpu, 0.0)
        else:
            values["maxrss"] = region.size
    for at, (name, _, _, scale) in enumerate(region.events):
        if at not in region.uncounted:
            values[name] = max(region.counted[at] - region.count * counted[at], 0.0) * scale
    values.update(count=region.count, unfinished=region.unfinished)
    with open(path, "a") as file:  # noqa: PTH123 - for any Python 3
        file.write(json.dumps({region.name + "_" + n: v for n, v in values.items()}) + "\n")


def renew() -> None:
    """In a forked child, which has none of its parent's rounds."""
    global lock, own
    lock, own = threading.RLock(), Own()
    regions.clear()


atexit.register(report)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=renew)
