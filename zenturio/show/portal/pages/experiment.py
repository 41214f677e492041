"""One experiment: what it was, what came out, what it said, which files it left."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import HTMLResponse, Response, StreamingResponse

from zenturio.errors import ConflictError, NotFoundError, PlaceError
from zenturio.experiment import Artifact, Log
from zenturio.record import Logs
from zenturio.show.portal.state import portal_of
from zenturio.study.follow import behind, said_so_far
from zenturio.study.look import find

if TYPE_CHECKING:
    from starlette.requests import Request

SHOWN = 24_000
"""Bytes of a stream that a page shows: a third of them from its beginning."""
WIDEST = 200_000
"""Characters of a file that a page shows."""
CHUNK = 1 << 18
_SIGNS = {code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), 127)}


@dataclass(frozen=True)
class Said:
    """A stream as a page shows it."""

    name: str
    size: int
    beginning: str
    left_out: int
    """Bytes between the two parts that the page does not show, or that nobody kept."""
    end: str


def experiment(request: Request) -> Response:
    """The page of an experiment."""
    portal = portal_of(request)
    found = find(portal.repository, request.path_params["digest"], _study(request))
    attempt = _attempt(request)
    digest = found.record.digest
    return portal.page(
        request,
        "experiment.html",
        found=found,
        attempt=attempt,
        newest=max((each.number for each in found.attempts), default=0),
        artifacts=portal.repository.artifacts(digest, attempt),
        said=_streams(portal.repository.logs(digest, attempt)),
        circumstances=tuple(_flat(found.definition.provenance)),
        commands=[
            *found.definition.notes.get("builds", ()),
            *found.definition.notes.get("runs", ()),
        ],
    )


def said(request: Request) -> Response:
    """What an experiment that runs here has said by now: a part of a page, asked for again."""
    portal = portal_of(request)
    found = find(portal.repository, request.path_params["digest"], _study(request))
    running = found.record.state == "running"
    if running:
        parts: list[list[bytes]] = [[], []]
        said_so_far(found.record.digest, lambda number, part: parts[number].append(part))
        streams = _streams(Logs(*(Log(b"".join(p), b"", sum(map(len, p))) for p in parts)))
    else:
        streams = _streams(portal.repository.logs(found.record.digest))
    values = {"found": found, "said": streams, "running": running, "attempt": None}
    return HTMLResponse(portal.render("_said.html", **values))


def files(request: Request) -> Response:
    """The files that the experiment ran with, filled once more from what was kept."""
    from zenturio.study.refill import UnfilledError, files_of  # noqa: PLC0415 - it loads much

    portal = portal_of(request)
    found = find(portal.repository, request.path_params["digest"], _study(request))
    texts: Mapping[str, str] = {}
    note = ""
    try:
        texts = files_of(found.definition, found.record)
    except UnfilledError as error:
        note = str(error)
    cut = {path: (text[:WIDEST], len(text) - WIDEST) for path, text in texts.items()}
    return HTMLResponse(portal.render("_files.html", files=cut, note=note))


def log(request: Request) -> Response:
    """A stream, to the byte, as far as it was kept."""
    portal, stream = portal_of(request), request.path_params["stream"]
    if stream not in ("stdout", "stderr"):
        raise NotFoundError(f"an experiment has no {stream}", cure="there is: stdout, stderr")
    digest = find(portal.repository, request.path_params["digest"]).record.digest
    logs = portal.repository.logs(digest, _attempt(request))
    content = b"".join(behind(logs.stdout if stream == "stdout" else logs.stderr))
    return Response(content, headers=_attached(f"{digest[:12]}.{stream}"), media_type=BYTES)


def artifact(request: Request) -> Response:
    """A file that an experiment left, by its number: no path is made of what a request says."""
    portal, number = portal_of(request), request.path_params["number"]
    digest = find(portal.repository, request.path_params["digest"]).record.digest
    kept = portal.repository.artifacts(digest, _attempt(request))
    if not 0 <= number < len(kept):
        raise NotFoundError(f"there is no file {number}", cure=f"it left {len(kept)} files")
    wanted = kept[number]
    name = wanted.path.replace("\\", "/").rpartition("/")[2]
    headers = _attached(name) | {"Content-Length": str(wanted.size)}
    return StreamingResponse(_chunks(_opened(wanted)), headers=headers, media_type=BYTES)


BYTES = "application/octet-stream"


def _attached(name: str) -> dict[str, str]:
    """It is saved, and never shown as a page of ours."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


def _opened(wanted: Artifact) -> BufferedReader:
    """The file, if it is still what was recorded: a database may name any file of the machine."""
    try:
        handle = os.open(wanted.kept, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotFoundError(f"{wanted.path} is gone: {error.strerror}") from error
    file = os.fdopen(handle, "rb")
    try:
        if _is_still(file, wanted):
            return file
    except OSError as error:
        file.close()
        raise PlaceError(f"{wanted.path} cannot be read: {error.strerror}") from error
    file.close()
    raise ConflictError(f"{wanted.path} is another file than the experiment left")


def _is_still(file: BufferedReader, wanted: Artifact) -> bool:
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode) or found.st_size != wanted.size:
        return False
    same = hashlib.file_digest(file, "sha256").hexdigest() == wanted.sha256
    file.seek(0)
    return same


def _chunks(file: BufferedReader) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK):
            yield chunk


def _streams(logs: Logs) -> tuple[Said, Said]:
    return _said("stdout", logs.stdout), _said("stderr", logs.stderr)


def _said(name: str, log: Log) -> Said:
    if log.size <= SHOWN and not log.tail:
        return Said(name, log.size, _readable(log.head), 0, "")
    beginning = log.head[: SHOWN // 3]
    end = (log.tail or log.head[len(beginning) :])[-SHOWN * 2 // 3 :]
    left_out = log.size - len(beginning) - len(end)
    return Said(name, log.size, _readable(beginning), left_out, _readable(end))


def _readable(content: bytes) -> str:
    """Text without loss: what is no text, or no sign of a page, stands there as its number."""
    return content.decode("utf-8", "backslashreplace").translate(_SIGNS)


def _flat(facts: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name} ")
        elif value not in (None, ""):
            yield f"{before}{name}", str(value)


def _study(request: Request) -> str | None:
    return request.query_params.get("study") or None


def _attempt(request: Request) -> int | None:
    text = request.query_params.get("attempt", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise NotFoundError(f"there is no attempt {text!r}")
    return int(text)
