"""Check that the files of all artifacts exist and are unchanged."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from functools import partial

from zenturio.experiment.experiment import Artifact
from zenturio.record.artifact_store import ArtifactStore, has_content
from zenturio.record.database import Database, Transaction
from zenturio.record.result_rows import artifact_of

MOST = 20
"""So many diagnostics are made one by one; further ones are counted."""
_BATCH = 10_000
_NEXT = (
    "SELECT a.attempt, a.path, coalesce(r.digest, t.digest), a.size, a.content, c.foreign_path,"
    " a.mode FROM artifacts a JOIN contents c ON c.digest = a.content"
    " LEFT JOIN results r ON r.id = a.attempt LEFT JOIN attempts t ON t.id = a.attempt"
    f" WHERE (a.attempt, a.path) > ({{mark}}, {{mark}}) ORDER BY a.attempt, a.path LIMIT {_BATCH}"
)


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
    text = _NEXT.format(mark=database.dialect.mark)
    last: tuple[int, str] = (0, "")
    while rows := database.read(partial(Transaction.sql, text=text, parameters=last)):
        for attempt, path, key, *facts in rows:
            last, digest = (attempt, path), bytes(key or b"").hex()
            yield digest, store.located(artifact_of(path, *facts), digest)


def _fault(artifact: Artifact, *, contents: bool) -> str:
    try:
        file_stat = artifact.kept.lstat()
    except OSError as error:
        return f"which is not there ({error.strerror})"
    if not stat.S_ISREG(file_stat.st_mode):
        return "which is no file any more"
    if file_stat.st_size != artifact.size:
        return f"which has {file_stat.st_size:,} bytes, and had {artifact.size:,}"
    if contents and not has_content(artifact.kept, artifact.size, artifact.sha256):
        return "which has other bytes than it had"
    return ""
