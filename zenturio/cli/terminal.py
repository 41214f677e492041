"""The door for all text to stdout and stderr: what would control a terminal is only shown.

Names, values, sources and messages come from files that others wrote. An escape sequence in them
could write to the clipboard, hide a line or change what a command seems to be; a bidirectional
sign could make a line read as another one. Here each such character becomes its escape.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterable
from typing import Any, Literal

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but the tabulator and the line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional signs
    "\u2028\u2029"  # separators, at which some terminals begin a line
    "\ud800-\udfff]"  # halves of pairs: no encoding has them
)
Style = Literal["bold", "reverse"]
_STYLES: dict[Style, str] = {"bold": "\x1b[1m", "reverse": "\x1b[7m"}


def visible(text: str) -> str:
    """*text* with each character that controls a terminal as its escape."""
    return UNSAFE.sub(_escape, text)


def visible_in_json(text: str) -> str:
    """The same for JSON, in its own escapes: it stays the same value."""
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class VisibleText:
    """A text stream to which only visible text is written; all else is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self.unguarded = stream

    @property
    def encoding(self) -> str:
        """Click writes past a stream that calls itself ASCII."""
        found = str(self.unguarded.encoding)
        return "utf-8" if codecs.lookup(found).name == "ascii" else found

    def write(self, text: str) -> int:
        """Write *text* so that it is only seen; what the encoding lacks is escaped, too."""
        encoding = self.unguarded.encoding
        plain = visible(text).encode(encoding, "backslashreplace").decode(encoding)
        self.unguarded.write(plain)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def guard() -> None:
    """Put the door before stdout and stderr, once."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, VisibleText):
            setattr(sys, name, VisibleText(stream))


def unguarded(stream: Any) -> Any:
    """The stream behind the door, for what moves on a terminal: no text of others goes there."""
    return stream.unguarded if isinstance(stream, VisibleText) else stream


def styled(text: str, style: Style) -> None:
    """Write *text* to stdout, in that style on a terminal; without a line's end."""
    stream = unguarded(sys.stdout)
    sys.stdout.flush()
    if sys.stdout.isatty():
        stream.write(f"{_STYLES[style]}{visible(text)}\x1b[0m")
    else:
        sys.stdout.write(text)
