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
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Literal

from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import remove_tree
from zenturio.execute.staged_folder import FolderPlan, StagedFolder
from zenturio.experiment import METRICS
from zenturio.experiment.identity import checked_digest
from zenturio.files import LockedFolder, make_folder
from zenturio.system import processes

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
        self._spare: list[StagedFolder] = []
        """Folders in which no experiment runs, as the last one left them."""
        self._turn = Lock()

    def make(self, digest: str, plan: FolderPlan) -> StagedFolder:
        """Return a folder for an experiment: one that was used before, or a new one."""
        with self._turn:
            spare = self._take_spare(digest, plan)
            path = self._free_path(digest)
        if spare is not None:
            try:
                spare.rename(path)
            except FileNotFoundError:  # an experiment may delete its folder
                pass
            else:
                return spare
        os.mkdir(path)  # noqa: PTH102 - called often
        return StagedFolder(path)

    def make_new(self, digest: str) -> StagedFolder:
        """Make an empty folder for an experiment."""
        with self._turn:
            path = self._free_path(digest)
        os.mkdir(path)  # noqa: PTH102
        return StagedFolder(path)

    def _take_spare(self, digest: str, plan: FolderPlan) -> StagedFolder | None:
        """Take the folder that needs least: of this name, of this plan, or any other one."""
        name = f"{self._path}/{checked_digest(digest)}"
        same_name = (folder for folder in self._spare if folder.path == name)
        same_plan = (folder for folder in self._spare if folder.has(plan))
        # One of another build is better than none: most of its files are the same.
        spare = next(chain(same_name, same_plan, self._spare), None)
        if spare is not None:
            self._spare.remove(spare)
        return spare

    def _free_path(self, digest: str) -> str:
        path = f"{self._path}/{checked_digest(digest)}"
        # The same experiment may run twice at a time: both need a folder of their own.
        if path in self._used or any(folder.path == path for folder in self._spare):
            path = f"{path}-{secrets.token_hex(4)}"
        self._used.add(path)
        return path

    def drop(self, folder: StagedFolder, *, keep: bool = False, usable: bool = True) -> None:
        """Have a folder ready for the next experiment, unless it is put where kept ones are.

        One that is not *usable* is taken away, as far as that is possible.
        """
        path = folder.path
        if keep:
            self._put(path)
        elif not usable:
            _log.info("%s cannot be used again", path)
            remove_tree(path)
        with self._turn:
            # Its path stays taken where something is left of it.
            if keep or not os.path.lexists(path):
                self._used.discard(path)
            elif usable:
                self._used.discard(path)
                self._spare.append(folder)

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
            processes.kill_marked(environment_mark(f"{session.path}/"))
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
