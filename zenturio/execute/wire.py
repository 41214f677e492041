"""What the driver and a launcher say to each other: a length, JSON, and bytes behind it.

Only the standard library is used here, in streams and in tree: launchers start with few imports.
Nothing is reserved because a length says so: memory is taken as bytes arrive, up to a limit.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any

from zenturio.execute.json_checks import MalformedError, integer, list_of, read_json

_LENGTH = struct.Struct("!I")
LARGEST_MESSAGE_BYTES = 2**25
"""Bytes of the JSON of one message."""
_PIECE = 2**20
_MOST_BLOBS = 2**17


def send(descriptor: int, message: dict[str, Any], *blobs: bytes) -> None:
    """Write *message* and the *blobs*, whose lengths the message tells."""
    data = memoryview(encode_message(message, *blobs))
    while data:
        data = data[os.write(descriptor, data) :]


def encode_message(message: dict[str, Any], *blobs: bytes) -> bytes:
    """Return the bytes in which *message* and the *blobs* travel."""
    text = json.dumps(message).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *blobs))


def receive(descriptor: int, most: int = LARGEST_MESSAGE_BYTES) -> dict[str, Any] | None:
    """Return the next message; nothing where the other side has gone.

    MalformedError if it is none.
    """
    # 4 bytes of length (big-endian), JSON; its "lengths" announce the blobs behind it.
    head = read_exactly(descriptor, _LENGTH.size)
    if head is None:
        return None
    (size,) = _LENGTH.unpack(head)
    if size > most:
        raise MalformedError(f"a message has {size} bytes; at most {most} are taken")
    text = read_exactly(descriptor, size)
    if text is None:
        return None
    message = read_json(text)
    if not isinstance(message, dict):
        raise MalformedError("a message is not an object")
    return message


def receive_blobs(
    descriptor: int,
    message: dict[str, Any],
    *,
    most: int = 2**62,
    least_count: int = 0,
    most_count: int = _MOST_BLOBS,
) -> list[bytes] | None:
    """Return the bytes behind *message*, at most *most* in each piece.

    Nothing where the side has gone.
    """
    lengths = message.get("lengths", [])
    list_of(integer(0, most), most_count, least_count)(lengths, "lengths")
    blobs = []
    for length in lengths:
        blob = read_exactly(descriptor, length)
        if blob is None:
            return None
        blobs.append(blob)
    return blobs


def read_exactly(descriptor: int, size: int) -> bytes | None:
    """*size* bytes; nothing where the other side goes before."""
    data = os.read(descriptor, min(size, _PIECE)) if size else b""
    if len(data) == size:
        return data
    # Grown as bytes arrive, not by the announced size: a peer could announce more than there is.
    parts = [data]
    missing = size - len(data)
    while missing and parts[-1]:
        parts.append(os.read(descriptor, min(missing, _PIECE)))
        missing -= len(parts[-1])
    return None if missing else b"".join(parts)
