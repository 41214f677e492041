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
from zenturio.show.portal.page_templates import printable
from zenturio.show.portal.state import portal_of
from zenturio.study.overview import find_experiment

if TYPE_CHECKING:
    from starlette.requests import Request


PREVIEW_BYTES = 64_000
"""Of a file, for its preview."""
SHOWN_CHARACTERS = 24_000
"""Of a text in a page."""
ROWS, COLUMNS = 50, 30
"""Of a table in a page."""

_IMAGE_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}


@dataclass(frozen=True)
class FilePreview:
    """What a page shows of a file."""

    kind: Literal["image", "table", "text", "bytes", "empty", "large"]
    text: str = ""
    rows: Sequence[Sequence[str]] = ()
    """Of a table, with its header first."""
    more: bool = False
    """Whether only a part is shown."""


def preview_of(path: str, beginning: bytes, size: int) -> FilePreview:
    """Return the preview of the file *path*, of *size* bytes, from its *beginning*."""
    if not size:
        return FilePreview("empty")
    if image_type(path, beginning):
        return FilePreview("image")
    text = _text(beginning, cut=size > len(beginning))
    if text is None:
        return FilePreview("bytes")
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _DELIMITERS:
        return _table(text, _DELIMITERS[suffix], cut=size > len(beginning))
    return _plain(text, cut=size > len(beginning))


def image_type(path: str, beginning: bytes) -> str:
    """Return the media type of an image by its first bytes; empty if it is not one.

    SVG is recognised by its suffix, too: it is text.
    """
    for signature, kind in _IMAGE_SIGNATURES:
        if beginning.startswith(signature):
            return kind
    if beginning.startswith(b"RIFF") and beginning[8:12] == b"WEBP":
        return "image/webp"
    if path.lower().endswith(".svg") and _is_svg(beginning.decode("utf-8-sig", "replace")):
        return "image/svg+xml"
    return ""


def _is_svg(text: str) -> bool:
    """Return whether the first element of *text* is svg, after comments and declarations.

    Each character is read once, from left to right: whoever wrote the file also chose how often a
    regular expression would have to backtrack.
    """
    at = _skip_blanks(text, 0)
    if text.startswith("<?xml", at):
        at = _skip_past(text, at, ">")
    while text.startswith(("<!--", "<!DOCTYPE"), at := _skip_blanks(text, at)):
        if text.startswith("<!--", at):
            at = _skip_past(text, at, "-->")
            continue
        end = _skip_past(text, at, ">")
        if "[" in text[at:end]:  # it declares entities
            return False
        at = end
    return text.startswith(("<svg>", "<svg ", "<svg\t", "<svg\n", "<svg\r"), at)


def _skip_blanks(text: str, at: int) -> int:
    """Return the first position from *at* that is not white space."""
    while text[at : at + 1].isspace():
        at += 1
    return at


def _skip_past(text: str, at: int, closer: str) -> int:
    """Return the position after the next *closer*; the end of the text if there is none."""
    end = text.find(closer, at)
    return len(text) if end < 0 else end + len(closer)


def _text(content: bytes, *, cut: bool) -> str | None:
    """Return the text of *content*, None if it is not text; *cut* may split its last character."""
    if b"\0" in content:
        return None
    for end in range(4 if cut else 1):
        try:
            return content[: len(content) - end].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
    return None


def _plain(text: str, *, cut: bool) -> FilePreview:
    return FilePreview(
        "text", printable(text[:SHOWN_CHARACTERS]), more=cut or len(text) > SHOWN_CHARACTERS
    )


def _table(text: str, delimiters: str, *, cut: bool) -> FilePreview:
    """Return a table; the most frequent delimiter of the first line separates its cells."""
    first = text.partition("\n")[0]
    delimiter = max(delimiters, key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return _plain(text, cut=cut)
    # The last line of a beginning is torn.
    complete = lines[:-1] if cut else lines
    rows = [
        [printable(cell[:200]) for cell in line[:COLUMNS]] for line in complete[: ROWS + 1] if line
    ]
    is_wide = any(len(line) > COLUMNS for line in complete[: ROWS + 1])
    return FilePreview("table", rows=rows, more=cut or is_wide or len(complete) > ROWS + 1)


BINARY = "application/octet-stream"
CHUNK = 1 << 18
MOST_READ_BYTES = 64_000_000
"""Of a file with a preview: it is read whole, to check that it has not changed."""
MOST_IMAGE_BYTES = 16_000_000
"""Of an image in a page."""
INERT_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "Content-Disposition": "inline",
}
"""For an image that is opened by itself: nothing in it may be executed."""


def artifact(request: Request) -> Response:
    """Return an artifact as a download."""
    match = _artifact_of(request)
    name = match.path.replace("\\", "/").rpartition("/")[2]
    headers = download_headers(name) | {"Content-Length": str(match.size)}
    return StreamingResponse(_chunks(_open_checked(match)), headers=headers, media_type=BINARY)


def preview(request: Request) -> Response:
    """Return the preview of an artifact: a part of the page."""
    match = _artifact_of(request)
    file_preview = FilePreview("large")
    if match.size <= MOST_READ_BYTES:
        with _open_checked(match) as file:
            file_preview = preview_of(match.path, file.read(PREVIEW_BYTES), match.size)
    if file_preview.kind == "image" and match.size > MOST_IMAGE_BYTES:
        file_preview = FilePreview("large")
    values = {
        "artifact": match,
        "preview": file_preview,
        "source": request.url.path.removesuffix("/preview") + "/image",
        "attempt": attempt_in(request),
    }
    return HTMLResponse(portal_of(request).render("_preview.html", **values))


def image(request: Request) -> Response:
    """Return an artifact that is an image, to be shown in a page."""
    match = _artifact_of(request)
    if match.size > MOST_IMAGE_BYTES:
        raise NotFoundError(f"{match.path} is too large for a page", hint="download it instead")
    with _open_checked(match) as file:
        content = file.read()
    kind = image_type(match.path, content[:PREVIEW_BYTES])
    if not kind:
        raise NotFoundError(f"{match.path} is not an image", hint="download it instead")
    return Response(content, headers=INERT_HEADERS, media_type=kind)


def download_headers(name: str) -> dict[str, str]:
    """Return headers that make a browser save an answer, and never show it as one of our pages."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


def attempt_in(request: Request) -> int | None:
    """Return the attempt that an address names."""
    text = request.query_params.get("attempt", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise NotFoundError(f"there is no attempt {text!r}")
    return int(text)


def _artifact_of(request: Request) -> Artifact:
    portal, number = portal_of(request), request.path_params["number"]
    digest = find_experiment(portal.repository, request.path_params["digest"]).record.digest
    artifacts = portal.repository.artifacts(digest, attempt_in(request))
    if not 0 <= number < len(artifacts):
        raise NotFoundError(
            f"there is no artifact {number}", hint=f"the experiment has {len(artifacts)}"
        )
    artifact: Artifact = artifacts[number]
    return artifact


def _open_checked(artifact: Artifact) -> BufferedReader:
    """Return the file if it is still what was recorded: a database may name any file.

    Raise NotFoundError if it is gone, ConflictError if it has changed.
    """
    try:
        # Neither a link that was put in its place, nor a pipe that would be waited for.
        handle = os.open(artifact.kept, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotFoundError(f"{artifact.path} is gone: {error.strerror}") from error
    file = os.fdopen(handle, "rb")
    try:
        if _is_unchanged(file, artifact):
            return file
    except OSError as error:
        file.close()
        raise PlaceError(f"{artifact.path} cannot be read: {error.strerror}") from error
    file.close()
    raise ConflictError(f"{artifact.path} has changed since the experiment")


def _is_unchanged(file: BufferedReader, artifact: Artifact) -> bool:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_size != artifact.size:
        return False
    # On the open file: between a check by path and the reading it could be exchanged.
    is_same = hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256
    file.seek(0)
    return is_same


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
