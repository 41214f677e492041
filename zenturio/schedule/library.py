"""Workflows and machines, read once for the many experiments of a study that share them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from zenturio.errors import InputError
from zenturio.schedule.formats import read_platform
from zenturio.schedule.generators import instance_of
from zenturio.schedule.platform import Platform
from zenturio.schedule.problem import Problem

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
