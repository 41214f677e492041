"""What takes long only once: compiling, of which a person should know."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

SILENT = 1.0
"""Seconds of compiling of which nothing is said."""


@contextmanager
def compiling_told() -> Iterator[None]:
    """Say on stderr that functions are being compiled, if the block does so for long.

    They are kept where Numba keeps them: beside the program, or in the user's cache.
    """
    from numba.core import event

    told = _Told()
    listener: Any = event.RecordingListener  # which says nothing of its types
    with event.install_listener("numba:compile", listener()) as began:
        told.began = began
        told.start()
        try:
            yield
        finally:
            told.done.set()
            told.join()


class _Told(threading.Thread):
    """Looks whether anything has been compiled, and says so after a while."""

    began: Any

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(SILENT / 4):
            if self.began.buffer and not self.done.wait(SILENT):
                typer.echo("compiling what computes plans: once, then it is kept", err=True)
                return
