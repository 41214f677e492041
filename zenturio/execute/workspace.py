"""Folders for experiments: ``.zenturio/work/SESSION/DIGEST`` while one runs.

A session is one driver's, and held by a lock that ends with the driver, however it ends: what a
dead one left, folders and processes, is taken away by the next. A folder that is kept moves to
``.zenturio/work/DIGEST``.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from threading import Lock
from time import time_ns
from typing import Literal

from zenturio.annotate.source import STAMP_BYTES, stamp_of
from zenturio.execute.file_staging import (
    InputCache,
    SharedFile,
    checked_link,
    checked_path,
    content_of,
    disk_errors,
    is_small,
    overwrite,
)
from zenturio.execute.folder_files import MTIME_STEP_NANOSECONDS, clone_file, remove_tree, write_new
from zenturio.experiment import METRICS, ExperimentFile
from zenturio.experiment.experiment import FileList, own_files
from zenturio.experiment.identity import checked_digest
from zenturio.files import LockedFolder, make_folder
from zenturio.system import processes

_log = logging.getLogger(__name__)

# Staged folders: experiments run in one after the other; it is checked before each, and only mended
#
# Most files of an application are the same for every experiment. They stay in the folder, with the
# stamps that they had when they were put there (device, inode, size, both times, mode). Before an
# experiment every stamp is compared, which costs 2 us a file; what differs in any way is taken away
# and put anew, never repaired in place; what is no part of the application is removed. So an
# experiment finds what a new folder would hold, whatever the ones before it did.
#
# Folders get a fixed old time, and constant files that of their originals: on file systems with
# coarse clocks a change right after the stamp was taken would not show in the change time, but it
# shows in the modification time.

FOLDER_MTIME = 946_684_800 * 10**9
"""The time of every folder when an experiment begins: older than all that happens in it."""
_NO_STAMP = bytes(STAMP_BYTES)
_LINK = 0o7777
"""A mode beyond this says that it is a link or a folder."""


class FolderPlan:
    """What stays in a folder from experiment to experiment: the files that are not filled in.

    There may be a hundred thousand: what is known of each stands in arrays, by its number.
    """

    def __init__(
        self,
        constants: Sequence[ExperimentFile],
        built: Sequence[ExperimentFile] = (),
        shared: Mapping[str, SharedFile] | None = None,
    ) -> None:
        """*built* are the files of a build; *shared* are its large files by path."""
        self._constants = constants
        self._built = built
        self.shared = shared or {}
        self._now = time_ns()
        self.large: set[int] = set()
        """The files that are cloned or linked to, not copied."""
        self.folders = {""}
        self.newest = 0
        """The latest time of a file."""
        self._early: set[str] = set()
        """The paths of those that are to have the present time."""
        members: dict[str, int] = {}
        large: set[str] = set()
        for number, filed in enumerate(chain(constants, built)):
            name = checked_path(filed.path)
            if stat.S_ISDIR(filed.mode):
                self._add_folder(name)
                continue
            members[name] = number  # what was built takes the place of what it was built from
            if filed.mode <= _LINK and not is_small(filed):
                large.add(name)
            else:
                large.discard(name)
            mtime = filed.mtime or 0
            if number < len(constants) and mtime > self._now:
                # A time to come would be newer than what is filled in.
                self._early.add(name)
            self.newest = max(self.newest, self._now if name in self._early else mtime)
            self._add_folder(name.rpartition("/")[0])
        self.paths = sorted(members)
        """The files and links: each has its place here as a number."""
        self._members = array("q", map(members.__getitem__, self.paths))
        self.large.update(map(self._number, large))

    def file(self, number: int) -> ExperimentFile:
        """Return the file with this number."""
        member = self._members[number] - len(self._constants)
        return self._built[member] if member >= 0 else self._constants[member]

    def number(self, path: str) -> int | None:
        """Return the number of the file *path*; None if it is none of these."""
        number = self._number(path)
        return number if self.paths[number : number + 1] == [path] else None

    def _number(self, path: str) -> int:
        return bisect_left(self.paths, path)

    def mtime(self, filed: ExperimentFile) -> int:
        """Return the time that *filed* gets."""
        return self._now if filed.path in self._early else filed.mtime or 0

    def _add_folder(self, name: str) -> None:
        while name not in self.folders:
            self.folders.add(name)
            name = name.rpartition("/")[0]

    @cached_property
    def _entries(self) -> list[str]:
        return sorted((*self.paths, *self.folders))

    def names(self, folder: str) -> set[str]:
        """What *folder* holds; nothing if it is not one of `folders`."""
        prefix = f"{folder}/" if folder else ""
        names: set[str] = set()
        for at in range(bisect_left(self._entries, prefix), len(self._entries)):
            path = self._entries[at]
            if not path.startswith(prefix):
                break
            names.add(path[len(prefix) :].partition("/")[0])
        return names - {""}

    def is_for(self, constants: Sequence[ExperimentFile]) -> bool:
        """Return whether these are its files, besides those of a build."""
        return self._constants is constants or self._constants == constants


def is_constant(filed: ExperimentFile) -> bool:
    """Return whether *filed* is the same for every experiment: it has a time, or is no file."""
    return filed.mtime is not None or filed.mode > _LINK


def part_files(
    files: Sequence[ExperimentFile], without: Collection[str] = ()
) -> tuple[Sequence[ExperimentFile], list[ExperimentFile]]:
    """Return those of *files* that are the same for every experiment, and those that are filled.

    The paths *without* are left out.
    """
    constants: list[ExperimentFile] = []
    filled: list[ExperimentFile] = []
    for filed in own_files(files):
        if filed.path not in without:
            (constants if is_constant(filed) else filled).append(filed)
    if not isinstance(files, FileList):
        return constants, filled
    if not without:
        return FileList(constants, files.common), filled
    return [*constants, *(filed for filed in files.common if filed.path not in without)], filled


class StagedFolder:
    """One folder, and what is known of its content."""

    def __init__(self, path: str) -> None:
        """*path* is an empty folder."""
        self.path = path
        self.shared: list[SharedFile] = []
        """What its links lead to, which others read as well."""
        self._mode = stat.S_IMODE(os.lstat(path).st_mode)
        self._plan = FolderPlan(())
        self._stamps = bytearray()
        """Of each constant, as it was put here; zeros while it is not."""
        self._folder_stamps: dict[str, bytes] = {}
        """Of each folder, when the last experiment began."""
        self._written: dict[str, set[str]] = {}
        """The names of filled files in each folder."""
        self._changed: set[str] = set()
        """Folders whose time stamps have to be read again."""
        self._empty: set[str] = set()
        """Folders that were made for this experiment: nothing need be removed there."""

    def rename(self, path: str) -> None:
        """Move the folder, which changes its own stamp: so that is compared before."""
        if _stamp(self.path) != self._folder_stamps.get(""):
            self._folder_stamps.pop("", None)
        if path == self.path:
            os.lstat(path)
            return
        os.rename(self.path, path)  # noqa: PTH104 - called often
        self.path = path
        if "" in self._folder_stamps:
            self._folder_stamps[""] = _stamp(path) or b""

    def has(self, plan: FolderPlan) -> bool:
        """Return whether the constants of *plan* are here."""
        return self._plan is plan

    def fill(self, plan: FolderPlan, filled: Iterable[ExperimentFile], inputs: InputCache) -> None:
        """Let the folder hold what *plan* says and the *filled* files, and nothing else.

        OSError where that is not possible: then the folder is of no more use.
        """
        if plan is not self._plan:
            self._change_plan(plan)
        filled = [*filled]
        written: dict[str, set[str]] = {}
        for filed in filled:
            folder, _, name = checked_path(filed.path).rpartition("/")
            written.setdefault(folder, set()).add(name)
            self._need_folder(folder, written)
        for folder in written.keys() | self._written.keys():
            if written.get(folder) != self._written.get(folder):
                self._folder_stamps.pop(folder, None)  # the experiment before had other files
        self._written = written
        self._check_folders(written)
        self._check_constants(inputs)
        # Newer than all constants, for `make` goes by it.
        mtime = max(time_ns(), plan.newest + MTIME_STEP_NANOSECONDS)
        for filed in filled:
            self._put_filled(filed, mtime, inputs)
        self._settle()

    def _change_plan(self, plan: FolderPlan) -> None:
        """Forget what another plan has otherwise; what both have alike stays where it is."""
        before, stamps = self._plan, bytearray(len(plan.paths) * STAMP_BYTES)
        for number, path in enumerate(plan.paths if before.paths else ()):
            former = before.number(path)
            if former is not None and _is_same(number, plan, former, before):
                stamps[_part(number)] = self._stamps[_part(former)]
        self._stamps = stamps
        # Names that belong to the former plan alone must be removed: all folders are listed.
        self._folder_stamps = {}
        self._plan = plan

    def _need_folder(self, folder: str, written: dict[str, set[str]]) -> None:
        """Count the folders around a filled file, as far as the plan lacks them."""
        while folder and folder not in self._plan.folders:
            folder, _, name = folder.rpartition("/")
            written.setdefault(folder, set()).add(name)

    def _check_folders(self, written: Mapping[str, set[str]]) -> None:
        """Make every folder one that holds no other names, from the top."""
        stamps, plan = self._folder_stamps, self._plan
        for folder in sorted(plan.folders | written.keys()):
            path = f"{self.path}/{folder}" if folder else self.path
            stamp = _stamp(path)
            if stamp is not None and stamp == stamps.get(folder):
                continue
            stamps.pop(folder, None)
            self._changed.add(folder)
            if stamp is not None and not _is_folder(path):
                _remove(path)
                stamp = None
            if stamp is None:
                os.mkdir(path, self._mode)  # noqa: PTH102 - called often
                self._empty.add(folder)
                continue
            if stat.S_IMODE(os.lstat(path).st_mode) != self._mode:
                os.chmod(path, self._mode)  # noqa: PTH101
            allowed = plan.names(folder) | written.get(folder, set())
            # Listed as a whole before: what a listing shows while names go is not defined.
            for name in os.listdir(path):  # noqa: PTH208 - called often
                if name not in allowed:
                    _remove(f"{path}/{name}")

    def _check_constants(self, inputs: InputCache) -> None:
        """Put every constant that is not as it was."""
        stamps, root, plan = self._stamps, self.path, self._plan
        self.shared = []
        large = plan.large
        for number, name in enumerate(plan.paths):
            path, is_large = f"{root}/{name}", number in large
            part = _part(number)
            stamp = stamps[part]
            if stamp != _NO_STAMP:
                is_kept = not (is_large and self._is_shared_anew(plan.file(number), path, inputs))
                try:
                    if is_kept and stamp_of(os.lstat(path)) == stamp:
                        continue
                except OSError:
                    pass
                stamps[part] = _NO_STAMP
            filed = plan.file(number)
            folder = name.rpartition("/")[0]
            self._changed.add(folder)
            self._folder_stamps.pop(folder, None)
            if folder not in self._empty:
                _remove(path)
            if filed.mode > _LINK:
                os.symlink(checked_link(filed), path)  # noqa: PTH211
            elif is_large:
                self._put_large(filed, path, inputs)
            else:
                write_new(path, content_of(filed), filed.mode, plan.mtime(filed))
            stamps[part] = stamp_of(os.lstat(path))
        self._empty = set()

    def _is_shared_anew(self, filed: ExperimentFile, path: str, inputs: InputCache) -> bool:
        """Take up the object that a large file is linked to; whether it must be linked again."""
        with suppress(OSError):
            if not stat.S_ISLNK(os.lstat(path).st_mode):
                return False  # a clone is the folder's own, whatever becomes of the object
            shared = self._object(filed, inputs)
            self.shared.append(shared)
            return os.readlink(path) != str(shared.path)  # noqa: PTH115
        return True

    def _put_large(self, filed: ExperimentFile, path: str, inputs: InputCache) -> None:
        """Clone a large file where the file system can, else link to what is shared."""
        shared = self._object(filed, inputs)
        if clone_file(shared.path, path, filed.mode, shared.mtime):
            self.shared = [other for other in self.shared if other is not shared]
            return
        os.symlink(shared.path, path)  # noqa: PTH211
        if shared not in self.shared:
            self.shared.append(shared)

    def _object(self, filed: ExperimentFile, inputs: InputCache) -> SharedFile:
        built = self._plan.shared.get(filed.path)
        return inputs.shared(filed) if built is None else built

    def _put_filled(self, filed: ExperimentFile, mtime: int, inputs: InputCache) -> None:
        path = f"{self.path}/{filed.path}"
        if is_small(filed):
            if overwrite(path, content_of(filed), filed.mode, mtime):
                return
            _remove(path)
            write_new(path, content_of(filed), filed.mode, mtime)
        else:
            _remove(path)
            self._put_large(filed, path, inputs)
        folder = filed.path.rpartition("/")[0]
        self._changed.add(folder)
        self._folder_stamps.pop(folder, None)

    def _settle(self) -> None:
        """Give the folders that changed their old time, and take their stamps."""
        for folder in self._changed:
            path = f"{self.path}/{folder}" if folder else self.path
            os.utime(path, ns=(FOLDER_MTIME, FOLDER_MTIME))
            self._folder_stamps[folder] = stamp_of(os.lstat(path))
        self._changed = set()


def fill_folder(folder: StagedFolder, files: Sequence[ExperimentFile], inputs: InputCache) -> None:
    """Let *folder* hold *files*, once."""
    constants, filled = part_files(files)
    folder.fill(FolderPlan(constants), filled, inputs)


def _part(number: int) -> slice:
    """Return where the stamp of a file stands among all."""
    return slice(number * STAMP_BYTES, (number + 1) * STAMP_BYTES)


def _is_same(number: int, plan: FolderPlan, former_number: int, other: FolderPlan) -> bool:
    """Return whether both would put the file alike."""
    file, former = plan.file(number), other.file(former_number)
    if plan.mtime(file) != other.mtime(former) or file.mode != former.mode:
        return False
    if (number in plan.large) != (former_number in other.large):
        return False
    if file.digest and former.digest:
        return file.digest == former.digest
    return file.content == former.content and file.original == former.original


def _stamp(path: str) -> bytes | None:
    try:
        return stamp_of(os.lstat(path))
    except FileNotFoundError:
        return None


def _is_folder(path: str) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _remove(path: str) -> None:
    """Take away what is at *path*, whatever it is; links are not followed."""
    try:
        os.unlink(path)  # noqa: PTH108 - called often
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError):
        remove_tree(path)
        if os.path.lexists(path):
            raise


# The workspace of a session

Keep = Literal["always", "failed", "never"]

REPORT = ".zen-metrics"
"""The file that ``$ZEN_METRICS`` names, in the experiment's folder."""
_SESSION = "session-"


class WorkspacePool:
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
