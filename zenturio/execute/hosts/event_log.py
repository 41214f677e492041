"""The life of jobs, as it is recorded: one line of JSON for each event, in a file that grows."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TextIO

from zenturio.errors import NotFoundError
from zenturio.execute.json_checks import (
    MalformedError,
    integer,
    number,
    read_json,
    record,
    text,
)
from zenturio.files import read_regular

_log = logging.getLogger(__name__)

FILE = "events.jsonl"
OLD = "events.old.jsonl"
"""What was before, once the file is large; what was before that is gone."""
_LARGE_BYTES = 64 * 2**20
_LONGEST_WHY = 2**20
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ROTATION_INTERVAL = 1000
_MOST_IN_MEMORY = 10_000
"""Events that are kept in memory."""
EventKind = Literal[
    "submitted", "prolog", "started", "adopted", "progress", "moving", "left", "epilog", "ended",
    "failed", "dropped", "attached", "requires", "retry", "up", "down", "drained", "taken back",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostEvent:
    """Something that happened, to a job or (without a digest) to a host."""

    time: float
    """Seconds since 1970, UTC."""
    kind: EventKind
    digest: str = ""
    host: str = ""
    why: str = ""
    iteration: int | None = None
    """How far the job's own profile says that it is."""


_EVENT = record(
    {"time": number(0), "kind": text()},
    {"digest": text(), "host": text(), "why": text(_LONGEST_WHY), "iteration": integer()},
)
"""What a line has to be: the file may have come with a project."""


class EventLog:
    """Writes events, and keeps them for who asks."""

    def __init__(self, folder: Path, large: int = _LARGE_BYTES) -> None:
        """Below *folder*; a file of more than *large* bytes makes way for a new one."""
        self._path = folder / FILE
        self._large = large
        self._count = 0
        self._turn = Lock()
        self.seen: deque[HostEvent] = deque(maxlen=_MOST_IN_MEMORY)

    def note(
        self,
        kind: EventKind,
        digest: str = "",
        host: str = "",
        why: str = "",
        iteration: int | None = None,
    ) -> None:
        """Record it; a disk that is full is no reason to stop."""
        event = HostEvent(time.time(), kind, digest, host, why, iteration)
        _log.debug("%s %.12s at %s: %s", kind, digest or "-", host or "-", why or "-")
        fields = {n: v for n, v in _event_fields(event).items() if v not in ("", None)}
        with self._turn:
            self.seen.append(event)
            with suppress(OSError), self._open() as file:
                file.write(json.dumps(fields, ensure_ascii=False) + "\n")
            self._count += 1
            if self._count % _ROTATION_INTERVAL == 0:
                self._make_way()

    def _open(self) -> TextIO:
        # A link that came with a project must not be written through, nor a pipe be waited for.
        descriptor = os.open(self._path, _APPEND, 0o644)
        return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    def _make_way(self) -> None:
        with suppress(OSError):
            if self._path.stat().st_size > self._large:
                self._path.replace(self._path.with_name(OLD))


def _event_fields(event: HostEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in HostEvent.__slots__}


def read_events(folder: Path, digests: Iterable[str] = ()) -> list[HostEvent]:
    """What was recorded below the project's *folder*, of all jobs or of those that begin so."""
    path = folder / "places" / "hosts" / FILE
    prefixes = tuple(digests)
    lines: list[bytes] = []
    for file in (path.with_name(OLD), path):
        with suppress(OSError):
            lines += read_regular(file, 2 * _LARGE_BYTES).splitlines()
    if not lines:
        raise NotFoundError(
            f"{path} is not there", hint="nothing has run on hosts yet: zen run --on hosts.toml"
        )
    events = []
    for line in lines:
        with suppress(MalformedError):  # the last line of a driver that was killed, or no event
            fields = read_json(line)
            _EVENT(fields, "event")
            event = HostEvent(**fields)
            if not prefixes or event.digest.startswith(prefixes):
                events.append(event)
    return events
