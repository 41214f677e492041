"""Which CPUs a pinned experiment gets: some of its own."""

from __future__ import annotations

import os
from threading import Lock


class Cpus:
    """The CPUs of this process, handed out and given back."""

    def __init__(self) -> None:
        usable = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        self._all = sorted(usable(0))
        self._free = list(self._all)
        self._lock = Lock()

    def take(self, count: int) -> list[int]:
        """*count* CPUs; all of them where there are not so many left: then nobody is pinned."""
        with self._lock:
            if count > len(self._free):
                return list(self._all)
            taken, self._free = self._free[:count], self._free[count:]
            return taken

    def give_back(self, taken: list[int]) -> None:
        with self._lock:
            if taken != self._all or not self._free:
                self._free = sorted({*self._free, *taken})
