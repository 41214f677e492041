"""What an experiment prints: drained as it comes, its head and its tail kept, the rest counted."""

from __future__ import annotations

import os
import select
from collections import deque
from contextlib import suppress

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
        """From now on what comes is in a file at *path* too, until the end, for who looks on."""
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
