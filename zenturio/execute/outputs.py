"""Files that an experiment is to leave: found by OUTPUT's patterns, and kept by its digest.

``.zenturio/outputs/DIGEST/…`` holds them under the paths they had. Symbolic links are not followed
and not kept; neither are devices, pipes and sockets.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from zenturio.execute.filing import disk, remove
from zenturio.experiment import Artifact


def found(folder: str, patterns: Iterable[str]) -> list[str]:
    """The plain files in *folder* that match one of *patterns*, relative and sorted."""
    paths: set[str] = set()
    for pattern in patterns:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        paths.update(_matches(folder, "", parts))
    return sorted(paths)


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


def collect(
    folder: str, patterns: Iterable[str], outputs: Path, digest: str, *, move: bool
) -> tuple[Artifact, ...]:
    """Keeps the files that match, moved or copied; those of an earlier attempt give way."""
    paths = found(folder, patterns)
    target = outputs / digest
    artifacts = []
    with disk(outputs):
        if target.exists():
            remove(str(target))
        for path in paths:
            kept = target / path
            kept.parent.mkdir(parents=True, exist_ok=True)
            source = Path(folder, path)
            if move:
                source.replace(kept)
            else:
                shutil.copy2(source, kept, follow_symlinks=False)
            artifacts.append(_artifact(path, kept))
    return tuple(artifacts)


def _artifact(path: str, kept: Path) -> Artifact:
    kept.chmod(kept.stat().st_mode & 0o777 | 0o400)
    with kept.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return Artifact(path, kept.stat().st_size, checksum, kept)
