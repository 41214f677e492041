"""
Events that processors and the kernel count, as ``perf list`` names them.

Hosts get this file, too: only the standard library of Python 3.9 is used here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

HARDWARE, SOFTWARE, CACHE, RAW = 0, 1, 3, 4


class CounterEvent(NamedTuple):
    """The events for perf_event_open(2), with the constants of linux/perf_event.h."""

    type: int
    config: int
    unit: str = ""
    scale: float = 1
    """One count in this unit."""


def _cache_events() -> Mapping[str, CounterEvent]:
    """Loads, stores and prefetches of each cache, and those of them that missed."""
    caches = {"L1-dcache": 0, "L1-icache": 1, "LLC": 2, "dTLB": 3, "iTLB": 4, "node": 6}
    operations = {"load": 0, "store": 1, "prefetch": 2}
    return {
        f"{cache}-{operation}{ending}": CounterEvent(CACHE, at | kind << 8 | missed << 16)
        for cache, at in caches.items()
        for operation, kind in operations.items()
        for missed, ending in enumerate(("es" if operation.endswith("h") else "s", "-misses"))
    }


EVENTS: Mapping[str, CounterEvent] = {
    "cycles": CounterEvent(HARDWARE, 0),
    "instructions": CounterEvent(HARDWARE, 1),
    "cache-references": CounterEvent(HARDWARE, 2),
    "cache-misses": CounterEvent(HARDWARE, 3),
    "branches": CounterEvent(HARDWARE, 4),
    "branch-misses": CounterEvent(HARDWARE, 5),
    "bus-cycles": CounterEvent(HARDWARE, 6),
    "stalled-cycles-frontend": CounterEvent(HARDWARE, 7),
    "stalled-cycles-backend": CounterEvent(HARDWARE, 8),
    "ref-cycles": CounterEvent(HARDWARE, 9),
    "task-clock": CounterEvent(SOFTWARE, 1, "s", 1e-9),
    "page-faults": CounterEvent(SOFTWARE, 2),
    "context-switches": CounterEvent(SOFTWARE, 3),
    "cpu-migrations": CounterEvent(SOFTWARE, 4),
    "minor-faults": CounterEvent(SOFTWARE, 5),
    "major-faults": CounterEvent(SOFTWARE, 6),
    **_cache_events(),
}
SYSCALLS: Mapping[str, int] = {
    "x86_64": 298, "aarch64": 241, "riscv64": 241, "loongarch64": 241, "ppc64le": 319,
    "s390x": 331, "i686": 336, "armv7l": 364,
}  # fmt: skip
"""The number of perf_event_open(2) by machine; the C library has no function for it."""
_RAW = re.compile(r"r([0-9a-f]{1,16})")
"""An event by the number that the processor's manual gives it, as perf writes it: ``r01c2``."""


def counter_event(name: str) -> CounterEvent | None:
    """Return the event named *name*; None if there is none."""
    raw = _RAW.fullmatch(name)
    return CounterEvent(RAW, int(raw.group(1), 16)) if raw else EVENTS.get(name)


def counter_metric(name: str) -> str:
    """Return how the metric of an event is called: a word that formulas can name."""
    return name.replace("-", "_").lower()
