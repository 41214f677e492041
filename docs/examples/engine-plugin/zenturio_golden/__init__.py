"""Golden section search, for one ordered parameter with a single valley."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zenturio.errors import InputError
from zenturio.search import Search, SearchProblem, Trial, setting
from zenturio.space import Point

GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class GoldenSettings:
    share: float = setting(GOLDEN, "share of the interval that each step keeps", low=0.5, high=0.9)


class Golden:
    """Golden section search: for one ordered parameter with a single valley."""

    Settings = GoldenSettings
    batch_size = 2

    def __init__(self, problem: SearchProblem, settings: GoldenSettings) -> None:
        if len(problem.space.dimensions) != 1:
            raise InputError("golden is for one parameter", hint="fix the others, or use engine ga")
        self._problem = problem
        self._share = settings.share
        self._low, self._high = 0, problem.space.size - 1
        self._losses: dict[Point, tuple[float, ...]] = {}

    def ask(self, limit: int) -> Sequence[Point]:
        while self._low <= self._high:
            left, right = self._cuts()
            points = [self._problem.space.point(number) for number in (left, right)]
            if new := [point for point in dict.fromkeys(points) if point not in self._losses]:
                return new[:limit]
            if self._losses[points[0]] <= self._losses[points[1]]:
                self._high = right - 1
            else:
                self._low = left + 1
        return []

    def tell(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self._losses[trial.point] = self._problem.directions.losses(trial.scores)

    def _cuts(self) -> tuple[int, int]:
        """Return the two inner points of the interval; the part beyond the worse one is dropped."""
        shorter = int((self._high - self._low) * (1 - self._share))
        return self._low + shorter, self._high - shorter


_: type[Search] = Golden  # lets a type checker verify the protocol
