"""JSON and TOML documents whose errors name file, line and column."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from zenturio.errors import InputError, Place, PlaceError, did_you_mean
from zenturio.expression import parse
from zenturio.files import write_whole
from zenturio.schedule.model.workflow import Floats

_SPACE = re.compile(r"[ \t\r\n,]*")
_HEADER = re.compile(r"^[ \t]*\[(\[?)[ \t]*([^\]#]+?)[ \t]*\]", re.MULTILINE)
_JSON_TOKEN = re.compile(
    r'(?P<open>\{)|(?P<close>\})|(?P<key>"(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"'
)
_DECODER = json.JSONDecoder()


def in_json(text: str, path: Sequence[str | int]) -> int:
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
    match = _SPACE.match(text, offset)
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
    """Return the first duplicate key of an object, and its second offset."""
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


def in_toml(text: str, path: Sequence[str | int]) -> int:
    """Return the offset of the line that sets the value at *path*, or of its table.

    Handles files as they are commonly written: ``[table]``, ``[[table]]``, ``[table.name]``, ``key
    = value``. If the line is not found, the offset of the table or of the file's start is returned.
    """
    table, number, key = _table_and_key(path)
    start, end = 0, len(text)
    if table:
        headers = list(_HEADER.finditer(text))
        names = [part for part in path if isinstance(part, str)]
        subtables = [h for h in headers if len(names) > 1 and _header_names(h[2]) == names[:2]]
        tables = [h for h in headers if _header_names(h[2]) == [table]]
        if subtables:
            tables, number, key = subtables, 0, names[2] if len(names) > 2 else ""
        if len(tables) > number:
            start = tables[number].start()
            end = next((h.start() for h in headers if h.start() > start), end)
    if key:
        line = re.compile(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=", re.MULTILINE)
        match = line.search(text, start, end) or line.search(text)
        if match:
            return match.start() + len(match[0]) - len(match[0].lstrip())
    return start


def _header_names(header: str) -> list[str]:
    """Return the names in a header: ``hosts."node 1"`` has two."""
    return [name.strip(" \t\"'") for name in header.split(".")]


def _table_and_key(path: Sequence[str | int]) -> tuple[str, int, str]:
    """Return the table of *path*, its index among tables of that name, and a key in it."""
    names = [part for part in path if isinstance(part, str)]
    numbers = [part for part in path if isinstance(part, int)]
    if len(path) == 1:
        return "", 0, names[0] if names else ""
    number = numbers[0] if numbers else 0
    return (names[0] if names else ""), number, names[1] if len(names) > 1 else ""


MAX_BYTES = 2**30
"""Larger files are refused before they are read."""

MAX_TASKS = 10**7

MAX_EDGES = 5 * 10**7

MAX_PARTS = 3 * 10**7
"""Limit of lists and objects in a JSON file: each takes far more memory than its text."""

_DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)
_TOO_LONG_NUMBER = b"0" * 300
"""Parsing a number takes time quadratic in its digits, so longer ones are refused."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL
)
"""Matches JSON escapes; group ``half`` is a lone surrogate, which is not a character."""

_STANDARD_STREAM = Path("-")

KeyPath = Sequence[str | int]
"""Keys and indices from the outermost value to a nested one."""


@dataclass(frozen=True)
class FormatDocument:
    """A parsed file; its methods validate values and raise InputError with their place."""

    file: str
    text: str
    value: Any
    toml: bool = False

    def wrong(self, path: KeyPath, message: str, hint: str = "") -> NoReturn:
        """Raise InputError for the value at *path*."""
        offset_of = in_toml if self.toml else in_json
        raise InputError(
            message, place=place_at(self.file, self.text, offset_of(self.text, path)), hint=hint
        )

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
        """Return *value* as a number of at least *low*; texts may carry a unit, as in ``4GB``."""
        if isinstance(value, str):
            value = self._measured(value, path)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(path, f"{name_at(path)} is {value_kind(value)}; it has to be a number")
        if math.isnan(value) or value < low or (finite and math.isinf(value)):
            self.wrong(path, f"{name_at(path)} is {value}; it has to be a number from {low:g} on")
        return float(value)

    def numbers(self, values: Sequence[Any], path_of: Callable[[int], KeyPath]) -> Floats:
        """Return *values* as an array of numbers; *path_of* gives the path of the i-th."""
        if set(map(type, values)) <= {int, float}:
            column = np.array(values, np.float64)
            invalid = np.flatnonzero(~(np.isfinite(column) & (column >= 0)))
            if len(invalid):
                self.number(values[invalid[0]], path_of(int(invalid[0])))
            return column
        return np.array(
            [self.number(value, path_of(i)) for i, value in enumerate(values)], np.float64
        )

    def texts(self, values: Sequence[Any], path_of: Callable[[int], KeyPath]) -> None:
        """Raise InputError for the first of *values* that is not a text."""
        if not set(map(type, values)) <= {str}:
            for i, value in enumerate(values):
                self.words(value, path_of(i))

    def whole(self, value: Any, path: KeyPath, low: int = 1, high: int = MAX_TASKS) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            shown = value if isinstance(value, int | float) else value_kind(value)
            self.wrong(
                path,
                f"{name_at(path)} is {shown}; it has to be a whole number from {low} to {high}",
            )
        return value

    def words(self, value: Any, path: KeyPath) -> str:
        if not isinstance(value, str):
            self.wrong(path, f"{name_at(path)} is {value_kind(value)}; it has to be a text")
        return value

    def items(self, value: Any, path: KeyPath) -> list[Any]:
        if not isinstance(value, list):
            self.wrong(path, f"{name_at(path)} is {value_kind(value)}; it has to be a list")
        return value

    def _measured(self, text: str, path: KeyPath) -> Any:
        """Return the value of a number with a unit, such as 4GB or 100ms."""
        try:
            return parse(text).value({})
        except InputError:
            self.wrong(
                path, f"{name_at(path)} is {text!r:.60}", "write a number, or one such as '4GB'"
            )


_TABLE = {True: "a table", False: "an object"}


def name_at(path: KeyPath) -> str:
    """Return the last name on *path*, for messages."""
    return next((part for part in reversed(path) if isinstance(part, str)), "the file")


def value_kind(value: Any) -> str:
    """Describe *value* for a message."""
    names = {dict: "an object", list: "a list", str: f"the text {value!r:.40}", type(None): "null"}
    return names.get(type(value), str(value))


def place_at(file: str, text: str, offset: int) -> Place:
    """Return the place of the character *offset* of *text* in *file*."""
    line = text.count("\n", 0, offset) + 1
    first = text.rfind("\n", 0, offset) + 1
    last = text.find("\n", offset)
    return Place(file, line, offset - first + 1, text[first : last if last >= 0 else len(text)])


def file_exists(path: Path) -> bool:
    """Return whether *path* exists; False for what cannot be a path."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


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


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """Write *pieces* to *path* atomically: an existing file stays until the new one is complete.

    ``-`` is standard output. Raise PlaceError if the file cannot be written.
    """
    try:
        write_whole(
            Path("/dev/stdout") if path == _STANDARD_STREAM else path,
            (piece.encode() for piece in pieces),
        )
    except UnicodeEncodeError as error:
        invalid = error.object[error.start : error.end]
        raise InputError(f"{path} cannot be written: {invalid!r} is not a character") from None
    except OSError as error:
        raise PlaceError(f"cannot write {path}: {error.strerror or error}") from error


def read_json(path: Path, text: str) -> FormatDocument:
    """Parse the JSON *text* of *path*; InputError if it is invalid, too deep or too large."""
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
    return FormatDocument(str(path), text, value)


def read_toml(path: Path, text: str) -> FormatDocument:
    """Parse the TOML *text* of *path*; InputError if it is invalid."""
    try:
        return FormatDocument(str(path), text, tomllib.loads(text), toml=True)
    except tomllib.TOMLDecodeError as error:
        message, _, position_text = str(error).partition(" (at ")
        numbers = [int(digits) for digits in re.findall(r"\d+", position_text)]
        lines = text.split("\n")
        line, column = numbers if len(numbers) == 2 else (len(lines), len(lines[-1]) + 1)
        place = Place(str(path), line, column, lines[line - 1])
        raise InputError(f"not TOML: {message}", place=place) from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}") from None


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
