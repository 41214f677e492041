"""What must survive the driver: which attempt of an experiment counts, and the log of events.

``places/hosts/DIGEST/`` holds ``attempt.json``, written before anything is started, and
``outcome``, written before it is reported. Neither is forced to the disk: a machine that crashes
runs its experiments again, and accepts each once all the same. An attempt that is not named there
has no owner: its results are never accepted, and its host ends it as soon as it can be reached.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from platform import node
from threading import Lock
from typing import Any, Literal, TextIO

from zenturio.errors import ConflictError, NotFoundError, PlaceError
from zenturio.execute.experiment_codec import pack_outcome, unpack_outcome
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import remove_tree, write_new
from zenturio.execute.wire import (
    MalformedError,
    any_text,
    integer,
    is_digest,
    is_token,
    matching,
    number,
    object_of,
    read_json,
    record,
    text,
)
from zenturio.experiment import INCOMING, Outcome
from zenturio.experiment.identity import checked_digest
from zenturio.files import FileLock, make_folder, read_regular

_check_drained = object_of(text(), any_text(2**16))
_check_attempt = record(
    {
        "token": matching("[0-9a-f]{32}-[0-9a-z]{1,64}", "the name of an attempt"),
        "host": text(),
        "begun": number(),
        "driver": matching("[0-9a-z-]*", "the name of a driver"),
    }
)


@dataclass(frozen=True, slots=True)
class HostAttempt:
    """Where an experiment runs, and under which name there."""

    token: str
    host: str
    begun: float
    """Seconds since 1970."""
    driver: str = ""
    """Whose it is."""


class AttemptJournal:
    """The attempts of the experiments of one project."""

    def __init__(self, folder: Path) -> None:
        self._incoming = folder.absolute() / INCOMING
        with disk_errors(folder):
            self.folder = make_folder(folder.absolute(), "places", "hosts")
        text = f"{node()}\n{self.folder}".encode("utf-8", "surrogateescape")
        self.owner = blake2b(text, digest_size=8).hexdigest()
        """Under which name this project has its jobs on hosts."""
        self._driver = self._lock_new("drivers", f"{os.getpid()}-{secrets.token_hex(4)}")

    def entry(self, digest: str) -> Path:
        return self.folder / checked_digest(digest)

    def attempt(self, digest: str) -> HostAttempt | None:
        """Return the attempt that counts, if one was begun."""
        try:
            facts = read_json((self.entry(digest) / "attempt.json").read_bytes())
            _check_attempt(facts, "attempt.json")
        except (OSError, MalformedError):
            return None
        attempt = HostAttempt(**facts)
        # A copied or renamed folder must not lend its attempt to another experiment.
        return attempt if attempt.token.partition("-")[0] == digest else None

    def begin(self, digest: str, host: str) -> HostAttempt:
        """Record a new attempt at *host*, which replaces any earlier one."""
        token = f"{digest}-{secrets.token_hex(4)}"
        return self._named(digest, HostAttempt(token, host, time.time()))

    def take_over(self, digest: str, attempt: HostAttempt) -> HostAttempt:
        """Return the attempt of another driver, which is ours from now on."""
        return self._named(digest, attempt)

    def is_driven(self, attempt: HostAttempt) -> bool:
        """Return whether the driver of *attempt* lives."""
        return self._is_held("drivers", attempt.driver)

    def digests(self) -> list[str]:
        """Return all experiments of which something is known here."""
        return [path.name for path in self.folder.iterdir() if is_digest(path.name)]

    def has_ended(self, digest: str) -> bool:
        """Return whether an outcome is here that is not recorded."""
        return (self.entry(digest) / "outcome").exists()

    def keep_drained(self, hosts: Mapping[str, str]) -> None:
        """Record the drained hosts and the reasons, for commands that show them."""
        with suppress(OSError):
            folder = make_folder(self.folder, "drained")
            _write_atomic(folder / self._driver.path.name, json.dumps(dict(hosts)).encode())

    def drained(self) -> dict[str, str]:
        """Return the hosts that get nothing new from some driver that lives, and why."""
        reasons: dict[str, str] = {}
        for path in sorted(self.folder.glob("drained/[!.]*")):
            with suppress(OSError, MalformedError):
                hosts = read_json(path.read_bytes())
                _check_drained(hosts, "drained")
                if self._is_held("drivers", path.name):
                    reasons.update(hosts)
        return reasons

    def close(self) -> None:
        """This driver begins nothing more."""
        (self.folder / "drained" / self._driver.path.name).unlink(missing_ok=True)
        self._driver.remove()

    def _named(self, digest: str, attempt: HostAttempt) -> HostAttempt:
        with disk_errors(self.folder):
            attempt = replace(attempt, driver=self._driver.path.name)
            make_folder(self.folder, checked_digest(digest))
            path = self.entry(digest) / "attempt.json"
            _write_atomic(path, json.dumps(asdict(attempt)).encode())
        return attempt

    def abandon(self, digest: str) -> None:
        """Remove the record of the attempt."""
        (self.entry(digest) / "attempt.json").unlink(missing_ok=True)

    def restart(self, digest: str) -> Path:
        """Return the folder for the files with which a job migrates."""
        return self.entry(digest) / "restart"

    def deliver(self, outcome: Outcome) -> None:
        """Keep *outcome* until it is forgotten."""
        with disk_errors(self.folder):
            make_folder(self.folder, checked_digest(outcome.digest))
            content = pack_outcome(outcome, shared=True)
            _write_atomic(self.entry(outcome.digest) / "outcome", content)

    def outcome(self, digest: str) -> Outcome | None:
        """Return what came out and was not forgotten; all of it must still be there."""
        with suppress(OSError, ValueError, PlaceError):
            data = (self.entry(digest) / "outcome").read_bytes()
            outcome = unpack_outcome(data, digest, self._incoming)
            if all(artifact.kept.exists() for artifact in outcome.artifacts):
                return outcome
        return None

    def forget(self, digest: str) -> None:
        """Take the entry of an experiment away."""
        remove_tree(str(self.entry(digest)))

    def counts(self, token: str) -> bool:
        """Return whether the attempt *token* is still wanted by any driver of this project."""
        if not is_token(token):
            return False
        if self._is_held("builds", token):
            return True
        digest = token.partition("-")[0]
        attempt = self.attempt(digest)
        return attempt is not None and attempt.token == token and not self.has_ended(digest)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Hold the lock *name* of the project; ConflictError if another process holds it."""
        lock = self._try_lock("alone", name)
        if lock is None:
            raise ConflictError(
                "this workflow runs in this project already", hint="wait until it has ended"
            )
        try:
            yield
        finally:
            lock.remove()

    @contextmanager
    def building(self, digest: str) -> Iterator[str]:
        """Yield a token for a build, which is valid in the block."""
        lock = self._lock_new("builds", f"{digest}-b{secrets.token_hex(4)}")
        try:
            yield lock.path.name
        finally:
            lock.remove()

    def _lock_new(self, kind: str, name: str) -> FileLock:
        """Return the lock on a name that nobody else has."""
        with disk_errors(self.folder):
            return FileLock.acquire(make_folder(self.folder, kind) / name)

    def _try_lock(self, kind: str, name: str) -> FileLock | None:
        with disk_errors(self.folder):
            return FileLock.try_acquire(make_folder(self.folder, kind) / name)

    def _is_held(self, kind: str, name: str) -> bool:
        """Return whether a process holds *name*; the file of one that died is removed."""
        with suppress(OSError):
            lock = FileLock.try_acquire(self.folder / kind / name, create=False)
            if lock is None:
                return True
            lock.remove()
        return False


def _write_atomic(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)  # a link that came with a project is not written through
    write_new(str(draft), content, 0o666)
    # Readers see the former file or the whole new one, never a part.
    draft.replace(path)


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
    """Writes events, and keeps them for later readers."""

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
    """Return the records below the project's *folder*, of all jobs or of those with a prefix."""
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
