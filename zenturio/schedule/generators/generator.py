"""Generators of workflows by name, with their settings."""

from __future__ import annotations

import inspect
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Protocol, TypeVar

from zenturio.errors import InputError, NotFoundError, did_you_mean
from zenturio.schedule.formats.document import file_exists
from zenturio.schedule.formats.files import read_instance, read_platform
from zenturio.schedule.generators.layered import Layered, Topcuoglu
from zenturio.schedule.generators.papers import (
    Ctg,
    Ditg,
    Dotg,
    Gee,
    Itg,
    KwaveBarrier,
    KwaveIndependent,
    KwaveTree,
    MaxDo,
    Otg,
    PipeAlign,
    Ptg,
    RandomSweep,
    Wien2k,
)
from zenturio.schedule.generators.recipe import TraceRecipe
from zenturio.schedule.model.platform import Platform
from zenturio.schedule.model.problem import Instance, Problem
from zenturio.search.settings import Setting, described, pairs, settings_of


class WorkflowGenerator(Protocol):
    """A frozen dataclass of settings; of the same settings and seed it makes the same workflow."""

    def count(self) -> int:
        """How many tasks the workflow will have: known before any is made."""
        ...

    def instance(self, seed: int) -> Instance: ...


_GENERATORS: dict[str, type[Any]] = {
    "ctg": Ctg,
    "ditg": Ditg,
    "dotg": Dotg,
    "gee": Gee,
    "itg": Itg,
    "kwave-barrier": KwaveBarrier,
    "kwave-independent": KwaveIndependent,
    "kwave-tree": KwaveTree,
    "layered": Layered,
    "maxdo": MaxDo,
    "otg": Otg,
    "pipealign": PipeAlign,
    "ptg": Ptg,
    "recipe": TraceRecipe,
    "sweep": RandomSweep,
    "topcuoglu": Topcuoglu,
    "wien2k": Wien2k,
}


@dataclass(frozen=True, slots=True)
class GeneratorDescription:
    """A generator as it is listed."""

    name: str
    about: str
    settings: tuple[Setting, ...]


def names() -> list[str]:
    """The names of all generators, sorted."""
    return sorted(_GENERATORS)


def describe(name: str) -> GeneratorDescription:
    """What the generator *name* makes, and what can be set."""
    found = _generator_class(name)
    about = (inspect.getdoc(found) or "").partition("\n")[0]
    return GeneratorDescription(name, about, described(found))


def generate(name: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Instance:
    """What the generator *name* makes of *settings* and *seed*; of the same always the same."""
    return _generator(name, settings).instance(seed)


def count_of(text: str) -> int | None:
    """How many tasks the generator ``NAME:key=value,...`` will make; none of a file.

    It makes none of them, so that who answers strangers can refuse what is too much.
    """
    name, _, rest = text.partition(":")
    if name not in _GENERATORS or file_exists(Path(text)):
        return None
    given = pairs(rest.split(",") if rest else [])
    given.pop("seed", None)
    return _generator(name, given).count()


def _generator(name: str, settings: Mapping[str, Any] | None) -> WorkflowGenerator:
    kind = _generator_class(name)
    known = {each.name for each in described(kind)}
    given = dict(settings or {})
    wrong = next((key for key in given if key not in known), None)
    if wrong is not None:
        raise InputError(
            f"generator {name} has no setting {wrong!r}", hint=did_you_mean(wrong, known)
        )
    generator: WorkflowGenerator = settings_of(kind, given)
    return generator


def instance_of(text: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Instance:
    """The workflow in the file *text*, or of the generator ``NAME`` or ``NAME:key=value,...``."""
    name, _, rest = text.partition(":")
    exists = file_exists(Path(text))
    if name not in _GENERATORS or exists:
        if not exists and not Path(text).suffix and text != "-":
            hint = did_you_mean(name, _GENERATORS)
            raise NotFoundError(f"{text!r} is neither a file nor a generator", hint=hint)
        return read_instance(text)
    given = dict(settings or {}) | pairs(rest.split(",") if rest else [])
    return generate(name, {k: v for k, v in given.items() if k != "seed"}, _seed(given, seed))


def _seed(given: Mapping[str, Any], seed: int) -> int:
    text = str(given.get("seed", seed))
    if not text.isdecimal() or len(text) > 18:
        raise InputError(f"seed={text} is not possible", hint="write a whole number from 0 on")
    return int(text)


def _generator_class(name: str) -> type[Any]:
    if name not in _GENERATORS:
        hint = did_you_mean(name, _GENERATORS)
        raise NotFoundError(f"no generator is named {name!r}", hint=hint)
    return _GENERATORS[name]


T = TypeVar("T")

_LOG = re.compile(rb"""\bload["']?\s*[=:]\s*(["'])(.*?)\1""")
"""How a file of machines names the log of a cluster, which lies beside it."""
MAX_CACHED = 4
"""Of how many problems, and of how many platforms, the last that were asked for are kept."""


class ProblemCache:
    """Problems and platforms by how they are named; what a file holds is looked at every time.

    Several threads may ask: what one of them reads is not read by another.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._platforms: OrderedDict[Any, Platform] = OrderedDict()
        self._problems: OrderedDict[Any, Any] = OrderedDict()

    def platform(self, text: str) -> Platform:
        """The machines in the file *text*, or those that are named so."""
        with self._lock:
            return _cached(self._platforms, _cache_key(text), lambda: read_platform(text))

    def problem(self, workflow: str, on: str = "", kind: Any = Problem) -> Any:
        """*workflow*, a file or a generator, on the machines *on*, or on its own."""
        with self._lock:
            mark = kind, _cache_key(workflow), _cache_key(on)
            return _cached(self._problems, mark, lambda: self._read(workflow, on, kind))

    def _read(self, workflow: str, on: str, kind: Any) -> Any:
        found = instance_of(workflow)
        platform = self.platform(on) if on else found.platform
        if platform is None:
            raise InputError(f"{workflow} names no machines", hint="--on grid.toml, or identical:8")
        return kind.of(found.workflow, platform)


def _cached(known: OrderedDict[Any, T], mark: Any, read: Callable[[], T]) -> T:
    """What is *known* by its *mark*, or is read and then known; the oldest is forgotten."""
    if mark not in known:
        found = read()
        known[mark] = found
        if len(known) > MAX_CACHED:
            known.popitem(last=False)
    known.move_to_end(mark)
    return known[mark]


def _cache_key(text: str) -> tuple[Any, ...]:
    """*text*, and what is in the files that it names: itself and the logs of clusters that it
    names in turn, or the settings of a generator.
    """
    content = _content(text)
    if content is not None:
        logs = (each.decode(errors="replace") for _, each in _LOG.findall(content))
        return text, content, *(_content(str(Path(text).parent / log)) for log in logs)
    settings = [pair.partition("=")[2] for pair in text.partition(":")[2].split(",")]
    return text, *(_content(value) for value in settings)


def _content(text: str) -> bytes | None:
    try:
        return Path(text).read_bytes() if text and Path(text).is_file() else None
    except (OSError, ValueError):  # what no path can be, or nobody may read
        return None
