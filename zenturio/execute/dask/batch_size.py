"""How many experiments make one task: many that are short, one that is long or not known."""

from __future__ import annotations

from math import ceil

from zenturio.execute.dask.options import LARGEST_BATCH

TASK_SECONDS = 0.25
"""Seconds that a task takes at least, about: a hundred times what it costs Dask."""
PREFETCH_SECONDS = 1.0
"""What takes longer does not mind waiting for the way of a task, and can still be taken off."""


class BatchSizer:
    """Learns how long experiments take; *together* says it instead."""

    def __init__(self, together: int | None) -> None:
        self._together = together
        self._seconds: float | None = None

    @property
    def size(self) -> int:
        """How many make a task now."""
        if self._together is not None:
            return self._together
        if self._seconds is None:
            return 1
        return min(max(int(TASK_SECONDS / max(self._seconds, 1e-4)), 1), LARGEST_BATCH)

    @property
    def sends_ahead(self) -> bool:
        """Whether the next are sent before the last are back, for the way takes its time."""
        return self.size > 1 or (self._seconds is not None and self._seconds < PREFETCH_SECONDS)

    def observe(self, seconds: float) -> None:
        """One took so long: one that fills a task is believed at once, others when they are many.

        Short ones vary by several times with what else the machine does, and add up all the same.
        """
        average = self._seconds
        if average is None or seconds >= TASK_SECONDS:
            self._seconds = seconds
        else:
            self._seconds = average * 0.9 + seconds * 0.1

    def next_size(self, waiting: int, places: int) -> int:
        """Return how many of those *waiting* go now, where there is room for so many tasks."""
        return min(self.size, ceil(waiting / max(places, 1)))
