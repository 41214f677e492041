"""An adapter for engines whose proposals depend on when they are told of trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from zenturio.search.engine import Search
from zenturio.search.objective import Trial
from zenturio.space import Point

BATCH_SIZE = 8
"""Points in a batch of an engine without ``batch_size``."""


class Batched:
    """Asks an engine for one batch of points at a time, and tells it when the batch is complete.

    So its proposals depend on the trials of earlier batches alone: not on the number of slots, nor
    on which evaluation finishes first.
    """

    order_independent = True

    def __init__(self, search: Search, size: int = BATCH_SIZE) -> None:
        self._search = search
        self._size = size
        self._waiting: list[Point] = []
        self._pending: Counter[Point] = Counter()
        self._trials: list[Trial] = []

    def ask(self, limit: int) -> Sequence[Point]:
        # The engine is asked for the full size whatever *limit* is: otherwise its proposals would
        # depend on the number of free slots.
        if not self._waiting and not self._pending:
            self._waiting = list(self._search.ask(self._size))
            self._pending = Counter(self._waiting)
        points, self._waiting = self._waiting[:limit], self._waiting[limit:]
        return points

    def tell(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self._trials.append(trial)
            # Trials of points that were not asked for count -1 and vanish below; they are still
            # told.
            self._pending[trial.point] -= 1
            if self._pending[trial.point] <= 0:
                del self._pending[trial.point]
            if not self._pending:
                batch, self._trials = self._trials, []
                self._search.tell(batch)


def order_independent(search: Search) -> Search:
    """Return *search* itself if it is order-independent, else wrapped in ``Batched``."""
    if getattr(search, "order_independent", False):
        return search
    return Batched(search, getattr(search, "batch_size", BATCH_SIZE))
