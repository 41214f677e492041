"""Source files: bytes, encoding, lines with their ends, and mode bits."""

from __future__ import annotations

import codecs
import os
import re
import stat
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

# Only these three end a line. str.splitlines also splits at form feeds, NEL and others, which
# compilers and editors do not count, so line numbers in diagnostics would be wrong.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEAD = 1 << 16


@dataclass(frozen=True)
class Source:
    """One file. Whatever its encoding, ``bom + encode(text)`` is its content to the byte."""

    path: Path
    text: str | None
    """None: the file is binary; it is copied, never scanned."""
    encoding: str = "utf-8"
    bom: bytes = b""
    mode: int = 0o644
    mtime: int | None = field(default=None, compare=False)
    """When it was last written, in nanoseconds since 1970; none if it is no file on a disk."""

    @staticmethod
    def read(path: Path) -> Source:
        """The file at *path*, with the mode bits that it has now."""
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            mode, mtime = stat.S_IMODE(status.st_mode), status.st_mtime_ns
            head = file.read(_HEAD)
            if _is_binary(head):
                return Source(path, None, "binary", mode=mode, mtime=mtime)
            return replace(Source.of(head + file.read(), path, mode), mtime=mtime)

    @staticmethod
    def of(content: bytes, path: Path = Path("<text>"), mode: int = 0o644) -> Source:
        """A file of this *content* that need not exist, unless it is binary."""
        for bom, encoding in _MARKS:
            text = _decoded(content[len(bom) :], encoding) if content.startswith(bom) else None
            if text is not None:
                return Source(path, text, encoding, bom, mode)
        if b"\0" in content:
            return Source(path, None, "binary", mode=mode)
        text = _decoded(content, "utf-8")
        if text is not None:
            return Source(path, text, mode=mode)
        return Source(path, content.decode("latin-1"), "latin-1", mode=mode)

    @property
    def content(self) -> bytes:
        """Its bytes; those of a binary are read when they are asked for, not kept in memory."""
        return self.path.read_bytes() if self.text is None else self.bom + self.encode(self.text)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        r"""Its lines with their ends (\n, \r\n or \r, the last one perhaps without)."""
        return split_lines(self.text or "")

    def encode(self, text: str) -> bytes:
        """*text* as bytes of this file, without a mark; UnicodeEncodeError if it cannot hold it."""
        return text.encode(self.encoding)


def split_lines(text: str) -> tuple[str, ...]:
    r"""Lines with their ends, split behind \n, \r\n and \r and nowhere else."""
    return tuple(_LINE.findall(text))


def without_end(line: str) -> str:
    """*line* without its line end."""
    return line.rstrip("\r\n")


def _decoded(content: bytes, encoding: str) -> str | None:
    """The text, or None if *content* is not text in *encoding*; NUL is in no text."""
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _is_binary(head: bytes) -> bool:
    """Whether the first bytes already show it, so that a large file need not be read."""
    return b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
