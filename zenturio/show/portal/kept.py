"""Answers that took long, kept for whoever asks the same: found once, however many ask."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, TypeVar, cast

from zenturio.show.portal.thrift import give_back

Found = TypeVar("Found")

PATIENCE = 2.0
"""Seconds for which an answer is good, whatever has changed."""
SHARE = 20
"""An answer that took a second is good for so many seconds more: a study that runs changes always,
and who looks on must not slow it down."""
HEAVY = 0.2
"""Seconds: what took longer may have taken much memory, too, which is given back at once."""
LONGEST = 120.0
"""Seconds after which an answer is found anew, even if nothing seems to have changed."""


@dataclass(frozen=True)
class Answer(Generic[Found]):
    """What was found, and when."""

    value: Found
    at: float
    """Seconds since 1970."""


@dataclass
class _Place:
    lock: Lock = field(default_factory=Lock)
    answer: Answer[Any] | None = None
    stamp: Hashable = None
    seconds: float = 0.0


class Kept:
    """The newest answers."""

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._places: OrderedDict[Hashable, _Place] = OrderedDict()
        self._turn = Lock()
        self.found = 0
        """How many answers were found."""

    def forget(self) -> None:
        """All are of something else."""
        with self._turn:
            self._places.clear()

    def known(self, key: Hashable, stamp: Hashable) -> Answer[Any] | None:
        """The answer for *key*, if there is one that is good."""
        with self._turn:
            place = self._places.get(key)
        if place is None or place.answer is None or not _good(place, stamp):
            return None
        return place.answer

    def get(self, key: Hashable, stamp: Hashable, find: Callable[[], Found]) -> Answer[Found]:
        """The answer for *key*; found anew where the *stamp* of what it is about has changed."""
        with self._turn:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            while len(self._places) > self._most:
                self._places.popitem(last=False)
        with place.lock:
            if place.answer is None or not _good(place, stamp):
                began = time.monotonic()
                place.answer = Answer(find(), time.time())
                place.stamp, place.seconds = stamp, time.monotonic() - began
                self.found += 1
                if place.seconds > HEAVY:
                    give_back()
            return cast("Answer[Found]", place.answer)


def _good(place: _Place, stamp: Hashable) -> bool:
    assert place.answer is not None, "who has none does not ask"
    age = time.time() - place.answer.at
    fresh = LONGEST if place.stamp == stamp else max(PATIENCE, SHARE * place.seconds)
    return 0 <= age < fresh
