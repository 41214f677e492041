"""
What must survive the driver: which attempt of an experiment counts, and what came out.

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from platform import node

from zenturio.errors import PlaceError
from zenturio.execute.filing import disk, remove
from zenturio.execute.returns import pack_outcome, unpack_outcome
from zenturio.experiment import Outcome


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where an experiment runs, and under which name there."""

    token: str
    host: str
    begun: float
    """Seconds since 1970."""


class Journal:
    """The attempts of the experiments of one project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute() / "places" / "hosts"
        with disk(self.folder):
            (self.folder / "builds").mkdir(parents=True, exist_ok=True)
        text = f"{node()}\n{self.folder}".encode("utf-8", "surrogateescape")
        self.owner = blake2b(text, digest_size=8).hexdigest()
        """Under which name this project has its jobs on hosts."""

    def entry(self, digest: str) -> Path:
        return self.folder / digest

    def attempt(self, digest: str) -> Attempt | None:
        """The attempt that counts, if one was begun."""
        try:
            told = json.loads((self.entry(digest) / "attempt.json").read_bytes())
            return Attempt(**told)
        except (OSError, ValueError, TypeError):
            return None

    def begin(self, digest: str, host: str) -> Attempt:
        """From now on a new attempt counts, at *host*."""
        attempt = Attempt(f"{digest}-{secrets.token_hex(4)}", host, time.time())
        with disk(self.folder):
            self.entry(digest).mkdir(exist_ok=True)
            path = self.entry(digest) / "attempt.json"
            _write(path, json.dumps(asdict(attempt)).encode())
        return attempt

    def abandon(self, digest: str) -> None:
        """From now on no attempt counts."""
        (self.entry(digest) / "attempt.json").unlink(missing_ok=True)

    def restart(self, digest: str) -> Path:
        """The folder for files with which a job goes on elsewhere."""
        return self.entry(digest) / "restart"

    def deliver(self, outcome: Outcome) -> None:
        """Keeps *outcome* until it is forgotten."""
        with disk(self.folder):
            self.entry(outcome.digest).mkdir(exist_ok=True)
            content = pack_outcome(outcome, shared=True)
            _write(self.entry(outcome.digest) / "outcome", content)

    def outcome(self, digest: str) -> Outcome | None:
        """What came out and was not forgotten; all of it must still be there."""
        with suppress(OSError, ValueError, PlaceError):
            found = unpack_outcome((self.entry(digest) / "outcome").read_bytes())
            if all(each.kept.exists() for each in found.artifacts):
                return found
        return None

    def forget(self, digest: str) -> None:
        """Takes the entry of an experiment away."""
        remove(str(self.entry(digest)))

    def counts(self, token: str) -> bool:
        """Whether the attempt *token* is still wanted by any driver of this project."""
        if self._is_building(token):
            return True
        digest = token.partition("-")[0]
        attempt = self.attempt(digest)
        if attempt is None or attempt.token != token:
            return False
        return not (self.entry(digest) / "outcome").exists()

    @contextmanager
    def building(self, digest: str) -> Iterator[str]:
        """A token for a build, which counts as long as this process makes it."""
        token = f"{digest}-b{secrets.token_hex(4)}"
        path = self.folder / "builds" / token
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield token
        finally:
            path.unlink(missing_ok=True)
            os.close(lock)

    def _is_building(self, token: str) -> bool:
        path = self.folder / "builds" / token
        try:
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)  # its driver died
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False


def _write(path: Path, content: bytes) -> None:
    """A file that nobody sees in part."""
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(content)
    draft.replace(path)
