"""Text on the terminal: what would control it is only shown."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable
from typing import Any, Literal, TextIO

import typer

from zenturio.safe_text import UNSAFE, visible

Style = Literal["bold", "reverse"]
_STYLES: dict[Style, str] = {"bold": "\x1b[1m", "reverse": "\x1b[7m"}


class VisibleText:
    """A text stream to which only visible text is written; all else is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self.unguarded = stream

    @property
    def encoding(self) -> str:
        """Click writes past a stream that calls itself ASCII."""
        name = str(self.unguarded.encoding)
        return "utf-8" if codecs.lookup(name).name == "ascii" else name

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
        # None under pythonw and some services; twice would escape the escapes.
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


_DECODER = codecs.getincrementaldecoder("utf-8")


class LogOutput:
    """The two streams of an experiment, on ours.

    *safe* shows control characters as their escapes; where nothing is said, it does so on a
    terminal. A part of the output may end inside of a character.
    """

    def __init__(self, *, safe: bool | None) -> None:
        self._safe = [stream.isatty() if safe is None else safe for stream in _streams()]
        # One for each stream: a part may end within a character, and the next one completes it.
        self._decoders = [_DECODER("backslashreplace") for _ in self._safe]
        self._escaped = False

    def put(self, number: int, content: bytes) -> None:
        """Print more of stdout (0) or stderr (1), at once."""
        self._put(number, content, final=False)

    def close(self) -> None:
        """Print what is left, and how to get the bytes where they were not printed."""
        for number, safe in enumerate(self._safe):
            if safe:
                self._put(number, b"", final=True)
        if self._escaped:
            typer.echo("control characters are shown as escapes: --raw prints them", err=True)

    def _put(self, number: int, content: bytes, *, final: bool) -> None:
        stream = _streams()[number]
        stream.flush()
        if self._safe[number]:
            text = self._decoders[number].decode(content, final)
            self._escaped = self._escaped or bool(UNSAFE.search(text))
            stream.write(visible(text))
        else:
            stream.buffer.write(content)
        stream.flush()


def _streams() -> tuple[TextIO, TextIO]:
    return sys.stdout, sys.stderr
