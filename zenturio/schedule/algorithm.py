"""The protocol of scheduling algorithms, and how they are found by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from zenturio import plugins
from zenturio.errors import InputError, PluginError
from zenturio.schedule.model.plan import Plan
from zenturio.schedule.model.problem import Problem
from zenturio.settings.schema import NoSettings, Setting, described, pairs, settings_of

Kind = Literal["static", "just-in-time", "moldable", "online", "dynamic", "exact", "cluster"]


class Algorithm(Protocol):
    """A scheduling algorithm, created from settings and a seed.

    The same settings, seed and problem give the same plan.
    """

    def plan(self, problem: Problem) -> Plan: ...


@dataclass(frozen=True, slots=True)
class AlgorithmDescription:
    """An algorithm as it is listed."""

    name: str
    kind: Kind
    about: str
    """What it does, in one line."""
    more: str
    """When to use it, when not to, its cost, and its source."""
    settings: tuple[Setting, ...]


def names() -> list[str]:
    """Return the names of all algorithms, sorted."""
    return plugins.names("algorithms")


def describe(name: str) -> AlgorithmDescription:
    """Return the description of the algorithm *name*, which may have settings appended."""
    name = name.partition(":")[0]
    algorithm = _load(name)
    about, _, more = (inspect.getdoc(algorithm) or "").partition("\n")
    return AlgorithmDescription(
        name, algorithm.kind, about, more.strip(), described(_settings(algorithm))
    )


def make(name: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Any:
    """Create the algorithm ``NAME`` or ``NAME:key=value,...``.

    Raise NotFoundError if there is no such algorithm, InputError for an invalid setting.
    """
    name, _, settings_text = name.partition(":")
    algorithm = _load(name)
    values = {**(settings or {}), **pairs(settings_text.split(",") if settings_text else [])}
    return algorithm(settings_of(_settings(algorithm), values, name), seed)


def make_task_scheduler(name: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Any:
    """Create an algorithm as `make` does, if it sends each task of a workflow to a processor.

    It has ``plan`` or ``react``. Raise InputError for the other kinds: moldable algorithms give a
    task several nodes, online algorithms choose among workflows, those of clusters among jobs.
    """
    algorithm = make(name, settings, seed)
    if algorithm.kind in {"moldable", "online", "cluster"}:
        raise InputError(
            f"--algorithm {name} is {algorithm.kind}: it does not plan single tasks",
            hint="zen algorithms shows the kind of each",
        )
    return algorithm


def make_workflow_planner(name: str) -> Any:
    """Create an algorithm that can run a workflow of real tasks, moldable ones included.

    Raise InputError for those that choose among workflows or jobs.
    """
    kind = describe(name).kind
    return make(name) if kind == "moldable" else make_task_scheduler(name)


def _load(name: str) -> Any:
    algorithm = plugins.load("algorithms", name)
    if not callable(algorithm) or not hasattr(algorithm, "kind"):
        raise PluginError(f"algorithms {name!r} is not an algorithm: {algorithm!r} has no kind")
    return algorithm


def _settings(algorithm: Any) -> type[Any]:
    kind: type[Any] = getattr(algorithm, "Settings", NoSettings)
    return kind
