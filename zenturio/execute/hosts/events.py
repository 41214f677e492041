"""The life of jobs, as it is recorded: one line of JSON for each event, in a file that grows."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TextIO

from zenturio.errors import NotFoundError

FILE = "events.jsonl"
OLD = "events.old.jsonl"
"""What was before, once the file is large; what was before that is gone."""
_LARGE = 64 * 2**20
_OFTEN = 1000
_SEEN = 10_000
"""Events that are kept in memory."""
Kind = Literal[
    "submitted", "prolog", "started", "adopted", "progress", "moving", "left", "epilog", "ended",
    "failed", "dropped", "attached", "requires", "retry", "up", "down", "drained", "taken back",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, to a job or (without a digest) to a host."""

    time: float
    """Seconds since 1970, UTC."""
    kind: Kind
    digest: str = ""
    host: str = ""
    why: str = ""
    iteration: int | None = None
    """How far the job's own profile says that it is."""


class Events:
    """Writes events, and keeps them for who asks."""

    def __init__(self, folder: Path, large: int = _LARGE) -> None:
        """Below *folder*; a file of more than *large* bytes makes way for a new one."""
        self._path = folder / FILE
        self._large = large
        self._count = 0
        self._turn = Lock()
        self.seen: deque[Event] = deque(maxlen=_SEEN)

    def note(
        self,
        kind: Kind,
        digest: str = "",
        host: str = "",
        why: str = "",
        iteration: int | None = None,
    ) -> None:
        """Records it; a disk that is full is no reason to stop."""
        event = Event(time.time(), kind, digest, host, why, iteration)
        told = {n: v for n, v in _told(event).items() if v not in ("", None)}
        with self._turn:
            self.seen.append(event)
            with suppress(OSError), self._open() as file:
                file.write(json.dumps(told, ensure_ascii=False) + "\n")
            self._count += 1
            if self._count % _OFTEN == 0:
                self._make_way()

    def _open(self) -> TextIO:
        return self._path.open("a", encoding="utf-8", errors="backslashreplace")

    def _make_way(self) -> None:
        with suppress(OSError):
            if self._path.stat().st_size > self._large:
                self._path.replace(self._path.with_name(OLD))


def _told(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in Event.__slots__}


def read_events(folder: Path, digests: Iterable[str] = ()) -> list[Event]:
    """What was recorded below the project's *folder*, of all jobs or of those that begin so."""
    path = folder / "places" / "hosts" / FILE
    wanted = tuple(digests)
    lines: list[str] = []
    for each in (path.with_name(OLD), path):
        with suppress(OSError):
            lines += each.read_text(encoding="utf-8").splitlines()
    if not lines:
        raise NotFoundError(
            f"{path} is not there", hint="nothing has run on hosts yet: zen run --on hosts.toml"
        )
    found = []
    for line in lines:
        with suppress(ValueError, TypeError):  # the last line of a driver that was killed
            event = Event(**json.loads(line))
            if not wanted or event.digest.startswith(wanted):
                found.append(event)
    return found
