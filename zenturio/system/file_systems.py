"""File systems: which lie elsewhere, locks on files, clones, and when bytes are on the disk."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from zenturio.system.platform_detection import IS_LINUX, PROC, libc_function
from zenturio.system.processes import command_line

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MOUNTS = Path(PROC, "self/mounts")
_LOCKS = Path(PROC, "locks")
NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs"),
        *("lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2"),
        *("smb3", "smbfs", "vboxsf", "virtiofs", "wekafs"),
        *("fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    )
)
"""File systems whose shared memory or locks do not reach across hosts."""


def network_file_system(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the type of the network file system that contains *path*; None if it is local."""
    place = path.resolve(strict=False)
    depth, kind = -1, ""
    for folder, file_system in _mounts(mounts):
        # A later mount on the same folder hides an earlier one.
        if place.is_relative_to(folder) and len(folder.parts) >= depth:
            depth, kind = len(folder.parts), file_system
    return kind if kind in NETWORK else None


def is_noexec(folder: Path) -> bool:
    """Return whether no program can be started from *folder*, or from where it will be created."""
    path = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    return bool(os.statvfs(path).f_flag & getattr(os, "ST_NOEXEC", 0))


def _mounts(mounts: Path) -> Iterator[tuple[Path, str]]:
    """Yield folders and types of what is mounted."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        yield from _mounts_of_bsd()
        return
    for line in lines:
        _, point, file_system, *_ = line.split(" ")
        yield Path(_unescaped(point)), file_system


def _mounts_of_bsd() -> Iterator[tuple[Path, str]]:
    """The same from mount(8), which on macOS and BSD says ``DEVICE on FOLDER (TYPE, ...)``."""
    if IS_LINUX:
        return
    with suppress(OSError, subprocess.SubprocessError):
        output = subprocess.run(["mount"], capture_output=True, timeout=10, check=True).stdout
        for line in os.fsdecode(output).splitlines():
            head, _, tail = line.rpartition(" (")
            yield Path(head.partition(" on ")[2]), tail.rstrip(")").partition(",")[0]


def _unescaped(point: str) -> str:
    """Return a mount point as it is: the kernel writes blanks and the like as octal numbers."""
    for code in ("040", "011", "012", "134"):
        point = point.replace(f"\\{code}", chr(int(code, 8)))
    return point


def lock_holders(paths: Iterable[Path], locks: Path = _LOCKS) -> list[tuple[int, str]]:
    """Return the other processes that hold a write lock on one of *paths*, with their names."""
    files = set()
    for path in paths:
        try:
            stat = path.stat()
        except OSError:
            continue
        files.add(f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}")
    pids = {pid for pid, file in _write_locks(locks) if file in files}
    return [(pid, command_line(pid)[:200] or "?") for pid in sorted(pids - {os.getpid()})]


def _write_locks(locks: Path) -> Iterator[tuple[int, str]]:
    try:
        lines = locks.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, *words = line.split()
        # POSIX ADVISORY WRITE pid device:inode start end; waiting ones begin with "->".
        if words[:1] != ["->"] and words[2:3] == ["WRITE"]:
            yield int(words[3]), words[4]


SLOWEST_SYNC = 2.0
"""Seconds; a sync of a file system that takes longer waits for the data of other programs."""
_slow: set[int] = set()
"""The devices where that was so: files are synced one by one there."""


def sync_files(folder: Path, paths: Sequence[Path]) -> None:
    """Wait until *paths*, which lie below *folder*, and their names are on the disk.

    One sync of the file system costs less than one for each file; elsewhere than on Linux there
    is none that can be waited for.
    """
    if not paths:
        return
    handle = os.open(folder, DIRECTORY)
    try:
        device = os.fstat(handle).st_dev
        sync = _syncfs()
        if sync is None or device in _slow:
            above = {parent for path in paths for parent in path.parents}
            folders = sorted((f for f in above if f.is_relative_to(folder)), reverse=True)
            for path in (*dict.fromkeys(paths), *folders):
                sync_path(path)
            return
        begun = time.monotonic()
        sync(handle)
        if time.monotonic() - begun > SLOWEST_SYNC:
            _slow.add(device)
    finally:
        os.close(handle)


def sync_path(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@lru_cache(maxsize=1)
def _syncfs() -> Callable[[int], None] | None:
    """Return the system's call, if it has one."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return None

    def sync(handle: int) -> None:
        if call(handle) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return sync


@lru_cache(maxsize=1)
def file_system_kinds() -> dict[int, str]:
    """Return the types of the file systems that are mounted, by device; nothing but on Linux."""
    kinds = {}
    with suppress(OSError, ValueError):
        for line in Path(PROC, "self/mountinfo").read_bytes().splitlines():
            before, _, behind = line.partition(b" - ")
            major, minor = before.split()[2].split(b":")
            kinds[os.makedev(int(major), int(minor))] = behind.split()[0].decode("ascii", "replace")
    return kinds


# Locks on files, and clones of files
#
# Hosts get this file, too: only the standard library of Python 3.9 is used here.


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
