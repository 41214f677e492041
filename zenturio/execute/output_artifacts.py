"""Files that an experiment leaves: found by their patterns, and kept as artifacts."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR

from zenturio.execute.file_staging import disk_errors, remove_tree
from zenturio.experiment import Artifact
from zenturio.experiment.identity import checked_digest
from zenturio.failpoints import Failpoint
from zenturio.files import make_folder
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


COLLECTED = Failpoint("store.collected")
_NAME = re.compile("[0-9a-f]{32}-[0-9a-f]{16}")
"""The folder of an attempt: the experiment, and what tells attempts apart."""
STALE_SECONDS = 30 * 86400.0
"""After so long nobody comes any more for what a job of a dead driver left."""


def attempt_folder(incoming: Path, digest: str) -> Path:
    """A new folder for the files of one attempt."""
    make_folder(incoming.parents[1], *incoming.parts[-2:])
    folder = incoming / f"{checked_digest(digest)}-{secrets.token_hex(8)}"
    folder.mkdir()
    return folder


def belongs_to_attempt(stored: Path, path: str, incoming: Path, digest: str) -> bool:
    """Return whether *stored* is the file *path* of an attempt at the experiment *digest*."""
    with suppress(ValueError):
        folder, *inner = stored.relative_to(incoming).parts
        is_attempt = _NAME.fullmatch(folder) and folder.startswith(checked_digest(digest))
        return bool(is_attempt) and Path(*inner) == Path(path) and ".." not in inner
    return False


def collect_outputs(
    folder: str, patterns: Iterable[str], incoming: Path, digest: str, *, move: bool
) -> tuple[Artifact, ...]:
    """Set the files that match apart, moved or copied."""
    paths = matching_files(folder, patterns)
    artifacts = []
    with disk_errors(incoming):
        target = attempt_folder(incoming, digest) if paths else incoming
        for path in paths:
            stored = target / path
            stored.parent.mkdir(parents=True, exist_ok=True)
            source = Path(folder, path)
            # A file that has another name could be written to under that one.
            if move and source.stat(follow_symlinks=False).st_nlink == 1:
                source.replace(stored)
            else:
                shutil.copy2(source, stored, follow_symlinks=False)
            artifacts.append(artifact_of(path, stored))
    COLLECTED()
    return tuple(artifacts)


def artifact_of(path: str, stored: Path) -> Artifact:
    """Return the file *stored*, which nobody writes to from now on."""
    stat = stored.stat(follow_symlinks=False)
    stored.chmod(stat.st_mode & 0o444 | 0o400)
    with stored.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return Artifact(path, stat.st_size, checksum, stored, stat.st_mode & 0o777)


def remove_stale(incoming: Path, seconds: float = STALE_SECONDS) -> None:
    """Remove what was set apart so long ago that no outcome will name it."""
    oldest = time.time() - seconds
    if incoming.is_symlink() or incoming.parent.is_symlink():
        return  # what is there is not ours
    with suppress(OSError):
        for folder in list(incoming.iterdir()):
            stat = folder.lstat()
            if S_ISDIR(stat.st_mode) and _NAME.fullmatch(folder.name) and stat.st_mtime < oldest:
                remove_tree(str(folder))
