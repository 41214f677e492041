"""The seam of search engines: what they are asked, what they are told, how they are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from zenturio.search.objective import Goals, Trial
from zenturio.space import Point, Space


class Search(Protocol):
    """Proposes points and learns from trials. It never runs, stores or prints anything."""

    def ask(self, limit: int) -> Sequence[Point]:
        """Up to *limit* points to try.

        None: the search waits for trials of points that it has asked for; if there is no such
        point left, it is over.
        """
        ...

    def tell(self, trials: Iterable[Trial]) -> None:
        """Learn from *trials*; some may be of points that this search did not ask for."""
        ...


@dataclass(frozen=True)
class Task:
    """What an engine is made for."""

    space: Space
    goals: Goals = field(default_factory=Goals)
    seed: int = 0
    budget: int | None = None
    """How many trials there will be at the most; an engine may plan with it."""
    again: bool = False
    """Whether a point may be asked for that was tried before."""


class Engine(Protocol):
    """What an entry point in group ``zenturio.search`` stands for, usually a class.

    Its docstring's first line says in a list of engines what it does. An engine whose points
    depend on when it is told of trials (not only on which) needs no more than this: it is asked
    for some points (its attribute ``round``, or 8) at a time, and told when all of them were
    tried. One that can be asked and told at any time, and names the same points in the same order
    all the same, says so by ``steady = True``, and is never made to wait by others.
    ``several = True``: it takes more goals than one.
    """

    Settings: type[Any]
    """A frozen dataclass whose fields are made by ``setting``."""

    def __call__(self, task: Task, settings: Any) -> Search:
        """A search for *task*; SpaceError or InputError if it is not one for this engine."""
        ...
