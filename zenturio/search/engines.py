"""Engines by name, with what they can be set to: found through entry points, ours too."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zenturio import plugins
from zenturio.errors import InputError, PluginError
from zenturio.search.search import Search, Task
from zenturio.search.settings import NoSettings, Setting, described, settings_of


@dataclass(frozen=True, slots=True)
class Description:
    """An engine as it is listed."""

    name: str
    about: str
    settings: tuple[Setting, ...]
    several: bool
    """Whether it takes more goals than one."""


def names() -> list[str]:
    """The names of all engines, sorted."""
    return plugins.names("search")


def describe(name: str) -> Description:
    """What the engine *name* does, and what can be set."""
    engine = _engine(name)
    about = (inspect.getdoc(engine) or "").partition("\n")[0]
    return Description(
        name, about, described(_settings(engine)), bool(getattr(engine, "several", False))
    )


def make(name: str, task: Task, settings: Mapping[str, Any] | None = None) -> Search:
    """The engine *name* for *task*; ``name:variant`` gives an engine its setting ``variant``.

    InputError if there is no such engine or setting, or if *task* is not one for it.
    """
    if isinstance(task.seed, bool) or not isinstance(task.seed, int) or task.seed < 0:
        raise InputError(f"{task.seed!r} is no seed", hint="a whole number from 0 on")
    head, colon, variant = name.partition(":")
    engine = _engine(head)
    given = dict(settings or {})
    kind = _settings(engine)
    if colon and not any(each.name == "variant" for each in described(kind)):
        raise InputError(f"engine {head} has no variants", hint=f"write {head} alone")
    if colon:
        given["variant"] = variant
    if len(task.goals) > 1 and not getattr(engine, "several", False):
        raise InputError(
            f"engine {head} takes one goal, and there are {len(task.goals)}",
            hint="give one, or take nsga2, which finds a Pareto front",
        )
    search: Search = engine(task, settings_of(kind, given, head))
    return search


def _engine(name: str) -> Any:
    engine = plugins.load("search", name.partition(":")[0])
    if not callable(engine):
        raise PluginError(f"search {name!r} is no engine: {engine!r} cannot be called")
    return engine


def _settings(engine: Any) -> type[Any]:
    found: type[Any] = getattr(engine, "Settings", NoSettings)
    return found
