"""The first difference of two text files, whose numbers are compared as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple

LONGEST_LINE = 16 * 2**20
"""Bytes of a line that is compared as text and numbers; a longer one is taken in parts."""
LONGEST_SHOWN = 40
"""Characters of a word that a difference shows."""
_WORD = re.compile(
    r"(?P<number>(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[ed][-+]?\d+)?(?![\w.])"
    r"|(?<![\w.])[-+]?(?:nan|inf|infinity)(?![\w.]))"
    r"|\w+|[^\w\s]",
    re.IGNORECASE,
)


class Word(NamedTuple):
    """A number, a word or a sign of a line; nothing stands for the end of the line."""

    text: str
    number: float | None
    column: int
    """From 1."""


class TextDifference(NamedTuple):
    """Where two files differ first, and by how much."""

    line: int
    column: int
    text: str
    """What stands there; empty at the end of a line or a file."""
    expected: str
    distance: float | None = None
    """Between two numbers."""

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}"
        if self.distance is not None:
            return f"{place}: {self.text} instead of {self.expected}, {self.distance:.3g} off"
        text, expected = self.text or "the end", self.expected or "the end"
        return f"{place}: {text} instead of {expected}"


def first_difference(path: Path, baseline: Path, within: float = 0.0) -> TextDifference | None:
    """Where *path* is not what *baseline* is; None if it is the same.

    Words and signs are the same to the letter, white space does not count, and numbers may differ
    by *within* times the greater one of them, or by *within* where both are below 1. OSError where
    a file cannot be read.
    """
    with path.open("rb") as file, baseline.open("rb") as before:
        lines = zip_longest(_lines(file), _lines(before))
        for number, (line, expected) in enumerate(lines, 1):
            if line == expected:
                continue
            words = zip_longest(_words(line), _words(expected))
            for word, other in words:
                difference = _difference(number, word, other, within)
                if difference is not None:
                    return difference
    return None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE):
        yield line


def _words(line: bytes | None) -> Iterator[Word]:
    text = (line or b"").decode("utf-8", "backslashreplace")
    for match in _WORD.finditer(text):
        number = match["number"]
        value = None if number is None else float(number.lower().replace("d", "e"))
        yield Word(match[0], value, match.start() + 1)


def _difference(
    line: int, word: Word | None, expected: Word | None, within: float
) -> TextDifference | None:
    """Where two words differ; either may be the end of its line."""
    if word is not None and expected is not None:
        if word.text == expected.text:
            return None
        a, b = word.number, expected.number
        if a is not None and b is not None:
            if a == b or (math.isnan(a) and math.isnan(b)):
                return None
            distance = abs(a - b)
            if distance <= within * max(abs(a), abs(b), 1.0) < math.inf:
                return None
            return TextDifference(line, word.column, word.text, expected.text, distance)
    column = word.column if word is not None else expected.column if expected is not None else 1
    text, expected_text = (w.text[:LONGEST_SHOWN] if w else "" for w in (word, expected))
    return TextDifference(line, column, text, expected_text)
