"""Which files of a folder match patterns; with the standard library alone, for it runs on hosts."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from zenturio.name_patterns import name_fits


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
    """Return the names of *pattern*; ``**`` stands for any folders or none, and never last."""
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
