"""Files in the folder of an experiment: where they may lie, and which ones match a pattern.

Hosts get this file, too: only the standard library of Python 3.9 is used here.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from zenturio.name_patterns import name_fits
from zenturio.system.file_systems import clone_new

COPY_LIMIT_BYTES = 2**20
"""Files up to so many bytes are copied."""
MTIME_STEP_NANOSECONDS = 10_000_000
"""Nanoseconds by which a filled file is newer than a copied one that was written just now: more
than a tick of any file system's clock, less than a program takes to look."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def leads_out(path: str) -> bool:
    """Return whether *path* does not stay inside the folder that it is for."""
    return not path or path.startswith("/") or (".." in path and ".." in path.split("/"))


def link_leads_out(path: str, text: str) -> bool:
    """Return whether the link *path*, which says *text*, leads out of the folder that it is for."""
    depth = path.count("/")
    for part in text.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if text.startswith("/") or depth < 0:
            return True
    return False


def write_new(path: str, content: bytes, mode: int, mtime: int | None = None) -> None:
    """Create a file, with *mtime* if given; never write through an existing link."""
    descriptor = os.open(path, _NEW, mode & 0o777)
    try:
        if mode & 0o022:  # bits that the umask commonly takes away
            os.fchmod(descriptor, mode & 0o777)
        write_all(descriptor, content)
        if mtime is not None:
            os.utime(descriptor, ns=(mtime, mtime))
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def clone_file(source: str | os.PathLike[str], target: str, mode: int, mtime: int) -> bool:
    """Make a copy on write (btrfs, XFS, bcachefs, APFS); false where there is no such thing.

    A source that is a link, a pipe or a device is neither followed nor waited for.
    """
    with suppress(OSError):
        original = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if stat.S_ISREG(os.fstat(original).st_mode) and clone_new(
                original, target, mode & 0o777
            ):
                os.utime(target, ns=(mtime, mtime))
                return True
        finally:
            os.close(original)
    return False


def remove_tree(folder: str | os.PathLike[str]) -> None:
    """Take a folder away with all that is in it, whatever its mode; links are not followed."""
    if os.path.islink(folder):  # noqa: PTH114 - called often
        with suppress(OSError):
            os.unlink(folder)  # noqa: PTH108
        return
    for path, folders, _ in os.walk(folder, followlinks=False):
        for name in folders:
            with suppress(OSError):
                inside = f"{path}/{name}"
                if not stat.S_ISLNK(os.lstat(inside).st_mode):
                    os.chmod(inside, 0o700)  # noqa: PTH101 - an experiment took it away
    with suppress(OSError):
        os.chmod(folder, 0o700)  # noqa: PTH101
    shutil.rmtree(folder, ignore_errors=True)


# Matching of patterns


def matching_files(folder: str, patterns: Iterable[str]) -> list[str]:
    """Return the plain files in *folder* that match one of *patterns*, relative and sorted."""
    paths: set[str] = set()
    for pattern in patterns:
        paths.update(_matches(folder, _parts(pattern)))
    return sorted(paths)


FOLDER_FAULTS = (
    "its folder was deleted",
    "its folder was replaced",
    "its folder was made unreadable",
)
"""The causes of failures of experiments that hide what they left."""


def folder_fault(folder: str) -> str:
    """Return what an experiment did to its own *folder* that hides what it left there.

    Mostly nothing.
    """
    try:
        mode = os.lstat(folder).st_mode
    except OSError:
        return FOLDER_FAULTS[0]
    if not stat.S_ISDIR(mode):
        return FOLDER_FAULTS[1]
    return "" if mode & 0o500 == 0o500 else FOLDER_FAULTS[2]


def missing_outputs(folder: str, patterns: Iterable[str]) -> str:
    """``output missing: results/*.csv`` where one of *patterns* matches no file, else nothing."""
    missing = [pattern for pattern in patterns if not matching_files(folder, [pattern])]
    return f"output missing: {', '.join(missing)}" if missing else ""


def _parts(pattern: str) -> list[str]:
    """Return the names of *pattern*; ``**`` matches any number of folders, and is never last."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if part not in ("", ".") and (part, parts[-1:]) != ("**", ["**"]):
            parts.append(part)
    return [*parts, "*"] if parts[-1:] == ["**"] else parts


def _matches(folder: str, parts: list[str]) -> Iterator[str]:
    """Yield the plain files in *folder* that *parts* match; each folder is looked at once."""
    # With each folder, how many parts may stand for its path: in a set, for ``**`` has many ways.
    folders = [("", _reached(parts, {0}))] if parts else []
    while folders:
        below, matched = folders.pop()
        try:
            entries = list(os.scandir(f"{folder}/{below}"))
        except OSError:
            continue  # it may not be read: nothing to keep
        for entry in entries:
            # Links are never followed: they could lead out of the folder, or in circles.
            if entry.is_dir(follow_symlinks=False):
                if inside := _reached(parts, _after(parts, matched, entry.name)):
                    folders.append((f"{below}{entry.name}/", inside))
            elif (
                len(parts) - 1 in matched
                and _fits(entry.name, parts[-1])
                and entry.is_file(follow_symlinks=False)
            ):
                yield below + entry.name


def _reached(parts: list[str], matched: set[int]) -> set[int]:
    """Return *matched*, and where each ``**`` that comes next stands for no folder."""
    return matched | {at + 1 for at in matched if parts[at] == "**"}


def _after(parts: list[str], matched: set[int], name: str) -> set[int]:
    """Return how many of *parts* may stand for the path once the folder *name* follows."""
    fitting = {part: _fits(name, part) for part in {parts[at] for at in matched} - {"**"}}
    ahead = {at + 1 for at in matched if at + 1 < len(parts) and fitting.get(parts[at])}
    return ahead | {at for at in matched if parts[at] == "**"}


def _fits(name: str, pattern: str) -> bool:
    """Hidden files match only patterns that begin with a dot."""
    return name_fits(name, pattern) and (not name.startswith(".") or pattern.startswith("."))
