"""What the driver and a launcher say to each other: a length, JSON, and bytes behind it.

Only the standard library is used here, in streams and in tree: launchers start with few imports.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any

_LENGTH = struct.Struct("!I")


def send(descriptor: int, message: dict[str, Any], *blobs: bytes) -> None:
    """Writes *message* and the *blobs*, whose lengths the message tells."""
    text = json.dumps(message).encode()
    data = memoryview(b"".join((_LENGTH.pack(len(text)), text, *blobs)))
    while data:
        data = data[os.write(descriptor, data) :]


def receive(descriptor: int) -> dict[str, Any] | None:
    """The next message; nothing where the other side has gone."""
    head = read_exactly(descriptor, _LENGTH.size)
    if head is None:
        return None
    text = read_exactly(descriptor, _LENGTH.unpack(head)[0])
    if text is None:
        return None
    message: dict[str, Any] = json.loads(text)
    return message


def read_exactly(descriptor: int, size: int) -> bytes | None:
    """*size* bytes; nothing where the other side goes before."""
    data = os.read(descriptor, size) if size else b""
    if len(data) == size:
        return data
    parts = [data]
    missing = size - len(data)
    while missing and parts[-1]:
        parts.append(os.read(descriptor, min(missing, 1 << 20)))
        missing -= len(parts[-1])
    return None if missing else b"".join(parts)
