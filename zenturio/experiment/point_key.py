"""The key of a point: 128 bits of the names and texts of its values, with repeat and seed.

Beside the digest of everything else (``ProgramIdentity``) it names an experiment without filling a
file. It is a sum, so that the keys of a whole table of points are a look-up and an addition for
each column.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from struct import Struct

_HALVES = Struct(">QQ")
_MASK = 2**64 - 1
_REMEMBERED = 2**14
Term = tuple[int, int]


class PointKeys:
    """Makes keys; the terms of values that come again are remembered."""

    def __init__(self) -> None:
        self._terms: dict[tuple[str, str | None], Term] = {}

    def sum(self, texts: Mapping[str, str | None]) -> Term:
        """The sum of the terms of *texts* by name; None is the text of an inactive parameter."""
        first = second = 0
        for pair in texts.items():
            term = self._terms.get(pair) or self._remember(pair)
            first += term[0]
            second += term[1]
        return first & _MASK, second & _MASK

    def key(self, point: Term, repeat: int, seeds: Mapping[str, str]) -> bytes:
        """The key of one repeat of a point, whose own terms add up to *point*."""
        first, second = self.sum({"": str(repeat), **seeds})
        return _HALVES.pack((point[0] + first) & _MASK, (point[1] + second) & _MASK)

    def _remember(self, pair: tuple[str, str | None]) -> Term:
        if len(self._terms) >= _REMEMBERED:
            self._terms.clear()
        term = self._terms[pair] = value_term(*pair)
        return term


def value_term(name: str, text: str | None) -> Term:
    """What one value adds to the sum: the two halves of a hash of its name and its text."""
    encoded = [part.encode("utf-8", "surrogateescape") for part in (name, text) if part is not None]
    framed = b"".join(b"%d:%b" % (len(part), part) for part in encoded)
    first, second = _HALVES.unpack(blake2b(framed, digest_size=16).digest())
    return first, second
