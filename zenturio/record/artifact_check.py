"""Whether the files of all artifacts are there, as they were recorded."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sqlalchemy import bindparam, select

from zenturio.experiment.experiment import Artifact
from zenturio.record import codec
from zenturio.record.artifact_store import ArtifactStore, has_content
from zenturio.record.database import Database, Transaction
from zenturio.record.schema import artifacts, experiments

MOST = 20
"""So many complaints are made one by one; further ones are counted."""
_BATCH = 10_000
_NEXT = (
    select(
        artifacts.c.id, experiments.c.digest, artifacts.c.path, artifacts.c.size,
        artifacts.c.sha256, artifacts.c.kept,
    )
    .join(experiments, experiments.c.id == artifacts.c.experiment)
    .where(artifacts.c.id > bindparam("last"))
    .order_by(artifacts.c.id)
    .limit(_BATCH)
)  # fmt: skip


def check_artifacts(database: Database, store: ArtifactStore, *, contents: bool) -> Iterator[str]:
    """What is wrong with the files, in words; with *contents* each is read and hashed."""
    wrong = 0
    read: set[str] = set()
    for digest, artifact in _all(database, store):
        fault = _fault(artifact, contents=contents and artifact.sha256 not in read)
        if not fault:
            if contents and store.owns(artifact.kept):
                read.add(artifact.sha256)
            continue
        wrong += 1
        if wrong <= MOST:
            yield f"experiment {digest[:12]} left {artifact.path}, {fault}: {artifact.kept}"
    if wrong > MOST:
        yield f"{wrong - MOST:,} more artifacts are missing or are not as they were"


def _all(database: Database, store: ArtifactStore) -> Iterator[tuple[str, Artifact]]:
    last = 0
    while rows := database.read(partial(Transaction.rows, statement=_NEXT, last=last)):
        for number, key, path, size, sha256, kept in rows:
            last, digest = number, bytes(key).hex()
            row = Artifact(codec.unescape(path), size, sha256, Path(codec.unescape(kept)))
            yield digest, store.located(row, digest)


def _fault(artifact: Artifact, *, contents: bool) -> str:
    try:
        found = artifact.kept.lstat()
    except OSError as error:
        return f"which is not there ({error.strerror})"
    if not stat.S_ISREG(found.st_mode):
        return "which is no file any more"
    if found.st_size != artifact.size:
        return f"which has {found.st_size:,} bytes, and had {artifact.size:,}"
    if contents and not has_content(artifact.kept, artifact.size, artifact.sha256):
        return "which has other bytes than it had"
    return ""
