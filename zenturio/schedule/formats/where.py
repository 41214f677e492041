"""Where in the text of a file a value stands: looked for only when it is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_SPACE = re.compile(r"[ \t\r\n,]*")
_HEADER = re.compile(r"^[ \t]*\[(\[?)[ \t]*([^\]#]+?)[ \t]*\]", re.MULTILINE)
_JSON_TOKEN = re.compile(
    r'(?P<open>\{)|(?P<close>\})|(?P<key>"(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"'
)
_DECODER = json.JSONDecoder()


def in_json(text: str, way: Sequence[str | int]) -> int:
    """The offset of the value (or of its key) to which *way* leads, or the last on it found."""
    at = _skip_space(text, 0)
    for step in way:
        found = (
            _offset_of_key(text, at, step)
            if isinstance(step, str)
            else _offset_of_item(text, at, step)
        )
        if found is None:
            break
        at = found
    return min(at, max(len(text) - 1, 0))


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _offset_of_key(text: str, at: int, wanted: str) -> int | None:
    """The offset of the value of *wanted* in the object that begins at *at*."""
    if text[at : at + 1] != "{":
        return None
    at = _skip_space(text, at + 1)
    while text[at : at + 1] == '"':
        key, at = _DECODER.raw_decode(text, at)
        at = _skip_space(text, _skip_space(text, at) + 1)
        if key == wanted:
            return at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip_space(text, at)
    return None


def _offset_of_item(text: str, at: int, wanted: int) -> int | None:
    """The offset of item *wanted* of the list that begins at *at*."""
    if text[at : at + 1] != "[":
        return None
    at = _skip_space(text, at + 1)
    for _ in range(wanted):
        _, at = _DECODER.raw_decode(text, at)
        at = _skip_space(text, at)
    return at


def duplicate_key(text: str) -> tuple[str, int]:
    """The first key that an object has twice, and where it stands the second time."""
    keys: list[set[str]] = []
    for found in _JSON_TOKEN.finditer(text):
        if found["open"]:
            keys.append(set())
        elif found["close"]:
            keys.pop()
        elif found["key"]:
            key = json.loads(found["key"])
            if key in keys[-1]:
                return key, found.start()
            keys[-1].add(key)
    return "", 0


def in_toml(text: str, way: Sequence[str | int]) -> int:
    """The offset of the line that sets the value, or of the table it belongs to.

    Looked for as such files are commonly written: ``[table]``, ``[[table]]``, ``[table.name]``,
    ``key = value``.
    """
    table, number, key = _table_and_key(way)
    start, end = 0, len(text)
    if table:
        headers = list(_HEADER.finditer(text))
        names = [each for each in way if isinstance(each, str)]
        below = [h for h in headers if len(names) > 1 and _header_names(h[2]) == names[:2]]
        same = [h for h in headers if _header_names(h[2]) == [table]]
        if below:
            same, number, key = below, 0, names[2] if len(names) > 2 else ""
        if len(same) > number:
            start = same[number].start()
            end = next((h.start() for h in headers if h.start() > start), end)
    if key:
        line = re.compile(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=", re.MULTILINE)
        found = line.search(text, start, end) or line.search(text)
        if found:
            return found.start() + len(found[0]) - len(found[0].lstrip())
    return start


def _header_names(header: str) -> list[str]:
    """The names in a header: ``hosts."node 1"`` has two."""
    return [each.strip(" \t\"'") for each in header.split(".")]


def _table_and_key(way: Sequence[str | int]) -> tuple[str, int, str]:
    """A table, which of those so named, and a key in it."""
    names = [each for each in way if isinstance(each, str)]
    numbers = [each for each in way if isinstance(each, int)]
    if len(way) == 1:
        return "", 0, names[0] if names else ""
    number = numbers[0] if numbers else 0
    return (names[0] if names else ""), number, names[1] if len(names) > 1 else ""
