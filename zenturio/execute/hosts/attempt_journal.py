"""What must survive the driver: which attempt of an experiment counts, and what came out.

``places/hosts/DIGEST/`` holds ``attempt.json``, written before anything is started, and
``outcome``, written before anybody hears of it. Neither is forced to the disk: a machine that
crashes runs its experiments again, and accepts each once all the same. An attempt that is not the
one named there is nobody's: its results are never accepted, and its host ends it as soon as it can
be reached.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from platform import node

from zenturio.errors import ConflictError, PlaceError
from zenturio.execute.file_staging import disk_errors, remove_tree
from zenturio.execute.json_checks import (
    MalformedError,
    any_text,
    is_digest,
    is_token,
    matching,
    number,
    object_of,
    read_json,
    record,
    text,
)
from zenturio.execute.outcome_codec import pack_outcome, unpack_outcome
from zenturio.experiment import INCOMING, Outcome
from zenturio.experiment.identity import checked_digest


class NameLock:
    """A name in a folder: a file that is locked, and gone when it is released."""

    def __init__(self, folder: Path, name: str = "", *, hold: bool = True) -> None:
        """*name*, or one that nobody has; not *hold*: only to ask for others."""
        self.name = name or f"{os.getpid()}-{secrets.token_hex(4)}"
        self._folder = folder
        self._lock = -1
        if hold:
            with disk_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._lock = os.open(folder / self.name, flags, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX)

    def is_held(self, name: str) -> bool:
        """Return whether somebody holds *name*; what a process left that died is taken away."""
        if name == self.name and self._lock >= 0:
            return True
        path = self._folder / name
        try:
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def release(self) -> None:
        """Nobody holds it any more."""
        if self._lock >= 0:
            (self._folder / self.name).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


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
        self.folder = folder.absolute() / "places" / "hosts"
        self._incoming = folder.absolute() / INCOMING
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        text = f"{node()}\n{self.folder}".encode("utf-8", "surrogateescape")
        self.owner = blake2b(text, digest_size=8).hexdigest()
        """Under which name this project has its jobs on hosts."""
        self._driver = NameLock(self.folder / "drivers")

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
        """From now on a new attempt counts, at *host*."""
        token = f"{digest}-{secrets.token_hex(4)}"
        return self._named(digest, HostAttempt(token, host, time.time()))

    def take_over(self, digest: str, attempt: HostAttempt) -> HostAttempt:
        """Return the attempt of another driver, which is ours from now on."""
        return self._named(digest, attempt)

    def is_driven(self, attempt: HostAttempt) -> bool:
        """Return whether the driver of *attempt* lives."""
        return self._driver.is_held(attempt.driver)

    def digests(self) -> list[str]:
        """Return all experiments of which something is known here."""
        return [path.name for path in self.folder.iterdir() if is_digest(path.name)]

    def has_ended(self, digest: str) -> bool:
        """Return whether an outcome is here that is not recorded."""
        return (self.entry(digest) / "outcome").exists()

    def keep_drained(self, hosts: Mapping[str, str]) -> None:
        """The hosts that get nothing new from this driver, and why: for who looks on."""
        folder = self.folder / "drained"
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            _write_atomic(folder / self._driver.name, json.dumps(dict(hosts)).encode())

    def drained(self) -> dict[str, str]:
        """Return the hosts that get nothing new from some driver that lives, and why."""
        reasons: dict[str, str] = {}
        for path in sorted(self.folder.glob("drained/[!.]*")):
            with suppress(OSError, MalformedError):
                hosts = read_json(path.read_bytes())
                _check_drained(hosts, "drained")
                if self._driver.is_held(path.name):
                    reasons.update(hosts)
        return reasons

    def close(self) -> None:
        """This driver begins nothing more."""
        (self.folder / "drained" / self._driver.name).unlink(missing_ok=True)
        self._driver.release()

    def _named(self, digest: str, attempt: HostAttempt) -> HostAttempt:
        with disk_errors(self.folder):
            attempt = replace(attempt, driver=self._driver.name)
            self.entry(digest).mkdir(exist_ok=True)
            path = self.entry(digest) / "attempt.json"
            _write_atomic(path, json.dumps(asdict(attempt)).encode())
        return attempt

    def abandon(self, digest: str) -> None:
        """From now on no attempt counts."""
        (self.entry(digest) / "attempt.json").unlink(missing_ok=True)

    def restart(self, digest: str) -> Path:
        """Return the folder for files with which a job goes on elsewhere."""
        return self.entry(digest) / "restart"

    def deliver(self, outcome: Outcome) -> None:
        """Keep *outcome* until it is forgotten."""
        with disk_errors(self.folder):
            self.entry(outcome.digest).mkdir(exist_ok=True)
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
        if NameLock(self.folder / "builds", token, hold=False).is_held(token):
            return True
        digest = token.partition("-")[0]
        attempt = self.attempt(digest)
        return attempt is not None and attempt.token == token and not self.has_ended(digest)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """The only one in the project that has *name*; ConflictError where somebody else has it."""
        folder = self.folder / "alone"
        if NameLock(folder, name, hold=False).is_held(name):
            raise ConflictError(
                "this workflow runs in this project already", hint="wait until it has ended"
            )
        held = NameLock(folder, name)
        try:
            yield
        finally:
            held.release()

    @contextmanager
    def building(self, digest: str) -> Iterator[str]:
        """A token for a build, which counts as long as this process makes it."""
        held = NameLock(self.folder / "builds", f"{digest}-b{secrets.token_hex(4)}")
        try:
            yield held.name
        finally:
            held.release()


def _write_atomic(path: Path, content: bytes) -> None:
    """A file that nobody sees in part."""
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(content)
    # Readers see the former file or the whole new one, never a part.
    draft.replace(path)
