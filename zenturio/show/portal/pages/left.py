"""Files that an experiment left: to be saved, or looked into.

They are asked for by their numbers: no path is made of what a request says.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from zenturio.errors import ConflictError, NotFoundError, PlaceError
from zenturio.experiment import Artifact
from zenturio.show.portal.looks import BEGINNING, Look, image_type, look
from zenturio.show.portal.state import portal_of
from zenturio.study.look import find

if TYPE_CHECKING:
    from starlette.requests import Request

BYTES = "application/octet-stream"
CHUNK = 1 << 18
MOST_READ = 64_000_000
"""Bytes of a file that is looked into: it is read whole, to see whether it is still the same."""
MOST_PICTURED = 16_000_000
"""Bytes of a picture in a page."""
STILL = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "Content-Disposition": "inline",
}
"""Of a picture that somebody opens by itself no part may do anything."""


def artifact(request: Request) -> Response:
    """A file to be saved."""
    wanted = _wanted(request)
    name = wanted.path.replace("\\", "/").rpartition("/")[2]
    headers = saved(name) | {"Content-Length": str(wanted.size)}
    return StreamingResponse(_chunks(_opened(wanted)), headers=headers, media_type=BYTES)


def preview(request: Request) -> Response:
    """What is in a file, as a part of a page."""
    wanted = _wanted(request)
    found = Look("large")
    if wanted.size <= MOST_READ:
        with _opened(wanted) as file:
            found = look(wanted.path, file.read(BEGINNING), wanted.size)
    if found.kind == "image" and wanted.size > MOST_PICTURED:
        found = Look("large")
    source = request.url.path.removesuffix("/preview") + "/image"
    values = {"file": wanted, "look": found, "source": source, "attempt": attempt_in(request)}
    return HTMLResponse(portal_of(request).render("_preview.html", **values))


def image(request: Request) -> Response:
    """A file that is a picture."""
    wanted = _wanted(request)
    if wanted.size > MOST_PICTURED:
        raise NotFoundError(f"{wanted.path} is too large for a page", hint="save it")
    with _opened(wanted) as file:
        content = file.read()
    kind = image_type(wanted.path, content[:BEGINNING])
    if not kind:
        raise NotFoundError(f"{wanted.path} is no picture", hint="save it")
    return Response(content, headers=STILL, media_type=kind)


def saved(name: str) -> dict[str, str]:
    """What makes a browser save an answer, and never show it as a page of ours."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


def attempt_in(request: Request) -> int | None:
    """The attempt that an address names."""
    text = request.query_params.get("attempt", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise NotFoundError(f"there is no attempt {text!r}")
    return int(text)


def _wanted(request: Request) -> Artifact:
    portal, number = portal_of(request), request.path_params["number"]
    digest = find(portal.repository, request.path_params["digest"]).record.digest
    kept = portal.repository.artifacts(digest, attempt_in(request))
    if not 0 <= number < len(kept):
        raise NotFoundError(f"there is no file {number}", hint=f"it left {len(kept)} files")
    wanted: Artifact = kept[number]
    return wanted


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


_FILE = "/experiment/{digest}/file/{number:int}"
ROUTES = (
    Route(_FILE, artifact),
    Route(f"{_FILE}/preview", preview),
    Route(f"{_FILE}/image", image),
)
