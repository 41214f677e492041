"""Artifacts of an experiment: download and preview.

Requests name them by number: no path is made of anything that a request says.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from zenturio.errors import ConflictError, NotFoundError, PlaceError
from zenturio.experiment import Artifact
from zenturio.show.portal.page_templates import readable
from zenturio.show.portal.state import portal_of
from zenturio.study.look import find

if TYPE_CHECKING:
    from starlette.requests import Request


BEGINNING = 64_000
"""Bytes that are looked at."""
SHOWN_CHARACTERS = 24_000
"""Characters of a text that a page shows."""
ROWS, COLUMNS = 50, 30
"""Of a table that a page shows."""

_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}


@dataclass(frozen=True)
class Look:
    """What a page shows of a file."""

    kind: Literal["image", "table", "text", "bytes", "empty", "large"]
    text: str = ""
    rows: Sequence[Sequence[str]] = ()
    """Of a table, its head first."""
    more: bool = False
    """Whether there is more than is shown."""


def look(path: str, beginning: bytes, size: int) -> Look:
    """The look of the file *path*, of so many bytes."""
    if not size:
        return Look("empty")
    if image_type(path, beginning):
        return Look("image")
    text = _text(beginning, cut=size > len(beginning))
    if text is None:
        return Look("bytes")
    ending = PurePosixPath(path).suffix.lower()
    if ending in _DELIMITERS:
        return _table(text, _DELIMITERS[ending], cut=size > len(beginning))
    return _plain(text, cut=size > len(beginning))


def image_type(path: str, beginning: bytes) -> str:
    """The media type of a picture, by its first bytes; empty if it is none.

    Of SVG the name says so, too: it is text.
    """
    for signature, kind in _PICTURES:
        if beginning.startswith(signature):
            return kind
    if beginning.startswith(b"RIFF") and beginning[8:12] == b"WEBP":
        return "image/webp"
    if path.lower().endswith(".svg") and _is_svg(beginning.decode("utf-8-sig", "replace")):
        return "image/svg+xml"
    return ""


def _is_svg(text: str) -> bool:
    """Whether *text* has an svg element first, behind comments and declarations.

    Each character is looked at once, from left to right: whoever wrote the file also chose how
    often a pattern would have to go back.
    """
    at = _blank(text, 0)
    if text.startswith("<?xml", at):
        at = _behind(text, at, ">")
    while text.startswith(("<!--", "<!DOCTYPE"), at := _blank(text, at)):
        if text.startswith("<!--", at):
            at = _behind(text, at, "-->")
            continue
        end = _behind(text, at, ">")
        if "[" in text[at:end]:  # it declares entities of its own
            return False
        at = end
    return text.startswith(("<svg>", "<svg ", "<svg\t", "<svg\n", "<svg\r"), at)


def _blank(text: str, at: int) -> int:
    """The first place from *at* that is no white space."""
    while text[at : at + 1].isspace():
        at += 1
    return at


def _behind(text: str, at: int, closer: str) -> int:
    """The place behind the next *closer*; the end of the text if there is none."""
    end = text.find(closer, at)
    return len(text) if end < 0 else end + len(closer)


def _text(content: bytes, *, cut: bool) -> str | None:
    """The text that bytes are, if they are one; a *cut* may go through its last sign."""
    if b"\0" in content:
        return None
    for end in range(4 if cut else 1):
        try:
            return content[: len(content) - end].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
    return None


def _plain(text: str, *, cut: bool) -> Look:
    return Look("text", readable(text[:SHOWN_CHARACTERS]), more=cut or len(text) > SHOWN_CHARACTERS)


def _table(text: str, delimiters: str, *, cut: bool) -> Look:
    """A table; the most frequent delimiter of its first line separates its cells."""
    first = text.partition("\n")[0]
    delimiter = max(delimiters, key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return _plain(text, cut=cut)
    whole = lines[:-1] if cut else lines
    rows = [[readable(cell[:200]) for cell in line[:COLUMNS]] for line in whole[: ROWS + 1] if line]
    wide = any(len(line) > COLUMNS for line in whole[: ROWS + 1])
    return Look("table", rows=rows, more=cut or wide or len(whole) > ROWS + 1)


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
