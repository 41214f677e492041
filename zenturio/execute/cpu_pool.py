"""Which CPUs a pinned experiment gets: some of its own."""

from __future__ import annotations

import os


class CpuPool:
    """The CPUs of this process, handed out and given back."""

    def __init__(self) -> None:
        usable = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        self.every = sorted(usable(0))
        self._free = list(self.every)

    def take(self, count: int) -> list[int]:
        """*count* CPUs; nothing where there are not so many left."""
        if count > len(self._free):
            return []
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def give_back(self, taken: list[int]) -> None:
        self._free = sorted(self._free + taken)
