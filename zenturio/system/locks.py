"""Locks on files, and clones of files.

Hosts get this file, too: only the standard library of Python 3.9 is used here.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from zenturio.system.capabilities import IS_LINUX, PROC, libc_function


def lock_descriptor(descriptor: int, *, shared: bool = False, wait: bool = True) -> None:
    """Lock the open file *descriptor* for this process; the kernel releases it when that ends.

    BlockingIOError if another one holds it, unless this is to *wait*.
    """
    operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, operation if wait else operation | fcntl.LOCK_NB)


def listed_holder(path: Path, locks: Path = Path(PROC, "locks")) -> str:
    """Return which process holds the exclusive lock, as the system lists it; empty if none does.

    ``unknown`` where the system has no list. Needs no right but to find the file.
    """
    try:
        number = path.lstat().st_ino
    except OSError:
        return ""
    try:
        lines = locks.read_text().splitlines()
    except OSError:
        return "unknown"
    for line in lines:
        # "1: FLOCK ADVISORY WRITE pid device:number 0 EOF". Some file systems have another device
        # in the list than in the file's status, so its number alone tells.
        _, kind, _, mode, pid, file, *_ = [*line.split(), *[""] * 6]
        if (kind, mode, file.rpartition(":")[2]) == ("FLOCK", "WRITE", str(number)):
            return pid
    return ""


_FICLONE = 0x40049409
"""The request of Linux that makes a file share the blocks of another one until one changes."""


def clone_into(source: int, target: int) -> None:
    """Let the open new file *target* share the blocks of *source* until one of them is changed.

    OSError where the file system cannot (btrfs, XFS and bcachefs can), and elsewhere than on Linux.
    """
    if not IS_LINUX:
        raise OSError(errno.ENOTSUP, "an open file cannot become a clone here")
    fcntl.ioctl(target, _FICLONE, source)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def clone_new(source: int, path: str, mode: int) -> bool:
    """Make the new file *path* a clone of the open file *source*; false where it cannot be one."""
    call = _fclonefileat()
    if call is not None:  # clonefile(2) of macOS, on APFS
        if call(source, _AT_FDCWD, os.fsencode(path), 0) != 0:
            return False
        os.chmod(path, mode)  # noqa: PTH101 - called often
        return True
    descriptor = os.open(path, _NEW, mode)
    try:
        clone_into(source, descriptor)
    except OSError:
        os.unlink(path)  # noqa: PTH108
        return False
    finally:
        os.close(descriptor)
    return True


_AT_FDCWD = -2
"""The working folder, as macOS numbers it."""


@lru_cache(maxsize=1)
def _fclonefileat() -> Callable[..., int] | None:
    return None if IS_LINUX else libc_function("fclonefileat")


def descriptor_path(descriptor: int) -> str:
    """Return a path of the open file *descriptor* itself; empty where the system has none."""
    return f"{PROC}/self/fd/{descriptor}" if IS_LINUX else ""
