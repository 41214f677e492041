"""Streams as they come from a host."""

from __future__ import annotations

from collections.abc import Sequence

from zenturio.experiment import Log

KEPT_BYTES = 2**16
"""Of each stream, so many bytes at its beginning and at its end are recorded."""


def reply_logs(sizes: Sequence[int], blobs: Sequence[bytes]) -> tuple[Log, Log]:
    """Return both streams, from the sizes and the four parts of a reply."""
    out_head, out_tail, err_head, err_tail = blobs
    return _joined_log(out_head, out_tail, sizes[0]), _joined_log(err_head, err_tail, sizes[1])


def _joined_log(head: bytes, tail: bytes, size: int) -> Log:
    if tail and len(head) + len(tail) == size:
        return Log(head + tail, b"", size)
    return Log(head, tail, size)
