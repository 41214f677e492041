"""The pages of an SQLite file, read without SQLite and without trusting its schema.

A page tells by itself that it is part of a table, and holds whole rows; only which table it is
part of stands elsewhere: in its parent page, and in the schema for the topmost page. So where
these are destroyed all that lay below them is still there, as trees without a name. The format is
described at https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

INNER, LEAF = 5, 13
"""Kinds of pages of tables; pages of indexes hold nothing that is not in the tables."""
_KINDS = (2, INNER, 10, LEAF)
_MAGIC = b"SQLite format 3\0"
_USUAL_SIZE = 4096
_SIZES = (_USUAL_SIZE, 512, 1024, 2048, 8192, 16384, 32768, 65536)
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""How many bytes an integer of each type has."""
_LONGEST_ROW = 2**31


class DamageError(Exception):
    """Bytes that are not what they should be."""


class PageRow(NamedTuple):
    """A row of some table: its number, and its values as they are stored; text is bytes' text."""

    number: int
    values: tuple[Any, ...]


class SQLitePages:
    """The pages of a file, as its last commit left them; committed pages of its log count."""

    def __init__(self, path: Path) -> None:
        self._content = path.read_bytes()
        log = path.with_name(f"{path.name}-wal")
        wal = log.read_bytes() if log.exists() else b""
        self.size = self._page_size(wal)
        self._newer = dict(_committed(wal, self.size))
        self.count = max([len(self._content) // self.size, *self._newer])

    def __getitem__(self, number: int) -> bytes:
        if not 1 <= number <= self.count:
            raise DamageError
        newer = self._newer.get(number)
        start = (number - 1) * self.size
        return newer if newer is not None else self._content[start : start + self.size]

    def _page_size(self, wal: bytes) -> int:
        """Return the page size of the header or the log; else the size that fits most pages."""
        size = int.from_bytes(self._content[16:18], "big") or 0
        size = 65536 if size == 1 else size
        if self._content.startswith(_MAGIC) and size in _SIZES:
            return size
        size = int.from_bytes(wal[8:12], "big")
        return size if size in _SIZES else max(_SIZES, key=self._sense)

    def _sense(self, size: int) -> int:
        """Return how many bytes are in whole pages of tables, if pages have this *size*.

        A page is filled from its end: where no cell is in its second half, it is a smaller one.
        """
        starts = range(size, len(self._content) - size + 1, size)
        pages = (_pointers(self._content[start : start + size], 0) for start in starts)
        return size * sum(
            page is not None and max(page[1], default=0) * 2 >= size for page in pages
        )

    def pointers(self, number: int) -> tuple[int, list[int]] | None:
        """Return kind and cell offsets of a page; None if it is no page of a tree."""
        return _pointers(self[number], 100 if number == 1 else 0)

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """The pages below each inner page of a table."""
        children_by_page = {}
        for number in range(1, self.count + 1):
            page = self[number]
            match self.pointers(number):
                case (5, cells):
                    at = 108 if number == 1 else 8
                    places = [*cells, at]
                    children_by_page[number] = [
                        int.from_bytes(page[p : p + 4], "big") for p in places
                    ]
        return children_by_page

    @cached_property
    def leaves(self) -> frozenset[int]:
        """The pages that hold rows of tables."""
        kinds = ((number, self.pointers(number)) for number in range(1, self.count + 1))
        return frozenset(number for number, header in kinds if header and header[0] == LEAF)

    @cached_property
    def tops(self) -> list[int]:
        """The pages of tables that are below no other, and are in use."""
        below = {child for children in self.children.values() for child in children}
        pages = self.leaves | self.children.keys()
        return sorted(pages - below - self._free(below))

    def _free(self, below: set[int]) -> set[int]:
        """Pages that are not in use: they hold rows that were deleted."""
        free: set[int] = set()
        if self.count and (self._content.startswith(_MAGIC) or 1 in self._newer):
            trunk = int.from_bytes(self[1][32:36], "big")
            while 0 < trunk <= self.count and trunk not in free:
                following, leaves = self._trunk(trunk)
                free |= {trunk, *leaves}
                trunk = following
            return free
        # Where the list begins stood in the first page: its parts are known by what they look like.
        for number in range(2, self.count + 1):
            _, leaves = self._trunk(number)
            if leaves and not below.intersection(leaves):
                free |= {number, *leaves}
        return free

    def _trunk(self, number: int) -> tuple[int, list[int]]:
        """Return the next part of the list of free pages, and the pages that this part names."""
        page = self[number]
        following, count = struct.unpack(">II", page[:8])
        if following > self.count or count > self.size // 4 - 2:
            return 0, []
        leaves = list(struct.unpack(f">{count}I", page[8 : 8 + 4 * count]))
        sound = all(2 <= leaf <= self.count for leaf in leaves) and len(set(leaves)) == count
        return (following, leaves) if sound else (0, [])

    def tree(self, top: int) -> Iterator[int]:
        """Yield the readable pages with rows in and below *top*, in their order."""
        stack, visited = [top], set()
        while stack:
            number = stack.pop()
            if number in visited:  # a damaged page may name one above it
                continue
            visited.add(number)
            if number in self.leaves:
                yield number
            stack += reversed(self.children.get(number, ()))

    def is_broken(self, top: int) -> bool:
        """Return whether something is missing in or below *top*."""
        pages = self.leaves | self.children.keys()
        stack, visited = [top], set()
        while stack:
            number = stack.pop()
            if number in visited or number not in pages:
                return True
            visited.add(number)
            stack += self.children.get(number, ())
        return False

    def rows(self, number: int) -> Iterator[PageRow | None]:
        """Yield the rows of a page; none for each that cannot be read."""
        page = self[number]
        header = self.pointers(number)
        for cell in header[1] if header else ():
            try:
                yield self._row(page, cell)
            except (DamageError, IndexError, struct.error, OverflowError):
                yield None

    def _row(self, page: bytes, at: int) -> PageRow:
        size, at = _varint(page, at)
        number, at = _varint(page, at)
        # Row numbers are signed, in 64 bits of two's complement.
        return PageRow(number - (number >> 63 << 64), _values(self._payload(page, at, size)))

    def _payload(self, page: bytes, at: int, size: int) -> bytes:
        """Return the bytes of a row: what does not fit into its page goes on in others."""
        # The formulas of section 1.6 (cell payload overflow) of the file format.
        most = self.size - 35
        if size <= most:
            return _slice(page, at, size)
        if size > _LONGEST_ROW:
            raise DamageError
        least = (self.size - 12) * 32 // 255 - 23
        local = least + (size - least) % (self.size - 4)
        local = local if local <= most else least
        parts = [_slice(page, at, local)]
        following = int.from_bytes(_slice(page, at + local, 4), "big")
        remaining = size - local
        while remaining > 0:
            overflow = self[following]
            if not any(overflow):  # a page of nothing but zeros was never written
                raise DamageError
            following = int.from_bytes(overflow[:4], "big")
            parts.append(overflow[4 : 4 + remaining])
            remaining -= len(parts[-1])
        if following:
            raise DamageError
        return b"".join(parts)


def _slice(page: bytes, at: int, size: int) -> bytes:
    part = page[at : at + size]
    if len(part) != size:
        raise DamageError
    return part


def _pointers(page: bytes, start: int) -> tuple[int, list[int]] | None:
    """Return the kind of a page that begins at *start*, and where its cells are."""
    kind = page[start] if len(page) > start else 0
    if kind not in _KINDS:
        return None
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    at = start + (12 if kind in {2, INNER} else 8)
    end = at + 2 * count
    if end > len(page):
        return None
    cells = list(struct.unpack(f">{count}H", page[at:end]))
    sound = all(end <= cell < len(page) for cell in cells) and len(set(cells)) == count
    return (kind, cells) if sound else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at *at*, and where it ends: seven bits a byte, eight in the ninth."""
    value = 0
    for length in range(9):
        byte = data[at + length]
        if length == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + length + 1
    raise DamageError


def _values(payload: bytes) -> tuple[Any, ...]:
    """Return the values of a row: their types stand before them."""
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if at != end:
        raise DamageError
    values: list[Any] = []
    for kind in kinds:
        size = _INTEGERS.get(kind, 8 if kind == 7 else max(kind - 12, 0) // 2)
        values.append(_value(kind, _slice(payload, at, size)))
        at += size
    if at != len(payload):
        raise DamageError
    return tuple(values)


def _value(kind: int, data: bytes) -> Any:
    match kind:
        case 0:
            return None
        case 1 | 2 | 3 | 4 | 5 | 6:
            return int.from_bytes(data, "big", signed=True)
        case 7:
            return struct.unpack(">d", data)[0]
        case 8 | 9:
            return kind - 8
        case 10 | 11:
            raise DamageError
    return data.decode(errors="replace") if kind % 2 else data


def _committed(wal: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the pages of a log up to its last commit, oldest first."""
    if len(wal) < 32 or int.from_bytes(wal[:4], "big") & ~1 != 0x377F0682:
        return
    order = ">" if wal[3] & 1 else "<"
    salts = wal[16:24]
    first, second = _checksum(wal[:24], (0, 0), order)
    if struct.pack(">II", first, second) != wal[24:32]:
        return
    pending: list[tuple[int, bytes]] = []
    for at, end in pairwise(range(32, len(wal) + 1, 24 + size)):
        head, page = wal[at : at + 24], wal[at + 24 : end]
        first, second = _checksum(head[:8] + page, (first, second), order)
        if head[8:16] != salts or struct.pack(">II", first, second) != head[16:24]:
            return
        number, commits = struct.unpack(">II", head[:8])
        pending.append((number, page))
        if commits:
            yield from pending
            pending = []


def _checksum(data: bytes, state: tuple[int, int], order: str) -> tuple[int, int]:
    one, two = state
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = (one + even + two) & 0xFFFFFFFF
        two = (two + odd + one) & 0xFFFFFFFF
    return one, two
