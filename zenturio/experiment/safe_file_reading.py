"""Reads files in a folder that other programs write to: nothing that leads out of it is followed.

Hosts get this file: only the standard library of Python 3.9 is used here.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

LARGEST = 64 * 2**20
"""A metric is read from a file of at most so many bytes."""


class OutsideError(Exception):
    """A file is not there, or is not one that may be read; says why."""


def open_inside(folder: Path, path: str) -> int:
    """Return a descriptor of the plain file *path* in *folder*; no link on the way is followed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    *parents, name = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parents or name == "..":
        raise OutsideError(f"{path} is outside the experiment's folder")
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise OutsideError(f"{path} cannot be read: its folder: {error.strerror}") from None
    try:
        for parent in parents:
            below = os.open(parent, flags | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        descriptor = os.open(name, flags | os.O_NONBLOCK, dir_fd=at)  # a pipe must not block
    except FileNotFoundError:
        raise OutsideError(f"{path} is not there") from None
    except OSError as error:
        raise OutsideError(_refusal(folder, path, error)) from None
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OutsideError(f"{path} is not a regular file")
    return descriptor


def _refusal(folder: Path, path: str, error: OSError) -> str:
    here = folder
    for part in path.split("/"):
        here = here / part
        if here.is_symlink():
            return f"{path} leads through a symbolic link, which is not followed"
    return f"{path} cannot be read: {error.strerror}"


def read_inside(folder: Path, path: str, largest: int = LARGEST) -> bytes:
    """Return the bytes of the plain file *path* in *folder*; OutsideError where that may not be."""
    descriptor = open_inside(folder, path)
    try:
        size = os.fstat(descriptor).st_size
        if size > largest:
            raise OutsideError(f"{path} has {size} bytes, of which at most {largest} are read")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(largest)
    finally:
        os.close(descriptor)
