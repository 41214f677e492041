"""A note on the terminal while kernels are compiled for the first time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

SILENT = 1.0
"""Seconds of compiling before the note is printed."""


@contextmanager
def compiling_told() -> Iterator[None]:
    """Print a note to stderr if the block compiles functions for longer than SILENT seconds.

    Compiled functions are cached where Numba keeps them: beside the program, or in the user's
    cache.
    """
    from numba.core import event

    note = _CompilingNote()
    listener: Any = event.RecordingListener  # which says nothing of its types
    with event.install_listener("numba:compile", listener()) as began:
        note.began = began
        note.start()
        try:
            yield
        finally:
            note.done.set()
            note.join()


class _CompilingNote(threading.Thread):
    """Looks whether anything has been compiled, and says so after a while."""

    began: Any

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(SILENT / 4):
            if self.began.buffer and not self.done.wait(SILENT):
                typer.echo(
                    "compiling the scheduling kernels (only once; they are cached)", err=True
                )
                return
