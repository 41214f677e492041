"""Where the values of a JSON or TOML document stand in its text.

The standard library's parsers say what a document holds and forget where. These find it again, in
a text that was parsed before: what is malformed is not reported here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

KeyPath = Sequence[str | int]
"""Keys and indices from the outermost value to a nested one."""
_JSON_SPACE = re.compile(r"[ \t\r\n,]*")
_JSON_TOKEN = re.compile(
    r'(?P<open>\{)|(?P<close>\})|(?P<key>"(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"'
)
_DECODER = json.JSONDecoder()
_TOML_SPACE = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_TOML_KEY = re.compile(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\w-]+)[ \t]*""")
_TOML_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_TOML_WORD = re.compile(r"[^,\]}\n#]*")


def offset_in_json(text: str, path: KeyPath) -> int:
    """Return the offset in *text* of the value at *path*, or of its nearest existing parent."""
    offset = _skip_space(text, 0)
    for step in path:
        inner = (
            _offset_of_key(text, offset, step)
            if isinstance(step, str)
            else _offset_of_item(text, offset, step)
        )
        if inner is None:
            break
        offset = inner
    return min(offset, max(len(text) - 1, 0))


def _skip_space(text: str, offset: int) -> int:
    match = _JSON_SPACE.match(text, offset)
    return match.end() if match else offset


def _offset_of_key(text: str, offset: int, key: str) -> int | None:
    """Return the offset of the value of *key* in the object at *offset*; None if absent."""
    if text[offset : offset + 1] != "{":
        return None
    offset = _skip_space(text, offset + 1)
    while text[offset : offset + 1] == '"':
        candidate, offset = _DECODER.raw_decode(text, offset)
        offset = _skip_space(text, _skip_space(text, offset) + 1)
        if candidate == key:
            return offset
        _, offset = _DECODER.raw_decode(text, offset)
        offset = _skip_space(text, offset)
    return None


def _offset_of_item(text: str, offset: int, index: int) -> int | None:
    """Return the offset of item *index* of the list at *offset*; None if it is not a list."""
    if text[offset : offset + 1] != "[":
        return None
    offset = _skip_space(text, offset + 1)
    for _ in range(index):
        _, offset = _DECODER.raw_decode(text, offset)
        offset = _skip_space(text, offset)
    return offset


def duplicate_key(text: str) -> tuple[str, int]:
    """Return the first key that an object of the JSON *text* has twice, and its second offset."""
    keys: list[set[str]] = []
    for token in _JSON_TOKEN.finditer(text):
        if token["open"]:
            keys.append(set())
        elif token["close"]:
            keys.pop()
        elif token["key"]:
            key = json.loads(token["key"])
            if key in keys[-1]:
                return key, token.start()
            keys[-1].add(key)
    return "", 0


Span = tuple[int, int]
"""Offset and length of a key, or of an item of a list."""


def spans_in_toml(text: str) -> dict[tuple[str | int, ...], Span]:
    """Return where each key and item of the TOML *text* stands, by its path."""
    return _TomlScanner(text).scan()


class _TomlScanner:
    """Walks through a valid TOML text once, without making values of it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._spans: dict[tuple[str | int, ...], Span] = {}
        self._tables_of: dict[tuple[str | int, ...], int] = {}
        """The number of tables of each array of tables so far."""

    def scan(self) -> dict[tuple[str | int, ...], Span]:
        table: tuple[str | int, ...] = ()
        self._skip_space()
        while self._at < len(self._text):
            if self._text.startswith("[[", self._at):
                table = self._header(2)
            elif self._text.startswith("[", self._at):
                table = self._header(1)
            elif not self._assignment(table):
                break  # not TOML: what was found until here is as good as it gets
            self._skip_space()
        return self._spans

    def _header(self, brackets: int) -> tuple[str | int, ...]:
        """Read ``[a.b]`` or ``[[a.b]]`` and return the path of the table that begins."""
        self._at += brackets
        path: tuple[str | int, ...] = ()
        keys = self._keys()
        for number, (key, (start, length)) in enumerate(keys):
            path = (*path, key)
            span = (start, length)
            if number == len(keys) - 1:  # the table itself stands where its whole name does
                span = (keys[0][1][0], start + length - keys[0][1][0])
                if brackets == 2:
                    self._tables_of[path] = self._tables_of.get(path, 0) + 1
            self._spans.setdefault(path, span)
            if path in self._tables_of:
                path = (*path, self._tables_of[path] - 1)
                self._spans.setdefault(path, span)
        self._at += brackets
        return path

    def _assignment(self, table: tuple[str | int, ...]) -> bool:
        """Read ``key = value``; return False where there is none."""
        path = table
        for key, span in self._keys():
            path = (*path, key)
            self._spans.setdefault(path, span)
        if path == table or not self._text.startswith("=", self._at):
            return False
        self._at += 1
        self._value(path)
        return True

    def _keys(self) -> list[tuple[str, Span]]:
        """Read the parts of a dotted key."""
        keys: list[tuple[str, Span]] = []
        while match := _TOML_KEY.match(self._text, self._at):
            self._at = match.end()
            keys.append((_unquoted(match[1]), (match.start(1), len(match[1]))))
            if not self._text.startswith(".", self._at):
                break
            self._at += 1
        return keys

    def _value(self, path: tuple[str | int, ...]) -> None:
        self._skip_space()
        string = _TOML_STRING.match(self._text, self._at)
        if string:
            self._at = string.end()
        elif self._text.startswith("[", self._at):
            self._list(path)
        elif self._text.startswith("{", self._at):
            self._inline_table(path)
        elif word := _TOML_WORD.match(self._text, self._at):
            self._at = word.end()

    def _list(self, path: tuple[str | int, ...]) -> None:
        self._at += 1
        self._skip_space()
        index = 0
        while self._at < len(self._text) and self._text[self._at] != "]":
            start = self._at
            self._value((*path, index))
            if self._at == start:
                return
            self._spans[(*path, index)] = (start, len(self._text[start : self._at].rstrip()))
            self._skip_space()
            index += 1
        self._at += 1

    def _inline_table(self, path: tuple[str | int, ...]) -> None:
        self._at += 1
        self._skip_space()
        while self._at < len(self._text) and self._text[self._at] != "}":
            if not self._assignment(path):
                return
            self._skip_space()
        self._at += 1

    def _skip_space(self) -> None:
        match = _TOML_SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at


def _unquoted(key: str) -> str:
    if key.startswith("'"):
        return key[1:-1]
    if key.startswith('"'):
        try:
            return str(json.loads(key))
        except ValueError:  # \U0001F600 is TOML alone
            return key[1:-1]
    return key
