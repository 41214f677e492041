"""What an experiment prints: drained as it comes, its head and its tail kept, the rest counted."""

from __future__ import annotations

import os
import select
from collections import deque

_CHUNK = 1 << 16


class Stream:
    """A pipe to an experiment, of which at most *head* + *tail* bytes are held in memory."""

    def __init__(self, head: int, tail: int) -> None:
        self._read, self.write = os.pipe()
        self._head_limit = head
        self._tail_limit = tail
        self._head: list[bytes] = []
        self._head_size = 0
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.size = 0
        self.ended = False

    def fileno(self) -> int:
        return self._read

    def drain(self) -> bool:
        """Reads what is there; false at the end. Only to be called where there is something."""
        chunk = os.read(self._read, _CHUNK)
        if chunk:
            self._keep(chunk)
        self.ended = not chunk
        return bool(chunk)

    def _keep(self, chunk: bytes) -> None:
        self.size += len(chunk)
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
        """Reads what is still in the pipe, without waiting for more."""
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
