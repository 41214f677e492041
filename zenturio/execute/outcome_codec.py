"""Outcomes as bytes: with the files that are kept, or with why the place could not run it."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from zenturio import errors
from zenturio.errors import Diagnostic, PlaceError, ZenError
from zenturio.execute.file_staging import checked_path, disk_errors, write_new
from zenturio.execute.json_checks import (
    any_text,
    digest,
    integer,
    list_of,
    matching,
    nullable,
    number,
    object_of,
    one_of,
    path,
    record,
    text,
    tuple_of,
)
from zenturio.execute.machine_json import (
    check_machine_parts,
    machine_parts_from_json,
    machine_parts_to_json,
)
from zenturio.execute.message_frame import frame_message, unframe_message
from zenturio.execute.output_artifacts import attempt_folder, belongs_to_attempt
from zenturio.execute.recipe_json import place_from_json, place_to_json
from zenturio.execute.value_json import check_measure, value_from_json, values_to_json
from zenturio.experiment import Artifact, Log, Outcome, Status

_MAGIC = b"zen-outcome 2\n"
_LONGEST_TEXT, _MOST_DIAGNOSTICS = 2**16, 10_000
_TEXT = any_text(_LONGEST_TEXT)
_MOMENT = number(-1e12, 1e12)
"""Seconds since 1970."""
_SHA256 = matching("[0-9a-f]{64}", "a SHA-256")
_ARTIFACT = tuple_of(path, integer(), _SHA256, text(), integer(0, 0o777))
_PLACE = nullable(tuple_of(_TEXT, integer(), integer(), _TEXT, integer()))
_DIAGNOSTIC = tuple_of(_TEXT, _PLACE, _TEXT, one_of("error", "warning"))
_FAILURE = record({"failure": text(64), "diagnostics": list_of(_DIAGNOSTIC, _MOST_DIAGNOSTICS, 1)})
_OUTCOME = record({
    "digest": digest, "status": one_of(*get_args(Status)), "cause": _TEXT,
    "metrics": object_of(any_text(4096), check_measure), "attempt": integer(), "host": _TEXT,
    "started": _MOMENT, "ended": _MOMENT, "exit": nullable(integer(-(2**31), 2**32)),
    "remark": _TEXT, "logs": tuple_of(integer(), integer()), "artifacts": list_of(_ARTIFACT),
    **check_machine_parts,
})  # fmt: skip


def pack_outcome(outcome: Outcome, *, shared: bool = False) -> bytes:
    """*outcome* as bytes; with *shared* its artifacts are only named: the disk is the same."""
    logs = (outcome.stdout, outcome.stderr)
    blobs = [part for log in logs for part in (log.head, log.tail)]
    artifacts = [[a.path, a.size, a.sha256, str(a.kept), a.mode] for a in outcome.artifacts]
    if not shared:
        blobs += [artifact.kept.read_bytes() for artifact in outcome.artifacts]
    manifest = {
        "digest": outcome.digest,
        "status": outcome.status,
        "cause": outcome.cause,
        "metrics": values_to_json(outcome.metrics),
        "attempt": outcome.attempt,
        "host": outcome.host,
        "started": outcome.started,
        "ended": outcome.ended,
        "exit": outcome.exit,
        "remark": outcome.remark,
        **machine_parts_to_json(outcome),
        "logs": [log.size for log in logs],
        "artifacts": artifacts,
    }
    return frame_message(_MAGIC, manifest, blobs)


def pack_failure(error: ZenError) -> bytes:
    """Why the place itself could not run an experiment: *error*, as it is to be raised again."""
    rows = [
        [c.message[:_LONGEST_TEXT], place_to_json(c.place), c.hint[:_LONGEST_TEXT], c.severity]
        for c in error.diagnostics[:_MOST_DIAGNOSTICS]
    ]
    return frame_message(_MAGIC, {"failure": type(error).__name__, "diagnostics": rows}, ())


def unpack_outcome(data: bytes, digest: str, incoming: Path) -> Outcome:
    """Return the outcome of the experiment *digest*; its artifacts are below *incoming*.

    Those that came with it are written there. PlaceError where it is the outcome of another
    experiment, or none at all; raises what the place could not do.
    """
    manifest, blobs = unframe_message(_MAGIC, data, _check_manifest)
    if "failure" in manifest:
        raise _failure_from_json(manifest)
    artifacts = tuple(
        Artifact(p, s, c, Path(stored), mode) for p, s, c, stored, mode in manifest["artifacts"]
    )
    if manifest["digest"] != digest:
        raise PlaceError(
            f"an outcome of {manifest['digest'][:12]} came for experiment {digest[:12]}"
        )
    if len(blobs) not in (4, 4 + len(artifacts)):
        raise PlaceError(f"an outcome came with {len(blobs)} pieces for {len(artifacts)} artifacts")
    incoming = incoming.absolute()
    if len(blobs) > 4:
        artifacts = _store_artifacts(artifacts, blobs[4:], incoming, digest)
    # Only paths travelled: a worker must not make any file of this disk an artifact.
    elif not all(belongs_to_attempt(a.kept, a.path, incoming, digest) for a in artifacts):
        raise PlaceError(f"an outcome names artifacts that are not in {incoming}")
    heads = ((blobs[0], blobs[1]), (blobs[2], blobs[3]))
    stdout, stderr = (
        Log(*parts, size) for parts, size in zip(heads, manifest["logs"], strict=True)
    )
    return Outcome(
        manifest["digest"],
        manifest["status"],
        manifest["cause"],
        {name: value_from_json(value) for name, value in manifest["metrics"].items()},
        manifest["attempt"],
        manifest["host"],
        manifest["started"],
        manifest["ended"],
        manifest["exit"],
        stdout,
        stderr,
        artifacts,
        remark=manifest["remark"],
        **machine_parts_from_json(manifest),
    )


def _check_manifest(manifest: Any, where: str) -> None:
    (_FAILURE if "failure" in manifest else _OUTCOME)(manifest, where)


def _store_artifacts(
    artifacts: tuple[Artifact, ...], blobs: list[bytes], incoming: Path, digest: str
) -> tuple[Artifact, ...]:
    """Write what came into a folder of its own."""
    with disk_errors(incoming):
        folder = attempt_folder(incoming, digest)
        return tuple(
            _store_artifact(a, blob, folder) for a, blob in zip(artifacts, blobs, strict=True)
        )


def _store_artifact(artifact: Artifact, content: bytes, folder: Path) -> Artifact:
    if sha256(content).hexdigest() != artifact.sha256:
        raise PlaceError(f"{artifact.path} changed on its way back")
    stored = folder / checked_path(artifact.path)
    stored.parent.mkdir(parents=True, exist_ok=True)
    write_new(str(stored), content, 0o444)
    return replace(artifact, size=len(content), kept=stored)


def _failure_from_json(manifest: dict[str, Any]) -> ZenError:
    # Looked up by name among our errors alone: nothing of the message is executed.
    kind = getattr(errors, manifest["failure"], PlaceError)
    is_known = isinstance(kind, type) and issubclass(kind, ZenError)
    diagnostics = tuple(
        Diagnostic(message, place_from_json(place), hint, severity)
        for message, place, hint, severity in manifest["diagnostics"]
    )
    error: ZenError = (kind if is_known else PlaceError)(diagnostics[0].message)
    error.diagnostics = diagnostics
    return error
