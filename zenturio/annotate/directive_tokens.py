"""The tokens of a directive: words, texts and symbols, each with its position."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from zenturio.errors import AnnotationError, Passage

Kind = Literal["word", "text", "name", "sign"]

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<name>`(?:[^`]|``)*`)
  | (?P<word>\w+)
  | (?P<sign>:=|\\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = frozenset({"and", "or", "not", "in", "if", "else"})


@dataclass(frozen=True, slots=True)
class DirectiveToken:
    """A word, a quoted text, a name in backticks, or a sign."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def is_operand(self) -> bool:
        """Whether an expression may end with this token: no operand can follow it directly."""
        if self.kind == "word":
            return self.text.casefold() not in _OPERATORS
        return self.kind != "sign" or self.text in ")]"

    def upper(self) -> str:
        """The word as a keyword is compared; nothing for what is no word."""
        return self.text.upper() if self.kind == "word" else ""


def tokens(text: str, start: int = 0) -> Iterator[DirectiveToken]:
    """The tokens of *text* from *start* on; white space parts them and is left out."""
    for found in _TOKEN.finditer(text, start):
        match found.lastgroup:
            case "text" | "name" | "word" | "sign" as kind:
                yield DirectiveToken(kind, found[0], found.start(), found.end())
            case _:
                pass


def unquote(passage: Passage) -> Passage:
    r"""What stands between the quotes, to the letter: only ``\"`` becomes the quote itself."""
    quote = passage.text[0]
    inner = passage.cut(1, len(passage.text) - 1)
    kept: list[tuple[int, int]] = []
    start = 0
    for found in re.finditer(r"\\.", inner.text, re.DOTALL):
        if found[0][1] == quote:
            kept.append((start, found.start()))
            start = found.start() + 1
    return join(inner, [*kept, (start, len(inner.text))])


def join(passage: Passage, spans: list[tuple[int, int]]) -> Passage:
    """The parts of *passage* within *spans* as one passage whose places stay right."""
    text, pieces = "", []
    for start, end in spans:
        part = passage.cut(start, end)
        pieces += [(len(text) + offset, place) for offset, place in part.pieces]
        text += part.text
    return Passage(text, tuple(pieces))


def unclosed(passage: Passage, token: DirectiveToken) -> AnnotationError:
    """The diagnostic about a quote without its partner."""
    return AnnotationError(
        f"the quote {token.text} is not closed",
        place=passage.place(token.start, token.end),
        hint=f"a second {token.text} where the text ends",
    )
