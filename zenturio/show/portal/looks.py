"""What a file looks like by its beginning: a picture, a table, a text, or bytes."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from zenturio.show.portal.words import readable

BEGINNING = 64_000
"""Bytes that are looked at."""
SHOWN = 24_000
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
    return Look("text", readable(text[:SHOWN]), more=cut or len(text) > SHOWN)


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
