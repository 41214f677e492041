"""Paths that match a pattern, as ``glob`` finds them, in a bounded number of steps.

A folder may hold links to itself: Python's own ``glob`` follows them, and two of them make 2^40
paths of one pattern. Here ``**`` follows no links, and the entries that are looked at are counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import translate
from functools import cache
from pathlib import Path

MOST_ENTRIES = 300_000
"""Entries of folders that a pattern may look at."""
_MAGIC = re.compile(r"[*?\[]")


class TooManyEntries(Exception):
    """The pattern looks at more than ``MOST_ENTRIES`` entries."""


class PathPattern:
    """One search for the paths that match a pattern."""

    def __init__(self, base: str, most: int = MOST_ENTRIES) -> None:
        self._base = base
        self._left = most

    def matches(self, pattern: str) -> Iterator[str]:
        """Yield the paths from the base that match, as the pattern writes them.

        Some may come twice. Hidden entries match only where the pattern's part begins with a
        dot; TooManyEntries once it looks at too many.
        """
        root, parts = "", pattern.split("/")
        while parts and not parts[0] and len(parts) > 1:
            root, parts = "/", parts[1:]
        yield from self._below(root, parts)

    def _below(self, prefix: str, parts: list[str]) -> Iterator[str]:
        """The matches of *parts* in the folder *prefix*, which ends with a slash if not empty."""
        head, rest = parts[0], parts[1:]
        if head == "**":
            yield from self._recursive(prefix, rest)
        elif _MAGIC.search(head):
            for entry in self._entries(prefix):
                if _fits(entry.name, head) and (not rest or entry.is_dir()):
                    yield from self._go_on(prefix + entry.name, rest)
        elif not rest:
            if (head or prefix) and os.path.lexists(self._at(prefix + head)):
                yield prefix + head
        elif Path(self._at(prefix + head)).is_dir():
            yield from self._go_on(prefix + head, rest)

    def _go_on(self, path: str, rest: list[str]) -> Iterator[str]:
        if rest:
            yield from self._below(f"{path}/", rest)
        else:
            yield path

    def _recursive(self, prefix: str, rest: list[str]) -> Iterator[str]:
        """The matches of ``**`` and *rest*: in the folder, and in all folders below it."""
        if rest:
            yield from self._below(prefix, rest)
        elif prefix:
            yield prefix
        for entry in self._entries(prefix):
            if entry.name.startswith("."):
                continue
            if not rest:
                yield prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                inner = self._recursive(f"{prefix}{entry.name}/", rest)
                yield from (path for path in inner if rest or path[-1] != "/")

    def _at(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._base}/{path}"

    def _entries(self, prefix: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._at(prefix)) as entries:
                listed = [self._counted(entry) for entry in entries]
        except OSError:
            return []
        return listed

    def _counted(self, entry: os.DirEntry[str]) -> os.DirEntry[str]:
        self._left -= 1
        if self._left < 0:
            raise TooManyEntries
        return entry


def _fits(name: str, part: str) -> bool:
    return (part[0] == "." or name[0] != ".") and bool(_expression(part).match(name))


@cache
def _expression(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))
