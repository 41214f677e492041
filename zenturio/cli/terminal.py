"""The door for all text to stdout and stderr: what would control a terminal is only shown.

Names, values, sources and messages come from files that others wrote. An escape sequence in them
could write to the clipboard, hide a line or change what a command seems to be; a bidirectional
sign could make a line read as another one. Here each such character becomes its escape.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable
from typing import Any, Literal

from zenturio.safe_text import visible

Style = Literal["bold", "reverse"]
_STYLES: dict[Style, str] = {"bold": "\x1b[1m", "reverse": "\x1b[7m"}


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
