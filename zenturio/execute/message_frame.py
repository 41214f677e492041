"""A manifest in JSON and the bytes that it speaks of, as one piece that tells where it is torn."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from zenturio.errors import PlaceError
from zenturio.execute.json_checks import Check, MalformedError, integer, list_of, read_json

_LENGTH = struct.Struct("!I")
_ELEMENTS = 2**24
"""Values in a manifest: a series of measures may be long."""
_sizes = list_of(integer())


def frame_message(magic: bytes, manifest: Mapping[str, Any], blobs: Sequence[bytes]) -> bytes:
    """A manifest with *blobs* behind it, whose lengths it tells."""
    header = {**manifest, "sizes": [len(blob) for blob in blobs]}
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((magic, _LENGTH.pack(len(text)), text, *blobs))


def unframe_message(magic: bytes, data: bytes, check: Check) -> tuple[dict[str, Any], list[bytes]]:
    """Return what was sealed.

    PlaceError where it is not that, or not all of it, or fails *check*.
    """
    head = len(magic) + _LENGTH.size
    if not data.startswith(magic) or len(data) < head:
        kind = magic.decode().split()[0]
        raise PlaceError(
            f"this is not a {kind} of this version of zenturio: {bytes(data[:16])!r}",
            hint="install the same version of zenturio on both machines",
        )
    # Magic, 4 bytes of length (big-endian), JSON, blobs: the JSON says how long each blob is.
    (length,) = _LENGTH.unpack_from(data, len(magic))
    try:
        manifest = read_json(data[head : head + length], _ELEMENTS)
        sizes = manifest.pop("sizes", None) if isinstance(manifest, dict) else None
        _sizes(sizes, "sizes")
        assert sizes is not None
        check(manifest, "the manifest")
    except MalformedError as error:
        raise PlaceError(f"the message was damaged on its way: {error}") from error
    at, blobs = head + length, []
    for size in sizes:
        blobs.append(data[at : at + size])
        at += size
    if at != len(data):
        raise PlaceError(f"the message is incomplete: {len(data)} bytes instead of {at}")
    return manifest, blobs
