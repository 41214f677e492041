"""Finds the characters of a program that lie in strings, comments and heredocs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from zenturio.annotate.dialects import Dialect


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
    while found := pattern.search(text, position):
        kind = found.lastgroup or ""
        what, nested = _meaning(kind, dialect)
        end = _end_of_nested(text, found.start(), nested) if nested else found.end()
        position = max(end, found.start() + 1)
        yield Span(found.start(), position, what, what.startswith("a comment"))


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
    for found in re.compile(f"(?P<opener>{opener})|{closer}").finditer(text, start):
        depth += 1 if found["opener"] is not None else -1
        if depth == 0:
            return found.end()
    return len(text)
