"""The syntax of a single value: bare or quoted, with escapes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zenturio.errors import AnnotationError, Passage

_SPACE = re.compile(r"\s*")
_BARE = re.compile(r"[^,{}\\]+")
_WORD = re.compile(r"[^\s\\]+")
_INSIDE = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+")}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_CODES = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A bare word or a quoted text, its escapes read."""

    text: str
    start: int
    end: int


def read_text(passage: Passage, start: int = 0) -> WrittenText:
    """A single value, quoted or up to the next white space, with the escapes of an element."""
    return TextReader(passage, start).value()


def write_text(text: str) -> str:
    """*text* as one element of a set: bare where that is safe, else quoted."""
    if re.fullmatch(r"[\w.+/@%=-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in _ESCAPES.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return f'"{_visible(escaped)}"'


def _visible(text: str) -> str:
    """Characters that would end a line somewhere, or that nobody sees, as codes."""
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)


class TextReader:
    """Reads forward through one passage; ``at`` is the next character."""

    def __init__(self, passage: Passage, at: int) -> None:
        self.passage = passage
        self.text = passage.text
        self.at = at

    def error(self, message: str, start: int, end: int, hint: str) -> AnnotationError:
        return AnnotationError(message, place=self.passage.place(start, end), hint=hint)

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def quoted(self) -> str:
        start, quote = self.at, self.next()
        self.at += 1
        parts: list[str] = []
        while (character := self.next()) != quote:
            if not character:
                hint = f"a second {quote} where the text ends"
                raise self.error(f"the quote {quote} is not closed", start, start + 1, hint)
            parts.append(self.escape() if character == "\\" else self.run(_INSIDE[quote]))
        self.at += 1
        return "".join(parts)

    def bare(self, run: re.Pattern[str] = _BARE) -> str:
        """A bare part; white space before the end of the element is not part of it."""
        parts: list[str] = []
        while self.next() == "\\" or run.match(self.text, self.at):
            if self.next() == "\\":
                parts.append(self.escape())
            else:
                parts.append(self.run(run))
                if self.next() in ("", ",", "}"):
                    parts[-1] = parts[-1].rstrip()
        return "".join(parts)

    def run(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return found[0]

    def escape(self) -> str:
        r"""The character that ``\`` and what follows it stand for."""
        start, letter = self.at, self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if letter in _CODES:
            return self.code(start, _CODES[letter])
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if not letter or letter.isalnum():
            hint = f"write \\\\{letter} for a backslash; \\n, \\t, \\r, \\xHH and \\uHHHH are known"
            raise self.error(f"\\{letter} means nothing here", start, self.at, hint)
        return letter

    def code(self, start: int, digits: int) -> str:
        code = self.text[self.at : self.at + digits]
        self.at += digits
        number = int(code, 16) if re.fullmatch(r"[0-9a-fA-F]+", code) else -1
        if len(code) == digits and (0 <= number < 0xD800 or 0xE000 <= number < 0x110000):
            return chr(number)
        hint = f"{digits} hexadecimal digits that name a character, as \\x41 for A"
        raise self.error(f"{self.text[start : self.at]} is no character", start, self.at, hint)

    def value(self) -> WrittenText:
        self.skip()
        start = self.at
        if self.next() in ('"', "'"):
            return WrittenText(self.quoted(), start, self.at)
        return WrittenText(self.bare(_WORD), start, self.at)
