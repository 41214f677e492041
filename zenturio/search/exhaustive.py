"""Every point, in the order of the space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice

from zenturio.errors import InputError, SpaceError
from zenturio.search.objective import Trial
from zenturio.search.search import Task
from zenturio.search.settings import NoSettings
from zenturio.space import Point


class Exhaustive:
    """Every point of the space, one after the other: for small spaces, and to be sure."""

    Settings = NoSettings
    steady = True
    several = True

    def __init__(self, task: Task, settings: NoSettings) -> None:
        del settings
        if not task.space.finite:
            raise InputError(
                "a continuous space has no end",
                hint="take n points of it with LIN or LOG, or another engine: random, sobol, ga",
            )
        points = iter(task.space)
        first = next(points, None)
        if first is None:
            raise SpaceError(
                "no point keeps all constraints", hint="let the sets hold more, or demand less"
            )
        self._points = chain([first], points)

    def ask(self, limit: int) -> Sequence[Point]:
        return list(islice(self._points, limit))

    def tell(self, trials: Iterable[Trial]) -> None:
        """There is nothing to learn."""
