"""Files that an experiment is to leave: found by OUTPUT's patterns, and set apart.

``.zenturio/store/incoming/DIGEST-…`` holds them under the paths they had until their outcome is
recorded: each attempt has a folder of its own, so none replaces the files of another one. Symbolic
links are not followed and not kept; neither are devices, pipes and sockets.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR

from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import remove_tree
from zenturio.execute.output_patterns import matching_files
from zenturio.experiment import Artifact
from zenturio.experiment.identity import checked_digest
from zenturio.failpoints import Failpoint
from zenturio.files import make_folder

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
