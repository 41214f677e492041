"""What an experiment says while it runs on this machine, read as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from zenturio.execute.spawn import live_log_paths
from zenturio.execute.workspace import running_folder
from zenturio.experiment import Log
from zenturio.record import Repository
from zenturio.record.open import FOLDER, project_folder

POLL = 0.3
"""Seconds between two checks."""


class FileTail:
    """A stream of a run: what came since the last look."""

    def __init__(self) -> None:
        self.seen = 0
        """Bytes of the run that is looked at."""
        self._file: BinaryIO | None = None
        self._path = ""

    def read(self, path: str) -> bytes:
        """Return what was added to the file at *path*, if it exists; a new file is read from its
        start.
        """
        if path != self._path:
            self.close()
            self._path, self.seen = path, 0
        if self._file is None:
            try:
                self._file = Path(path).open("rb")  # noqa: SIM115 - until the run ends
            except OSError:
                return b""
        new = self._file.read()
        self.seen += len(new)
        return new

    def rest(self) -> bytes:
        """Return what came before the file was taken away."""
        new = self._file.read() if self._file else b""
        self.seen += len(new)
        return new

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def follow_log(
    repository: Repository, study: str, digest: str, put: Callable[[int, bytes], object]
) -> tuple[int, int]:
    """Yield the output of the experiment until it has finished, or its study has no driver.

    ``put(0, …)`` gets its stdout, ``put(1, …)`` its stderr. The answer is how much of what its
    accepted attempt said was handed over.
    """
    tails, attempt = (FileTail(), FileTail()), 0
    try:
        while _goes_on(repository, study, digest):
            newest = _newest(repository, digest)
            if newest != attempt:
                _put(put, [tail.rest() for tail in tails])
                for tail in tails:
                    tail.close()
                tails, attempt = (FileTail(), FileTail()), newest
            folder = running_folder(project_folder() / FOLDER, digest)
            if folder is not None:
                paths = live_log_paths(str(folder))
                _put(put, [t.read(path) for t, path in zip(tails, paths, strict=True)])
            time.sleep(POLL)
        _put(put, [tail.rest() for tail in tails])
    finally:
        for tail in tails:
            tail.close()
    same = attempt == _newest(repository, digest)
    return (tails[0].seen, tails[1].seen) if same else (0, 0)


def log_so_far(digest: str, put: Callable[[int, bytes], object]) -> None:
    """Hand over what an experiment that runs on this machine has said by now."""
    folder = running_folder(project_folder() / FOLDER, digest)
    for number, path in enumerate(live_log_paths(str(folder)) if folder else ()):
        tail = FileTail()
        put(number, tail.read(path))
        tail.close()


def log_after(log: Log, position: int = 0) -> Iterator[bytes]:
    """Yield what was kept of a stream behind *position* bytes, and a word where some is lacking."""
    end = len(log.head)
    yield log.head[position:]
    if log.tail:
        begin = log.size - len(log.tail)
        if (missing := begin - max(position, end)) > 0:
            yield f"\n[... {missing:,} bytes were not kept ...]\n".encode()
        yield log.tail[max(position - begin, 0) :]


def _goes_on(repository: Repository, study: str, digest: str) -> bool:
    is_driven = any(not lease.driver_has_exited() for lease in repository.leases(study))
    return is_driven and repository.experiment_record(study, digest).outcome is None


def _newest(repository: Repository, digest: str) -> int:
    return max((attempt.number for attempt in repository.attempts(digest)), default=0)


def _put(put: Callable[[int, bytes], object], parts: list[bytes]) -> None:
    for number, part in enumerate(parts):
        if part:
            put(number, part)
