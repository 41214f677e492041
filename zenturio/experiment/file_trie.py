"""A digest of many files of which few change: a trie over the hashes of their paths.

A node has 16 children, one for each hexadecimal digit; up to 16 files stand in one leaf. So the
trie is the same for the same files, whatever order they come in and whichever of them are filled
at each point. What never changes is hashed once; a point costs the ways from its own files to the
root.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

SIZE = 16
"""Bytes of a hash."""
LEAF = 16
"""Files that stand in one leaf at the most."""
CHILDREN = 16
_DEPTH = 2 * SIZE
"""Digits of a hash: below the last one nothing can be told apart."""
_EMPTY = bytes(SIZE)

FileKind = Literal["file", "executable", "link"]
_KINDS: dict[FileKind, bytes] = {"file": b"-", "executable": b"x", "link": b"l"}


@lru_cache(maxsize=4096)
def path_hash(path: str) -> bytes:
    """Where a file stands in the trie."""
    return _hash(path.encode("utf-8", "surrogateescape"))


def file_record(path: str, kind: FileKind, content: bytes) -> bytes:
    """What a file adds, always of the same length; *content* is the digest of its content."""
    return path_hash(path) + _KINDS[kind] + content


class FileTrie:
    """The files of an application: those that never change, and room for those that are filled."""

    def __init__(self, constants: Iterable[bytes], filled: Sequence[str] = ()) -> None:
        """*constants* are records; *filled* are paths, whose records come with each point."""
        entries: list[_Entry] = [(each[:SIZE], each, -1) for each in constants]
        entries += [(path_hash(path), b"", at) for at, path in enumerate(filled)]
        self._root = _built(sorted(entries), 0)

    def root(self, filled: Sequence[bytes] = ()) -> bytes:
        """The digest of all files, with the records of those that were filled in their order."""
        return self._root if isinstance(self._root, bytes) else self._root.digest(filled)


_Entry = tuple[bytes, bytes, int]
"""The hash of a path, and its record or its number among those that are filled."""


class _Part:
    """A leaf or a node with something in it that is filled."""

    __slots__ = ("_below", "_pieces", "_slots")

    def __init__(
        self,
        mark: bytes,
        pieces: Sequence[bytes],
        slots: Sequence[tuple[int, int]],
        below: Sequence[tuple[int, _Part]] = (),
    ) -> None:
        self._pieces = [mark, *pieces]
        self._slots = [(place + 1, number) for place, number in slots]
        self._below = [(place + 1, part) for place, part in below]

    def digest(self, filled: Sequence[bytes]) -> bytes:
        pieces = self._pieces.copy()
        for place, number in self._slots:
            pieces[place] = filled[number]
        for place, part in self._below:
            pieces[place] = part.digest(filled)
        return _hash(b"".join(pieces))


def _built(entries: Sequence[_Entry], depth: int) -> bytes | _Part:
    """The trie of *entries*, which are sorted and agree in the first *depth* digits."""
    if len(entries) <= LEAF or depth == _DEPTH:
        slots = [(place, number) for place, (*_, number) in enumerate(entries) if number >= 0]
        part = _Part(b"leaf", [piece for _, piece, _ in entries], slots)
        return part if slots else part.digest(())
    groups: list[list[_Entry]] = [[] for _ in range(CHILDREN)]
    for entry in entries:
        groups[_digit(entry[0], depth)].append(entry)
    children = [_built(group, depth + 1) if group else _EMPTY for group in groups]
    below = [(at, child) for at, child in enumerate(children) if isinstance(child, _Part)]
    pieces = [child if isinstance(child, bytes) else b"" for child in children]
    part = _Part(b"node", pieces, (), below)
    return part if below else part.digest(())


def _digit(key: bytes, depth: int) -> int:
    byte = key[depth // 2]
    return byte & 15 if depth % 2 else byte >> 4


def _hash(content: bytes) -> bytes:
    return blake2b(content, digest_size=SIZE).digest()
