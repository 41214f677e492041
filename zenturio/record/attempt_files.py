"""Logs and artifacts of attempts, in SQL: they hang on the attempt's number and never move."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from zenturio.experiment.experiment import Artifact, Log, Outcome
from zenturio.record import codec
from zenturio.record.artifact_store import in_store
from zenturio.record.database import Transaction
from zenturio.record.entities import AttemptLogs

_LOG = (
    "attempt", "stdout_head", "stdout_tail", "stdout_size", "stderr_head", "stderr_tail",
    "stderr_size",
)  # fmt: skip
_ARTIFACT = ("attempt", "path", "number", "mode", "size", "content")


def keep(transaction: Transaction, attempts: Iterable[tuple[int, Outcome]]) -> None:
    """Insert logs and artifacts of attempts, by the attempts' ids."""
    attempts = list(attempts)
    logs = []
    for number, outcome in attempts:
        out, err = outcome.stdout, outcome.stderr
        if out.size or err.size or out.head or err.head:
            logs.append((number, out.head, out.tail, out.size, err.head, err.tail, err.size))
    transaction.insert("logs", _LOG, logs)
    keep_artifacts(transaction, ((n, o.artifacts) for n, o in attempts if o.artifacts))


def keep_artifacts(
    transaction: Transaction, attempts: Iterable[tuple[int, tuple[Artifact, ...]]]
) -> None:
    """Write down which files attempts left, and where these lie."""
    rows, new_contents = [], []
    contents: dict[bytes, tuple[bytes, int, str | None]] = {}
    for number, files in attempts:
        for place, file in enumerate(files):
            digest = bytes.fromhex(file.sha256)
            rows.append((number, codec.escape(file.path), place, file.mode, file.size, digest))
            where = str(file.kept)
            if where == in_store(file.mode):
                new_contents.append(digest)
                contents[digest] = (digest, file.size, None)
            else:
                contents.setdefault(digest, (digest, file.size, codec.escape(where)))
    transaction.insert_new(
        "contents", ("digest", "size", "foreign_path"), [contents[k] for k in sorted(contents)]
    )
    # What was known elsewhere is in the store now.
    transaction.among_sql(
        "UPDATE contents SET foreign_path = NULL WHERE foreign_path IS NOT NULL AND {among}",
        "digest",
        sorted(set(new_contents)),
    )
    transaction.insert("artifacts", _ARTIFACT, rows)


def logs_of(transaction: Transaction, attempt: int) -> AttemptLogs:
    """Return the logs of an attempt."""
    mark = transaction.dialect.mark
    rows = transaction.sql(
        f"SELECT {', '.join(_LOG[1:])} FROM logs WHERE attempt = {mark}", (attempt,)
    )
    for out_head, out_tail, out_size, err_head, err_tail, err_size in rows:
        out = Log(bytes(out_head), bytes(out_tail), out_size)
        return AttemptLogs(out, Log(bytes(err_head), bytes(err_tail), err_size))
    return AttemptLogs()


def artifacts_of(transaction: Transaction, attempt: int) -> tuple[Artifact, ...]:
    """Return the files that an attempt left."""
    mark = transaction.dialect.mark
    rows = transaction.sql(
        "SELECT a.path, a.size, a.content, c.foreign_path, a.mode FROM artifacts a"
        f" JOIN contents c ON c.digest = a.content WHERE a.attempt = {mark} ORDER BY a.number",
        (attempt,),
    )
    return tuple(artifact_of(*row) for row in rows)


def artifact_of(path: str, size: int, content: bytes, kept: str | None, mode: int) -> Artifact:
    """Return the artifact of a row; the store knows the path of its file."""
    where = in_store(mode) if kept is None else codec.unescape(kept)
    return Artifact(codec.unescape(path), size, bytes(content).hex(), Path(where), mode)
