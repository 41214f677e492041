"""JSON and TOML documents whose errors name file, line and column."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Self

from zenturio import trust
from zenturio.errors import InputError, Place, did_you_mean

# Positions: where the values of a document stand in its text
#
# The standard library's parsers say what a document holds and forget where. These find it again, in
# a text that was parsed before: what is malformed is not reported here.

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


# Documents

MAX_BYTES = 2**30
"""Larger files are refused before they are read."""

MAX_PARTS = 3 * 10**7
"""Limit of lists and objects in a JSON file: each takes far more memory than its text."""

_DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)
_TOO_LONG_NUMBER = b"0" * 300
"""Parsing a number takes time quadratic in its digits, so longer ones are refused."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL
)
"""Matches JSON escapes; group ``half`` is a lone surrogate, which is not a character."""

_TOML_POSITION = re.compile(r" \(at line (\d+), column (\d+)\)")
_STANDARD_STREAM = Path("-")


@dataclass(frozen=True)
class Entry:
    """A value of a table, and where its key stands."""

    value: Any
    place: Place | None = None


@dataclass(frozen=True)
class Table:
    """The entries of a table by their keys, and where it begins."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    place: Place | None = None


@dataclass(frozen=True)
class Document:
    """A parsed file; its methods validate values and raise InputError with their place."""

    file: str
    text: str
    value: Any
    toml: bool = False

    @classmethod
    def from_json(cls, path: Path, text: str) -> Self:
        """Parse the JSON *text* of *path*; InputError if it is invalid, too deep or too large."""
        return cls(str(path), text, _json_value(path, text))

    @classmethod
    def from_toml(cls, path: Path, text: str, hint: str = "") -> Self:
        """Parse the TOML *text* of *path*; InputError, with *hint*, if it is invalid."""
        return cls(str(path), text, _toml_value(path, text, hint), toml=True)

    @cached_property
    def _spans(self) -> Mapping[tuple[str | int, ...], Span]:
        return spans_in_toml(self.text)

    def span(self, path: KeyPath) -> Span:
        """Return offset and length of what is at *path*, or of its nearest existing parent."""
        if not self.toml:
            return offset_in_json(self.text, path), 1
        for end in range(len(path), 0, -1):
            span = self._spans.get(tuple(path[:end]))
            if span is not None:
                return span
        return 0, 1

    def place(self, path: KeyPath) -> Place:
        """Return the place of what is at *path*, or of its nearest existing parent."""
        offset, length = self.span(path)
        return place_at(self.file, self.text, offset, length)

    def table(self, path: KeyPath, value: Mapping[str, Any]) -> Table:
        """Return the table *value* at *path* with the places of its keys."""
        entries = {key: Entry(part, self.place((*path, key))) for key, part in value.items()}
        return Table(entries, self.place(path))

    def wrong(self, path: KeyPath, message: str, hint: str = "") -> NoReturn:
        """Raise InputError for the value at *path*."""
        raise InputError(message, place=self.place(path), hint=hint)

    def keys(self, value: Any, allowed: Mapping[str, Any] | Sequence[str], path: KeyPath) -> None:
        """Raise InputError if *value* is not an object, or has a key that is not *allowed*."""
        if not isinstance(value, dict):
            self.wrong(
                path, f"{name_at(path)} is {value_kind(value)}; it has to be {_TABLE[self.toml]}"
            )
        for key in value:
            if key not in allowed:
                self.wrong((*path, key), f"unknown key {key!r}", did_you_mean(key, allowed))

    def number(self, value: Any, path: KeyPath, low: float = 0.0, *, finite: bool = True) -> float:
        """Return *value* as a number of at least *low*."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(path, f"{name_at(path)} is {value_kind(value)}; it has to be a number")
        if math.isnan(value) or value < low or (finite and math.isinf(value)):
            self.wrong(path, f"{name_at(path)} is {value}; it has to be a number from {low:g} on")
        return float(value)

    def texts(self, values: Sequence[Any], path_of: Callable[[int], KeyPath]) -> None:
        """Raise InputError for the first of *values* that is not a text."""
        if not set(map(type, values)) <= {str}:
            for i, value in enumerate(values):
                self.words(value, path_of(i))

    def whole(self, value: Any, path: KeyPath, low: int = 1, high: int = 10**7) -> int:
        """Return *value*, a whole number from *low* to *high*."""
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            shown = value if isinstance(value, int | float) else value_kind(value)
            self.wrong(
                path,
                f"{name_at(path)} is {shown}; it has to be a whole number from {low} to {high}",
            )
        return value

    def words(self, value: Any, path: KeyPath) -> str:
        """Return *value*, a text."""
        if not isinstance(value, str):
            self.wrong(path, f"{name_at(path)} is {value_kind(value)}; it has to be a text")
        return value

    def items(self, value: Any, path: KeyPath) -> list[Any]:
        """Return *value*, a list."""
        if not isinstance(value, list):
            self.wrong(path, f"{name_at(path)} is {value_kind(value)}; it has to be a list")
        return value


_TABLE = {True: "a table", False: "an object"}


def name_at(path: KeyPath) -> str:
    """Return the last name on *path*, for messages."""
    return next((part for part in reversed(path) if isinstance(part, str)), "the file")


def value_kind(value: Any) -> str:
    """Describe *value* for a message."""
    names = {dict: "an object", list: "a list", str: f"the text {value!r:.40}", type(None): "null"}
    return names.get(type(value), str(value))


def place_at(file: str, text: str, offset: int, width: int = 1) -> Place:
    """Return the place of the *width* characters from *offset* of *text* in *file*."""
    line = text.count("\n", 0, offset) + 1
    first = text.rfind("\n", 0, offset) + 1
    last = text.find("\n", offset)
    shown = text[first : last if last >= 0 else len(text)]
    return Place(file, line, offset - first + 1, shown, width)


def read_text(path: Path) -> str:
    """Return the UTF-8 text of the file *path*; ``-`` is standard input.

    Raise InputError if it cannot be read, is too large, or is not UTF-8.
    """
    path = Path("/dev/stdin") if path == _STANDARD_STREAM else path
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{path} has {size:,} bytes: more than {MAX_BYTES:,} are not read")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise InputError(
            f"{path} is not a text in UTF-8", place=Place(str(path), line, column)
        ) from None


def _json_value(path: Path, text: str) -> Any:
    long_number = text.encode().translate(_DIGITS).find(_TOO_LONG_NUMBER)
    if long_number >= 0:
        place = place_at(str(path), text, len(text.encode()[:long_number].decode()))
        raise InputError(f"a number of {len(_TOO_LONG_NUMBER)} digits or more", place=place)
    if text.count("{") + text.count("[") > MAX_PARTS:
        raise InputError(f"{path} has more than {MAX_PARTS:,} lists and objects")
    try:
        value = json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        place = place_at(str(path), text, min(error.pos, len(text)))
        raise InputError(f"not JSON: {error.msg}", place=place) from None
    except _InvalidConstantError as error:
        place = place_at(str(path), text, max(text.find(str(error)), 0))
        raise InputError(f"{error} is not a number in JSON", place=place) from None
    except _DuplicateKeyError:
        key, offset = duplicate_key(text)
        place = place_at(str(path), text, offset)
        raise InputError(f"the key {key!r} occurs twice", place=place) from None
    except RecursionError:
        raise InputError(f"{path}: lists and objects are nested too deeply") from None
    surrogate = next((escape for escape in _ESCAPE.finditer(text) if escape["half"]), None)
    if surrogate:
        place = place_at(str(path), text, surrogate.start())
        raise InputError(f"{surrogate[0]} is a lone surrogate, not a character", place=place)
    return value


def _toml_value(path: Path, text: str, hint: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = _TOML_POSITION.search(str(error))
        lines = text.split("\n")
        line, column = map(int, position.groups()) if position else (len(lines), len(lines[-1]) + 1)
        place = Place(str(path), line, column, lines[line - 1])
        message = _TOML_POSITION.sub("", str(error)).partition(" (at ")[0]
        raise InputError(f"not TOML: {message}", place=place, hint=hint) from None
    except RecursionError:
        raise InputError(f"{path}: values are nested too deeply", hint="write tables") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read as TOML: {error}", hint=hint) from None


class _InvalidConstantError(Exception):
    pass


class _DuplicateKeyError(Exception):
    pass


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; refuse duplicate keys, of which one value would be lost."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise _DuplicateKeyError
    return result


def _reject_constant(text: str) -> NoReturn:
    raise _InvalidConstantError(text)


# zenturio.toml, the settings of a project

FILE = "zenturio.toml"
_HINT = 'a line is key = "text", key = 12, or [places.NAME]'


def read_project_file(path: Path) -> Document:
    """Return what the file at *path* holds, nothing if it is not there.

    SafetyError if others can change it, InputError if it is not TOML.
    """
    trust.check_owner(path, "file of settings")
    if not path.exists():
        return Document(str(path), "", {}, toml=True)
    if not path.is_file():
        raise InputError(
            f"{path} is not a plain file", hint="remove it: a pipe would be waited for"
        )
    return Document.from_toml(path, read_text(path), _HINT)


def read_table(path: Path, name: str) -> Table | None:
    """Return the table ``[NAME]`` of the file; None if the file, or the table, is not there."""
    document = read_project_file(path)
    if name not in document.value:
        return None
    table = document.value[name]
    if not isinstance(table, dict):
        document.wrong((name,), f"{name} has to be a table", f"write [{name}]")
    return document.table((name,), table)
