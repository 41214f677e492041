"""What plans a workflow: the seam, and finding one by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from zenturio import plugins
from zenturio.errors import PluginError
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.search.settings import NoSettings, Setting, described, pairs, settings_of

Kind = Literal["static", "just-in-time", "moldable", "online", "dynamic", "exact"]


class Algorithm(Protocol):
    """Made of its settings and a seed; the same of both and the same problem: the same plan."""

    def plan(self, problem: Problem) -> Plan: ...


@dataclass(frozen=True, slots=True)
class AlgorithmDescription:
    """An algorithm as it is listed."""

    name: str
    kind: Kind
    about: str
    """What it is, in a line."""
    more: str
    """What for, when not, what it costs, and where it comes from."""
    settings: tuple[Setting, ...]


def names() -> list[str]:
    """The names of all algorithms, sorted."""
    return plugins.names("algorithms")


def describe(name: str) -> AlgorithmDescription:
    """What the algorithm *name* does, with settings behind it or not, and what can be set."""
    name = name.partition(":")[0]
    found = _load(name)
    about, _, more = (inspect.getdoc(found) or "").partition("\n")
    return AlgorithmDescription(name, found.kind, about, more.strip(), described(_settings(found)))


def make(name: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Any:
    """The algorithm ``NAME``, or with settings behind it: ``NAME:key=value,...``.

    InputError if there is none, or no such setting.
    """
    name, _, rest = name.partition(":")
    found = _load(name)
    given = {**(settings or {}), **pairs(rest.split(",") if rest else [])}
    return found(settings_of(_settings(found), given, name), seed)


def _load(name: str) -> Any:
    found = plugins.load("algorithms", name)
    if not callable(found) or not hasattr(found, "kind"):
        raise PluginError(f"algorithms {name!r} is no algorithm: {found!r} has no kind")
    return found


def _settings(found: Any) -> type[Any]:
    kind: type[Any] = getattr(found, "Settings", NoSettings)
    return kind
