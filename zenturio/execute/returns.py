"""Outcomes as bytes: with the files that are kept, or with why the place could not run it."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from zenturio import errors
from zenturio.errors import Diagnostic, PlaceError, ZenError
from zenturio.execute.filing import checked, disk, write
from zenturio.execute.machine_codec import (
    check_machine_parts,
    read_machine_parts,
    write_machine_parts,
)
from zenturio.execute.noted import check_noted, noted_values, read_noted
from zenturio.execute.notes import noted_place, read_place
from zenturio.execute.outputs import attempt_folder, is_of_attempt
from zenturio.execute.schema import (
    digest,
    items,
    loose_text,
    matching,
    nullable,
    one_of,
    path,
    real,
    record,
    row,
    table,
    text,
    whole,
)
from zenturio.execute.seal import opened, sealed
from zenturio.experiment import Artifact, Log, Outcome, Status

_MAGIC = b"zen-outcome 2\n"
_LONG, _COMPLAINTS = 2**16, 10_000
_TEXT = loose_text(_LONG)
_MOMENT = real(-1e12, 1e12)
"""Seconds since 1970."""
_SHA256 = matching("[0-9a-f]{64}", "a SHA-256")
_ARTIFACT = row(path, whole(), _SHA256, text(), whole(0, 0o777))
_PLACE = nullable(row(_TEXT, whole(), whole(), _TEXT, whole()))
_COMPLAINT = row(_TEXT, _PLACE, _TEXT, one_of("error", "warning"))
_FAILURE = record({"failure": text(64), "diagnostics": items(_COMPLAINT, _COMPLAINTS, 1)})
_OUTCOME = record({
    "digest": digest, "status": one_of(*get_args(Status)), "cause": _TEXT,
    "metrics": table(loose_text(4096), check_noted), "attempt": whole(), "host": _TEXT,
    "started": _MOMENT, "ended": _MOMENT, "exit": nullable(whole(-(2**31), 2**32)),
    "remark": _TEXT, "logs": row(whole(), whole()), "artifacts": items(_ARTIFACT),
    **check_machine_parts,
})  # fmt: skip


def pack_outcome(outcome: Outcome, *, shared: bool = False) -> bytes:
    """*outcome* as bytes; with *shared* its artifacts are only named: the disk is the same."""
    logs = (outcome.stdout, outcome.stderr)
    blobs = [part for log in logs for part in (log.head, log.tail)]
    kept = [[a.path, a.size, a.sha256, str(a.kept), a.mode] for a in outcome.artifacts]
    if not shared:
        blobs += [each.kept.read_bytes() for each in outcome.artifacts]
    told = {
        "digest": outcome.digest,
        "status": outcome.status,
        "cause": outcome.cause,
        "metrics": noted_values(outcome.metrics),
        "attempt": outcome.attempt,
        "host": outcome.host,
        "started": outcome.started,
        "ended": outcome.ended,
        "exit": outcome.exit,
        "remark": outcome.remark,
        **write_machine_parts(outcome),
        "logs": [log.size for log in logs],
        "artifacts": kept,
    }
    return sealed(_MAGIC, told, blobs)


def pack_failure(error: ZenError) -> bytes:
    """Why the place itself could not run an experiment: *error*, as it is to be raised again."""
    told = [
        [c.message[:_LONG], noted_place(c.place), c.hint[:_LONG], c.severity]
        for c in error.diagnostics[:_COMPLAINTS]
    ]
    return sealed(_MAGIC, {"failure": type(error).__name__, "diagnostics": told}, ())


def unpack_outcome(data: bytes, digest: str, incoming: Path) -> Outcome:
    """The outcome of the experiment *digest*; its artifacts are below *incoming*.

    Those that came with it are written there. PlaceError where it is the outcome of another
    experiment, or none at all; raises what the place could not do.
    """
    told, blobs = opened(_MAGIC, data, _check)
    if "failure" in told:
        raise _failure(told)
    artifacts = tuple(
        Artifact(p, s, c, Path(kept), mode) for p, s, c, kept, mode in told["artifacts"]
    )
    if told["digest"] != digest:
        raise PlaceError(f"an outcome of {told['digest'][:12]} came for experiment {digest[:12]}")
    if len(blobs) not in (4, 4 + len(artifacts)):
        raise PlaceError(f"an outcome came with {len(blobs)} pieces for {len(artifacts)} artifacts")
    incoming = incoming.absolute()
    if len(blobs) > 4:
        artifacts = _written(artifacts, blobs[4:], incoming, digest)
    elif not all(is_of_attempt(a.kept, a.path, incoming, digest) for a in artifacts):
        raise PlaceError(f"an outcome names artifacts that are not in {incoming}")
    heads = ((blobs[0], blobs[1]), (blobs[2], blobs[3]))
    stdout, stderr = (Log(*parts, size) for parts, size in zip(heads, told["logs"], strict=True))
    return Outcome(
        told["digest"],
        told["status"],
        told["cause"],
        {name: read_noted(each) for name, each in told["metrics"].items()},
        told["attempt"],
        told["host"],
        told["started"],
        told["ended"],
        told["exit"],
        stdout,
        stderr,
        artifacts,
        remark=told["remark"],
        **read_machine_parts(told),
    )


def _check(manifest: Any, where: str) -> None:
    (_FAILURE if "failure" in manifest else _OUTCOME)(manifest, where)


def _written(
    artifacts: tuple[Artifact, ...], blobs: list[bytes], incoming: Path, digest: str
) -> tuple[Artifact, ...]:
    """Writes what came into a folder of its own."""
    with disk(incoming):
        folder = attempt_folder(incoming, digest)
        return tuple(_write(a, blob, folder) for a, blob in zip(artifacts, blobs, strict=True))


def _write(artifact: Artifact, content: bytes, folder: Path) -> Artifact:
    if sha256(content).hexdigest() != artifact.sha256:
        raise PlaceError(f"{artifact.path} came back with other bytes than it had")
    kept = folder / checked(artifact.path)
    kept.parent.mkdir(parents=True, exist_ok=True)
    write(str(kept), content, 0o444)
    return replace(artifact, size=len(content), kept=kept)


def _failure(told: dict[str, Any]) -> ZenError:
    kind = getattr(errors, told["failure"], PlaceError)
    known = isinstance(kind, type) and issubclass(kind, ZenError)
    diagnostics = tuple(
        Diagnostic(message, read_place(place), hint, severity)
        for message, place, hint, severity in told["diagnostics"]
    )
    error: ZenError = (kind if known else PlaceError)(diagnostics[0].message)
    error.diagnostics = diagnostics
    return error
