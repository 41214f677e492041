"""Workflow generators by name, and a cache of generated and read workflows."""

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
    """A frozen dataclass of settings; the same settings and seed give the same workflow."""

    def count(self) -> int:
        """Return the number of tasks without making them."""
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
    """Return the names of all generators, sorted."""
    return sorted(_GENERATORS)


def describe(name: str) -> GeneratorDescription:
    """Return what the generator *name* makes and its settings; NotFoundError if there is none."""
    generator = _generator_class(name)
    about = (inspect.getdoc(generator) or "").partition("\n")[0]
    return GeneratorDescription(name, about, described(generator))


def generate(name: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Instance:
    """Return the workflow that the generator *name* makes from *settings* and *seed*."""
    return _generator(name, settings).instance(seed)


def count_of(text: str) -> int | None:
    """Return how many tasks ``NAME:key=value,...`` would make; None if *text* is a file.

    No task is made, so that a server can refuse requests that are too large.
    """
    name, _, settings_text = text.partition(":")
    if name not in _GENERATORS or file_exists(Path(text)):
        return None
    settings = pairs(settings_text.split(",") if settings_text else [])
    settings.pop("seed", None)
    return _generator(name, settings).count()


def _generator(name: str, settings: Mapping[str, Any] | None) -> WorkflowGenerator:
    kind = _generator_class(name)
    setting_names = {item.name for item in described(kind)}
    values = dict(settings or {})
    unknown = next((key for key in values if key not in setting_names), None)
    if unknown is not None:
        raise InputError(
            f"generator {name} has no setting {unknown!r}",
            hint=did_you_mean(unknown, setting_names),
        )
    generator: WorkflowGenerator = settings_of(kind, values)
    return generator


def instance_of(text: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Instance:
    """Return the workflow in the file *text*, or of the generator ``NAME:key=value,...``.

    Raise NotFoundError if it is neither.
    """
    name, _, settings_text = text.partition(":")
    exists = file_exists(Path(text))
    if name not in _GENERATORS or exists:
        if not exists and not Path(text).suffix and text != "-":
            hint = did_you_mean(name, _GENERATORS)
            raise NotFoundError(f"{text!r} is neither a file nor a generator", hint=hint)
        return read_instance(text)
    values = dict(settings or {}) | pairs(settings_text.split(",") if settings_text else [])
    return generate(name, {k: v for k, v in values.items() if k != "seed"}, _seed(values, seed))


def _seed(values: Mapping[str, Any], seed: int) -> int:
    text = str(values.get("seed", seed))
    if not text.isdecimal() or len(text) > 18:
        raise InputError(f"seed={text} is not a valid seed", hint="write a whole number from 0 on")
    return int(text)


def _generator_class(name: str) -> type[Any]:
    if name not in _GENERATORS:
        hint = did_you_mean(name, _GENERATORS)
        raise NotFoundError(f"no generator is named {name!r}", hint=hint)
    return _GENERATORS[name]


T = TypeVar("T")

_LOG = re.compile(rb"""\bload["']?\s*[=:]\s*(["'])(.*?)\1""")
"""Matches the name of a cluster's log in a platform file, relative to that file."""
MAX_CACHED = 4
"""Number of problems, and of platforms, that are kept; the least recently used is dropped."""


class ProblemCache:
    """Problems and platforms, read once for the many experiments of a study that share them.

    Entries are keyed by the contents of their files, so that a changed file is read again.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._platforms: OrderedDict[Any, Platform] = OrderedDict()
        self._problems: OrderedDict[Any, Any] = OrderedDict()

    def platform(self, text: str) -> Platform:
        """Return the platform *text*: a file, or a name such as ``identical:8``."""
        with self._lock:
            return _cached(self._platforms, _cache_key(text), lambda: read_platform(text))

    def problem(self, workflow: str, on: str = "", kind: Any = Problem) -> Any:
        """Return *workflow*, a file or generator, on the platform *on* or on its own."""
        with self._lock:
            mark = kind, _cache_key(workflow), _cache_key(on)
            return _cached(self._problems, mark, lambda: self._read(workflow, on, kind))

    def _read(self, workflow: str, on: str, kind: Any) -> Any:
        instance = instance_of(workflow)
        platform = self.platform(on) if on else instance.platform
        if platform is None:
            raise InputError(f"{workflow} names no machines", hint="--on grid.toml, or identical:8")
        return kind.of(instance.workflow, platform)


def _cached(cache: OrderedDict[Any, T], key: Any, read: Callable[[], T]) -> T:
    """Return the entry of *key*, reading it if it is missing; drop the oldest beyond the limit."""
    if key not in cache:
        entry = read()
        cache[key] = entry
        if len(cache) > MAX_CACHED:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return cache[key]


def _cache_key(text: str) -> tuple[Any, ...]:
    """Return *text* with the contents of the files it refers to.

    These are the file itself and the cluster logs it names, or the files in a generator's settings.
    """
    content = _content(text)
    if content is not None:
        logs = (name.decode(errors="replace") for _, name in _LOG.findall(content))
        return text, content, *(_content(str(Path(text).parent / log)) for log in logs)
    settings = [pair.partition("=")[2] for pair in text.partition(":")[2].split(",")]
    return text, *(_content(value) for value in settings)


def _content(text: str) -> bytes | None:
    try:
        return Path(text).read_bytes() if text and Path(text).is_file() else None
    # Unreadable, or not a valid path at all: the reader will report it.
    except (OSError, ValueError):
        return None
