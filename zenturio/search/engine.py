"""The seam of search engines: the ask-and-tell protocol, and how an engine is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from zenturio.search.objective import Directions, Trial
from zenturio.space import Point, Space


class Search(Protocol):
    """Proposes points and learns from trials. It never runs, stores or prints anything."""

    def ask(self, limit: int) -> Sequence[Point]:
        """Return up to *limit* points to evaluate.

        An empty answer means: the search waits for trials of points that it returned before. If
        no such point is pending, the search is over.
        """
        ...

    def tell(self, trials: Iterable[Trial]) -> None:
        """Learn from *trials*; some may be of points that this search did not ask for."""
        ...


@dataclass(frozen=True)
class SearchProblem:
    """What an engine is made for: a space, directions, a seed and limits."""

    space: Space
    directions: Directions = field(default_factory=Directions)
    seed: int = 0
    budget: int | None = None
    """The largest number of trials; an engine may plan with it."""
    allow_repeats: bool = False
    """Whether the engine may propose a point that was evaluated before."""


class Engine(Protocol):
    """What an entry point in group ``zenturio.search`` names, usually a class.

    The first line of its docstring describes it in lists of engines.

    An engine whose proposals depend on *when* it is told of trials needs nothing more: it is asked
    for a batch of points (``batch_size``, or 8) and told when all of them were evaluated. Optional
    class attributes:

    * ``order_independent = True``: the engine can be asked and told at any time and still proposes
      the same points in the same order. It never has to wait for a whole batch.
    * ``multi_objective = True``: it accepts more than one objective.
    """

    Settings: type[Any]
    """A frozen dataclass whose fields are made by ``setting``."""

    def __call__(self, problem: SearchProblem, settings: Any) -> Search:
        """Return a search for *problem*; SpaceError or InputError if the engine cannot solve it."""
        ...
