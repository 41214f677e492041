"""File systems: types, locks and syncs of the files of a repository."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs"),
        *("lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2"),
        *("smb3", "smbfs", "vboxsf", "virtiofs", "wekafs"),
        *("fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    )
)
"""File systems whose shared memory or locks do not reach across hosts."""


def network_file_system(path: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Return the type of the network file system that *path* lies on; none if it is a local one."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = _resolved(path)
    depth, kind = -1, ""
    for line in lines:
        _, point, file_system, *_ = line.split(" ")
        folder = Path(_unescaped(point))
        # A later mount on the same folder hides an earlier one.
        if place.is_relative_to(folder) and len(folder.parts) >= depth:
            depth, kind = len(folder.parts), file_system
    return kind if kind in NETWORK else None


def _resolved(path: Path) -> Path:
    return path.resolve(strict=False)


def _unescaped(point: str) -> str:
    """Return a mount point as it is: the kernel writes blanks and the like as octal numbers."""
    for code in ("040", "011", "012", "134"):
        point = point.replace(f"\\{code}", chr(int(code, 8)))
    return point


def lock_holders(paths: Iterable[Path], locks: Path = Path("/proc/locks")) -> list[tuple[int, str]]:
    """Return the other processes that hold a write lock on one of *paths*, with their names."""
    files = set()
    for path in paths:
        try:
            stat = path.stat()
        except OSError:
            continue
        files.add(f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}")
    pids = {pid for pid, file in _write_locks(locks) if file in files}
    return [(pid, _command(pid)) for pid in sorted(pids - {os.getpid()})]


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


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "?"
    return b" ".join(words).decode(errors="replace").strip()[:200] or "?"


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
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        device = os.fstat(handle).st_dev
        sync = _syncfs()
        if sync is None or device in _slow:
            above = {parent for path in paths for parent in path.parents}
            folders = sorted((f for f in above if f.is_relative_to(folder)), reverse=True)
            for path in (*dict.fromkeys(paths), *folders):
                _sync_one(path)
            return
        begun = time.monotonic()
        sync(handle)
        if time.monotonic() - begun > SLOWEST_SYNC:
            _slow.add(device)
    finally:
        os.close(handle)


def _sync_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@cache
def _syncfs() -> Callable[[int], None] | None:
    """Return the system's call, if it has one."""
    import ctypes  # noqa: PLC0415 - only who keeps artifacts pays for it

    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return None

    def sync(handle: int) -> None:
        if call(handle) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return sync
