"""Make stdout and stderr safe to write: control characters are shown, a full disk ends nothing."""

from __future__ import annotations

import codecs
import errno
import io
import os
import stat
import sys
from collections.abc import Iterable
from typing import Any, Literal, TextIO

import typer

from zenturio.safe_text import UNSAFE, visible

Style = Literal["bold", "reverse"]
_STYLES: dict[Style, str] = {"bold": "\x1b[1m", "reverse": "\x1b[7m"}


class EscapingStream:
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


class _Output:
    """What became of the streams of this process."""

    error: OSError | None = None
    """Why a stream could not be written, unless its reader went away."""
    outlives_readers = False
    new_files: tuple[int, ...] = ()
    """Which of stdout and stderr the shell redirects to a file that was empty at first."""


class FailSilentFile(io.FileIO):
    """A descriptor that is written to nowhere after the first failure.

    A full disk must not end a study with a traceback, and `zen results | head` just ends. Every
    write of this process comes here, those of buffers and of other packages, too.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_terminal = self.isatty()

    def write(self, content: Any) -> int:
        """Write *content*; after a failure, count it as written."""
        try:
            return super().write(content) or 0
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            # A terminal that was closed answers EIO; a pipe without readers, EPIPE.
            if error.errno != errno.EPIPE and not self._is_terminal:
                _Output.error = _Output.error or error
            elif not _Output.outlives_readers:
                raise SystemExit(0) from error
            return len(memoryview(content).cast("B"))


def guard() -> None:
    """Make stdout and stderr safe to write, once: see EscapingStream and FailSilentFile."""
    _open_closed_streams()
    _Output.new_files = tuple(filter(_is_new_file, (1, 2)))
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # Twice would escape the escapes.
        if not isinstance(stream, EscapingStream):
            setattr(sys, name, EscapingStream(_on_output_file(stream)))


def _open_closed_streams() -> None:
    # Where `zen list >&-` has closed a stream, the next file that is opened would get its number, a
    # database for example, and be what experiments inherit as theirs.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def _is_new_file(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) and not status.st_size


def note_redirected_files() -> None:
    """Write down what the shell made for the output of this command: no input of a study."""
    if not _Output.new_files:
        return
    from zenturio.files import note_redirected

    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for descriptor in _Output.new_files:
        note_redirected(descriptor)


def _on_output_file(stream: TextIO) -> TextIO:
    """Return a stream like *stream* that ends in a FailSilentFile; itself if it is no file."""
    try:
        raw = FailSilentFile(stream.fileno())
    except (OSError, ValueError):  # a notebook, or a test that captures it
        return stream
    stream.flush()
    # Unbuffered (python -u), a text stream writes to the file itself.
    is_unbuffered = isinstance(getattr(stream, "buffer", None), io.RawIOBase)
    return io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=bool(stream.line_buffering),
        write_through=is_unbuffered,
    )


def outlive_readers() -> None:
    """Go on when a reader of the output has gone: what runs is worth more than what is said."""
    _Output.outlives_readers = True


def output_error() -> OSError | None:
    """Write what is buffered, and return why output could not be written, if that is so."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return _Output.error


def unguarded(stream: Any) -> Any:
    """The stream behind the door, for what moves on a terminal: no text of others goes there."""
    return stream.unguarded if isinstance(stream, EscapingStream) else stream


def is_moving(stream: Any) -> bool:
    """Return whether *stream* is a terminal that obeys control codes, such as a moving line."""
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def clear_line(stream: Any) -> None:
    """Take the moving line of a terminal away."""
    unguarded(stream).write("\r\x1b[K")


def has_styles() -> bool:
    """Return whether stdout shows bold text, and the user has nothing against it."""
    return is_moving(sys.stdout) and not os.environ.get("NO_COLOR")


def styled(text: str, style: Style) -> None:
    """Write *text* to stdout, in that style on a terminal; without a line's end."""
    stream = unguarded(sys.stdout)
    sys.stdout.flush()
    if has_styles():
        stream.write(f"{_STYLES[style]}{visible(text)}\x1b[0m")
    else:
        sys.stdout.write(text)


_DECODER = codecs.getincrementaldecoder("utf-8")


class ExperimentOutput:
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
