"""
Folders for experiments: ``.zenturio/work/SESSION/DIGEST`` while one runs.

A session is one driver's, and held by a lock that ends with the driver, however it ends: what a
dead one left, folders and processes, is taken away by the next. A folder that is kept moves to
``.zenturio/work/DIGEST``.
"""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Literal

from zenturio.execute import process_tree
from zenturio.execute.file_staging import StagedFolder, disk_errors, empty_folder, remove_tree
from zenturio.experiment import METRICS
from zenturio.experiment.identity import checked_digest
from zenturio.files import LockedFolder, make_folder

_log = logging.getLogger(__name__)

Keep = Literal["always", "failed", "never"]

REPORT = ".zen-metrics"
"""The file that ``$ZEN_METRICS`` names, in the experiment's folder."""
_SESSION = "session-"


class Workspace:
    """The folders of one driver."""

    def __init__(self, folder: Path) -> None:
        self._work = folder.absolute() / "work"
        with disk_errors(self._work):
            make_folder(self._work.parent, self._work.name)
            self._sweep()
            self._session = LockedFolder.begin(self._work, _SESSION)
        self._path = str(self._session.path)
        self._used: set[str] = set()
        self._spare: dict[str, set[str]] = {}
        """Cleared folders, and the files in them that may be written anew."""
        self._turn = Lock()

    def make(self, digest: str) -> StagedFolder:
        """A folder for an experiment: a cleared one under a new name, which costs less."""
        path = f"{self._path}/{checked_digest(digest)}"
        with self._turn:
            if path in self._used:  # the same experiment runs twice at a time
                # Both need a folder of their own: one clears its own when it ends.
                path = f"{path}-{secrets.token_hex(4)}"
            self._used.add(path)
            spare = path if path in self._spare else next(iter(self._spare), None)
            reusable = self._spare.pop(spare) if spare is not None else set()
        if spare is None:
            os.mkdir(path)  # noqa: PTH102 - called often
        elif spare != path:
            os.rename(spare, path)  # noqa: PTH104 - called often
        return StagedFolder(path, reusable)

    def drop(self, folder: StagedFolder, *, keep: bool) -> None:
        """Take a folder away, or put it where kept ones are found."""
        path = folder.path
        if keep:
            self._put(path)
        reusable = None if keep else empty_folder(path, folder.written)
        with self._turn:
            self._used.discard(path)
            if reusable is not None:
                self._spare[path] = reusable

    def _put(self, path: str) -> None:
        kept_folder = self._work / Path(path).name.partition("-")[0]
        remove_tree(str(kept_folder))
        # An experiment may delete its own folder.
        with disk_errors(kept_folder), suppress(FileNotFoundError):
            os.rename(path, kept_folder)  # noqa: PTH104

    def close(self) -> None:
        """Take the session away."""
        remove_tree(self._path)
        self._session.release()

    def _sweep(self) -> None:
        """Take away the sessions whose drivers are dead, and what runs on in them."""
        for session in LockedFolder.take_abandoned(self._work, _SESSION):
            process_tree.kill_marked(environment_mark(f"{session.path}/"))
            _log.info("cleared %s, which a dead driver left", session.path.name)
            remove_tree(str(session.path))


def running_folder(folder: Path, digest: str) -> Path | None:
    """Return the folder below *folder* in which the experiment runs at this moment."""
    matches = (folder / "work").glob(f"{_SESSION}*/{checked_digest(digest)}")
    return next(matches, None)


def live_driver_pids(folder: Path) -> list[int]:
    """Return the processes of the drivers that hold a session below *folder*."""
    return LockedFolder.live_pids(folder / "work", _SESSION)


def environment_mark(path: str) -> bytes:
    """What the environment of each process holds that runs in a folder beginning with *path*."""
    return f"{METRICS}={path}".encode("utf-8", "surrogateescape")
