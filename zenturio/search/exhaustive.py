"""Every point, in the order of the space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice

from zenturio.errors import InputError, SpaceError
from zenturio.search.engine import SearchProblem
from zenturio.search.objective import Trial
from zenturio.search.settings import NoSettings
from zenturio.space import Point


class Exhaustive:
    """Every point of the space, one after the other: for small spaces."""

    Settings = NoSettings
    order_independent = True
    multi_objective = True

    def __init__(self, problem: SearchProblem, settings: NoSettings) -> None:
        del settings
        if not problem.space.finite:
            raise InputError(
                "a continuous space has infinitely many points",
                hint="take n points of it with LIN or LOG, or another engine: random, sobol, ga",
            )
        points = iter(problem.space)
        first = next(points, None)
        if first is None:
            raise SpaceError(
                "no point meets all constraints",
                hint="add values to the sets, or relax a constraint",
            )
        self._points = chain([first], points)

    def ask(self, limit: int) -> Sequence[Point]:
        return list(islice(self._points, limit))

    def tell(self, trials: Iterable[Trial]) -> None:
        """Ignore *trials*: the order is fixed."""
