"""What a service is to run, in dicts: the reference."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from zenturio.record import messages
from zenturio.record.facts import OVER, Submission, Turn


class Line:
    """The queue of a repository in memory."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._submitted: dict[int, Submission] = {}

    def submit(self, token: str, user: str, study: str, request: Mapping[str, Any]) -> Submission:
        with self._lock:
            for known in self._submitted.values():
                if known.token == token:
                    return known
            number = len(self._submitted) + 1
            plain = json.loads(json.dumps(request))
            found = Submission(number, token, user, study, plain, self._clock())
            self._submitted[number] = found
            return found

    def submissions(self, turns: Iterable[Turn] | None = None) -> tuple[Submission, ...]:
        wanted = None if turns is None else frozenset(turns)
        with self._lock:
            found = tuple(self._submitted.values())
        return tuple(each for each in found if wanted is None or each.turn in wanted)

    def settle(self, number: int, turn: Turn, cause: str = "") -> Submission:
        with self._lock:
            if number not in self._submitted:
                raise messages.no_submission(number)
            known = moved(self._submitted[number], turn, cause, self._clock())
            self._submitted[number] = known
            return known

    def report(self, number: int, progress: Mapping[str, Any]) -> None:
        with self._lock:
            if number in self._submitted:
                told = json.loads(json.dumps(progress))
                self._submitted[number] = replace(self._submitted[number], progress=told)


def moved(known: Submission, turn: Turn, cause: str, now: float) -> Submission:
    """A submission as it is when it comes to *turn*; one that is over stays as it is."""
    if known.turn in OVER:
        return known
    begun = now if known.begun is None and turn == "running" else known.begun
    return replace(known, turn=turn, cause=cause, begun=begun, ended=now if turn in OVER else None)
