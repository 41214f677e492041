"""Which files of a folder match patterns; with the standard library alone, for it runs on hosts."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase


def matching_files(folder: str, patterns: Iterable[str]) -> list[str]:
    """Return the plain files in *folder* that match one of *patterns*, relative and sorted."""
    paths: set[str] = set()
    for pattern in patterns:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        paths.update(_matches(folder, "", parts))
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


def _matches(folder: str, below: str, parts: list[str]) -> Iterator[str]:
    """*parts* of a pattern matched below a folder; ``**`` stands for any folders, or none."""
    if not parts:
        return
    first, *rest = parts
    if first == "**":
        rest = rest or ["*"]
        yield from _matches(folder, below, rest)
    try:
        entries = list(os.scandir(f"{folder}/{below}"))
    except OSError:
        return  # it may not be read: nothing to keep
    for entry in entries:
        # Links are never followed: they could lead out of the folder, or in circles.
        if entry.is_dir(follow_symlinks=False):
            inside = f"{below}{entry.name}/"
            if first == "**":
                yield from _matches(folder, inside, parts)
            elif rest and _fits(entry.name, first):
                yield from _matches(folder, inside, rest)
        elif not rest and _fits(entry.name, first) and entry.is_file(follow_symlinks=False):
            yield below + entry.name


def _fits(name: str, pattern: str) -> bool:
    """Hidden files match only patterns that begin with a dot."""
    return fnmatchcase(name, pattern) and (not name.startswith(".") or pattern.startswith("."))
