"""The protocol of engines, and how engines are found by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from zenturio import plugins
from zenturio.errors import InputError, PluginError
from zenturio.search.objective import Directions, Trial
from zenturio.settings.schema import NoSettings, Setting, described, settings_of
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
    slots: int | None = None
    """How many points are evaluated at a time, None if nobody says; an engine may propose more
    points before it knows the results of others."""
    shared: tuple[tuple[str, ...], ...] = ()
    """Parameters for whose values something is made first, such as a mesh, and once: a point costs
    less if another one has the same values. An engine may prefer it."""
    ordered: bool = True
    """Whether a proposal depends on earlier proposals and their scores alone. If not, an engine may
    use each score as soon as it is told of it: its proposals then depend on the order of arrival,
    too, and on nothing else."""


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


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """An engine's name, summary and settings."""

    name: str
    about: str
    settings: tuple[Setting, ...]
    multi_objective: bool
    """Whether it takes more directions than one."""


def names() -> list[str]:
    """Return the names of all engines, sorted."""
    return plugins.names("search")


def describe(name: str) -> EngineDescription:
    """Return the summary and the settings of engine *name*."""
    engine = _engine(name)
    about = (inspect.getdoc(engine) or "").partition("\n")[0]
    return EngineDescription(
        name, about, described(_settings(engine)), bool(getattr(engine, "multi_objective", False))
    )


def make(name: str, problem: SearchProblem, settings: Mapping[str, Any] | None = None) -> Search:
    """Make the engine *name* for *problem*; ``name:variant`` sets its setting ``variant``.

    InputError if the engine or a setting does not exist, or the engine cannot solve *problem*.
    """
    if isinstance(problem.seed, bool) or not isinstance(problem.seed, int) or problem.seed < 0:
        raise InputError(f"{problem.seed!r} is not a seed", hint="a whole number from 0 on")
    head, colon, variant = name.partition(":")
    engine = _engine(head)
    values = dict(settings or {})
    kind = _settings(engine)
    if colon and not any(setting.name == "variant" for setting in described(kind)):
        raise InputError(f"engine {head} has no variants", hint=f"write {head} alone")
    if colon:
        values["variant"] = variant
    if len(problem.directions) > 1 and not getattr(engine, "multi_objective", False):
        raise InputError(
            f"engine {head} takes one objective, and there are {len(problem.directions)}",
            hint="give one, or take nsga2, which finds a Pareto front",
        )
    search: Search = engine(problem, settings_of(kind, values, head))
    return search


def _engine(name: str) -> Any:
    engine = plugins.load("search", name.partition(":")[0])
    if not callable(engine):
        raise PluginError(f"search {name!r} is not an engine: {engine!r} is not callable")
    return engine


def _settings(engine: Any) -> type[Any]:
    settings: type[Any] = getattr(engine, "Settings", NoSettings)
    return settings
