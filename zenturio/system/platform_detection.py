"""Which part of this package a process uses: that of Linux, or the generic one.

The generic part is for macOS and whatever else is a Unix. ``ZENTURIO_SYSTEM=generic`` chooses it
on Linux, too: so it is tested, and so a fault can be told from one of the Linux part.
"""

from __future__ import annotations

import os
import sys
from typing import Any

IS_LINUX = (
    sys.platform == "linux"
    and os.path.isdir("/proc/self")  # noqa: PTH112 - each launcher would load pathlib
    and os.environ.get("ZENTURIO_SYSTEM") != "generic"
)
"""Whether the kernel tells about processes in /proc, gives us orphans, and counts what stalls."""
KERNEL_FOLDERS = ("/proc/", "/sys/")
"""Where Linux shows itself as files."""
MEMORY_FOLDER = "/dev/shm/"  # noqa: S108 - nothing of ours is written there
"""Where users keep files in memory, which are files as any others, though below /dev."""
PROC, SYS = ("/proc", "/sys") if IS_LINUX else ("/no-proc", "/no-sys")
"""Where the kernel's files are; elsewhere than on Linux nothing is at these paths."""
SHELL_CLOCKS: dict[str, str] = {
    "WTIME": "$(date +%s%N)",
    "CTIME": "$(awk '{sub(/.*[)] /, x); print $12 + $13 + $14 + $15}' /proc/$$/stat)",
    "MAXRSS": "$(awk '/VmHWM/ {print $2 * 1024}' /proc/$$/status)",
} if IS_LINUX else {}  # fmt: skip
"""What a shell script reads itself by: nanoseconds, 1/100 s, bytes. Elsewhere date(1) knows no
nanoseconds, and the times of a process can only be printed."""


def sysctl(name: str) -> str:
    """Return what the kernel of macOS or BSD says of *name*, in words; empty elsewhere."""
    return _sysctl_bytes(name).rstrip(b"\0").decode(errors="replace")


def sysctl_number(name: str) -> int:
    """Return an integer that the kernel of macOS or BSD says; 0 elsewhere."""
    return int.from_bytes(_sysctl_bytes(name)[:8], sys.byteorder)


def _sysctl_bytes(name: str) -> bytes:
    call = None if sys.platform == "linux" else libc_function("sysctlbyname")
    if call is None:
        return b""
    import ctypes  # noqa: PLC0415 - see `libc_function`

    text, size = ctypes.create_string_buffer(1024), ctypes.c_size_t(1024)
    failed = call(name.encode(), text, ctypes.byref(size), None, ctypes.c_size_t(0))
    return b"" if failed else text.raw[: size.value]


def libc_function(name: str) -> Any:
    """Return a function of the C library; None where it has none of this name."""
    import ctypes  # noqa: PLC0415 - a quarter of a millisecond in each command, and Linux needs none

    return getattr(ctypes.CDLL(None, use_errno=True), name, None)
