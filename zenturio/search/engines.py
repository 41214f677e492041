"""The registry of engines: all are found through entry points, the built-in ones too."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zenturio import plugins
from zenturio.errors import InputError, PluginError
from zenturio.search.engine import Search, SearchProblem
from zenturio.search.settings import NoSettings, Setting, described, settings_of


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
