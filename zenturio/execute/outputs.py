"""Files that an experiment is to leave: found by OUTPUT's patterns, and kept by its digest.

``.zenturio/outputs/DIGEST/…`` holds them under the paths they had. Symbolic links are not followed
and not kept; neither are devices, pipes and sockets.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from zenturio.execute.filing import disk, remove
from zenturio.execute.matching import found
from zenturio.experiment import Artifact
from zenturio.experiment.identity import checked_digest


def collect(
    folder: str, patterns: Iterable[str], outputs: Path, digest: str, *, move: bool
) -> tuple[Artifact, ...]:
    """Keeps the files that match, moved or copied; those of an earlier attempt give way."""
    paths = found(folder, patterns)
    target = outputs / checked_digest(digest)
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
