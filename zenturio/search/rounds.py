"""An engine that may be told at any time, made of one that minds when it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from zenturio.search.objective import Trial
from zenturio.search.search import Search
from zenturio.space import Point

ROUND = 8
"""How many points such an engine is asked for at a time, if it does not say by ``round``."""


class Rounds:
    """Asks *search* for a round of points, and tells it when all of them were tried.

    What it names then depends on nothing but what came of the rounds before: not on how many
    points are tried at the same time, nor on which of them is ready first.
    """

    steady = True

    def __init__(self, search: Search, size: int = ROUND) -> None:
        self._search = search
        self._size = size
        self._left: list[Point] = []
        self._away: Counter[Point] = Counter()
        self._trials: list[Trial] = []

    def ask(self, limit: int) -> Sequence[Point]:
        if not self._left and not self._away:
            self._left = list(self._search.ask(self._size))
            self._away = Counter(self._left)
        asked, self._left = self._left[:limit], self._left[limit:]
        return asked

    def tell(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self._trials.append(trial)
            self._away[trial.point] -= 1
            if self._away[trial.point] <= 0:
                del self._away[trial.point]
            if not self._away:
                told, self._trials = self._trials, []
                self._search.tell(told)


def steady(search: Search) -> Search:
    """*search* itself if it may be told at any time, else in rounds."""
    if getattr(search, "steady", False):
        return search
    return Rounds(search, getattr(search, "round", ROUND))
