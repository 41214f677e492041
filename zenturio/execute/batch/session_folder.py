"""
What a driver has at a cluster, in a folder that nodes see: ``places/NAME/session-PID-HEX``.

    parcels/DIGEST    what is to be run; without it a job does nothing
    outcomes/DIGEST   what came out, written by the job once and for all
    starts/X-N.K      the start K of task N of the job array X, for a task may be requeued: empty
                      when the experiment has begun, then the outcome if that may have come of
                      signals to the job; it says nothing if the task was started again
    starts/X-N.K.setup  the setup of that start failed
    starts/X-N.K.job  that start was counted by its job, where the batch system does not count
    batches/X.sh      the script of the job array X, X.list the digests of its tasks in their order
    batches/X.job     a link to the number of the job that X is; made by the first task that starts,
                      or by the driver that gives X up: then no task of it does anything
    logs/X-N          what the job of task N said, if it had to say something

A session is held by a lock that ends with its driver. When that is dead, another driver that is
asked for an experiment of it takes the whole session over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from zenturio.errors import PlaceError
from zenturio.execute.batch.system import ArrayTask, log_end
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import remove_tree
from zenturio.execute.json_checks import is_digest
from zenturio.execute.worker import write_whole
from zenturio.experiment.identity import checked_digest
from zenturio.files import LockedFolder, make_folder, refuse_link

_PREFIX = "session-"
_FOLDERS = ("parcels", "outcomes", "starts", "batches", "logs")
_GIVEN_UP = "given-up"
LARGEST_OUTCOME_BYTES = 2**32
"""Bytes of one outcome with all of its artifacts: it is read as a whole."""


class BatchSession:
    """The folder of one driver at one place, living or dead."""

    def __init__(self, path: Path, locked: LockedFolder | None = None) -> None:
        self.path = path
        self._locked = locked

    @staticmethod
    def begin(place: Path) -> BatchSession:
        """A new one, held by this process."""
        with disk_errors(place):
            make_folder(place.parents[1], *place.parts[-2:])
            locked = LockedFolder.begin(place, _PREFIX)
            for folder in _FOLDERS:
                (locked.path / folder).mkdir()
        return BatchSession(locked.path, locked)

    @staticmethod
    def all(place: Path) -> list[BatchSession]:
        """Return every one that is there, by name; not held."""
        with disk_errors(place):
            for folder in (place.parent, place):
                refuse_link(folder)
        paths = sorted(place.glob(f"{_PREFIX}*"))
        return [BatchSession(p) for p in paths if p.is_dir() and not p.is_symlink()]

    @staticmethod
    def sweep(place: Path) -> None:
        """Take away those of dead drivers in which nothing is left."""
        for session in BatchSession.all(place):
            if not session.digests() and session.take():
                session.leave() if session.digests() else session.remove()

    def take(self) -> bool:
        """Hold it, if nobody does; false where its driver lives."""
        if self._locked is None:
            self._locked = LockedFolder.take(self.path)
        return self._locked is not None

    def leave(self) -> None:
        """Hold it no longer: another driver may take it."""
        if self._locked is not None:
            self._locked.release()
            self._locked = None

    def remove(self) -> None:
        """Take it away."""
        remove_tree(str(self.path))
        self.leave()

    # Experiments

    def put(self, digest: str, parcel: bytes) -> None:
        """What is to be run; an outcome of an earlier try is forgotten."""
        with disk_errors(self.path):
            self.outcome(digest).unlink(missing_ok=True)
            self.parcel(digest).write_bytes(parcel)

    def drop(self, digest: str) -> None:
        """An experiment that is settled, or is not to begin."""
        self.parcel(digest).unlink(missing_ok=True)
        self.outcome(digest).unlink(missing_ok=True)

    def holds(self, digest: str) -> bool:
        """Return whether it was handed over here, and is not settled."""
        return self.parcel(digest).exists()

    def parcel(self, digest: str) -> Path:
        return self.path / "parcels" / checked_digest(digest)

    def outcome(self, digest: str) -> Path:
        return self.path / "outcomes" / checked_digest(digest)

    def ended(self) -> list[str]:
        """Return the digests that have an outcome."""
        with suppress(OSError):
            names = os.listdir(self.path / "outcomes")  # noqa: PTH208 - often, and many
            return [name for name in names if is_digest(name)]
        return []

    def digests(self) -> list[str]:
        """Return all that are not settled."""
        with suppress(OSError):
            names = os.listdir(self.path / "parcels")  # noqa: PTH208
            return sorted(filter(is_digest, names))
        return []

    # Job arrays

    def write(self, name: str, script: str, digests: Iterable[str]) -> Path:
        """Return the array *name*, before it is submitted."""
        with disk_errors(self.path):
            path = self.path / "batches" / f"{name}.sh"
            path.write_text(script, "utf-8")
            lines = "".join(f"{digest}\n" for digest in digests)
            write_whole(path.with_suffix(".list"), lines.encode())
            return path

    def batches(self) -> Iterator[tuple[str, list[str]]]:
        """Each array that may have been submitted, and the digests of its tasks."""
        for path in sorted((self.path / "batches").glob("*.list")):
            with suppress(OSError):
                yield path.stem, list(filter(is_digest, path.read_text("utf-8").split()))

    def tasks(self) -> dict[str, ArrayTask]:
        """Return which task each digest is; the newest, where it was submitted again."""
        live = [(name, digests) for name, digests in self.batches() if self.job(name) != _GIVEN_UP]
        return {d: (name, i) for name, digests in live for i, d in enumerate(digests, 1)}

    def job(self, name: str) -> str:
        """Return the job that the array *name* is, once its first task has started.

        Else nothing.
        """
        with suppress(OSError):
            return os.readlink(self.path / "batches" / f"{name}.job")  # noqa: PTH115 - the text
        return ""

    def give_up(self, name: str) -> bool:
        """From now on no task of *name* begins; false if one has begun already."""
        with suppress(FileExistsError):
            # symlink() fails where the name exists: a task was first, or this driver, never both.
            os.symlink(_GIVEN_UP, self.path / "batches" / f"{name}.job")  # noqa: PTH211
        return self.job(name) == _GIVEN_UP

    def forget(self, name: str) -> None:
        """An array all of whose tasks are settled."""
        for suffix in (".list", ".sh", ".job"):
            (self.path / "batches" / f"{name}{suffix}").unlink(missing_ok=True)
        for folder in ("logs", "starts"):
            for path in (self.path / folder).glob(f"{name}-*"):
                path.unlink(missing_ok=True)

    @staticmethod
    def content(path: Path) -> bytes:
        """Return what a worker wrote; PlaceError where that is too large to be read."""
        if path.stat().st_size > LARGEST_OUTCOME_BYTES:
            raise PlaceError(
                f"{path} has more than {LARGEST_OUTCOME_BYTES} B", hint="what wrote it?"
            )
        return path.read_bytes()

    def start(self, task: ArrayTask, restarts: int) -> bytes | None:
        """Return what that start of *task* left; none where its experiment has not begun."""
        with suppress(OSError):
            return self.content(self._start(task, restarts))
        return None

    def last_start(self, task: ArrayTask) -> int:
        """Return the number of the last start of *task* that left a file; 0 if there is none."""
        first = self._start(task, 0)
        names = [path.name for path in first.parent.glob(f"{first.stem}.*")]
        numbers = [name.removeprefix(f"{first.stem}.").partition(".")[0] for name in names]
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    def setup_failed(self, task: ArrayTask, restarts: int) -> bool:
        """Return whether that start of *task* ended in its setup."""
        path = self._start(task, restarts)
        return path.with_name(f"{path.name}.setup").exists()

    def _start(self, task: ArrayTask, restarts: int) -> Path:
        name, number = task
        return self.path / "starts" / f"{name}-{number}.{restarts}"

    def has_begun(self, task: ArrayTask) -> bool:
        """Return whether the job of *task* was started: the file of what it says is made first."""
        name, number = task
        return (self.path / "logs" / f"{name}-{number}").exists()

    def log_end(self, task: ArrayTask) -> str:
        """Return the end of what the job of *task* said."""
        name, number = task
        return log_end(self.path / "logs" / f"{name}-{number}")
