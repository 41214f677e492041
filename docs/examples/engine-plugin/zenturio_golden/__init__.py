"""Golden section search: the best of one ordered parameter, where there is one hill or valley."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zenturio.errors import InputError
from zenturio.search import Search, Task, Trial, setting
from zenturio.space import Point

GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class GoldenSettings:
    share: float = setting(GOLDEN, "how much of the interval is kept each time", low=0.5, high=0.9)


class Golden:
    """The best of one ordered parameter, by golden sections: where there is one valley."""

    Settings = GoldenSettings
    round = 2

    def __init__(self, task: Task, settings: GoldenSettings) -> None:
        if len(task.space.dimensions) != 1:
            raise InputError("golden is for one parameter", hint="fix the others, or take ga")
        self._task = task
        self._share = settings.share
        self._low, self._high = 0, task.space.size - 1
        self._worth: dict[Point, tuple[float, ...]] = {}

    def ask(self, limit: int) -> Sequence[Point]:
        while self._low <= self._high:
            left, right = self._cuts()
            points = [self._task.space.point(at) for at in (left, right)]
            if new := [each for each in dict.fromkeys(points) if each not in self._worth]:
                return new[:limit]
            if self._worth[points[0]] <= self._worth[points[1]]:
                self._high = right - 1
            else:
                self._low = left + 1
        return []

    def tell(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self._worth[trial.point] = self._task.goals.losses(trial.scores)

    def _cuts(self) -> tuple[int, int]:
        """Where the interval is cut; what is beyond the worse cut is dropped, and the cut too."""
        shorter = int((self._high - self._low) * (1 - self._share))
        return self._low + shorter, self._high - shorter


_: type[Search] = Golden  # what a type checker sees: it is a search
