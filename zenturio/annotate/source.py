"""Source files: their text, its line ends, and where comments and texts stand in it."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from zenturio.annotate.dialects import Dialect


def shown(text: str, dialect: Dialect, opener: str, closer: str) -> str:
    r"""*text* on one line; what would mean something in the comment is written as ``\x..``."""
    if text.isascii() and text.isalnum():
        return text
    text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    for sequence in (closer, opener if closer else "", *dialect.fragile):
        if sequence:
            text = text.replace(sequence, sequence[:-1] + _escaped(sequence[-1]))
    # A comment of C, make or gnuplot goes on in the next line behind these two.
    if text.endswith(("\\", "??/")):
        text = text[:-1] + _escaped(text[-1])
    return text


def _escaped(character: str) -> str:
    r"""``\n`` and its like, or the number of the character."""
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return named.get(character) or f"\\x{ord(character):02x}"


@dataclass(frozen=True, slots=True)
class Span:
    """One construct, from *start* to before *end*."""

    start: int
    end: int
    what: str
    comment: bool

    @property
    def is_string(self) -> bool:
        """Whether it is a text of one line or few: heredocs often are programs themselves."""
        return self.what in {"a string", "a character", "a regular expression"}


class Spans:
    """The constructs of a text, asked by position; none if the dialect has no patterns."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._spans = list(_spans(text, dialect))
        self._starts = [span.start for span in self._spans]

    def at(self, position: int) -> Span | None:
        """The construct that the character at *position* belongs to."""
        i = bisect_right(self._starts, position) - 1
        return self._spans[i] if i >= 0 and position < self._spans[i].end else None


def _spans(text: str, dialect: Dialect) -> Iterator[Span]:
    pattern = dialect.constructs
    if pattern is None:
        return
    # Line ends of one form, at the same positions, keep the patterns simple.
    text = text.replace("\\\r\n", " \\\n").replace("\r\n", " \n").replace("\r", "\n")
    position = 0
    while match := pattern.search(text, position):
        kind = match.lastgroup or ""
        what, nested = _meaning(kind, dialect)
        end = _end_of_nested(text, match.start(), nested) if nested else match.end()
        position = max(end, match.start() + 1)
        yield Span(match.start(), position, what, what.startswith("a comment"))


def _meaning(kind: str, dialect: Dialect) -> tuple[str, tuple[str, str] | None]:
    """What a group of the pattern is called, and what may nest in it."""
    number = int(kind[1:]) if kind[1:].isdigit() else 0
    match kind[0]:
        case "v":
            verbatim = dialect.verbatim[number]
            return verbatim.what, verbatim.nested
        case "b" if dialect.nested:
            opener, closer = dialect.block[number]
            return "a comment block", (re.escape(opener), re.escape(closer))
        case "b":
            return "a comment block", None
        case _:
            return "a comment", None


def _end_of_nested(text: str, start: int, nested: tuple[str, str]) -> int:
    """Where the construct that begins at *start* ends, those within it counted."""
    opener, closer = nested
    depth = 0
    for match in re.compile(f"(?P<opener>{opener})|{closer}").finditer(text, start):
        depth += 1 if match["opener"] is not None else -1
        if depth == 0:
            return match.end()
    return len(text)


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
        # Not blocking: nobody may ever write into a pipe that lies in a folder.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a plain file", str(path))
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
