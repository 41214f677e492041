"""Digests of the format before this one: results of that time are found by them.

A repository holds digests, and cannot compute another format from them: it never had the files that
are the same for every point. The program can, as long as it is what it was then. So each experiment
whose digest is not known is looked up by its former digest as well, and what is there takes the
present one.

Format 1 hashed the records of all files in their order, and followed symbolic links.
"""

from __future__ import annotations

from collections.abc import Iterable

from zenturio.experiment.identity import content_digest, path_record

FORMAT = 1

Hashed = tuple[str, int, bytes]
"""A file as format 1 knew it: path, mode, digest of the content."""


class FormerFiles:
    """The files of a program as format 1 hashed them."""

    def __init__(self, constants: Iterable[Hashed]) -> None:
        self._records = [_record(*each) for each in constants]

    def digest(self, filled: Iterable[Hashed]) -> bytes:
        """The digest of all files, with those that were *filled*."""
        return content_digest(b"".join(sorted([*self._records, *(_record(*f) for f in filled)])))


def _record(path: str, mode: int, content: bytes) -> bytes:
    return path_record(path, executable=bool(mode & 0o111)) + content
