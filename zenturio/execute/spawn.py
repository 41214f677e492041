"""Starts a command, and captures what it prints.

A command of plain words is started itself, another one by a shell.

A process begins its largest resident size with that of the process that started it: a program of
1 MB that a launcher starts seems to have its 12. Where that matters it is started *exactly*:
by setsid(1), which is small, and whose orphan it then is. That costs half a millisecond.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import time
from collections import deque
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from zenturio.execute.run_conditions import NAMES
from zenturio.system import processes

CALL_COMMAND = ("python", "-m", "zenturio.execute.call")
"""How a command begins that calls a function of Python."""
_DESCRIPTORS = 2**16
"""No process here has as many open."""
_SHELL = "/bin/sh"
_LIMITED_SHELL = 'ulimit -d "$0" && exec "$@"'
_PID_LIMIT = 2**22
"""More processes than that no Linux has: their numbers go up and begin again."""
_DEFAULTS = [
    getattr(signal, name)
    for name in ("SIGPIPE", "SIGXFSZ", "SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD")
]
"""Signals that the launcher, or Python, ignores: experiments do not inherit that."""


class Spawner:
    """Starts commands in the current folder, with the environment of a run and its pipes."""

    def __init__(self, environment: dict[bytes, bytes], out: int, err: int) -> None:
        self._environment = environment
        self._out, self._err = out, err
        self.begun = 0.0
        """When the last command was started, by the monotonic clock: before anything of it ran."""
        self._actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, err, 2),
        ]

    def start(self, step: dict[str, Any], setsid: str = "") -> tuple[int, bool]:
        """Start a process in its own session; return it, and whether *setsid* started it."""
        shell = [_SHELL, "-c", step["command"]]
        words = step["words"] or shell
        is_call = tuple(words[:3]) == CALL_COMMAND and len(words) == 5
        # What is shipped to a host does not have it: there another interpreter starts.
        if is_call and find_spec("zenturio.execute.call"):
            return self._call(*words[3:]), False
        path = self._which(words[0])
        if path is None:
            words, path = shell, _SHELL  # which says in the usual words that it is not found
        if step["data"]:
            words = [_SHELL, "-c", _LIMITED_SHELL, str(step["data"] // 1024), path, *words[1:]]
            path = _SHELL
        if setsid and os.access(path, os.X_OK):
            with suppress(OSError):
                return self._exactly(setsid, [path, *words[1:]]), True
        try:
            return self._spawn(path, words), False
        except OSError as error:
            if path == _SHELL or error.errno not in (errno.ENOEXEC, errno.ENOENT, errno.EACCES):
                raise
            return self._spawn(_SHELL, shell), False

    def _call(self, root: str, target: str) -> int:
        """Fork this process to call a function, which saves the start of an interpreter."""
        call = import_module("zenturio.execute.call")
        # Libraries that the module loads start their threads here, and never again in the fork.
        for name in map(os.fsencode, NAMES):
            if name in self._environment:
                os.environb[name] = self._environment[name]
        call.preload(root, target)
        gc.freeze()  # a collection in the fork would copy what is in memory already
        self.begun = time.monotonic()
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            self._become()
            status = call.call_function(root, target)
        finally:
            os._exit(status)

    def _become(self) -> None:
        """Turn this forked process into the experiment's, without resources of the launcher."""
        processes.begin_session()
        signal.set_wakeup_fd(-1)
        for number in _DEFAULTS:
            signal.signal(number, signal.SIG_DFL)
        for descriptor, source in ((1, self._out), (2, self._err)):
            os.dup2(source, descriptor)
        os.closerange(3, _DESCRIPTORS)
        os.environb.clear()
        os.environb.update(self._environment)
        gc.enable()

    def _exactly(self, setsid: str, words: list[str]) -> int:
        """Start *words* as a child of setsid, which ends at once and leave it to us."""
        own_pid = os.getpid()
        # setsid forks and ends: its child becomes ours, for this process is a subreaper.
        before = set(processes.children(own_pid))
        parent = self._spawn(setsid, [setsid, "-f", "--", *words])
        os.waitpid(parent, 0)
        new = [pid for pid in processes.children(own_pid) if pid not in before]
        # However setsid ended: the program may kill it, and would be started a second time.
        if not new:
            raise OSError(errno.ENOSYS, "setsid does not fork")
        # Should the program have ended already, its own orphans are here too: it is the oldest.
        return min(new, key=lambda pid: (processes.start_ticks(pid), (pid - parent) % _PID_LIMIT))

    def _spawn(self, path: str, words: list[str]) -> int:
        """posix_spawn; a program that somebody is still writing is waited for a little."""
        for pause in (0.001, 0.01, 0.1, 1.0, None):
            self.begun = time.monotonic()
            try:
                return os.posix_spawn(
                    path,
                    words,
                    self._environment,
                    file_actions=self._actions,
                    **processes.OWN_SESSION,
                    setsigmask=(),
                    setsigdef=_DEFAULTS,
                )
            except OSError as error:
                if error.errno != errno.ETXTBSY or pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError("the last round returns or raises")

    def _which(self, name: str) -> str | None:
        """Return the path of the program *name* in the experiment's environment and folder."""
        if "/" in name:
            return name
        search = os.fsdecode(self._environment.get(b"PATH", os.defpath.encode()))
        for folder in search.split(os.pathsep):
            path = f"{folder or '.'}/{name}"
            if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112 - called often
                return path
        return None


# Output: drained as it comes, its head and its tail kept, the rest counted

LIVE_LOG_BYTES = 1 << 26
"""Bytes that can be followed while they come; of more, what was kept is seen in the end."""
_CHUNK = 1 << 16


def live_log_paths(folder: str) -> tuple[str, str]:
    """Return where stdout and stderr of what runs in *folder* can be followed."""
    return f"{folder}.stdout", f"{folder}.stderr"


class CapturedStream:
    """A pipe to an experiment, of which at most *head* + *tail* bytes are held in memory."""

    def __init__(self, head: int, tail: int) -> None:
        self._read, self.write = os.pipe()
        self._head_limit = head
        self._tail_limit = tail
        self._head: list[bytes] = []
        self._head_size = 0
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._shown_at = ""
        self._shown_to = -1
        self.size = 0
        self.ended = False

    def fileno(self) -> int:
        return self._read

    def drain(self) -> bool:
        """Read what is there; false at the end. Only to be called where there is something."""
        chunk = os.read(self._read, _CHUNK)
        if chunk:
            self._keep(chunk)
        self.ended = not chunk
        return bool(chunk)

    def show(self, path: str) -> None:
        """Also write the output to a file at *path* from now on, for commands that follow it."""
        if self._shown_at or not self.size:
            return
        self._shown_at = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with suppress(OSError):
            self._shown_to = os.open(path, flags, 0o600)
        self._tell(b"".join([*self._head, *self._tail]))

    def _tell(self, chunk: bytes) -> None:
        """Who looks on is no reason to fail, nor to fill a disk."""
        if self._shown_to < 0:
            return
        with suppress(OSError):
            if self.size <= LIVE_LOG_BYTES:
                os.write(self._shown_to, chunk)
                return
        os.close(self._shown_to)
        self._shown_to = -1

    def _keep(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self._tell(chunk)
        room = self._head_limit - self._head_size
        if room > 0:
            self._head.append(chunk[:room])
            self._head_size += min(room, len(chunk))
            chunk = chunk[room:]
        if chunk:
            self._tail.append(chunk)
            self._tail_size += len(chunk)
            while self._tail_size - len(self._tail[0]) >= self._tail_limit:
                self._tail_size -= len(self._tail.popleft())

    def rest(self) -> None:
        """Read what is still in the pipe, without waiting for more."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        while any(event & select.POLLIN for _, event in poll.poll(0)):
            if not self.drain():
                return

    def kept(self) -> tuple[bytes, bytes]:
        """Head and tail; the tail is empty where the whole is not longer than the head."""
        tail = b"".join(self._tail)
        return b"".join(self._head), tail[max(len(tail) - self._tail_limit, 0) :]

    def close_write(self) -> None:
        if self.write >= 0:
            os.close(self.write)
            self.write = -1

    def close(self) -> None:
        self.close_write()
        os.close(self._read)
        if self._shown_to >= 0:
            os.close(self._shown_to)
        if self._shown_at:
            with suppress(OSError):
                os.unlink(self._shown_at)  # noqa: PTH108 - no Path for one name
