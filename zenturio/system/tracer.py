"""
Which files and programs a command uses, seen by ptrace.

A program of its own, which imports nothing of ours, for it forks and traces from one thread::

    python -I -S tracer.py    {"folder", "commands", "environment"} in, {"exit", "uses", ...} out

The kernel stops each process of the command before and behind each call, and tells which call it is
(PTRACE_GET_SYSCALL_INFO, Linux 5.3). What a call opened is read from ``/proc/PID/fd``; names are
read from the memory of the process only where nothing is opened. Not seen: what io_uring opens,
what a server does on behalf of the command, and setuid programs, which run without their privilege.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_TRACEME, _SYSCALL, _SETOPTIONS, _GETEVENTMSG, _INFO = 0, 24, 0x4200, 0x4201, 0x420E
_SYSGOOD, _FORK, _VFORK, _CLONE, _EXEC, _EXITKILL = 1, 2, 4, 8, 16, 0x100000
_OPTIONS = _SYSGOOD | _FORK | _VFORK | _CLONE | _EXEC | _EXITKILL
_EVENT_EXEC = 4
_WALL = 0x40000000
_ENTRY, _EXIT = 1, 2
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_LONGEST = 4096
_PAGE = 4096
_AT_FDCWD = -100

# What is done at each call: how its result or its names are read. A pair is (folder, name), the
# arguments that hold a folder's descriptor and a path; a folder of None is the working folder.
_OPENS: dict[str, dict[int, int | str | None]] = {
    "x86_64": {2: 1, 257: 2, 85: None, 437: "how"},
    "aarch64": {56: 2, 437: "how"},
}
"""Calls that open, and which argument holds the flags."""
_EXECS: dict[str, dict[int, tuple[int | None, int]]] = {
    "x86_64": {59: (None, 0), 322: (0, 1)},
    "aarch64": {221: (None, 0), 281: (0, 1)},
}
_CHANGES: dict[str, dict[int, list[tuple[int | None, int]]]] = {
    "x86_64": {
        76: [(None, 0)], 82: [(None, 0), (None, 1)], 83: [(None, 0)], 84: [(None, 0)],
        86: [(None, 1)], 87: [(None, 0)], 88: [(None, 1)], 90: [(None, 0)], 133: [(None, 0)],
        258: [(0, 1)], 259: [(0, 1)], 263: [(0, 1)], 264: [(0, 1), (2, 3)], 265: [(2, 3)],
        266: [(1, 2)], 268: [(0, 1)], 316: [(0, 1), (2, 3)],
    },
    "aarch64": {
        33: [(0, 1)], 34: [(0, 1)], 35: [(0, 1)], 36: [(1, 2)], 37: [(2, 3)],
        38: [(0, 1), (2, 3)], 45: [(None, 0)], 53: [(0, 1)], 276: [(0, 1), (2, 3)],
    },
}  # fmt: skip
"""Calls that make, rename, remove or change what a name says."""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(
    request: int, pid: int, address: int = 0, data: int | ctypes.Array[ctypes.c_char] = 0
) -> int:
    """Return what the kernel answers.

    ProcessLookupError where the process was killed meanwhile.
    """
    value = ctypes.addressof(data) if isinstance(data, ctypes.Array) else data
    answer = int(_libc.ptrace(request, pid, address, value))
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


class Tracer:
    """Runs commands, and reports each file that they open, change or execute."""

    def __init__(self, folder: str, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        machine = platform.machine()
        self._opens = _OPENS[machine]
        self._execs = _EXECS[machine]
        self._changes = _CHANGES[machine]
        self._architecture = _ARCHITECTURES[machine]
        self._pending: dict[int, tuple[str, object]] = {}
        self._known: set[int] = set()
        self.uses: dict[str, dict[str, None]] = {"executed": {}, "read": {}, "written": {}}
        self.foreign = False
        """Whether a process of another architecture ran, whose calls were not understood."""

    def run(self, command: str) -> int:
        """Return the exit status of *command*; whatever it leaves running is killed."""
        root = os.fork()
        if root == 0:
            self._begin(command)
        _, status = os.waitpid(root, _WALL)
        if os.WIFEXITED(status):
            raise OSError(errno.EPERM, "the kernel forbids it")
        _ptrace(_SETOPTIONS, root, 0, _OPTIONS)
        self._known = {root}
        self._go_on(root)
        return self._follow(root)

    def _begin(self, command: str) -> None:
        """Replace the child by the command, once it is traced."""
        try:
            os.chdir(self._folder)
            silent = os.open(os.devnull, os.O_RDWR)
            os.dup2(silent, 0)
            os.dup2(2, 1)  # standard output is the report's
            _ptrace(_TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            shell = ["sh", "-c", command]
            os.execve("/bin/sh", shell, self._environment)  # noqa: S606 - it is one
        finally:
            os._exit(127)

    def _follow(self, root: int) -> int:
        while True:
            try:
                pid, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                return 1
            if not os.WIFSTOPPED(status):
                self._known.discard(pid)
                self._pending.pop(pid, None)
                if pid == root:
                    self._end()
                    return os.waitstatus_to_exitcode(status)
                continue
            with suppress(ProcessLookupError):
                self._stopped(pid, os.WSTOPSIG(status), status >> 16)

    def _end(self) -> None:
        """Kill what the command left running."""
        for pid in self._known:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while True:
            try:
                pid, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                return
            # A process that was forked just before the command ended stops for the first time here.
            if os.WIFSTOPPED(status):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _stopped(self, pid: int, number: int, event: int) -> None:
        deliver = 0
        if number == signal.SIGTRAP | 0x80:
            self._call(pid)
        elif event == _EVENT_EXEC:
            before = (ctypes.c_char * 8)()
            _ptrace(_GETEVENTMSG, pid, 0, before)
            former = struct.unpack("@L", before.raw)[0]
            kind, value = self._pending.pop(former, ("", ""))
            if kind == "exec":
                self._note("executed", str(value))
        elif event == 0 and (pid in self._known or number != signal.SIGSTOP):
            deliver = number
        self._known.add(pid)
        self._go_on(pid, deliver)

    def _go_on(self, pid: int, deliver: int = 0) -> None:
        _ptrace(_SYSCALL, pid, 0, deliver)

    def _call(self, pid: int) -> None:
        """Handle the entry of a process into a system call, or its return."""
        raw = (ctypes.c_char * 88)()
        _ptrace(_INFO, pid, len(raw), raw)
        kind, architecture = struct.unpack_from("@B3xI", raw.raw)
        if architecture != self._architecture:
            self.foreign = True
        elif kind == _ENTRY:
            number, *arguments = struct.unpack_from("@7Q", raw.raw, 24)
            self._enters(pid, number, arguments)
        elif kind == _EXIT:
            result = struct.unpack_from("@q", raw.raw, 24)[0]
            self._comes_back(pid, result)

    def _enters(self, pid: int, number: int, arguments: list[int]) -> None:
        if number in self._opens:
            where = self._opens[number]
            if where is None:  # creat
                flags = os.O_WRONLY
            elif isinstance(where, int):
                flags = arguments[where]
            else:
                flags = struct.unpack("@Q", self._memory(pid, arguments[2], 8) or bytes(8))[0]
            self._pending[pid] = ("open", flags)
        elif number in self._execs:
            self._pending[pid] = ("exec", self._path(pid, arguments, *self._execs[number]))
        elif number in self._changes:
            paths = [self._path(pid, arguments, *pair) for pair in self._changes[number]]
            self._pending[pid] = ("change", paths)

    def _comes_back(self, pid: int, result: int) -> None:
        kind, value = self._pending.pop(pid, ("", None))
        if result < 0 or not kind:
            return
        if kind == "open" and isinstance(value, int):
            with suppress(OSError):
                file = Path(f"/proc/{pid}/fd/{result}")
                if file.is_file():
                    self._note("written" if value & _WRITES else "read", str(file.readlink()))
        elif kind == "change" and isinstance(value, list):
            for path in value:
                self._note("written", path)

    def _note(self, how: str, path: str) -> None:
        """Once each; what the command wrote itself it does not use, when it reads it."""
        path = path.removesuffix(" (deleted)")
        if path.startswith("/") and not (how != "written" and path in self.uses["written"]):
            self.uses[how][path] = None

    def _path(self, pid: int, arguments: list[int], folder: int | None, name: int) -> str:
        """Return the path that a call names; empty where it cannot be read."""
        text = os.fsdecode(self._text(pid, arguments[name]))
        base = f"/proc/{pid}/cwd"
        if folder is not None:
            descriptor = ctypes.c_int(arguments[folder] & 0xFFFFFFFF).value
            base = base if descriptor == _AT_FDCWD else f"/proc/{pid}/fd/{descriptor}"
        try:
            return os.path.normpath(Path(base).readlink() / text)
        except OSError:
            return text if text.startswith("/") else ""

    def _text(self, pid: int, address: int) -> bytes:
        """A text of the process, up to its NUL, page by page: the next one may not be there."""
        text = b""
        while len(text) < _LONGEST:
            piece = self._memory(pid, address + len(text), _PAGE - (address + len(text)) % _PAGE)
            text += piece
            if not piece or b"\0" in piece:
                break
        return text.partition(b"\0")[0]

    def _memory(self, pid: int, address: int, size: int) -> bytes:
        try:
            with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
                memory.seek(address)
                return memory.read(size)
        except (OSError, ValueError, OverflowError):
            return b""


def main() -> None:
    """Run the commands of the request until one fails, and report."""
    request = json.load(sys.stdin)
    if platform.machine() not in _ARCHITECTURES:
        report: dict[str, Any] = {
            "error": f"processors of the kind {platform.machine()} are not known"
        }
    else:
        tracer, status = Tracer(request["folder"], request["environment"]), 0
        try:
            for command in request["commands"]:
                status = tracer.run(command)
                if status:
                    break
            uses = {how: list(paths) for how, paths in tracer.uses.items()}
            report = {"exit": status, "uses": uses, "foreign": tracer.foreign}
        except OSError as error:
            report = {"error": error.strerror or str(error)}
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main()
