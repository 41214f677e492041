"""How the output of an experiment is printed: byte for byte, or so that a terminal is safe."""

import codecs
import sys
from typing import TextIO

import typer

from zenturio.safe_text import UNSAFE, visible

_DECODER = codecs.getincrementaldecoder("utf-8")


class LogOutput:
    """The two streams of an experiment, on ours.

    *safe* shows control characters as their escapes; where nothing is said, it does so on a
    terminal. A part of the output may end inside of a character.
    """

    def __init__(self, *, safe: bool | None) -> None:
        self._safe = [stream.isatty() if safe is None else safe for stream in _streams()]
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
