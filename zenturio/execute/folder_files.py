"""Files in the folder of an experiment: where they may lie, written, cloned, removed.

Hosts get this file, too: only the standard library of Python 3.9 is used here.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress

from zenturio.system.locks import clone_new

COPY_LIMIT_BYTES = 2**20
"""Files up to so many bytes are copied."""
MTIME_STEP_NANOSECONDS = 10_000_000
"""Nanoseconds by which a filled file is newer than a copied one that was written just now: more
than a tick of any file system's clock, less than a program takes to look."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def leads_out(path: str) -> bool:
    """Return whether *path* does not stay inside the folder that it is for."""
    return not path or path.startswith("/") or (".." in path and ".." in path.split("/"))


def link_leads_out(path: str, text: str) -> bool:
    """Return whether the link *path*, which says *text*, leads out of the folder that it is for."""
    depth = path.count("/")
    for part in text.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if text.startswith("/") or depth < 0:
            return True
    return False


def write_new(path: str, content: bytes, mode: int, mtime: int | None = None) -> None:
    """A new file, of this *mtime* if one is given; nothing that is there is written through."""
    descriptor = os.open(path, _NEW, mode & 0o777)
    try:
        if mode & 0o022:  # bits that the umask commonly takes away
            os.fchmod(descriptor, mode & 0o777)
        write_all(descriptor, content)
        if mtime is not None:
            os.utime(descriptor, ns=(mtime, mtime))
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def clone_file(source: str | os.PathLike[str], target: str, mode: int, mtime: int) -> bool:
    """Make a copy on write (btrfs, XFS, bcachefs, APFS); false where there is no such thing.

    A source that is a link, a pipe or a device is neither followed nor waited for.
    """
    with suppress(OSError):
        original = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if stat.S_ISREG(os.fstat(original).st_mode) and clone_new(
                original, target, mode & 0o777
            ):
                os.utime(target, ns=(mtime, mtime))
                return True
        finally:
            os.close(original)
    return False


def remove_tree(folder: str | os.PathLike[str]) -> None:
    """Take a folder away with all that is in it, whatever its mode; links are not followed."""
    if os.path.islink(folder):  # noqa: PTH114 - called often
        with suppress(OSError):
            os.unlink(folder)  # noqa: PTH108
        return
    for path, folders, _ in os.walk(folder, followlinks=False):
        for name in folders:
            with suppress(OSError):
                inside = f"{path}/{name}"
                if not stat.S_ISLNK(os.lstat(inside).st_mode):
                    os.chmod(inside, 0o700)  # noqa: PTH101 - an experiment took it away
    with suppress(OSError):
        os.chmod(folder, 0o700)  # noqa: PTH101
    shutil.rmtree(folder, ignore_errors=True)
