"""Files that appear whole or not at all, and the folder of the project."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

PROJECT = ".zenturio"
"""The folder in which a project keeps what is its own."""


def own_project(folder: Path) -> Path | None:
    """Return the nearest folder from *folder* upwards that is a project of this user, if any."""
    here = folder.absolute()
    for parent in (here, *here.parents):
        try:
            if (parent / PROJECT).stat().st_uid == os.geteuid():
                return parent
        except OSError:
            continue
    return None


def read_regular(path: Path, most: int) -> bytes:
    """Return the bytes of a file that somebody else may have put there.

    OSError where it is no regular file, or larger than *most* bytes.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return content


def open_regular(path: Path) -> BinaryIO:
    """Open for reading a file that somebody else may have put there.

    OSError where it is a link, a pipe or a device: they are neither followed nor waited for.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def write_whole(path: Path, pieces: Iterable[bytes]) -> None:
    """Put *pieces* into the file *path*, which stays as it was until all of them are there.

    A link stays a link. What is no file, as a pipe or /dev/stdout, gets them as they come.
    """
    if _passes_on(path):
        with path.open("wb") as stream:
            stream.writelines(pieces)
        return
    target = path.resolve()
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
        mask = os.umask(0)
        os.umask(mask)
        Path(draft).chmod(0o666 & ~mask)
        Path(draft).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        raise


def _passes_on(path: Path) -> bool:
    """Whether what is written to *path* goes elsewhere, so that it must not be replaced."""
    return path.absolute().parts[1:2] in {("dev",), ("proc",)} or (
        path.exists() and not path.is_file()
    )
